/* Phi-1, 1.5 and 2 (arXiv 2309.05463): one layer norm before attention and an ungated block, which both add to the same
 * x; rotation of a part of each head; biases everywhere, the head too. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  return hparams_eps(file, "attention.layer_norm_epsilon", p);
}

static void build_layer(graph_builder *b, ga_value_id *x) {
  const ga_value_id h = build_layer_norm(b, *x, W_ATTN_NORM, W_ATTN_NORM_B, BUF_H); /* h [T, d] */
  ga_value_id q = build_linear(b, h, W_Q, W_Q_B, BUF_Q);                            /* q [T, Hq D] */
  ga_value_id k = build_linear(b, h, W_K, W_K_B, BUF_K);                            /* k [T, Hkv D] */
  const ga_value_id v = build_linear(b, h, W_V, W_V_B, BUF_V);                      /* v [T, Hkv Dv] */
  q = build_rope(b, q, false);
  k = build_rope(b, k, false);
  build_kv_store(b, k, v);
  const ga_value_id o = build_attention(b, q, 0);                      /* o [T, Hq Dv] */
  *x = build_add(b, *x, build_linear(b, o, W_O, W_O_B, BUF_Q));        /* x [T, d] */
  ga_value_id up = build_linear(b, h, W_UP, W_UP_B, BUF_UP);           /* up [T, F] */
  up = build_act(b, GA_ACT_GELU_TANH, up);                             /* up [T, F] */
  *x = build_add(b, *x, build_linear(b, up, W_DOWN, W_DOWN_B, BUF_H)); /* x [T, d] */
}

static void build(graph_builder *b) {
  b->layer = -1;
  ga_value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1, BUF_X); /* x [T, d] = E[ids] */
  for (b->layer = 0; b->layer < b->model->hparams.n_layers; b->layer++) build_layer(b, &x);
  const ga_value_id last = build_out_rows(b, x);                                          /* [n_out, d] */
  const ga_value_id h = build_layer_norm(b, last, W_OUTPUT_NORM, W_OUTPUT_NORM_B, BUF_H); /* h [n_out, d] */
  build_result(b, build_linear(b, h, W_OUTPUT, W_OUTPUT_B, BUF_LOGITS), POOL_NONE);       /* logits [n_out, V] */
}

static const weight_use weights[] = {
    {W_TOKEN_EMBD, REQUIRED}, {W_OUTPUT_NORM, REQUIRED}, {W_OUTPUT_NORM_B, REQUIRED}, {W_OUTPUT, OPTIONAL},
    {W_OUTPUT_B, REQUIRED},   {W_ATTN_NORM, REQUIRED},   {W_ATTN_NORM_B, REQUIRED},   {W_Q, REQUIRED},
    {W_K, REQUIRED},          {W_V, REQUIRED},           {W_Q_B, REQUIRED},           {W_K_B, REQUIRED},
    {W_V_B, REQUIRED},        {W_O, REQUIRED},           {W_O_B, REQUIRED},           {W_UP, REQUIRED},
    {W_DOWN, REQUIRED},       {W_UP_B, REQUIRED},        {W_DOWN_B, REQUIRED},
};
const ga_arch_desc ga_arch_phi2 = {
    .name = "phi2", .weights = weights, .n_weights = GA_COUNT_OF(weights), .read = read, .build = build};
