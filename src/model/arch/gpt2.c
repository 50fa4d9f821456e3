/* GPT-2 (Radford et al., 2019): learned positions, layer norms with bias, one matrix for q, k and v, tied head. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_vocab(file, p));
  return hparams_eps(file, "attention.layer_norm_epsilon", p);
}

static void build_layer(graph_builder *b, ga_value_id *x) {
  const ga_hparams *p = &b->model->hparams;
  const int64_t n_q = ga_weight_dim(p, DIM_Q), n_k = ga_weight_dim(p, DIM_K), n_v = ga_weight_dim(p, DIM_V);
  ga_value_id h = build_layer_norm(b, *x, W_ATTN_NORM, W_ATTN_NORM_B, BUF_H); /* h [T, d] */
  const ga_value_id qkv = build_linear(b, h, W_QKV, W_QKV_B, BUF_Q);          /* q|k|v [T, Hq D + Hkv D + Hkv Dv] */
  const ga_value_id q = build_slice(b, qkv, 0, n_q);                          /* q [T, Hq D] */
  const ga_value_id k = build_slice(b, qkv, n_q, n_k);                        /* k [T, Hkv D] */
  const ga_value_id v = build_slice(b, qkv, n_q + n_k, n_v);                  /* v [T, Hkv Dv] */
  build_kv_store(b, k, v);
  const ga_value_id o = build_attention(b, q, 0);               /* o [T, Hq Dv] */
  h = build_linear(b, o, W_O, W_O_B, BUF_H);                    /* h [T, d] */
  *x = build_add(b, *x, h);                                     /* x [T, d] */
  h = build_layer_norm(b, *x, W_FFN_NORM, W_FFN_NORM_B, BUF_H); /* h [T, d] */
  ga_value_id up = build_linear(b, h, W_UP, W_UP_B, BUF_UP);    /* up [T, F] */
  up = build_act(b, GA_ACT_GELU_TANH, up);                      /* up [T, F] */
  h = build_linear(b, up, W_DOWN, W_DOWN_B, BUF_H);             /* h [T, d] */
  *x = build_add(b, *x, h);                                     /* x [T, d] */
}

static void build(graph_builder *b) {
  const ga_hparams *p = &b->model->hparams;
  b->layer = -1;
  ga_value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1, BUF_X);            /* x [T, d] = E[ids] */
  x = build_add(b, x, build_embed(b, W_POSITION_EMBD, IDS_POSITIONS, 1, BUF_H)); /* x [T, d] += P[positions] */
  for (b->layer = 0; b->layer < p->n_layers; b->layer++) build_layer(b, &x);
  const ga_value_id last = build_out_rows(b, x);                                          /* [n_out, d] */
  const ga_value_id h = build_layer_norm(b, last, W_OUTPUT_NORM, W_OUTPUT_NORM_B, BUF_H); /* h [n_out, d] */
  build_result(b, build_linear(b, h, W_OUTPUT, W_NONE, BUF_LOGITS), POOL_NONE);           /* logits [n_out, V] */
}

static const weight_use weights[] = {
    {W_TOKEN_EMBD, REQUIRED},  {W_POSITION_EMBD, REQUIRED},
    {W_OUTPUT_NORM, REQUIRED}, {W_OUTPUT_NORM_B, REQUIRED},
    {W_OUTPUT, OPTIONAL},      {W_ATTN_NORM, REQUIRED},
    {W_ATTN_NORM_B, REQUIRED}, {W_QKV, REQUIRED},
    {W_QKV_B, REQUIRED},       {W_O, REQUIRED},
    {W_O_B, REQUIRED},         {W_FFN_NORM, REQUIRED},
    {W_FFN_NORM_B, REQUIRED},  {W_UP, REQUIRED},
    {W_DOWN, REQUIRED},        {W_UP_B, REQUIRED},
    {W_DOWN_B, REQUIRED},
};
const ga_arch_desc ga_arch_gpt2 = {
    .name = "gpt2", .weights = weights, .n_weights = GA_COUNT_OF(weights), .read = read, .build = build};
