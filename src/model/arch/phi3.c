/* Phi-3, 3.5 and 4 (arXiv 2404.14219, 2412.08905): Llama with q, k, v in one matrix and gate and up in another, a
 * sliding window in all layers where the file has one, and longrope (arXiv 2402.13753) in those for long contexts. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(hparams_int(file, p, "attention.sliding_window", 0, 0, 1 << 20, &p->window));
  return hparams_eps(file, "attention.layer_norm_rms_epsilon", p);
}

static value_id build_layer(graph_builder *b, value_id x) {
  block_qkv t = block_joined_qkv_of(b, build_rms_norm(b, x, W_ATTN_NORM));
  block_rotate(b, &t, false);
  x = build_add(b, x, block_attention(b, t, b->model->hparams.window, 1));
  return build_add(b, x, block_joined_ffn(b, build_rms_norm(b, x, W_FFN_NORM), GA_ACT_SILU));
}

static void build(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1); /* x [T, d] = E[ids] */
  block_rms_head(b, block_layers(b, x, build_layer), 1);
}

static const weight_use weights[] = {
    {W_TOKEN_EMBD, REQUIRED}, {W_OUTPUT_NORM, REQUIRED}, {W_OUTPUT, OPTIONAL},
    {W_ATTN_NORM, REQUIRED},  {W_QKV, REQUIRED},         {W_O, REQUIRED},
    {W_FFN_NORM, REQUIRED},   {W_GATE_UP, REQUIRED},     {W_DOWN, REQUIRED},
};
const ga_arch_desc ga_arch_phi3 = {
    .name = "phi3", .weights = weights, .n_weights = GA_COUNT_OF(weights), .read = read, .build = build};
