/* Gemma 4, text (Google 2026): norms before and after each block, layers with a window and a global one after every
 * five. Global layers have longer heads, of which a part rotates. Further:
 *
 *   E2B, E4B   each layer adds an embedding of the token that is its own; the last layers read the keys and values of
 *              an earlier layer
 *   26B, 31B   values of global layers are their keys before norm and rotation
 *   26B-A4B    experts beside a feed-forward for all tokens, each with norms of its own
 */
#include <math.h>

#include "base/status.h"
#include "ga/experts.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

enum { GEMMA4_GLOBAL_EVERY = 6 };

/* --- layers --- */

/* Returns [T, d] = Wo attention(q, k, v), with the keys and values of an earlier layer where the layer has none. */
static value_id gemma4_attention(graph_builder *b, value_id h) {
  const ga_hparams *p = &b->model->hparams;
  const bool is_local = p->is_local[b->layer];
  const int32_t window = is_local ? p->window : 0;
  value_id q = build_rope(b, build_head_norm(b, build_linear(b, h, W_Q, W_NONE), W_Q_NORM), is_local); /* [T, Hq D] */
  if (p->kv_distance[b->layer]) return build_linear(b, build_attention_shared(b, q, window), W_O, W_NONE);
  value_id k = build_linear(b, h, W_K, W_NONE), v = k; /* [T, Hkv D] */
  if (!p->values_are_keys || is_local) v = build_linear(b, h, W_V, W_NONE);
  v = build_head_norm(b, v, W_NONE);
  k = build_rope(b, build_head_norm(b, k, W_K_NORM), is_local);
  return build_linear(b, build_attention(b, q, k, v, window), W_O, W_NONE);
}

/* Returns [T, d] = the sum of a feed-forward for all tokens and of the experts. The router reads x normed by its own
 * weights, and experts read it normed by theirs. */
static value_id gemma4_experts(graph_builder *b, value_id x, value_id dense) {
  const ga_hparams *p = &b->model->hparams;
  const value_id h = build_rms_norm(b, x, W_ROUTER_SCALE);
  const value_id logits = build_scaled_linear(b, h, W_ROUTER, W_NONE, 1 / sqrtf((float)p->width)); /* [T, n_experts] */
  const value_id route = build_route(b, logits, W_NONE);
  const value_id y = build_expert_in(b, build_rms_norm(b, x, W_EXPERTS_NORM), route, GA_ACT_GELU_TANH);
  return build_add(b, build_rms_norm(b, dense, W_POST_DENSE_NORM),
                   build_rms_norm(b, build_expert_out(b, y, route), W_POST_EXPERTS_NORM));
}

static value_id gemma4_layer(graph_builder *b, value_id x) {
  const ga_hparams *p = &b->model->hparams;
  value_id h = gemma4_attention(b, build_rms_norm(b, x, W_ATTN_NORM));
  x = build_add(b, x, build_rms_norm(b, h, W_POST_ATTN_NORM));
  h = block_gated_ffn(b, build_rms_norm(b, x, W_FFN_NORM), GA_ACT_GELU_TANH, 1);
  if (p->n_experts) h = gemma4_experts(b, x, h);
  x = build_add(b, x, build_rms_norm(b, h, W_POST_FFN_NORM));
  if (p->layer_embed_width) x = build_add(b, x, block_layer_embedding(b, x));
  return build_if_present(b, W_LAYER_SCALE) == W_NONE ? x : build_stored_scale(b, x, W_LAYER_SCALE);
}

static void build_gemma4(graph_builder *b) {
  const ga_hparams *p = &b->model->hparams;
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, p->embed_scale); /* x [T, d] = sqrt(d) E[ids] */
  if (p->layer_embed_width) b->layer_values = block_layer_embeddings(b, x);
  block_capped_head(b, block_layers(b, x, gemma4_layer));
}

/* --- sizes --- */

/* Whether global layers lack a matrix for values: all or none. */
static ga_status read_values_are_keys(const ga_model_file *file, ga_hparams *p) {
  bool stated, is_first = true;
  for (int32_t il = 0; il < p->n_layers; il++) {
    char name[GA_WEIGHT_NAME_BYTES];
    if (p->is_local[il] || p->kv_distance[il]) continue;
    const bool lacks = !ga_model_file_find(file, ga_weight_name(W_V, il, name));
    GA_REQUIRE(is_first || lacks == p->values_are_keys, GA_ERR_FORMAT,
               "%s is %s; global layers must all have it or all lack it", name, lacks ? "missing" : "there");
    p->values_are_keys = lacks;
    is_first = false;
  }
  GA_TRY(ga_model_file_bool_or(file, "ga.keys_are_values", p->values_are_keys, &stated));
  GA_REQUIRE(is_first || stated == p->values_are_keys, GA_ERR_FORMAT,
             "attention_k_eq_v is %s, and global layers %s a matrix for values", stated ? "true" : "false",
             p->values_are_keys ? "lack" : "have");
  return GA_OK;
}

