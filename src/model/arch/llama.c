/* Llama 2 and 3 and all that share their layout (SmolLM, TinyLlama): arXiv 2302.13971, 2407.21783. Mistral (arXiv
 * 2310.06825) has the same name in files and may have a sliding window in all layers; GGUF files do not state it. Qwen2
 * and Qwen2.5 (arXiv 2407.10671) add biases to q, k and v. Qwen3, dense (arXiv 2505.09388), has no biases,
 * RMS-normalises each head of q and k before rotation, and its D is not d / Hq. Granite, dense (IBM 2024), scales
 * embeddings, attention, what blocks add, and logits. SmolLM3 (Hugging Face 2025) does not rotate in every fourth layer
 * (arXiv 2501.18795). Ministral 3 (Mistral 2025), mistral3 in files, is Mistral with yarn that keeps sizes. Mixtral
 * (arXiv 2401.04088) is Mistral with experts in place of one feed-forward, and granitemoe is Granite with them. */
#include "base/status.h"
#include "ga/experts.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

static value_id build_with(graph_builder *b, value_id x, bool head_norms) {
  const ga_hparams *p = &b->model->hparams;
  const float share = p->residual_scale;
  block_qkv t = block_qkv_of(b, build_rms_norm(b, x, W_ATTN_NORM));
  if (head_norms) block_norm_heads(b, &t);
  if (!p->no_rope[b->layer]) block_rotate(b, &t, false);
  if (p->temperature.length) t.q = build_scale_by_position(b, t.q);
  x = build_add(b, x, block_attention(b, t, p->window, share));
  const value_id h = build_rms_norm(b, x, W_FFN_NORM);
  if (!p->n_experts) return build_add(b, x, block_gated_ffn(b, h, GA_ACT_SILU, share));
  const value_id y = block_expert_layer(b, h, GA_ACT_SILU);
  return build_add(b, x, share == 1 ? y : build_scale(b, y, share));
}

/* All layers have experts, or one feed-forward each. */
static bool llama_has_weight(const ga_hparams *p, weight_id id, int32_t layer) {
  switch (id) {
  case W_GATE_B:
  case W_UP_B:
  case W_DOWN_B: return !p->n_experts;
  default: return block_has_weight(p, id, layer);
  }
}

static value_id llama_layer(graph_builder *b, value_id x) { return build_with(b, x, false); }
static value_id qwen3_layer(graph_builder *b, value_id x) { return build_with(b, x, true); }

static void build_all(graph_builder *b, block_layer_fn layer) {
  const ga_hparams *p = &b->model->hparams;
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, p->embed_scale); /* x [T, d] = E[ids] */
  block_rms_head(b, block_layers(b, x, layer), p->logit_scale);
}

static void build_llama(graph_builder *b) { build_all(b, llama_layer); }
static void build_qwen3(graph_builder *b) { build_all(b, qwen3_layer); }

static ga_status read_with(const ga_model_file *file, const char *pairs, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, pairs, p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(hparams_int(file, p, "attention.sliding_window", 0, 0, 1 << 20, &p->window));
  return hparams_eps(file, "attention.layer_norm_rms_epsilon", p);
}

/* Mixtral has the name of Llama in files. A token's weights are the softmax over all experts, divided by their sum over
 * the chosen ones. */
static ga_status read_llama(const ga_model_file *file, ga_hparams *p) {
  static const ga_router mixtral = {.scores = GA_ROUTE_SOFTMAX, .renorm = GA_ROUTE_RENORM_SUM, .scale = 1};
  GA_TRY(read_with(file, "norm", p));
  return hparams_has_experts(file, p) ? hparams_router(file, &mixtral, p) : GA_OK;
}
static ga_status read_qwen(const ga_model_file *file, ga_hparams *p) { return read_with(file, "neox", p); }

static ga_status read_granite(const ga_model_file *file, ga_hparams *p) {
  float divisor = 1;
  GA_TRY(read_with(file, "norm", p));
  GA_TRY(hparams_attn_scale(file, p));
  GA_TRY(hparams_float(file, p, "embedding_scale", 1, 1e-6, 1e6, &p->embed_scale));
  GA_TRY(hparams_float(file, p, "residual_scale", 1, 1e-6, 1e6, &p->residual_scale));
  GA_TRY(hparams_float(file, p, "logit_scale", 1, 1e-6, 1e6, &divisor));
  p->logit_scale = 1 / divisor;
  return GA_OK;
}

/* A token's weights are the softmax over its chosen experts. Files of the same name may have a feed-forward that tokens
 * share beside them (GraniteMoeShared). */
static ga_status read_granitemoe(const ga_model_file *file, ga_hparams *p) {
  static const ga_router router = {.scores = GA_ROUTE_SOFTMAX_CHOSEN, .scale = 1};
  GA_TRY(read_granite(file, p));
  GA_TRY(hparams_router(file, &router, p));
  return hparams_expert_layers(file, p);
}

static ga_status read_smollm3(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(read_with(file, "norm", p));
  return hparams_rope_layers(file, p);
}

/* Ministral 3 multiplies queries by 1 + scale * ln(1 + floor(position / n)), with the context n of its first
 * training. */
