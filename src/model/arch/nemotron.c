/* Nemotron 4 and Minitron (arXiv 2402.16819, 2407.14679): layer norms whose weights folders hold less 1, rotation of a
 * part of each head, an ungated block with relu^2 (arXiv 2109.08668). */
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

static value_id build_layer(graph_builder *b, value_id x) { return block_layer_norm_decoder(b, x, 0, GA_ACT_RELU2); }

static void build(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1); /* x [T, d] = E[ids] */
  block_layer_norm_head(b, block_layers(b, x, build_layer), 1);
}

static const weight_use weights[] = {
    {W_TOKEN_EMBD, REQUIRED}, {W_OUTPUT_NORM, REQUIRED}, {W_OUTPUT_NORM_B, REQUIRED},
    {W_OUTPUT, OPTIONAL},     {W_ATTN_NORM, REQUIRED},   {W_ATTN_NORM_B, REQUIRED},
    {W_Q, REQUIRED},          {W_K, REQUIRED},           {W_V, REQUIRED},
    {W_Q_B, OPTIONAL},        {W_K_B, OPTIONAL},         {W_V_B, OPTIONAL},
    {W_O, REQUIRED},          {W_O_B, OPTIONAL},         {W_FFN_NORM, REQUIRED},
    {W_FFN_NORM_B, REQUIRED}, {W_UP, REQUIRED},          {W_DOWN, REQUIRED},
    {W_UP_B, OPTIONAL},       {W_DOWN_B, OPTIONAL},
};
const ga_arch_desc ga_arch_nemotron = {
    .name = "nemotron", .weights = weights, .n_weights = GA_COUNT_OF(weights), .read = read, .build = build};
