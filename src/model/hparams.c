/* Hyper-parameters: the keys of the file, with the limits that make everything after safe to compute. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "ga/experts.h"
#include "ga/layer.h"
#include "model/arch/arch.h"
#include "model/meta_parts.h"
#include "model/weight_spec.h"

static ga_status find_arch(const ga_model_file *file, const ga_arch_desc **out) {
  ga_text name;
  GA_TRY(ga_model_file_text(file, "general.architecture", &name));
  *out = ga_arch_find(name.data, name.bytes);
  return *out ? GA_OK
              : ga_fail(GA_ERR_UNSUPPORTED, "architecture '%.*s' is not supported yet; GA has %s",
                        name.bytes < 64 ? (int)name.bytes : 64, name.data, ga_arch_names());
}

const char *hparams_key(const ga_hparams *p, const char *key, char text[GA_HPARAM_KEY_BYTES]) {
  (void)snprintf(text, GA_HPARAM_KEY_BYTES, "%s.%s", p->arch->name, key);
  return text;
}

ga_status hparams_stated_int(const ga_model_file *file, const ga_hparams *p, const char *key, int64_t least,
                             int64_t most, int32_t *out) {
  char text[GA_HPARAM_KEY_BYTES];
  int64_t v;
  GA_TRY(ga_model_file_int(file, hparams_key(p, key, text), least, most, &v));
  *out = (int32_t)v;
  return GA_OK;
}

ga_status hparams_int(const ga_model_file *file, const ga_hparams *p, const char *key, int64_t fallback, int64_t least,
                      int64_t most, int32_t *out) {
  char text[GA_HPARAM_KEY_BYTES];
  int64_t v;
  GA_TRY(ga_model_file_int_or(file, hparams_key(p, key, text), fallback, least, most, &v));
  *out = (int32_t)v;
  return GA_OK;
}

static ga_status read_float_or(const ga_model_file *file, const ga_hparams *p, const char *key, double fallback,
                               double *out) {
  char text[GA_HPARAM_KEY_BYTES];
  return ga_model_file_float_or(file, hparams_key(p, key, text), fallback, out);
}

ga_status hparams_float(const ga_model_file *file, const ga_hparams *p, const char *key, double fallback, double least,
                        double most, float *out) {
  char text[GA_HPARAM_KEY_BYTES];
  double v;
  GA_TRY(read_float_or(file, p, key, fallback, &v));
  GA_REQUIRE(v >= least && v <= most, GA_ERR_FORMAT, "%s is %g; must be %g to %g", hparams_key(p, key, text), v, least,
             most);
  *out = (float)v;
  return GA_OK;
}

ga_status hparams_attn_scale(const ga_model_file *file, ga_hparams *p) {
  float scale = 0;
  GA_TRY(hparams_float(file, p, "attention.scale", 0, 0, 1e6, &scale));
  if (scale > 0) p->attn_scale = scale;
  return GA_OK;
}

/* Head counts may be one number per layer; GA has architectures with one for all. */
static ga_status read_uniform(const ga_model_file *file, const ga_hparams *p, const char *key, int32_t *out) {
  char text[GA_HPARAM_KEY_BYTES];
  int64_t each[GA_MODEL_MAX_LAYERS];
  GA_TRY(ga_model_file_ints(file, hparams_key(p, key, text), p->n_layers, 1, 1024, each));
  for (int i = 1; i < p->n_layers; i++)
    GA_REQUIRE(each[i] == each[0], GA_ERR_UNSUPPORTED, "%s: layer %d has %lld, layer 0 has %lld; GA needs one for all",
               text, i, (long long)each[i], (long long)each[0]);
  *out = (int32_t)each[0];
  return GA_OK;
}

/* The vocabulary is as large as the embedding says; the file's own count is not always written. */
ga_status hparams_vocab(const ga_model_file *file, ga_hparams *p) {
  const ga_model_tensor *t = ga_model_file_find(file, "token_embd.weight");
  GA_REQUIRE(t && t->view.n_dims == 2, GA_ERR_FORMAT, "token_embd.weight is %s", t ? "no matrix" : "missing");
  GA_REQUIRE(t->view.dim[1] == p->width && t->view.dim[0] >= 1 && t->view.dim[0] <= 1 << 24, GA_ERR_SHAPE,
             "token_embd.weight is [%lld, %lld]; must be [vocabulary, %d]", (long long)t->view.dim[0],
             (long long)t->view.dim[1], p->width);
  p->vocab = (int32_t)t->view.dim[0];
  return GA_OK;
}