static ga_status read_mistral3(const ga_model_file *file, ga_hparams *p) {
  static const char key[] = "rope.scaling.original_context_length";
  char text[GA_HPARAM_KEY_BYTES];
  float scale = 0;
  int32_t original;
  GA_TRY(read_with(file, "norm", p));
  p->yarn_log_multiplier = 1;
  GA_TRY(hparams_float(file, p, "attention.temperature_scale", 0, 0, 100, &scale));
  if (scale == 0) return GA_OK;
  GA_REQUIRE(ga_model_file_meta(file, hparams_key(p, key, text)), GA_ERR_FORMAT,
             "mistral3.attention.temperature_scale is %g, and %s is missing; must be there", (double)scale, text);
  GA_TRY(hparams_int(file, p, key, 0, 1, 1 << 30, &original));
  return hparams_temperature(file, scale, original, p);
}

static const weight_use llama_weights[] = {
    {W_TOKEN_EMBD, REQUIRED},
    {W_OUTPUT_NORM, REQUIRED},
    {W_OUTPUT, OPTIONAL},
    {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},
    {W_K, REQUIRED},
    {W_V, REQUIRED},
    {W_Q_B, OPTIONAL},
    {W_K_B, OPTIONAL},
    {W_V_B, OPTIONAL},
    {W_O, REQUIRED},
    {W_O_B, OPTIONAL},
    {W_FFN_NORM, REQUIRED},
    {W_GATE, REQUIRED},
    {W_UP, REQUIRED},
    {W_DOWN, REQUIRED},
    {W_GATE_B, OPTIONAL},
    {W_UP_B, OPTIONAL},
    {W_DOWN_B, OPTIONAL},
    {W_ROUTER, REQUIRED},
    {W_GATE_EXPERTS, REQUIRED},
    {W_UP_EXPERTS, REQUIRED},
    {W_DOWN_EXPERTS, REQUIRED},
};
const ga_arch_desc ga_arch_llama = {.name = "llama",
                                    .weights = llama_weights,
                                    .n_weights = GA_COUNT_OF(llama_weights),
                                    .has_weight = llama_has_weight,
                                    .read = read_llama,
                                    .build = build_llama};

const ga_arch_desc ga_arch_mistral3 = {.name = "mistral3",
                                       .weights = llama_weights,
                                       .n_weights = GA_COUNT_OF(llama_weights),
                                       .has_weight = llama_has_weight,
                                       .read = read_mistral3,
                                       .build = build_llama};

static const weight_use qwen2_weights[] = {
    {W_TOKEN_EMBD, REQUIRED}, {W_OUTPUT_NORM, REQUIRED}, {W_OUTPUT, OPTIONAL}, {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},          {W_K, REQUIRED},           {W_V, REQUIRED},      {W_Q_B, REQUIRED},
    {W_K_B, REQUIRED},        {W_V_B, REQUIRED},         {W_O, REQUIRED},      {W_FFN_NORM, REQUIRED},
    {W_GATE, REQUIRED},       {W_UP, REQUIRED},          {W_DOWN, REQUIRED},
};
const ga_arch_desc ga_arch_qwen2 = {.name = "qwen2",
                                    .weights = qwen2_weights,
                                    .n_weights = GA_COUNT_OF(qwen2_weights),
                                    .read = read_qwen,
                                    .build = build_llama};

static const weight_use qwen3_weights[] = {
    {W_TOKEN_EMBD, REQUIRED}, {W_OUTPUT_NORM, REQUIRED}, {W_OUTPUT, OPTIONAL}, {W_ATTN_NORM, REQUIRED}, {W_Q, REQUIRED},
    {W_K, REQUIRED},          {W_V, REQUIRED},           {W_Q_NORM, REQUIRED}, {W_K_NORM, REQUIRED},    {W_O, REQUIRED},
    {W_FFN_NORM, REQUIRED},   {W_GATE, REQUIRED},        {W_UP, REQUIRED},     {W_DOWN, REQUIRED},
};
const ga_arch_desc ga_arch_qwen3 = {.name = "qwen3",
                                    .weights = qwen3_weights,
                                    .n_weights = GA_COUNT_OF(qwen3_weights),
                                    .read = read_qwen,
                                    .build = build_qwen3};

static const weight_use plain_weights[] = {
    {W_TOKEN_EMBD, REQUIRED}, {W_OUTPUT_NORM, REQUIRED}, {W_OUTPUT, OPTIONAL}, {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},          {W_K, REQUIRED},           {W_V, REQUIRED},      {W_O, REQUIRED},
    {W_FFN_NORM, REQUIRED},   {W_GATE, REQUIRED},        {W_UP, REQUIRED},     {W_DOWN, REQUIRED},
};
const ga_arch_desc ga_arch_granite = {.name = "granite",
                                      .weights = plain_weights,
                                      .n_weights = GA_COUNT_OF(plain_weights),
                                      .read = read_granite,
                                      .build = build_llama};
static const weight_use granitemoe_weights[] = {
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
const ga_arch_desc ga_arch_granitemoe = {.name = "granitemoe",
                                         .weights = granitemoe_weights,
                                         .n_weights = GA_COUNT_OF(granitemoe_weights),
                                         .has_weight = block_has_weight,
                                         .read = read_granitemoe,
                                         .build = build_llama};
const ga_arch_desc ga_arch_smollm3 = {.name = "smollm3",
                                      .weights = plain_weights,
                                      .n_weights = GA_COUNT_OF(plain_weights),
                                      .read = read_smollm3,
                                      .build = build_llama};
