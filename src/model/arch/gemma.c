/* Gemma (arXiv 2403.08295): Llama with heads of their own width, GeGLU, and embeddings scaled by sqrt(d). */
#include <math.h>

#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  p->embed_scale = sqrtf((float)p->width);
  return hparams_eps(file, "attention.layer_norm_rms_epsilon", p);
}

static value_id build_layer(graph_builder *b, value_id x) {
  block_qkv t = block_qkv_of(b, build_rms_norm(b, x, W_ATTN_NORM));
  block_rotate(b, &t, false);
  x = build_add(b, x, block_attention(b, t, 0, 1));
  return build_add(b, x, block_gated_ffn(b, build_rms_norm(b, x, W_FFN_NORM), GA_ACT_GELU_TANH, 1));
}

static void build(graph_builder *b) {
  const value_id x =
      build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, b->model->hparams.embed_scale); /* x [T, d] = sqrt(d) E[ids] */
  block_rms_head(b, block_layers(b, x, build_layer), 1);
}

static const weight_use weights[] = {
    {W_TOKEN_EMBD, REQUIRED}, {W_OUTPUT_NORM, REQUIRED}, {W_OUTPUT, OPTIONAL}, {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},          {W_K, REQUIRED},           {W_V, REQUIRED},      {W_O, REQUIRED},
    {W_FFN_NORM, REQUIRED},   {W_GATE, REQUIRED},        {W_UP, REQUIRED},     {W_DOWN, REQUIRED},
};
const ga_arch_desc ga_arch_gemma = {
    .name = "gemma", .weights = weights, .n_weights = GA_COUNT_OF(weights), .read = read, .build = build};