ga_status hparams_head_dims(const ga_model_file *file, ga_hparams *p) {
  char text[GA_HPARAM_KEY_BYTES];
  GA_REQUIRE(p->n_heads <= p->width || ga_model_file_meta(file, hparams_key(p, "attention.key_length", text)),
             GA_ERR_SHAPE, "%d heads share a width of %d; at most one each", p->n_heads, p->width);
  GA_TRY(hparams_int(file, p, "attention.key_length", p->width / p->n_heads, 1, 1024, &p->head_dim));
  GA_TRY(hparams_int(file, p, "attention.value_length", p->head_dim, 1, 1024, &p->v_dim));
  p->attn_scale = 1.0f / sqrtf((float)p->head_dim);
  return GA_OK;
}

static ga_status read_heads(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(read_uniform(file, p, "attention.head_count", &p->n_heads));
  char text[GA_HPARAM_KEY_BYTES];
  if (ga_model_file_meta(file, hparams_key(p, "attention.head_count_kv", text)))
    GA_TRY(read_uniform(file, p, "attention.head_count_kv", &p->n_kv_heads));
  else
    p->n_kv_heads = p->n_heads;
  GA_REQUIRE(p->n_heads % p->n_kv_heads == 0, GA_ERR_SHAPE, "%d heads over %d kv heads; must divide", p->n_heads,
             p->n_kv_heads);
  return hparams_head_dims(file, p);
}

ga_status hparams_model_sizes(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_stated_int(file, p, "block_count", 1, GA_MODEL_MAX_LAYERS, &p->n_layers));
  GA_TRY(hparams_stated_int(file, p, "embedding_length", 1, 1 << 20, &p->width));
  GA_TRY(hparams_stated_int(file, p, "context_length", 1, 1 << 30, &p->context));
  p->context_most = p->context_trained = p->context;
  p->embed_scale = p->residual_scale = p->logit_scale = 1;
  p->expert_step = 1;
  return GA_OK;
}

ga_status hparams_sizes(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_model_sizes(file, p));
  GA_TRY(hparams_stated_int(file, p, "feed_forward_length", 1, 1 << 22, &p->ff_width));
  return read_heads(file, p);
}

ga_status hparams_experts(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_stated_int(file, p, "expert_count", 1, 1 << 14, &p->n_experts));
  GA_TRY(hparams_stated_int(file, p, "expert_used_count", 1, p->n_experts, &p->n_experts_used));
  return hparams_int(file, p, "expert_feed_forward_length", p->ff_width, 1, 1 << 22, &p->expert_ff_width);
}

/* Reads by which function logits become scores: GGUF's numbers of functions. */
static ga_status read_router_scores(const ga_model_file *file, ga_hparams *p) {
  static const ga_route_scores of_gguf[] = {0, GA_ROUTE_SOFTMAX, GA_ROUTE_SIGMOID, GA_ROUTE_SOFTMAX_CHOSEN,
                                            GA_ROUTE_SQRT_SOFTPLUS};
  char text[GA_HPARAM_KEY_BYTES];
  int32_t of_file;
  if (!ga_model_file_meta(file, hparams_key(p, "expert_gating_func", text))) return GA_OK;
  GA_TRY(hparams_stated_int(file, p, "expert_gating_func", 1, (int64_t)GA_COUNT_OF(of_gguf) - 1, &of_file));
  p->router.scores = of_gguf[of_file];
  return GA_OK;
}

static ga_status read_renorm(const ga_model_file *file, ga_hparams *p) {
  char text[GA_HPARAM_KEY_BYTES];
  bool is_normed;
  if (!ga_model_file_meta(file, hparams_key(p, "expert_weights_norm", text))) return GA_OK;
  GA_TRY(ga_model_file_bool_or(file, text, false, &is_normed));
  if (!is_normed) p->router.renorm = GA_ROUTE_RENORM_NONE, p->router.norm_eps = 0;
  if (is_normed && p->router.renorm == GA_ROUTE_RENORM_NONE) p->router.renorm = GA_ROUTE_RENORM_SUM;
  return GA_OK;
}

