/* Gemma 2 (arXiv 2408.00118): Gemma with norms before and after each block, every second layer global and the others
 * with a sliding window, and soft-caps on the logits of attention and of the vocabulary. */
#include <math.h>

#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"

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

static void build_layer(graph_builder *b, ga_value_id *x) {
  const ga_hparams *p = &b->model->hparams;
  ga_value_id h = build_rms_norm(b, *x, W_ATTN_NORM, BUF_H);    /* h [T, d] */
  ga_value_id q = build_linear(b, h, W_Q, W_NONE, BUF_Q);       /* q [T, Hq D] */
  ga_value_id k = build_linear(b, h, W_K, W_NONE, BUF_K);       /* k [T, Hkv D] */
  const ga_value_id v = build_linear(b, h, W_V, W_NONE, BUF_V); /* v [T, Hkv Dv] */
  q = build_rope(b, q, false);
  k = build_rope(b, k, false);
  build_kv_store(b, k, v);
  const ga_value_id o = build_attention(b, q, p->is_local[b->layer] ? p->window : 0); /* o [T, Hq Dv], soft-capped */
  h = build_linear(b, o, W_O, W_NONE, BUF_H);                                         /* h [T, d] */
  h = build_rms_norm(b, h, W_POST_ATTN_NORM, BUF_H);                                  /* h [T, d] */
  *x = build_add(b, *x, h);                                                           /* x [T, d] */
  h = build_rms_norm(b, *x, W_FFN_NORM, BUF_H);                                       /* h [T, d] */
  const ga_value_id gate = build_linear(b, h, W_GATE, W_NONE, BUF_GATE);              /* gate [T, F] */
  ga_value_id up = build_linear(b, h, W_UP, W_NONE, BUF_UP);                          /* up [T, F] */
  up = build_gated_act(b, GA_ACT_GELU_TANH, gate, up);                                /* up [T, F] = gelu(gate) * up */
  h = build_linear(b, up, W_DOWN, W_NONE, BUF_H);                                     /* h [T, d] */
  h = build_rms_norm(b, h, W_POST_FFN_NORM, BUF_H);                                   /* h [T, d] */
  *x = build_add(b, *x, h);                                                           /* x [T, d] */
}

static void build(graph_builder *b) {
  const ga_hparams *p = &b->model->hparams;
  const float cap = p->logit_softcap;
  b->layer = -1;
  ga_value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, p->embed_scale, BUF_X); /* x [T, d] = sqrt(d) E[ids] */
  for (b->layer = 0; b->layer < p->n_layers; b->layer++) build_layer(b, &x);
  const ga_value_id last = build_out_rows(b, x);                       /* [n_out, d] */
  const ga_value_id h = build_rms_norm(b, last, W_OUTPUT_NORM, BUF_H); /* h [n_out, d] */
  ga_value_id logits = build_scaled_linear(b, h, W_OUTPUT, W_NONE, cap > 0 ? 1 / cap : 1, BUF_LOGITS); /* [n_out, V] */
  if (cap > 0) logits = build_scale(b, build_act(b, GA_ACT_TANH, logits), cap);
  build_result(b, logits, POOL_NONE);
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
