/* BERT and the sentence encoders made of it (arXiv 1810.04805, 1908.10084): both directions, norm after each block. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/forward.h"

ga_status ga_arch_bert(ga_forward *f) {
  const ga_model *m = f->model;
  GA_TRY(fwd_embed(f, &m->token_embd, f->step->ids, 1, f->x));          /* x [T, d] = E[ids] */
  GA_TRY(fwd_embed(f, &m->position_embd, f->step->positions, 1, f->h)); /* h [T, d] = P[positions] */
  GA_TRY(fwd_add(f, f->x, f->h, f->x));                                 /* x [T, d] */
  if (m->type_embd.data) {
    GA_TRY(fwd_embed(f, &m->type_embd, f->step->types, 1, f->h)); /* h [T, d] = types[0] */
    GA_TRY(fwd_add(f, f->x, f->h, f->x));                         /* x [T, d] */
  }
  GA_TRY(fwd_layer_norm(f, f->x, m->embd_norm, m->embd_norm_b, f->x)); /* x [T, d] */
  for (int il = f->place->first; il < f->place->end; il++) {
    const ga_layer *l = &m->layers[il];
    GA_TRY(fwd_linear(f, f->x, &l->q, &(fwd_epilogue){.bias = l->q_b}, f->q));                   /* q [T, H D] */
    GA_TRY(fwd_linear(f, f->x, &l->k, &(fwd_epilogue){.bias = l->k_b}, f->k));                   /* k [T, H D] */
    GA_TRY(fwd_linear(f, f->x, &l->v, &(fwd_epilogue){.bias = l->v_b}, f->v));                   /* v [T, H D] */
    GA_TRY(fwd_attention_bidirectional(f));                                                      /* o [T, H D] */
    GA_TRY(fwd_linear(f, f->o, &l->o, &(fwd_epilogue){.bias = l->o_b, .residual = f->x}, f->x)); /* x [T, d] += Wo o */
    GA_TRY(fwd_layer_norm(f, f->x, l->post_attn_norm, l->post_attn_norm_b, f->x));               /* x [T, d] */
    GA_TRY(
        fwd_linear(f, f->x, &l->up, &(fwd_epilogue){.bias = l->up_b, .act = GA_ACT_GELU_ERF}, f->up));  /* up [T, F] */
    GA_TRY(fwd_linear(f, f->up, &l->down, &(fwd_epilogue){.bias = l->down_b, .residual = f->x}, f->x)); /* x += Wd up */
    GA_TRY(fwd_layer_norm(f, f->x, l->post_ffn_norm, l->post_ffn_norm_b, f->x));                        /* x [T, d] */
  }
  return GA_OK;
}
