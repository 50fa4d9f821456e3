/* Nomic Embed (arXiv 2402.01613): BERT with rotation in place of learned positions, a gated block with SiLU, q, k, v in
 * one matrix, and no biases but those of norms. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(hparams_int(file, p, "pooling_type", POOL_MEAN, POOL_NONE, POOL_LAST, &p->pooling));
  return hparams_eps(file, "attention.layer_norm_epsilon", p);
}

static void build_layer(graph_builder *b, ga_value_id *x) {
  const ga_hparams *p = &b->model->hparams;
  const int64_t n_q = ga_weight_dim(p, DIM_Q), n_k = ga_weight_dim(p, DIM_K), n_v = ga_weight_dim(p, DIM_V);
  const ga_value_id qkv = build_linear(b, *x, W_QKV, W_NONE, BUF_Q); /* q|k|v [T, 3 H D] */
  ga_value_id q = build_slice(b, qkv, 0, n_q);                       /* q [T, H D] */
  ga_value_id k = build_slice(b, qkv, n_q, n_k);                     /* k [T, H D] */
  const ga_value_id v = build_slice(b, qkv, n_q + n_k, n_v);         /* v [T, H D] */
  q = build_rope(b, q, false);
  k = build_rope(b, k, false);
  const ga_value_id o = build_attention_bidirectional(b, q, k, v, 0, false); /* o [T, H D] */
  *x = build_add(b, *x, build_linear(b, o, W_O, W_NONE, BUF_H));             /* x [T, d] */
  *x = build_layer_norm(b, *x, W_ATTN_OUT_NORM, W_ATTN_OUT_NORM_B, BUF_X);   /* x [T, d] */
  const ga_value_id gate = build_linear(b, *x, W_GATE, W_NONE, BUF_GATE);    /* gate [T, F] */
  ga_value_id up = build_linear(b, *x, W_UP, W_NONE, BUF_UP);                /* up [T, F] */
  up = build_gated_act(b, GA_ACT_SILU, gate, up);                            /* up [T, F] = silu(gate) * up */
  *x = build_add(b, *x, build_linear(b, up, W_DOWN, W_NONE, BUF_H));         /* x [T, d] */
  *x = build_layer_norm(b, *x, W_LAYER_OUT_NORM, W_LAYER_OUT_NORM_B, BUF_X); /* x [T, d] */
}

static void build(graph_builder *b) {
  const ga_hparams *p = &b->model->hparams;
  b->layer = -1;
  ga_value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1, BUF_X); /* x [T, d] = E[ids] */
  if (build_if_present(b, W_TYPE_EMBD) != W_NONE)
    x = build_add(b, x, build_embed(b, W_TYPE_EMBD, IDS_TYPES, 1, BUF_H)); /* x [T, d] += types[0] */
  x = build_layer_norm(b, x, W_EMBD_NORM, W_EMBD_NORM_B, BUF_X);           /* x [T, d] */
  for (b->layer = 0; b->layer < p->n_layers; b->layer++) build_layer(b, &x);
  build_result(b, x, (ga_pooling)p->pooling); /* [d], of x [T, d] */
}

static const weight_use weights[] = {
    {W_TOKEN_EMBD, REQUIRED},
    {W_TYPE_EMBD, OPTIONAL},
    {W_EMBD_NORM, REQUIRED},
    {W_EMBD_NORM_B, REQUIRED},
    {W_QKV, REQUIRED},
    {W_O, REQUIRED},
    {W_UP, REQUIRED},
    {W_GATE, REQUIRED},
    {W_DOWN, REQUIRED},
    {W_ATTN_OUT_NORM, REQUIRED},
    {W_ATTN_OUT_NORM_B, REQUIRED},
    {W_LAYER_OUT_NORM, REQUIRED},
    {W_LAYER_OUT_NORM_B, REQUIRED},
};
const ga_arch_desc ga_arch_nomic_bert = {.name = "nomic-bert",
                                         .is_encoder = true,
                                         .weights = weights,
                                         .n_weights = GA_COUNT_OF(weights),
                                         .read = read,
                                         .build = build};
