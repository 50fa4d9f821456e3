/* Qwen2 and Qwen2.5 (arXiv 2407.10671): Llama with biases on q, k and v. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/forward.h"

ga_status ga_arch_qwen2(ga_forward *f) {
  const ga_model *m = f->model;
  const ga_hparams *p = &m->hparams;
  f->q_stride = (int64_t)p->n_heads * p->head_dim;
  f->kv_stride = (int64_t)p->n_kv_heads * p->head_dim;
  if (fwd_begins(f)) GA_TRY(fwd_embed(f, &m->token_embd, f->step->ids, p->embed_scale, f->x)); /* x [T, d] = E[ids] */
  for (int il = f->place->first; il < f->place->end; il++) {
    const ga_layer *l = &m->layers[il];
    GA_TRY(fwd_qkv(f, il));          /* h = norm(x); q [T, Hq D], k, v [T, Hkv D] = W h */
    GA_TRY(fwd_rope(f, false));      /* q, k rotated in place */
    GA_TRY(fwd_attention(f, il, 0)); /* o [T, Hq D] */
    GA_TRY(fwd_linear(f, f->o, &l->o, &(fwd_epilogue){.residual = f->x}, f->x)); /* x [T, d] += Wo o */
    GA_TRY(fwd_gated(f, il, GA_ACT_SILU)); /* h = norm(x); up [T, F] = silu(Wg h) * (Wu h) */
    GA_TRY(fwd_linear(f, f->up, &l->down, &(fwd_epilogue){.residual = f->x}, f->x)); /* x [T, d] += Wd up */
  }
  return fwd_logits(f); /* logits [n_out, V] */
}
