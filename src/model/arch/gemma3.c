/* Gemma 3, text (arXiv 2503.19786): embeddings scaled by sqrt(d), norms before and after each block, normalised heads,
 * one global layer after every five that see a sliding window and rotate with a base of their own. */
#include <math.h>

#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

enum { GLOBAL_EVERY = 6 };

/* Sizes that scale queries by d / Hq instead of D (query_pre_attn_scalar; GGUF files do not state it): the 27B. */
static const struct { int32_t layers, width, heads; } scaled_by_width[] = {{62, 5376, 32}};

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  p->embed_scale = sqrtf((float)p->width);
  for (size_t i = 0; i < GA_COUNT_OF(scaled_by_width); i++)
    if (scaled_by_width[i].layers == p->n_layers && scaled_by_width[i].width == p->width &&
        scaled_by_width[i].heads == p->n_heads)
      p->attn_scale = 1.0f / sqrtf((float)p->width / (float)p->n_heads);
  GA_TRY(hparams_attn_scale(file, p));
  GA_TRY(hparams_windows(file, 0, GLOBAL_EVERY, p));
  return hparams_eps(file, "attention.layer_norm_rms_epsilon", p);
}

static value_id build_layer(graph_builder *b, value_id x) {
  const ga_hparams *p = &b->model->hparams;
  const bool local = p->is_local[b->layer];
  block_qkv t = block_qkv_of(b, build_rms_norm(b, x, W_ATTN_NORM));
  block_norm_heads(b, &t);
  block_rotate(b, &t, local);
  value_id h = block_attention(b, t, local ? p->window : 0, 1);
  x = build_add(b, x, build_rms_norm(b, h, W_POST_ATTN_NORM));
  h = block_gated_ffn(b, build_rms_norm(b, x, W_FFN_NORM), GA_ACT_GELU_TANH, 1);
  return build_add(b, x, build_rms_norm(b, h, W_POST_FFN_NORM));
}

static void build(graph_builder *b) {
  const value_id x =
      build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, b->model->hparams.embed_scale); /* x [T, d] = sqrt(d) E[ids] */
  block_rms_head(b, block_layers(b, x, build_layer), 1);
}

static const weight_use weights[] = {
    {W_TOKEN_EMBD, REQUIRED},
    {W_OUTPUT_NORM, REQUIRED},
    {W_OUTPUT, OPTIONAL},
    {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},
    {W_K, REQUIRED},
    {W_V, REQUIRED},
    {W_Q_NORM, REQUIRED},
    {W_K_NORM, REQUIRED},
    {W_O, REQUIRED},
    {W_POST_ATTN_NORM, REQUIRED},
    {W_FFN_NORM, REQUIRED},
    {W_GATE, REQUIRED},
    {W_UP, REQUIRED},
    {W_DOWN, REQUIRED},
    {W_POST_FFN_NORM, REQUIRED},
};
const ga_arch_desc ga_arch_gemma3 = {
    .name = "gemma3", .weights = weights, .n_weights = GA_COUNT_OF(weights), .read = read, .build = build};
