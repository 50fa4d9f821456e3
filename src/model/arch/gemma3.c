/* Gemma 3, text (arXiv 2503.19786): embeddings scaled by sqrt(d), norms before and after each block, normalised heads,
 * one global layer after every five that see a sliding window and rotate with a base of their own. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/forward.h"

ga_status ga_arch_gemma3(ga_forward *f) {
  const ga_model *m = f->model;
  const ga_hparams *p = &m->hparams;
  f->q_stride = (int64_t)p->n_heads * p->head_dim;
  f->kv_stride = (int64_t)p->n_kv_heads * p->head_dim;
  if (fwd_begins(f))
    GA_TRY(fwd_embed(f, &m->token_embd, f->step->ids, p->embed_scale, f->x)); /* x [T, d] = sqrt(d) E[ids] */
  for (int il = f->place->first; il < f->place->end; il++) {
    const ga_layer *l = &m->layers[il];
    const bool local = p->is_local[il];
    GA_TRY(fwd_qkv(f, il));                              /* h = norm(x); q [T, Hq D], k, v [T, Hkv D] = W h */
    GA_TRY(fwd_head_rms(f, l->q_norm, l->k_norm));       /* each [D] of q and of k */
    GA_TRY(fwd_rope(f, local));                          /* q, k rotated in place */
    GA_TRY(fwd_attention(f, il, local ? p->window : 0)); /* o [T, Hq D] */
    GA_TRY(fwd_linear(f, f->o, &l->o, NULL, f->h));      /* h [T, d] = Wo o */
    GA_TRY(fwd_add_rms(f, l->post_attn_norm));           /* x [T, d] += norm(h) */
    GA_TRY(fwd_gated(f, il, GA_ACT_GELU_TANH));          /* h = norm(x); up [T, F] = gelu(Wg h) * (Wu h) */
    GA_TRY(fwd_linear(f, f->up, &l->down, NULL, f->h));  /* h [T, d] = Wd up */
    GA_TRY(fwd_add_rms(f, l->post_ffn_norm));            /* x [T, d] += norm(h) */
  }
  return fwd_logits(f); /* logits [n_out, V] */
}
