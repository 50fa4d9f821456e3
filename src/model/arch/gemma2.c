/* Gemma 2 (arXiv 2408.00118): Gemma with norms before and after each block, every second layer global and the others
 * with a sliding window, and soft-caps on the logits of attention and of the vocabulary. */
#include <math.h>

#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

enum { GLOBAL_EVERY = 2, USUAL_WINDOW = 4096 }; /* of files that state none: as in llama.cpp */

/* The 27B scales queries by d / Hq instead of D (query_pre_attn_scalar; GGUF has no key for it). */
static bool is_27b(const ga_hparams *p) { return p->n_layers == 46 && p->width == 4608 && p->n_heads == 32; }

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  p->embed_scale = sqrtf((float)p->width);
  if (is_27b(p)) p->attn_scale = 1.0f / sqrtf((float)p->width / (float)p->n_heads);
  GA_TRY(hparams_attn_scale(file, p));
  GA_TRY(hparams_windows(file, USUAL_WINDOW, GLOBAL_EVERY, p));
  GA_TRY(hparams_float(file, p, "attn_logit_softcapping", 50, 0, 1e6, &p->attn_softcap));
  GA_TRY(hparams_float(file, p, "final_logit_softcapping", 30, 0, 1e6, &p->logit_softcap));
  return hparams_eps(file, "attention.layer_norm_rms_epsilon", p);
}

static value_id build_layer(graph_builder *b, value_id x) {
  const ga_hparams *p = &b->model->hparams;
  block_qkv t = block_qkv_of(b, build_rms_norm(b, x, W_ATTN_NORM));
  block_rotate(b, &t, false);
  value_id h = block_attention(b, t, p->is_local[b->layer] ? p->window : 0, 1); /* soft-capped */
  x = build_add(b, x, build_rms_norm(b, h, W_POST_ATTN_NORM));
  h = block_gated_ffn(b, build_rms_norm(b, x, W_FFN_NORM), GA_ACT_GELU_TANH, 1);
  return build_add(b, x, build_rms_norm(b, h, W_POST_FFN_NORM));
}

static void build(graph_builder *b) {
  const value_id x =
      build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, b->model->hparams.embed_scale); /* x [T, d] = sqrt(d) E[ids] */
  block_capped_head(b, block_layers(b, x, build_layer));
}

static const weight_use weights[] = {
    {W_TOKEN_EMBD, REQUIRED},
    {W_OUTPUT_NORM, REQUIRED},
    {W_OUTPUT, OPTIONAL},
    {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},
    {W_K, REQUIRED},
    {W_V, REQUIRED},
    {W_O, REQUIRED},
    {W_POST_ATTN_NORM, REQUIRED},
    {W_FFN_NORM, REQUIRED},
    {W_GATE, REQUIRED},
    {W_UP, REQUIRED},
    {W_DOWN, REQUIRED},
    {W_POST_FFN_NORM, REQUIRED},
};
const ga_arch_desc ga_arch_gemma2 = {
    .name = "gemma2", .weights = weights, .n_weights = GA_COUNT_OF(weights), .read = read, .build = build};
