#include "model/fuse.h"

static const ga_weight *weight_of_op(const ga_model *model, const fused_op *op, int i) {
  return ga_weight_at(model, (weight_ref){op->matrix[i].weight, op->layer});
}

static int64_t stride_of(const fused_rows *r) { return r->stride == r->cols ? 0 : r->stride; }

bool fused_rounds_x(const ga_model *model, const fused_op *op) {
  return op->kind == FUSED_PRODUCT && op->rounds_x && weight_of_op(model, op, 0)->dtype == GA_E4M3_128;
}

/* Rows of the table that round X take one product, and pay from so many rows of X on; batch-invariant ones take all. */
static bool rounds_x_of(const ga_model *model, const fused_op *op, int64_t rows) {
  const bool is_one = op->norm == W_NONE && !op->is_gated && op->n_matrices == 1;
  return is_one && (rows > FUSED_FEW || op->is_invariant) && fused_rounds_x(model, op);
}

ga_gemm_fused_desc fused_gemm_desc(const ga_model *model, const fused_op *op, int64_t rows) {
  const ga_weight *w = weight_of_op(model, op, 0);
  ga_gemm_fused_desc fused = GA_GEMM_FUSED_DESC_INIT;
  ga_gemm_desc *d = &fused.plain;
  d->m = rows;
  d->n = ga_weight_rows(w);
  d->k = ga_weight_cols(w);
  d->w_dtype = (int32_t)w->dtype;
  d->w_layout = (int32_t)w->layout;
  d->x_stride = stride_of(&op->x);
  d->y_stride = stride_of(&op->matrix[0].y);
  d->act = op->act;
  d->scale = op->scale;
  if (op->is_invariant) d->flags |= GA_GEMM_INVARIANT;
  if (rounds_x_of(model, op, rows)) d->flags |= GA_GEMM_X_E4M3;
  if (op->norm != W_NONE) fused.fused |= GA_GEMM_FUSED_NORM;
  if (op->norm != W_NONE) fused.norm_eps = op->eps;
  if (op->add_norm != W_NONE)
    fused.fused |= GA_GEMM_FUSED_ADD_NORM;
  else if (op->residual.is_set)
    d->flags |= GA_GEMM_RESIDUAL;
  if (op->matrix[0].bias != W_NONE) d->flags |= GA_GEMM_BIAS;
  if (op->gate.is_set) d->flags |= GA_GEMM_GLU;
  if (op->is_gated) {
    fused.fused |= GA_GEMM_FUSED_GATED;
    return fused;
  }
  for (int i = 1; i < op->n_matrices; i++) {
    fused.n_more[i - 1] = ga_weight_rows(weight_of_op(model, op, i));
    fused.y_more_stride[i - 1] = stride_of(&op->matrix[i].y);
  }
  return fused;
}

ga_kv_store_fused_desc fused_store_desc(const ga_model *model, const fused_op *op, ga_dtype kv, int64_t tokens,
                                        int64_t slots) {
  const ga_hparams *p = &model->hparams;
  ga_kv_store_fused_desc d = GA_KV_STORE_FUSED_DESC_INIT;
  d.plain.tokens = tokens;
  d.plain.slots = slots;
  d.plain.k_stride = stride_of(&op->k);
  d.plain.v_stride = stride_of(&op->v);
  d.plain.heads = p->n_kv_heads;
  d.plain.head_dim = p->head_dim;
  d.plain.v_dim = p->v_dim;
  d.plain.kv_dtype = (int32_t)kv;
  if (!op->rotates) return d;
  d.rot_dim = p->rot_dim;
  d.pairs = p->rope_pairs;
  d.q_heads = p->n_heads;
  d.q_stride = stride_of(&op->x);
  d.magnitude = model->rope_magnitude[op->local ? ROPE_LOCAL : ROPE_GLOBAL];
  d.head_norm = op->q_norm != W_NONE;
  d.norm_eps = op->eps;
  return d;
}
