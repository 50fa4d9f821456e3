/* DeepSeek V2, V3 and R1, Kimi K2, GLM 4.7 Flash (arXiv 2405.04434, 2412.19437): multi-head latent attention, dense
 * layers first, then experts beside a feed-forward that tokens share. Mistral 4 (Mistral 2026) chooses groups of
 * experts by the sum of two probabilities. It and Mistral Large 3 multiply queries by factors that rise with the
 * position.
 *
 * The cache has a latent vector and a rotated key for each token (ga/mla.h). Files with attn_k_b and attn_v_b state the
 * sizes of that cache as key_length and value_length, and heads' own sizes as key_length_mla and value_length_mla.
 * Older files have attn_kv_b, and heads' sizes as key_length and value_length. Layers that predict further tokens are
 * left out. */
#include <math.h>

#include "base/status.h"
#include "ga/experts.h"
#include "ga/gemm.h"
#include "ga/layer.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"
#include "model/latent.h"

static value_id latent_block(graph_builder *b, value_id h) {
  const ga_hparams *p = &b->model->hparams;
  const int64_t row = p->kv_latent + p->rot_dim;
  const weight_id k_up[] = {W_K_UP}, norm[] = {W_KV_DOWN_NORM}, v_up[] = {W_V_UP};
  value_id q;
  if (p->q_latent)
    q = build_linear(b, build_latent_norm(b, build_linear(b, h, W_Q_DOWN, W_NONE), W_Q_DOWN_NORM), W_Q_UP, W_NONE);
  else
    q = build_linear(b, h, W_Q, W_NONE); /* [T, Hq D] */
  if (p->temperature.length) q = build_scale_by_position(b, q);
  const value_id rows[] = {build_op(b, &latent_query, &q, k_up, p->n_heads * row), /* [T, Hq (R + r)] */
                           build_linear(b, h, W_KV_DOWN, W_NONE)};                 /* [T, R + r] */
  const value_id latent = build_op(b, &latent_attention, rows, norm, (int64_t)p->n_heads * p->kv_latent);
  const value_id o = build_op(b, &latent_values, &latent, v_up, (int64_t)p->n_heads * p->v_dim); /* [T, Hq Dv] */
  return build_linear(b, o, W_O, W_NONE);
}

static value_id deepseek2_layer(graph_builder *b, value_id x) {
  x = build_add(b, x, latent_block(b, build_rms_norm(b, x, W_ATTN_NORM)));
  return build_add(b, x, block_expert_layer(b, build_rms_norm(b, x, W_FFN_NORM), GA_ACT_SILU));
}

static void build_deepseek2(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1); /* x [T, d] = E[ids] */
  block_rms_head(b, block_layers(b, x, deepseek2_layer), 1);
}

/* --- sizes --- */

