/* Jina Embeddings 2 (arXiv 2310.19923): BERT with ALiBi that falls with distance on either side (arXiv 2108.12409) in
 * place of learned positions, and a gated block with gelu. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  static const char *const others[] = {"blk.0.attn_q_norm.weight", "blk.0.attn_norm_2.weight", "blk.0.ffn_gate.weight"};
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_vocab(file, p));
  for (size_t i = 0; i < GA_COUNT_OF(others); i++)
    GA_REQUIRE(!ga_model_file_find(file, others[i]), GA_ERR_UNSUPPORTED,
               "%s with %s, as its models for code have it; GA has it without", p->arch->name, others[i]);
  p->has_alibi = true;
  GA_TRY(hparams_pooling(file, p));
  return hparams_eps(file, "attention.layer_norm_epsilon", p);
}

static value_id build_layer(graph_builder *b, value_id x) {
  const bool has_alibi = b->model->hparams.has_alibi;
  x = block_bert_attn_norm(b, x, block_attention_bidirectional(b, block_qkv_of(b, x), 0, has_alibi));
  return block_bert_ffn_norm(b, x, block_joined_ffn(b, x, GA_ACT_GELU_ERF));
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
