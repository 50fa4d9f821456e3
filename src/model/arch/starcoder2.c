/* StarCoder2 (arXiv 2402.19173): grouped heads and rotation as Llama has them, layer norms, biases and an ungated block
 * as GPT-2 has them. All layers see a sliding window where the file has one; GGUF files have none. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(hparams_int(file, p, "attention.sliding_window", 0, 0, 1 << 20, &p->window));
  return hparams_eps(file, "attention.layer_norm_epsilon", p);
}

static value_id build_layer(graph_builder *b, value_id x) {
  return block_layer_norm_decoder(b, x, b->model->hparams.window, GA_ACT_GELU_TANH);
}

static void build(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1); /* x [T, d] = E[ids] */
  block_layer_norm_head(b, block_layers(b, x, build_layer), 1);
}

static const weight_use weights[] = {
    {W_TOKEN_EMBD, REQUIRED}, {W_OUTPUT_NORM, REQUIRED}, {W_OUTPUT_NORM_B, REQUIRED},
    {W_OUTPUT, OPTIONAL},     {W_ATTN_NORM, REQUIRED},   {W_ATTN_NORM_B, REQUIRED},
    {W_Q, REQUIRED},          {W_Q_B, OPTIONAL},         {W_K, REQUIRED},
    {W_K_B, OPTIONAL},        {W_V, REQUIRED},           {W_V_B, OPTIONAL},
    {W_O, REQUIRED},          {W_O_B, OPTIONAL},         {W_FFN_NORM, REQUIRED},
    {W_FFN_NORM_B, REQUIRED}, {W_UP, REQUIRED},          {W_UP_B, OPTIONAL},
    {W_DOWN, REQUIRED},       {W_DOWN_B, OPTIONAL},
};
const ga_arch_desc ga_arch_starcoder2 = {
    .name = "starcoder2", .weights = weights, .n_weights = GA_COUNT_OF(weights), .read = read, .build = build};