/* Heads' sizes, and those of the latent vectors. */
static ga_status read_latent_sizes(const ga_model_file *file, ga_hparams *p) {
  enum { ROW_MOST = 1024 /* ga_mla_desc takes no more */ };
  static const char *const needed[] = {"attention.kv_lora_rank", "rope.dimension_count"};
  char text[GA_HPARAM_KEY_BYTES];
  int32_t nope;
  const int32_t key = p->head_dim, value = p->v_dim;
  for (size_t i = 0; i < GA_COUNT_OF(needed); i++)
    GA_REQUIRE(ga_model_file_meta(file, hparams_key(p, needed[i], text)), GA_ERR_FORMAT, "%s is missing; must be there",
               text);
  GA_TRY(hparams_int(file, p, "attention.kv_lora_rank", 0, 1, ROW_MOST - 2, &p->kv_latent));
  GA_TRY(hparams_int(file, p, "attention.q_lora_rank", 0, 0, 1 << 20, &p->q_latent));
  GA_TRY(hparams_int(file, p, "rope.dimension_count", 0, 2, ROW_MOST - p->kv_latent, &p->rot_dim));
  GA_TRY(hparams_int(file, p, "attention.key_length_mla", key, 1, 1024, &p->head_dim));
  GA_TRY(hparams_int(file, p, "attention.value_length_mla", value, 1, 1024, &p->v_dim));
  int64_t stated;
  GA_TRY(ga_model_file_int_or(file, "ga.qk_nope_head_dim", 0, 0, 1024, &stated));
  if (stated) p->head_dim = (int32_t)stated + p->rot_dim;
  nope = p->head_dim - p->rot_dim;
  GA_REQUIRE(nope >= 1 && p->head_dim <= 1024, GA_ERR_SHAPE,
             "heads of %d elements, of which %d rotate; must be 1 to %d more than rotate", p->head_dim, p->rot_dim,
             1024 - p->rot_dim);
  const bool is_absorbed = ga_model_file_meta(file, hparams_key(p, "attention.key_length_mla", text));
  GA_REQUIRE(!is_absorbed || (key == p->kv_latent + p->rot_dim && value == p->kv_latent), GA_ERR_SHAPE,
             "attention.key_length is %d and value_length %d; with key_length_mla they must be %d and %d, the sizes of "
             "a row of the cache and of its latent vector",
             key, value, p->kv_latent + p->rot_dim, p->kv_latent);
  const int32_t kv_heads = is_absorbed ? 1 : p->n_heads;
  GA_REQUIRE(p->n_kv_heads == kv_heads, GA_ERR_SHAPE, "attention.head_count_kv is %d; must be %d: %s", p->n_kv_heads,
             kv_heads, is_absorbed ? "heads share a row of the cache" : "as many as there are heads");
  p->n_kv_heads = 1;
  return GA_OK;
}

/* --- YaRN --- */

/* The factor by which YaRN enlarges logits: get(f, m) = 1 + 0.1 m ln f. */
static double yarn_size(double factor, double m) { return factor > 1 ? 1 + 0.1 * m * log(factor) : 1; }

/* Reads m of logits (mscale_all_dim), and m of sine and cosine (mscale). GGUF has 0.1 times the first alone, and both
 * are equal there. */
static ga_status read_mscales(const ga_model_file *file, const ga_hparams *p, double *all, double *turned) {
  float tenth;
  GA_TRY(ga_model_file_float_or(file, "ga.mscale", -1, turned));
  GA_TRY(ga_model_file_float_or(file, "ga.mscale_all_dim", 0, all));
  if (!ga_model_file_meta(file, "ga.mscale")) {
    GA_TRY(hparams_float(file, p, "rope.scaling.yarn_log_multiplier", 0, 0, 10, &tenth));
    *all = *turned = 10 * (double)tenth;
  }
  GA_REQUIRE(*all >= 0 && *all <= 100 && *turned >= 0 && *turned <= 100, GA_ERR_FORMAT,
             "mscale is %g and mscale_all_dim %g; must be 0 to 100", *turned, *all);
  return GA_OK;
}

/* Logits are multiplied by the square of their factor; sine and cosine by the quotient of both. */
static ga_status read_yarn(const ga_model_file *file, ga_hparams *p) {
  ga_text type = {0};
  double factor = 1, all, turned;
  GA_TRY(hparams_rope_scaling(file, p, &type, &factor));
  p->attn_scale = 1 / sqrtf((float)p->head_dim);
  if (!hparams_text_is(&type, "yarn") || !(factor > 1)) return GA_OK;
  GA_TRY(read_mscales(file, p, &all, &turned));
  const double size = yarn_size(factor, all);
  p->attn_scale = (float)(size * size / sqrt((double)p->head_dim));
  p->yarn_magnitude = yarn_size(factor, turned) / size;
  return GA_OK;
}

/* --- experts --- */

/* Files of GLM 4.7 Flash may lack the function of scores; their sizes tell. */
static bool is_glm_flash(const ga_hparams *p) { return (p->n_layers == 47 || p->n_layers == 48) && p->vocab == 154880; }