bool hparams_has_experts(const ga_model_file *file, const ga_hparams *p) {
  char text[GA_HPARAM_KEY_BYTES];
  int64_t n;
  return ga_model_file_meta(file, hparams_key(p, "expert_count", text)) &&
         (ga_model_file_int_or(file, text, 0, INT64_MIN, INT64_MAX, &n) != GA_OK || n != 0);
}

ga_status hparams_router(const ga_model_file *file, const ga_router *usual, ga_hparams *p) {
  enum { ROUTER_EXPERTS = 1024, ROUTER_CHOSEN = 64 /* ga_route_desc takes no more */ };
  GA_TRY(hparams_experts(file, p));
  GA_REQUIRE(p->n_experts <= ROUTER_EXPERTS && p->n_experts_used <= ROUTER_CHOSEN, GA_ERR_UNSUPPORTED,
             "%d experts, of which a token chooses %d; GA has at most %d and %d", p->n_experts, p->n_experts_used,
             ROUTER_EXPERTS, ROUTER_CHOSEN);
  p->router = *usual;
  p->expert_act.act_alpha = 1;
  GA_TRY(read_router_scores(file, p));
  GA_TRY(read_renorm(file, p));
  GA_TRY(hparams_int(file, p, "expert_group_count", usual->n_groups, 0, p->n_experts, &p->router.n_groups));
  GA_TRY(
      hparams_int(file, p, "expert_group_used_count", usual->top_k_groups, 0, p->n_experts, &p->router.top_k_groups));
  return hparams_float(file, p, "expert_weights_scale", usual->scale, 1e-6, 1e6, &p->router.scale);
}

/* Layers without experts by their numbers (Qwen's mlp_only_layers). */
static ga_status read_dense_layers(const ga_model_file *file, ga_hparams *p) {
  static const char key[] = "ga.dense_layers";
  const ga_meta *list;
  GA_TRY(ga_model_file_array_or_null(file, key, GA_META_INTS, &list));
  for (int64_t i = 0; list && i < ga_meta_count(list); i++) {
    int64_t il;
    GA_TRY(ga_meta_int(list, i, &il));
    GA_REQUIRE(il >= 0 && il < p->n_layers, GA_ERR_FORMAT, "%s: element %lld is %lld; must be a layer, 0 to %d", key,
               (long long)i, (long long)il, p->n_layers - 1);
    p->is_dense[il] = true;
  }
  return GA_OK;
}

ga_status hparams_expert_layers(const ga_model_file *file, ga_hparams *p) {
  int32_t shared, predicted;
  GA_TRY(hparams_int(file, p, "leading_dense_block_count", 0, 0, p->n_layers, &p->n_dense_layers));
  GA_TRY(hparams_int(file, p, "interleave_moe_layer_step", 1, 1, GA_MODEL_MAX_LAYERS, &p->expert_step));
  GA_TRY(read_dense_layers(file, p));
  GA_TRY(hparams_int(file, p, "expert_shared_count", 0, 0, 64, &shared));
  GA_TRY(hparams_int(file, p, "expert_shared_feed_forward_length", (int64_t)shared * p->expert_ff_width, 0, 1 << 22,
                     &p->shared_ff_width));
  /* Layers that predict further tokens come last, and are left out. */
  GA_TRY(hparams_int(file, p, "nextn_predict_layers", 0, 0, p->n_layers - 1, &predicted));
  p->n_layers -= predicted;
  if (p->n_dense_layers > p->n_layers) p->n_dense_layers = p->n_layers;
  return GA_OK;
}

static ga_status read_base(const ga_model_file *file, const ga_hparams *p, const char *key, double *out) {
  char text[GA_HPARAM_KEY_BYTES];
  GA_TRY(read_float_or(file, p, key, 10000, out));
  GA_REQUIRE(*out > 1 && isfinite(*out), GA_ERR_FORMAT, "%s is %g; must be above 1 and finite",
             hparams_key(p, key, text), *out);
  return GA_OK;
}

