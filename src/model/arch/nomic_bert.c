/* Nomic Embed (arXiv 2402.01613): BERT with rotation in place of learned positions, a gated block with SiLU, q, k, v in
 * one matrix, and no biases but those of norms. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(hparams_pooling(file, p));
  return hparams_eps(file, "attention.layer_norm_epsilon", p);
}

static value_id build_layer(graph_builder *b, value_id x) {
  block_qkv t = block_joined_qkv_of(b, x);
  block_rotate(b, &t, false);
  x = block_bert_attn_norm(b, x, block_attention_bidirectional(b, t, 0, false));
  return block_bert_ffn_norm(b, x, block_gated_ffn(b, x, GA_ACT_SILU, 1));
}

static void build(graph_builder *b) {
  const value_id x = block_bert_embedding(b);
  build_result(b, block_layers(b, x, build_layer), (ga_pooling)b->model->hparams.pooling); /* [d], of [T, d] */
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
