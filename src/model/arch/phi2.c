/* Phi-1, 1.5 and 2 (arXiv 2309.05463): one layer norm before attention and an ungated block, which both add to the same
 * x; rotation of a part of each head; biases everywhere, the head too. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  return hparams_eps(file, "attention.layer_norm_epsilon", p);
}

static value_id build_layer(graph_builder *b, value_id x) {
  const value_id h = build_layer_norm(b, x, W_ATTN_NORM, W_ATTN_NORM_B);
  block_qkv t = block_qkv_of(b, h);
  block_rotate(b, &t, false);
  x = build_add(b, x, block_attention(b, t, 0, 1));
  return build_add(b, x, block_ffn(b, h, GA_ACT_GELU_TANH));
}

static void build(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1); /* x [T, d] = E[ids] */
  block_layer_norm_head(b, block_layers(b, x, build_layer), 1);
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
