/* BERT and the sentence encoders made of it (arXiv 1810.04805, 1908.10084): both directions, norm after each block. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(hparams_int(file, p, "pooling_type", POOL_MEAN, POOL_NONE, POOL_LAST, &p->pooling));
  return hparams_eps(file, "attention.layer_norm_epsilon", p);
}

static void build_layer(graph_builder *b, ga_value_id *x) {
  const ga_value_id q = build_linear(b, *x, W_Q, W_Q_B, BUF_Q);                    /* q [T, H D] */
  const ga_value_id k = build_linear(b, *x, W_K, W_K_B, BUF_K);                    /* k [T, H D] */
  const ga_value_id v = build_linear(b, *x, W_V, W_V_B, BUF_V);                    /* v [T, H D] */
  const ga_value_id o = build_attention_bidirectional(b, q, k, v, 0, false);       /* o [T, H D] */
  ga_value_id h = build_linear(b, o, W_O, W_O_B, BUF_H);                           /* h [T, d] */
  *x = build_add(b, *x, h);                                                        /* x [T, d] */
  *x = build_layer_norm(b, *x, W_ATTN_OUT_NORM, W_ATTN_OUT_NORM_B, BUF_X);         /* x [T, d] */
  const ga_value_id up = build_linear(b, *x, W_UP, W_UP_B, BUF_UP);                /* up [T, F] */
  h = build_linear(b, build_act(b, GA_ACT_GELU_ERF, up), W_DOWN, W_DOWN_B, BUF_H); /* h [T, d] */
  *x = build_add(b, *x, h);                                                        /* x [T, d] */
  *x = build_layer_norm(b, *x, W_LAYER_OUT_NORM, W_LAYER_OUT_NORM_B, BUF_X);       /* x [T, d] */
}

static void build(graph_builder *b) {
  const ga_hparams *p = &b->model->hparams;
  b->layer = -1;
  ga_value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1, BUF_X);            /* x [T, d] = E[ids] */
  x = build_add(b, x, build_embed(b, W_POSITION_EMBD, IDS_POSITIONS, 1, BUF_H)); /* x [T, d] += P[positions] */
  if (build_if_present(b, W_TYPE_EMBD) != W_NONE)
    x = build_add(b, x, build_embed(b, W_TYPE_EMBD, IDS_TYPES, 1, BUF_H)); /* x [T, d] += types[0] */
  x = build_layer_norm(b, x, W_EMBD_NORM, W_EMBD_NORM_B, BUF_X);           /* x [T, d] */
  for (b->layer = 0; b->layer < p->n_layers; b->layer++) build_layer(b, &x);
  build_result(b, x, (ga_pooling)p->pooling); /* [d], of x [T, d] */
}

static const weight_use weights[] = {
    {W_TOKEN_EMBD, REQUIRED},
    {W_POSITION_EMBD, REQUIRED},
    {W_TYPE_EMBD, OPTIONAL},
    {W_EMBD_NORM, REQUIRED},
    {W_EMBD_NORM_B, REQUIRED},
    {W_Q, REQUIRED},
    {W_K, REQUIRED},
    {W_V, REQUIRED},
    {W_Q_B, REQUIRED},
    {W_K_B, REQUIRED},
    {W_V_B, REQUIRED},
    {W_O, REQUIRED},
    {W_O_B, REQUIRED},
    {W_ATTN_OUT_NORM, REQUIRED},
    {W_ATTN_OUT_NORM_B, REQUIRED},
    {W_UP, REQUIRED},
    {W_DOWN, REQUIRED},
    {W_UP_B, REQUIRED},
    {W_DOWN_B, REQUIRED},
    {W_LAYER_OUT_NORM, REQUIRED},
    {W_LAYER_OUT_NORM_B, REQUIRED},
};
const ga_arch_desc ga_arch_bert = {.name = "bert",
                                   .is_encoder = true,
                                   .weights = weights,
                                   .n_weights = GA_COUNT_OF(weights),
                                   .read = read,
                                   .build = build};
