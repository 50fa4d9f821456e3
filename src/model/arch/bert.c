/* BERT and the sentence encoders made of it (arXiv 1810.04805, 1908.10084): both directions, norm after each block. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"
#include "model/rank_head.h"

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(hparams_pooling(file, p));
  const ga_model_tensor *types = ga_model_file_find(file, "token_types.weight");
  const bool has_two = types && types->view.n_dims == 2 && types->view.dim[0] >= 2;
  p->n_types = has_two && rank_head_is_there(file) ? 2 : 1; /* a document's tokens have type 1 beside a query */
  return hparams_eps(file, "attention.layer_norm_epsilon", p);
}

static value_id build_layer(graph_builder *b, value_id x) {
  x = block_bert_attn_norm(b, x, block_attention_bidirectional(b, block_qkv_of(b, x), 0, false));
  return block_bert_ffn_norm(b, x, block_ffn(b, x, GA_ACT_GELU_ERF));
}

static void build(graph_builder *b) {
  const value_id x = block_bert_embedding(b);
  build_result(b, block_layers(b, x, build_layer), (ga_pooling)b->model->hparams.pooling); /* [d], of [T, d] */
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
                                   .has_rank_head = true,
                                   .weights = weights,
                                   .n_weights = GA_COUNT_OF(weights),
                                   .read = read,
                                   .build = build};
