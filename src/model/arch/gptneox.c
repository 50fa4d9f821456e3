/* GPT-NeoX (arXiv 2204.06745) and Pythia (arXiv 2304.01373): layer norms and biases as GPT-2 has them, rotation of a
 * part of each head; both blocks read the x that the layer began with, each through a norm of its own. */
#include <string.h>

#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"

/* GGUF files do not say which gelu: those that GA has converted do. */
static ga_status read_activation(const ga_model_file *file, ga_hparams *p) {
  static const char *const tanh_forms[] = {"gelu_fast", "gelu_new", "gelu_pytorch_tanh"};
  ga_text act;
  GA_TRY(ga_model_file_text_or(file, "ga.activation", "gelu", &act));
  p->act = GA_ACT_GELU_ERF;
  if (act.bytes == 4 && !memcmp(act.data, "gelu", 4)) return GA_OK;
  p->act = GA_ACT_GELU_TANH;
  for (size_t i = 0; i < GA_COUNT_OF(tanh_forms); i++)
    if (act.bytes == strlen(tanh_forms[i]) && !memcmp(act.data, tanh_forms[i], act.bytes)) return GA_OK;
  return ga_fail(GA_ERR_UNSUPPORTED, "ga.activation is '%s'; gptneox has gelu, gelu_fast, gelu_new, gelu_pytorch_tanh",
                 ga_quote(act.data, act.bytes).text);
}

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  char text[GA_HPARAM_KEY_BYTES];
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(ga_model_file_bool_or(file, hparams_key(p, "use_parallel_residual", text), true, &p->is_parallel));
  GA_TRY(read_activation(file, p));
  return hparams_eps(file, "attention.layer_norm_epsilon", p);
}

static void build_layer(graph_builder *b, ga_value_id *x) {
  const ga_hparams *p = &b->model->hparams;
  const int64_t n_q = ga_weight_dim(p, DIM_Q), n_k = ga_weight_dim(p, DIM_K), n_v = ga_weight_dim(p, DIM_V);
  ga_value_id h = build_layer_norm(b, *x, W_ATTN_NORM, W_ATTN_NORM_B, BUF_H);             /* h [T, d] */
  const ga_value_id qkv = build_linear(b, h, W_QKV, build_if_present(b, W_QKV_B), BUF_Q); /* q|k|v [T, 3 H D] */
  ga_value_id q = build_slice(b, qkv, 0, n_q);                                            /* q [T, H D] */
  ga_value_id k = build_slice(b, qkv, n_q, n_k);                                          /* k [T, H D] */
  const ga_value_id v = build_slice(b, qkv, n_q + n_k, n_v);                              /* v [T, H Dv] */
  q = build_rope(b, q, false);
  k = build_rope(b, k, false);
  build_kv_store(b, k, v);
  const ga_value_id o = build_attention(b, q, 0);                                    /* o [T, H Dv] */
  if (p->is_parallel) h = build_layer_norm(b, *x, W_FFN_NORM, W_FFN_NORM_B, BUF_H);  /* h [T, d] */
  *x = build_add(b, *x, build_linear(b, o, W_O, build_if_present(b, W_O_B), BUF_Q)); /* x [T, d] */
  if (!p->is_parallel) h = build_layer_norm(b, *x, W_FFN_NORM, W_FFN_NORM_B, BUF_H); /* h [T, d] */
  ga_value_id up = build_linear(b, h, W_UP, W_UP_B, BUF_UP);                         /* up [T, F] */
  up = build_act(b, p->act, up);                                                     /* up [T, F] */
  *x = build_add(b, *x, build_linear(b, up, W_DOWN, W_DOWN_B, BUF_H));               /* x [T, d] */
}

static void build(graph_builder *b) {
  b->layer = -1;
  ga_value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1, BUF_X); /* x [T, d] = E[ids] */
  for (b->layer = 0; b->layer < b->model->hparams.n_layers; b->layer++) build_layer(b, &x);
  const ga_value_id last = build_out_rows(b, x);                                          /* [n_out, d] */
  const ga_value_id h = build_layer_norm(b, last, W_OUTPUT_NORM, W_OUTPUT_NORM_B, BUF_H); /* h [n_out, d] */
  build_result(b, build_linear(b, h, W_OUTPUT, W_NONE, BUF_LOGITS), POOL_NONE);           /* logits [n_out, V] */
}

static const weight_use weights[] = {
    {W_TOKEN_EMBD, REQUIRED}, {W_OUTPUT_NORM, REQUIRED}, {W_OUTPUT_NORM_B, REQUIRED}, {W_OUTPUT, OPTIONAL},
    {W_ATTN_NORM, REQUIRED},  {W_ATTN_NORM_B, REQUIRED}, {W_QKV, REQUIRED},           {W_QKV_B, OPTIONAL},
    {W_O, REQUIRED},          {W_O_B, OPTIONAL},         {W_FFN_NORM, REQUIRED},      {W_FFN_NORM_B, REQUIRED},
    {W_UP, REQUIRED},         {W_DOWN, REQUIRED},        {W_UP_B, REQUIRED},          {W_DOWN_B, REQUIRED},
};
const ga_arch_desc ga_arch_gptneox = {
    .name = "gptneox", .weights = weights, .n_weights = GA_COUNT_OF(weights), .read = read, .build = build};
