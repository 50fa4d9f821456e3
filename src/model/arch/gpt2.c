/* GPT-2 (Radford et al., 2019): learned positions, layer norms with bias, one matrix for q, k and v, tied head. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_vocab(file, p));
  return hparams_eps(file, "attention.layer_norm_epsilon", p);
}

static value_id build_layer(graph_builder *b, value_id x) {
  const block_qkv t = block_joined_qkv_of(b, build_layer_norm(b, x, W_ATTN_NORM, W_ATTN_NORM_B));
  x = build_add(b, x, block_attention(b, t, 0, 1));
  return build_add(b, x, block_ffn(b, build_layer_norm(b, x, W_FFN_NORM, W_FFN_NORM_B), GA_ACT_GELU_TANH));
}

static void build(graph_builder *b) {
  value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1);               /* x [T, d] = E[ids] */
  x = build_add(b, x, build_embed(b, W_POSITION_EMBD, IDS_POSITIONS, 1)); /* x [T, d] += P[positions] */
  block_layer_norm_head(b, block_layers(b, x, build_layer), 1);
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