ga_status hparams_pooling(const ga_model_file *file, ga_hparams *p) {
  enum { GGUF_RANK = 4 }; /* GGUF's number of pooling for a head that scores pairs, which reads the first row */
  GA_TRY(hparams_int(file, p, "pooling_type", POOL_MEAN, POOL_MEAN, GGUF_RANK, &p->pooling));
  if (p->pooling == GGUF_RANK) p->pooling = POOL_CLS;
  return GA_OK;
}

bool hparams_text_is(const ga_text *text, const char *want) {
  return text->bytes == strlen(want) && !memcmp(text->data, want, text->bytes);
}

ga_status hparams_original_context(const ga_model_file *file, const ga_hparams *p, int32_t *out) {
  return hparams_int(file, p, "rope.scaling.original_context_length", p->context_trained, 1, 1 << 30, out);
}

ga_status hparams_rope_scaling(const ga_model_file *file, const ga_hparams *p, ga_text *type, double *factor) {
  static const char *const keys[] = {"rope.scaling.factor", "rope.scale_linear"};
  char text[GA_HPARAM_KEY_BYTES];
  bool stated = false;
  for (size_t i = 0; i < GA_COUNT_OF(keys) && !stated; i++) {
    double value = 0;
    GA_TRY(read_float_or(file, p, keys[i], 0, &value));
    stated = value != 0;
    if (stated) *factor = value;
  }
  return ga_model_file_text_or(file, hparams_key(p, "rope.scaling.type", text), stated ? "linear" : "none", type);
}

/* Enlarges the context of yarn and linear scaling: files may state the one before it. Of linear scaling without an
 * original context a file leaves open which one it states. */
static ga_status extend_context(const ga_model_file *file, ga_hparams *p) {
  static const char key[] = "rope.scaling.original_context_length";
  char text[GA_HPARAM_KEY_BYTES];
  ga_text type = {0};
  double factor = 1;
  int32_t original;
  GA_TRY(hparams_rope_scaling(file, p, &type, &factor));
  const bool is_yarn = hparams_text_is(&type, "yarn"), is_linear = hparams_text_is(&type, "linear"),
             is_stated = ga_model_file_meta(file, hparams_key(p, key, text));
  if ((!is_yarn && !is_linear) || !(factor > 1)) return GA_OK;
  GA_TRY(hparams_original_context(file, p, &original));
  const double tokens = floor(original * factor);
  const int32_t scaled = tokens < 1 << 30 ? (int32_t)tokens : 1 << 30;
  if (scaled > p->context_most) p->context_most = scaled;
  if (is_yarn || is_stated) p->context = p->context_most;
  return GA_OK;
}

ga_status hparams_rope(const ga_model_file *file, const char *pairs, ga_hparams *p) {
  double part;
  GA_TRY(ga_model_file_float_or(file, "ga.rope_fraction", 1, &part));
  GA_REQUIRE(part > 0 && part <= 1, GA_ERR_FORMAT, "ga.rope_fraction is %g; must be above 0 and at most 1", part);
  GA_TRY(hparams_int(file, p, "rope.dimension_count", (int32_t)(part * p->head_dim), 0, p->head_dim, &p->rot_dim));
  GA_REQUIRE(p->rot_dim % 2 == 0, GA_ERR_SHAPE, "rope.dimension_count is %d; must be even", p->rot_dim);
  GA_TRY(read_base(file, p, "rope.freq_base", &p->rope_base));
  GA_TRY(read_base(file, p, "rope.freq_base_swa", &p->rope_base_local));
  ga_text layout;
  GA_TRY(ga_model_file_text_or(file, "ga.rope_layout", pairs, &layout));
  GA_TRY(extend_context(file, p));
  p->rope_pairs = layout.bytes == 4 && !memcmp(layout.data, "norm", 4) ? GA_ROPE_NORM : GA_ROPE_NEOX;
  return GA_OK;
}