static ga_status read_gemma4_experts(const ga_model_file *file, ga_hparams *p) {
  static const ga_router router = {.scores = GA_ROUTE_SOFTMAX, .renorm = GA_ROUTE_RENORM_SUM, .scale = 1};
  return hparams_has_experts(file, p) ? hparams_router(file, &router, p) : GA_OK;
}

static ga_status read_gemma4(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_model_sizes(file, p));
  GA_TRY(hparams_windows(file, 0, GEMMA4_GLOBAL_EVERY, p));
  GA_TRY(hparams_layer_sizes(file, p));
  GA_TRY(hparams_shared_kv(file, 0, p));
  GA_TRY(read_values_are_keys(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(hparams_layer_embedding(file, p));
  GA_TRY(read_gemma4_experts(file, p));
  p->embed_scale = sqrtf((float)p->width);
  p->attn_scale = 1;
  GA_TRY(hparams_float(file, p, "final_logit_softcapping", 0, 0, 1e6, &p->logit_softcap));
  return hparams_eps(file, "attention.layer_norm_rms_epsilon", p);
}

/* --- tensors --- */

static bool has_gemma4_weight(const ga_hparams *p, weight_id id, int32_t layer) {
  switch (id) {
  case W_K:
  case W_K_NORM: return !p->kv_distance[layer];
  case W_V: return !p->kv_distance[layer] && (!p->values_are_keys || p->is_local[layer]);
  case W_ROUTER:
  case W_ROUTER_SCALE:
  case W_EXPERT_SCALE:
  case W_GATE_EXPERTS:
  case W_UP_EXPERTS:
  case W_DOWN_EXPERTS:
  case W_EXPERTS_NORM:
  case W_POST_DENSE_NORM:
  case W_POST_EXPERTS_NORM: return p->n_experts > 0;
  case W_LAYER_EMBD:
  case W_LAYER_EMBD_PROJ:
  case W_LAYER_EMBD_NORM:
  case W_LAYER_GATE:
  case W_LAYER_PROJ:
  case W_POST_LAYER_NORM: return p->layer_embed_width > 0;
  default: return true;
  }
}

static const weight_use gemma4_weights[] = {
    {W_TOKEN_EMBD, REQUIRED},
    {W_OUTPUT_NORM, REQUIRED},
    {W_OUTPUT, OPTIONAL},
    {W_LAYER_EMBD, REQUIRED},
    {W_LAYER_EMBD_PROJ, REQUIRED},
    {W_LAYER_EMBD_NORM, REQUIRED},
    {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},
    {W_K, REQUIRED},
    {W_V, REQUIRED},
    {W_Q_NORM, REQUIRED},
    {W_K_NORM, REQUIRED},
    {W_O, REQUIRED},
    {W_POST_ATTN_NORM, REQUIRED},
    {W_FFN_NORM, REQUIRED},
    {W_GATE, REQUIRED},
    {W_UP, REQUIRED},
    {W_DOWN, REQUIRED},
    {W_POST_FFN_NORM, REQUIRED},
    {W_ROUTER, REQUIRED},
    {W_ROUTER_SCALE, REQUIRED},
    {W_EXPERT_SCALE, OPTIONAL},
    {W_GATE_EXPERTS, REQUIRED},
    {W_UP_EXPERTS, REQUIRED},
    {W_DOWN_EXPERTS, REQUIRED},
    {W_EXPERTS_NORM, REQUIRED},
    {W_POST_DENSE_NORM, REQUIRED},
    {W_POST_EXPERTS_NORM, REQUIRED},
    {W_LAYER_GATE, REQUIRED},
    {W_LAYER_PROJ, REQUIRED},
    {W_POST_LAYER_NORM, REQUIRED},
    {W_LAYER_SCALE, OPTIONAL},
};
const ga_arch_desc ga_arch_gemma4 = {.name = "gemma4",
                                     .weights = gemma4_weights,
                                     .n_weights = GA_COUNT_OF(gemma4_weights),
                                     .has_weight = has_gemma4_weight,
                                     .read = read_gemma4,
                                     .build = build_gemma4};