static ga_status read_scores_of_folder(const ga_model_file *file, ga_hparams *p) {
  ga_text scores = {0}, choice = {0};
  GA_TRY(ga_model_file_text_or(file, "ga.scoring_func", "", &scores));
  if (hparams_text_is(&scores, "sigmoid")) p->router.scores = GA_ROUTE_SIGMOID;
  if (hparams_text_is(&scores, "softmax")) p->router.scores = GA_ROUTE_SOFTMAX;
  GA_TRY(ga_model_file_text_or(file, "ga.topk_method", "", &choice));
  if (hparams_text_is(&choice, "greedy")) p->router.n_groups = p->router.top_k_groups = 0;
  return GA_OK;
}

/* V2's groups are chosen by their largest score, V3's by the sum of two. */
static ga_status read_deepseek2_experts(const ga_model_file *file, ga_hparams *p) {
  ga_router router = {.scores = GA_ROUTE_SOFTMAX, .renorm = GA_ROUTE_RENORM_NONE, .scale = 1};
  if (is_glm_flash(p)) router.scores = GA_ROUTE_SIGMOID;
  if (!hparams_has_experts(file, p)) return GA_OK;
  GA_TRY(hparams_router(file, &router, p));
  GA_TRY(read_scores_of_folder(file, p));
  if (p->router.scores == GA_ROUTE_SIGMOID) p->router.group_score = GA_ROUTE_GROUP_SUM2;
  if (p->router.renorm == GA_ROUTE_RENORM_SUM) p->router.norm_eps = 1e-20f;
  return hparams_expert_layers(file, p);
}

/* --- what GA does not have --- */

static ga_status refuse_others(const ga_model_file *file, const ga_hparams *p) {
  static const struct {
    const char *key, *what;
  } others[] = {{"attention.indexer.head_count", "sparse attention by an indexer (DeepSeek V3.2)"},
                {"attention.indexer.top_k", "sparse attention by an indexer (DeepSeek V3.2)"}};
  char text[GA_HPARAM_KEY_BYTES];
  for (size_t i = 0; i < GA_COUNT_OF(others); i++)
    GA_REQUIRE(!ga_model_file_meta(file, hparams_key(p, others[i].key, text)), GA_ERR_UNSUPPORTED,
               "%s: %s is not supported yet", text, others[i].what);
  GA_REQUIRE(!ga_model_file_find(file, "blk.0.indexer.attn_k.weight") &&
                 !ga_model_file_find(file, "blk.0.indexer.k_norm.weight"),
             GA_ERR_UNSUPPORTED, "blk.0.indexer: %s is not supported yet", others[0].what);
  return GA_OK;
}

/* The classes of folders norm latent vectors with an epsilon of 1e-6, whatever that of the other norms is. GGUF has one
 * epsilon, and files that GA makes of folders a key for the other. A folder also states a part of heads, which must be
 * what rotates. */
static ga_status read_folder_latents(const ga_model_file *file, ga_hparams *p) {
  double part, eps;
  int32_t dim = p->head_dim;
  const bool is_folder = ga_model_file_meta(file, "ga.qk_nope_head_dim") != NULL;
  GA_TRY(ga_model_file_float_or(file, "ga.latent_norm_eps", is_folder ? 1e-6 : (double)p->norm_eps, &eps));
  GA_REQUIRE(eps >= 0 && eps <= 1, GA_ERR_FORMAT, "ga.latent_norm_eps is %g; must be 0 to 1", eps);
  p->latent_eps = (float)eps;
  if (is_folder) GA_TRY(hparams_int(file, p, "attention.key_length", dim, 1, 1024, &dim));
  GA_REQUIRE(dim == p->head_dim, GA_ERR_SHAPE, "%s.attention.key_length is %d; must be %d, as the parts of heads say",
             p->arch->name, dim, p->head_dim);
  GA_TRY(ga_model_file_float_or(file, "ga.rope_fraction", (double)p->rot_dim / p->head_dim, &part));
  GA_REQUIRE(fabs(part * p->head_dim - p->rot_dim) < 0.5, GA_ERR_UNSUPPORTED,
             "partial_rotary_factor is %g of heads of %d; GA rotates qk_rope_head_dim, %d", part, p->head_dim,
             p->rot_dim);
  return GA_OK;
}