/* GGUF files state no layers: llama.cpp has every fourth. */
ga_status hparams_rope_layers(const ga_model_file *file, ga_hparams *p) {
  int64_t every, rotates[GA_MODEL_MAX_LAYERS];
  const ga_meta *list = ga_model_file_meta(file, "ga.rope_layers");
  GA_TRY(ga_model_file_int_or(file, "ga.no_rope_every", 4, 1, GA_MODEL_MAX_LAYERS, &every));
  for (int32_t il = 0; il < p->n_layers; il++) p->no_rope[il] = (il + 1) % every == 0;
  if (!list || (ga_meta_type_of(list) == GA_META_ARRAY && ga_meta_count(list) == 0)) return GA_OK;
  GA_TRY(ga_model_file_ints(file, "ga.rope_layers", p->n_layers, 0, 1, rotates));
  for (int32_t il = 0; il < p->n_layers; il++) p->no_rope[il] = !rotates[il];
  return GA_OK;
}

/* A flag for each layer, or a number n that makes every n-th layer global. */
static ga_status read_pattern(const ga_model_file *file, int32_t global_every, ga_hparams *p) {
  static const char key[] = "attention.sliding_window_pattern";
  char text[GA_HPARAM_KEY_BYTES];
  const ga_meta *meta = ga_model_file_meta(file, hparams_key(p, key, text));
  int32_t every;
  if (meta && ga_meta_type_of(meta) == GA_META_ARRAY) {
    int64_t each[GA_MODEL_MAX_LAYERS];
    GA_TRY(ga_model_file_ints(file, text, p->n_layers, 0, 1, each));
    for (int il = 0; il < p->n_layers; il++) p->is_local[il] = each[il] != 0;
    return GA_OK;
  }
  GA_TRY(hparams_int(file, p, key, global_every, 1, GA_MODEL_MAX_LAYERS, &every));
  for (int il = 0; il < p->n_layers; il++) p->is_local[il] = (il + 1) % every != 0;
  return GA_OK;
}

ga_status hparams_windows(const ga_model_file *file, int32_t fallback, int32_t global_every, ga_hparams *p) {
  GA_TRY(hparams_int(file, p, "attention.sliding_window", fallback, 0, 1 << 20, &p->window));
  return p->window ? read_pattern(file, global_every, p) : GA_OK;
}

ga_status hparams_head_norms(const ga_model_file *file, ga_hparams *p) {
  static const char *const names[] = {"attn_q_norm", "attn_k_norm"};
  bool stated;
  for (int32_t il = 0; il < p->n_layers; il++)
    for (size_t i = 0; i < GA_COUNT_OF(names); i++) {
      char name[GA_WEIGHT_NAME_BYTES];
      (void)snprintf(name, sizeof name, "blk.%d.%s.weight", il, names[i]);
      bool is_there = ga_model_file_find(file, name) != NULL;
      (void)snprintf(name, sizeof name, "blk.%d.%s.0.weight", il, names[i]); /* a folder's: a tensor for each head */
      is_there = is_there || ga_model_file_find(file, name);
      if (il == 0 && i == 0) p->has_head_norms = is_there;
      GA_REQUIRE(is_there == p->has_head_norms, GA_ERR_FORMAT,
                 "blk.%d.%s.weight is %s; norms of heads must be in all layers or none", il, names[i],
                 is_there ? "there" : "missing");
    }
  GA_TRY(ga_model_file_bool_or(file, "ga.head_norms", p->has_head_norms, &stated));
  GA_REQUIRE(stated == p->has_head_norms, GA_ERR_FORMAT, "the file %s norms of heads, and has %s tensors for them",
             stated ? "states" : "denies", p->has_head_norms ? "the" : "no");
  return GA_OK;
}

ga_status hparams_eps(const ga_model_file *file, const char *key, ga_hparams *p) {
  char text[GA_HPARAM_KEY_BYTES];
  double eps;
  GA_TRY(read_float_or(file, p, key, 1e-5, &eps));
  GA_REQUIRE(eps > 0 && eps < 1, GA_ERR_FORMAT, "%s is %g; must be in (0, 1)", hparams_key(p, key, text), eps);
  p->norm_eps = (float)eps;
  return GA_OK;
}

ga_status ga_hparams_read(const ga_model_file *file, ga_hparams *p) {
  *p = (ga_hparams){0};
  GA_TRY(find_arch(file, &p->arch));
  GA_TRY(meta_parts_check(file));
  return p->arch->read(file, p);
}
