/* OLMo 2 (arXiv 2501.00656): no norms before the blocks but behind them, on what a block adds; q and k are normalised
 * as whole rows before rotation. OLMo 3 has the same name in files: a sliding window in all layers but every fourth,
 * and in those no scaling of the rotation. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"

enum { GLOBAL_EVERY = 4 };

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  p->rope_base_local = p->rope_base;
  GA_TRY(hparams_windows(file, 0, GLOBAL_EVERY, p));
  return hparams_eps(file, "attention.layer_norm_rms_epsilon", p);
}

static void build_layer(graph_builder *b, ga_value_id *x) {
  const ga_hparams *p = &b->model->hparams;
  const bool local = p->is_local[b->layer];
  ga_value_id q = build_linear(b, *x, W_Q, W_NONE, BUF_Q);       /* q [T, Hq D] */
  ga_value_id k = build_linear(b, *x, W_K, W_NONE, BUF_K);       /* k [T, Hkv D] */
  const ga_value_id v = build_linear(b, *x, W_V, W_NONE, BUF_V); /* v [T, Hkv Dv] */
  q = build_rms_norm(b, q, W_Q_ROW_NORM, BUF_Q);                 /* over Hq D */
  k = build_rms_norm(b, k, W_K_ROW_NORM, BUF_K);                 /* over Hkv D */
  q = build_rope(b, q, local);
  k = build_rope(b, k, local);
  build_kv_store(b, k, v);
  const ga_value_id o = build_attention(b, q, local ? p->window : 0);     /* o [T, Hq Dv] */
  ga_value_id h = build_linear(b, o, W_O, W_NONE, BUF_H);                 /* h [T, d] */
  h = build_rms_norm(b, h, W_POST_ATTN_NORM, BUF_H);                      /* h [T, d] */
  *x = build_add(b, *x, h);                                               /* x [T, d] */
  const ga_value_id gate = build_linear(b, *x, W_GATE, W_NONE, BUF_GATE); /* gate [T, F] */
  ga_value_id up = build_linear(b, *x, W_UP, W_NONE, BUF_UP);             /* up [T, F] */
  up = build_gated_act(b, GA_ACT_SILU, gate, up);                         /* up [T, F] = silu(gate) * up */
  h = build_linear(b, up, W_DOWN, W_NONE, BUF_H);                         /* h [T, d] */
  h = build_rms_norm(b, h, W_POST_FFN_NORM, BUF_H);                       /* h [T, d] */
  *x = build_add(b, *x, h);                                               /* x [T, d] */
}

static void build(graph_builder *b) {
  b->layer = -1;
  ga_value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1, BUF_X); /* x [T, d] = E[ids] */
  for (b->layer = 0; b->layer < b->model->hparams.n_layers; b->layer++) build_layer(b, &x);
  const ga_value_id last = build_out_rows(b, x);                                /* [n_out, d] */
  const ga_value_id h = build_rms_norm(b, last, W_OUTPUT_NORM, BUF_H);          /* h [n_out, d] */
  build_result(b, build_linear(b, h, W_OUTPUT, W_NONE, BUF_LOGITS), POOL_NONE); /* logits [n_out, V] */
}

static const weight_use weights[] = {
    {W_TOKEN_EMBD, REQUIRED}, {W_OUTPUT_NORM, REQUIRED},
    {W_OUTPUT, OPTIONAL},     {W_Q, REQUIRED},
    {W_K, REQUIRED},          {W_V, REQUIRED},
    {W_Q_ROW_NORM, REQUIRED}, {W_K_ROW_NORM, REQUIRED},
    {W_O, REQUIRED},          {W_POST_ATTN_NORM, REQUIRED},
    {W_GATE, REQUIRED},       {W_UP, REQUIRED},
    {W_DOWN, REQUIRED},       {W_POST_FFN_NORM, REQUIRED},
};
const ga_arch_desc ga_arch_olmo2 = {
    .name = "olmo2", .weights = weights, .n_weights = GA_COUNT_OF(weights), .read = read, .build = build};