static ga_status read_deepseek2_temperature(const ga_model_file *file, ga_hparams *p) {
  int32_t original;
  GA_TRY(hparams_original_context(file, p, &original));
  return hparams_temperature(file, 0, original, p);
}

static ga_status read_deepseek2(const ga_model_file *file, ga_hparams *p) {
  bool is_interleaved;
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(refuse_others(file, p));
  GA_TRY(read_latent_sizes(file, p));
  GA_TRY(hparams_rope(file, "norm", p));
  GA_TRY(ga_model_file_bool_or(file, "ga.rope_interleave", true, &is_interleaved));
  if (!is_interleaved) p->rope_pairs = GA_ROPE_NEOX;
  GA_TRY(read_yarn(file, p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(read_deepseek2_experts(file, p));
  GA_TRY(read_deepseek2_temperature(file, p));
  GA_TRY(hparams_eps(file, "attention.layer_norm_rms_epsilon", p));
  return read_folder_latents(file, p);
}

static ga_status read_mistral4(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(read_deepseek2(file, p));
  p->router.group_score = GA_ROUTE_GROUP_SUM2;
  return GA_OK;
}

/* --- tensors --- */

static bool has_deepseek2_weight(const ga_hparams *p, weight_id id, int32_t layer) {
  switch (id) {
  case W_Q: return !p->q_latent;
  case W_Q_DOWN:
  case W_Q_DOWN_NORM:
  case W_Q_UP: return p->q_latent > 0;
  default: return block_has_weight(p, id, layer);
  }
}

static const weight_use deepseek2_weights[] = {
    {W_TOKEN_EMBD, REQUIRED},
    {W_OUTPUT_NORM, REQUIRED},
    {W_OUTPUT, OPTIONAL},
    {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},
    {W_Q_DOWN, REQUIRED},
    {W_Q_DOWN_NORM, REQUIRED},
    {W_Q_UP, REQUIRED},
    {W_KV_DOWN, REQUIRED},
    {W_KV_DOWN_NORM, REQUIRED},
    {W_K_UP, REQUIRED},
    {W_V_UP, REQUIRED},
    {W_O, REQUIRED},
    {W_FFN_NORM, REQUIRED},
    {W_GATE, REQUIRED},
    {W_UP, REQUIRED},
    {W_DOWN, REQUIRED},
    {W_ROUTER, REQUIRED},
    {W_ROUTER_CHOICE_B, OPTIONAL},
    {W_GATE_EXPERTS, REQUIRED},
    {W_UP_EXPERTS, REQUIRED},
    {W_DOWN_EXPERTS, REQUIRED},
    {W_GATE_SHARED, REQUIRED},
    {W_UP_SHARED, REQUIRED},
    {W_DOWN_SHARED, REQUIRED},
};
const ga_arch_desc ga_arch_deepseek2 = {.name = "deepseek2",
                                        .weights = deepseek2_weights,
                                        .n_weights = GA_COUNT_OF(deepseek2_weights),
                                        .has_weight = has_deepseek2_weight,
                                        .read = read_deepseek2,
                                        .build = build_deepseek2};
const ga_arch_desc ga_arch_mistral4 = {.name = "mistral4",
                                       .weights = deepseek2_weights,
                                       .n_weights = GA_COUNT_OF(deepseek2_weights),
                                       .has_weight = has_deepseek2_weight,
                                       .read = read_mistral4,
                                       .build = build_deepseek2};
