/* Jina Embeddings 2 (arXiv 2310.19923): BERT with ALiBi that falls with distance on either side (arXiv 2108.12409) in
 * place of learned positions, and a gated block with gelu. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  static const char *const others[] = {"blk.0.attn_q_norm.weight", "blk.0.attn_norm_2.weight", "blk.0.ffn_gate.weight"};
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_vocab(file, p));
  for (size_t i = 0; i < GA_COUNT_OF(others); i++)
    GA_REQUIRE(!ga_model_file_find(file, others[i]), GA_ERR_UNSUPPORTED,
               "%s with %s, as its models for code have it; GA has it without", p->arch->name, others[i]);
  p->has_alibi = true;
  GA_TRY(hparams_int(file, p, "pooling_type", POOL_MEAN, POOL_NONE, POOL_LAST, &p->pooling));
  return hparams_eps(file, "attention.layer_norm_epsilon", p);
}

static void build_layer(graph_builder *b, ga_value_id *x) {
  const ga_hparams *p = &b->model->hparams;
  const ga_value_id q = build_linear(b, *x, W_Q, W_Q_B, BUF_Q);                     /* q [T, H D] */
  const ga_value_id k = build_linear(b, *x, W_K, W_K_B, BUF_K);                     /* k [T, H D] */
  const ga_value_id v = build_linear(b, *x, W_V, W_V_B, BUF_V);                     /* v [T, H D] */
  const ga_value_id o = build_attention_bidirectional(b, q, k, v, 0, p->has_alibi); /* o [T, H D] */
  *x = build_add(b, *x, build_linear(b, o, W_O, W_O_B, BUF_H));                     /* x [T, d] */
  *x = build_layer_norm(b, *x, W_ATTN_OUT_NORM, W_ATTN_OUT_NORM_B, BUF_X);          /* x [T, d] */
  const ga_value_id both = build_linear(b, *x, W_GATE_UP, W_NONE, BUF_UP);          /* gate|up [T, 2 F] */
  const ga_value_id gate = build_slice(b, both, 0, p->ff_width);                    /* gate [T, F] */
  ga_value_id up = build_slice(b, both, p->ff_width, p->ff_width);                  /* up [T, F] */
  up = build_gated_act(b, GA_ACT_GELU_ERF, gate, up);                               /* up [T, F] = gelu(gate) * up */
  *x = build_add(b, *x, build_linear(b, up, W_DOWN, W_DOWN_B, BUF_H));              /* x [T, d] */
  *x = build_layer_norm(b, *x, W_LAYER_OUT_NORM, W_LAYER_OUT_NORM_B, BUF_X);        /* x [T, d] */
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
    {W_GATE_UP, REQUIRED},
    {W_DOWN, REQUIRED},
    {W_DOWN_B, REQUIRED},
    {W_LAYER_OUT_NORM, REQUIRED},
    {W_LAYER_OUT_NORM_B, REQUIRED},
};
const ga_arch_desc ga_arch_jina_bert_v2 = {.name = "jina-bert-v2",
                                           .is_encoder = true,
                                           .weights = weights,
                                           .n_weights = GA_COUNT_OF(weights),
                                           .read = read,
                                           .build = build};
