/* Llama 2 and 3 and all that share their layout (SmolLM, TinyLlama, Mistral): arXiv 2302.13971, 2407.21783. Qwen2 and
 * Qwen2.5 (arXiv 2407.10671) add biases to q, k and v. Qwen3, dense (arXiv 2505.09388), has no biases, RMS-normalises
 * each head of q and k before rotation, and its D is not d / Hq. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"

static void build_layer(graph_builder *b, ga_value_id *x, bool head_norms) {
  ga_value_id h = build_rms_norm(b, *x, W_ATTN_NORM, BUF_H);                  /* h [T, d] */
  ga_value_id q = build_linear(b, h, W_Q, build_if_present(b, W_Q_B), BUF_Q); /* q [T, Hq D] */
  ga_value_id k = build_linear(b, h, W_K, build_if_present(b, W_K_B), BUF_K); /* k [T, Hkv D] */
  ga_value_id v = build_linear(b, h, W_V, build_if_present(b, W_V_B), BUF_V); /* v [T, Hkv Dv] */
  if (head_norms) {
    q = build_head_norm(b, q, W_Q_NORM); /* each [D] */
    k = build_head_norm(b, k, W_K_NORM); /* each [D] */
  }
  q = build_rope(b, q, false);
  k = build_rope(b, k, false);
  build_kv_store(b, k, v);
  const ga_value_id o = build_attention(b, q, 0);                                               /* o [T, Hq Dv] */
  h = build_linear(b, o, W_O, build_if_present(b, W_O_B), BUF_H);                               /* h [T, d] */
  *x = build_add(b, *x, h);                                                                     /* x [T, d] */
  h = build_rms_norm(b, *x, W_FFN_NORM, BUF_H);                                                 /* h [T, d] */
  const ga_value_id gate = build_linear(b, h, W_GATE, build_if_present(b, W_GATE_B), BUF_GATE); /* [T, F] */
  ga_value_id up = build_linear(b, h, W_UP, build_if_present(b, W_UP_B), BUF_UP);               /* [T, F] */
  up = build_gated_act(b, GA_ACT_SILU, gate, up);                        /* up [T, F] = silu(gate) * up */
  h = build_linear(b, up, W_DOWN, build_if_present(b, W_DOWN_B), BUF_H); /* h [T, d] */
  *x = build_add(b, *x, h);                                              /* x [T, d] */
}

static void build_with(graph_builder *b, bool head_norms) {
  const ga_hparams *p = &b->model->hparams;
  b->layer = -1;
  ga_value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, p->embed_scale, BUF_X); /* x [T, d] = E[ids] */
  for (b->layer = 0; b->layer < p->n_layers; b->layer++) build_layer(b, &x, head_norms);
  const ga_value_id last = build_out_rows(b, x);                                /* [n_out, d] */
  const ga_value_id h = build_rms_norm(b, last, W_OUTPUT_NORM, BUF_H);          /* h [n_out, d] */
  build_result(b, build_linear(b, h, W_OUTPUT, W_NONE, BUF_LOGITS), POOL_NONE); /* logits [n_out, V] */
}

static void build_llama(graph_builder *b) { build_with(b, false); }
static void build_qwen3(graph_builder *b) { build_with(b, true); }

static ga_status read_with(const ga_model_file *file, const char *pairs, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, pairs, p));
  GA_TRY(hparams_vocab(file, p));
  return hparams_eps(file, "attention.layer_norm_rms_epsilon", p);
}

static ga_status read_llama(const ga_model_file *file, ga_hparams *p) { return read_with(file, "norm", p); }
static ga_status read_qwen(const ga_model_file *file, ga_hparams *p) { return read_with(file, "neox", p); }

static const weight_use llama_weights[] = {
    {W_TOKEN_EMBD, REQUIRED}, {W_OUTPUT_NORM, REQUIRED}, {W_OUTPUT, OPTIONAL}, {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},          {W_K, REQUIRED},           {W_V, REQUIRED},      {W_Q_B, OPTIONAL},
    {W_K_B, OPTIONAL},        {W_V_B, OPTIONAL},         {W_O, REQUIRED},      {W_O_B, OPTIONAL},
    {W_FFN_NORM, REQUIRED},   {W_GATE, REQUIRED},        {W_UP, REQUIRED},     {W_DOWN, REQUIRED},
    {W_GATE_B, OPTIONAL},     {W_UP_B, OPTIONAL},        {W_DOWN_B, OPTIONAL},
};
const ga_arch_desc ga_arch_llama = {.name = "llama",
                                    .weights = llama_weights,
                                    .n_weights = GA_COUNT_OF(llama_weights),
                                    .read = read_llama,
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
