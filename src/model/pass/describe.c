/* Descriptions of a program's launches (program.h). */
#include "model/pass/fuse.h"

static const ga_weight *weight_of(const ga_model *model, const launch_product *p, int i) {
  return ga_weight_at(model, p->matrix[i].weight);
}

/* As descriptions have it: 0 for rows without gaps of `cols` elements. */
static int64_t stride_of(const ga_program *program, value_id v, int64_t cols) {
  const int64_t stride = program->places[v].stride;
  return stride == cols ? 0 : stride;
}

static bool weights_round_x(const ga_model *model, const ga_program *program, const launch_product *p) {
  return program->rounds_x && weight_of(model, p, 0)->dtype == GA_E4M3_128;
}

bool product_rounds_x(const ga_model *model, const ga_program *program, const launch *l) {
  return l->kind == LAUNCH_PRODUCT && weights_round_x(model, program, &l->as.product);
}

/* Rows of the table that round X take one product, and pay from so many rows of X on; batch-invariant ones take all. */
static bool rounds_x_at_rows(const ga_model *model, const ga_program *program, const launch_product *p, int64_t rows) {
  const bool is_one = p->norm.id == W_NONE && !p->is_gated && p->n_matrices == 1;
  return is_one && (rows > FUSED_FEW || program->is_invariant) && weights_round_x(model, program, p);
}

ga_gemm_fused_desc describe_product(const ga_model *model, const ga_program *program, const launch_product *p,
                                    int64_t rows) {
  const ga_weight *w = weight_of(model, p, 0);
  ga_gemm_fused_desc fused = GA_GEMM_FUSED_DESC_INIT;
  ga_gemm_desc *d = &fused.plain;
  d->m = rows;
  d->n = ga_weight_rows(w);
  d->k = ga_weight_cols(w);
  d->w_dtype = (int32_t)w->dtype;
  d->w_layout = (int32_t)w->layout;
  d->x_stride = stride_of(program, p->x, d->k);
  d->y_stride = stride_of(program, p->matrix[0].y, d->n);
  d->act = p->act;
  d->scale = p->scale;
  if (program->is_invariant) d->flags |= GA_GEMM_INVARIANT;
  if (rounds_x_at_rows(model, program, p, rows)) d->flags |= GA_GEMM_X_E4M3;
  if (p->norm.id != W_NONE) fused.fused |= GA_GEMM_FUSED_NORM;
  if (p->norm.id != W_NONE) fused.norm_eps = p->eps;
  if (p->add_norm.id != W_NONE)
    fused.fused |= GA_GEMM_FUSED_ADD_NORM;
  else if (p->residual != NO_VALUE)
    d->flags |= GA_GEMM_RESIDUAL;
  if (p->matrix[0].bias.id != W_NONE) d->flags |= GA_GEMM_BIAS;
  if (p->gate != NO_VALUE) d->flags |= GA_GEMM_GLU;
  if (p->is_gated) {
    fused.fused |= GA_GEMM_FUSED_GATED;
    return fused;
  }
  for (int i = 1; i < p->n_matrices; i++) {
    fused.n_more[i - 1] = ga_weight_rows(weight_of(model, p, i));
    fused.y_more_stride[i - 1] = stride_of(program, p->matrix[i].y, fused.n_more[i - 1]);
  }
  return fused;
}

ga_kv_store_fused_desc describe_store(const ga_model *model, const ga_program *program, const launch_store *s,
                                      int32_t layer, ga_dtype kv, int64_t tokens, int64_t slots) {
  const ga_hparams *p = &model->hparams;
  const ga_heads heads = ga_heads_of(p, layer);
  ga_kv_store_fused_desc d = GA_KV_STORE_FUSED_DESC_INIT;
  d.plain.tokens = tokens;
  d.plain.slots = slots;
  d.plain.k_stride = stride_of(program, s->k, ga_weight_dim(p, DIM_K, layer));
  d.plain.v_stride = stride_of(program, s->v, ga_weight_dim(p, DIM_V, layer));
  d.plain.heads = heads.n_kv;
  d.plain.head_dim = heads.dim;
  d.plain.v_dim = heads.v_dim;
  d.plain.kv_dtype = (int32_t)kv;
  if (!s->rotates) return d;
  d.rot_dim = heads.rot_dim;
  d.pairs = p->rope_pairs;
  d.q_heads = p->n_heads;
  d.q_stride = stride_of(program, s->q_rotated, ga_weight_dim(p, DIM_Q, layer));
  d.magnitude = model->rope_magnitude[s->is_local ? ROPE_LOCAL : ROPE_GLOBAL];
  d.head_norm = s->q_norm.id != W_NONE;
  d.norm_eps = s->eps;
  return d;
}
