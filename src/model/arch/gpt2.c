/* GPT-2 (Radford et al., 2019): learned positions, layer norms with bias, one matrix for q, k and v, tied head. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/forward.h"

ga_status ga_arch_gpt2(ga_forward *f) {
  const ga_model *m = f->model;
  const ga_hparams *p = &m->hparams;
  const int64_t q = (int64_t)p->n_heads * p->head_dim, k = (int64_t)p->n_kv_heads * p->head_dim;
  f->q_stride = f->kv_stride = q + k + (int64_t)p->n_kv_heads * p->v_dim; /* rows of the fused block */
  f->k = f->q + q;
  f->v = f->k + k;
  if (fwd_begins(f)) {
    GA_TRY(fwd_embed(f, &m->token_embd, f->step->ids, 1, f->x));          /* x [T, d] = E[ids] */
    GA_TRY(fwd_embed(f, &m->position_embd, f->step->positions, 1, f->h)); /* h [T, d] = P[positions] */
    GA_TRY(fwd_add(f, f->x, f->h, f->x));                                 /* x [T, d] */
  }
  for (int il = f->place->first; il < f->place->end; il++) {
    const ga_layer *l = &m->layers[il];
    GA_TRY(fwd_layer_norm(f, f->x, l->attn_norm, l->attn_norm_b, f->h));                         /* h [T, d] */
    GA_TRY(fwd_linear(f, f->h, &l->qkv, &(fwd_epilogue){.bias = l->qkv_b}, f->q));               /* q|k|v [T, 3 d] */
    GA_TRY(fwd_attention(f, il, 0));                                                             /* o [T, d] */
    GA_TRY(fwd_linear(f, f->o, &l->o, &(fwd_epilogue){.bias = l->o_b, .residual = f->x}, f->x)); /* x [T, d] += Wo o */
    GA_TRY(fwd_layer_norm(f, f->x, l->ffn_norm, l->ffn_norm_b, f->h));                           /* h [T, d] */
    GA_TRY(
        fwd_linear(f, f->h, &l->up, &(fwd_epilogue){.bias = l->up_b, .act = GA_ACT_GELU_TANH}, f->up)); /* up [T, F] */
    GA_TRY(fwd_linear(f, f->up, &l->down, &(fwd_epilogue){.bias = l->down_b, .residual = f->x}, f->x)); /* x += Wd up */
  }
  return fwd_logits(f); /* logits [n_out, V] */
}
