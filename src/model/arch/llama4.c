/* Llama 4's text (Meta 2025): three of four layers rotate q and k and then divide their heads by their root mean
 * square; the fourth does neither. A token's experts, one in published models, take its input multiplied by the sigmoid
 * of their logits, beside a feed-forward that all tokens take. Experts may be in every n-th layer alone.
 *
 * Layers that rotate attend within chunks, of 8192 tokens in published models; the others multiply queries by factors
 * that rise with the position (arXiv 2501.19399). */
#include "base/status.h"
#include "ga/experts.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"
#include "model/memory_kind.h"

enum {
  USUAL_CHUNK = 8192,
  EXPERTS_WITHOUT_NORM = 128 /* models with so many experts do not norm heads, where files do not state it */
};

static value_id llama4_layer(graph_builder *b, value_id x) {
  const ga_hparams *p = &b->model->hparams;
  block_qkv t = block_qkv_of(b, build_rms_norm(b, x, W_ATTN_NORM));
  if (!p->no_rope[b->layer]) block_rotate(b, &t, false);
  if (!p->no_rope[b->layer] && p->norms_heads) {
    t.q = build_head_norm(b, t.q, W_NONE);
    t.k = build_head_norm(b, t.k, W_NONE);
  }
  if (p->no_rope[b->layer] && p->temperature.length) t.q = build_scale_by_position(b, t.q);
  x = build_add(b, x, block_attention(b, t, 0, 1));
  return build_add(b, x, block_expert_layer(b, build_rms_norm(b, x, W_FFN_NORM), GA_ACT_SILU));
}

static void build_llama4(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1); /* x [T, d] = E[ids] */
  block_rms_head(b, block_layers(b, x, llama4_layer), 1);
}

/* Layers that rotate have chunks. A GGUF file whose chunks have 0 tokens has layers that all rotate, and none. */
static ga_status read_chunks(const ga_model_file *file, ga_hparams *p) {
  char text[GA_HPARAM_KEY_BYTES];
  GA_TRY(hparams_int(file, p, "attention.sliding_window", USUAL_CHUNK, 0, 1 << 30, &p->chunk));
  GA_REQUIRE(p->chunk % GA_KV_PAGE == 0, GA_ERR_UNSUPPORTED, "%s is %d; GA has chunks of a multiple of %d tokens",
             hparams_key(p, "attention.sliding_window", text), p->chunk, GA_KV_PAGE);
  GA_TRY(hparams_rope_layers(file, p));
  const bool states_layers = ga_model_file_meta(file, "ga.no_rope_every") != NULL;
  for (int32_t il = 0; il < p->n_layers; il++) {
    if (!p->chunk && !states_layers) p->no_rope[il] = false;
    p->is_local[il] = p->chunk && !p->no_rope[il];
  }
  p->window = p->chunk;
  return GA_OK;
}

static ga_status read_llama4(const ga_model_file *file, ga_hparams *p) {
  static const ga_router router = {.scores = GA_ROUTE_SIGMOID, .scale = 1};
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "norm", p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(hparams_router(file, &router, p));
  p->expert_act.weighs_input = true;
  GA_TRY(hparams_expert_layers(file, p));
  if (!p->shared_ff_width) p->shared_ff_width = p->expert_ff_width; /* files need not state it */
  GA_TRY(read_chunks(file, p));
  GA_TRY(hparams_temperature(file, 0.1f, USUAL_CHUNK, p));
  p->temperature.offset = 1;
  GA_TRY(ga_model_file_bool_or(file, "ga.head_norms", p->n_experts != EXPERTS_WITHOUT_NORM, &p->norms_heads));
  return hparams_eps(file, "attention.layer_norm_rms_epsilon", p);
}

static const weight_use llama4_weights[] = {
    {W_TOKEN_EMBD, REQUIRED},  {W_OUTPUT_NORM, REQUIRED},
    {W_OUTPUT, OPTIONAL},      {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},           {W_K, REQUIRED},
    {W_V, REQUIRED},           {W_O, REQUIRED},
    {W_FFN_NORM, REQUIRED},    {W_GATE, REQUIRED},
    {W_UP, REQUIRED},          {W_DOWN, REQUIRED},
    {W_ROUTER, REQUIRED},      {W_GATE_EXPERTS, REQUIRED},
    {W_UP_EXPERTS, REQUIRED},  {W_DOWN_EXPERTS, REQUIRED},
    {W_GATE_SHARED, REQUIRED}, {W_UP_SHARED, REQUIRED},
    {W_DOWN_SHARED, REQUIRED},
};
const ga_arch_desc ga_arch_llama4 = {.name = "llama4",
                                     .weights = llama4_weights,
                                     .n_weights = GA_COUNT_OF(llama4_weights),
                                     .has_weight = block_has_weight,
                                     .read = read_llama4,
                                     .build = build_llama4};
