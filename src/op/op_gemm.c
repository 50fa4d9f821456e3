#include "op/op.h"

/* True for types a weight matrix may have. */
static bool is_weight(int32_t dtype) {
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)dtype);
  return t && !ga_dtype_is_read_only((ga_dtype)dtype) &&
         (t->is_quant || dtype == GA_F32 || dtype == GA_F16 || dtype == GA_BF16 || dtype == GA_E4M3);
}

/* Operands of e4m3, and how they lie. */
static ga_status complete_operands(ga_gemm_desc *d) {
  const ga_dtype_traits *w = ga_dtype_info((ga_dtype)d->w_dtype);
  const bool e4m3 = d->x_dtype == GA_E4M3 && d->w_dtype == GA_E4M3;
  if (!e4m3) GA_TRY(ga_check_plain("gemm", "x_dtype (e4m3 needs w_dtype e4m3)", d->x_dtype));
  GA_REQUIRE(!d->scales || e4m3, GA_ERR_DTYPE,
             "gemm: scales is %d with x of %s and w of %s; scales are for e4m3 by e4m3", d->scales,
             ga_dtype_name((ga_dtype)d->x_dtype), w->name);
  GA_REQUIRE(!(d->flags & GA_GEMM_X_E4M3) || d->w_dtype == GA_E4M3_128, GA_ERR_DTYPE,
             "gemm: flags 0x%x: X_E4M3 needs w of e4m3_128; it is %s", d->flags, w->name);
  GA_REQUIRE(!(d->flags & GA_GEMM_X_E4M3) || !(d->flags & GA_GEMM_XT), GA_ERR_ARG,
             "gemm: flags 0x%x: X_E4M3 needs x with k contiguous, without XT", d->flags);
  const bool free = !w->is_quant && d->w_layout == GA_LAYOUT_NATIVE;
  GA_REQUIRE(free || !(d->flags & GA_GEMM_WT), GA_ERR_ARG,
             "gemm: flags 0x%x: WT needs w of a plain type in native layout; it is %s, layout %d", d->flags, w->name,
             d->w_layout);
  GA_REQUIRE(free || d->w_stride == 0 || d->w_stride == d->k, GA_ERR_SHAPE,
             "gemm: w_stride is %lld; of %s in layout %d it must be 0 or k (%lld)", (long long)d->w_stride, w->name,
             d->w_layout, (long long)d->k);
  const bool wt = d->flags & GA_GEMM_WT, xt = d->flags & GA_GEMM_XT;
  GA_TRY(ga_complete_rows("gemm", "w_stride", wt ? d->k : d->n, wt ? d->n : d->k, &d->w_stride));
  return ga_complete_rows("gemm", "x_stride", xt ? d->k : d->m, xt ? d->m : d->k, &d->x_stride);
}

/* A gate of its own, further matrices, norms of X: each leaves few other parts of the product. */
static ga_status complete_more(ga_gemm_fused_desc *f) {
  const ga_gemm_desc *d = &f->plain;
  const bool gated = f->fused & GA_GEMM_FUSED_GATED, normed = f->fused & GA_GEMM_FUSED_NORM;
  const uint32_t flags = d->flags & ~(uint32_t)GA_GEMM_INVARIANT;
  GA_REQUIRE(!gated || !flags, GA_ERR_ARG, "gemm: flags 0x%x with GATED; must be 0", d->flags);
  for (int i = 0; i < GA_GEMM_MORE; i++) {
    GA_REQUIRE(f->n_more[i] >= 0 && f->n_more[i] <= GA_DIM_MAX, GA_ERR_SHAPE,
               "gemm: n_more[%d] is %lld; must be 0 to 2^40", i, (long long)f->n_more[i]);
    GA_REQUIRE(!f->n_more[i] || (!gated && !(flags & ~(uint32_t)GA_GEMM_BIAS)), GA_ERR_ARG,
               "gemm: n_more[%d] is %lld with flags 0x%x, fused 0x%x; only BIAS, NORM and ADD_NORM are allowed", i,
               (long long)f->n_more[i], d->flags, f->fused);
    GA_REQUIRE(!f->n_more[i] || d->n, GA_ERR_SHAPE, "gemm: n_more[%d] is %lld, but n is 0", i, (long long)f->n_more[i]);
    GA_REQUIRE(!f->n_more[i] || i == 0 || f->n_more[i - 1], GA_ERR_ARG, "gemm: n_more[%d] is %lld, but n_more[%d] is 0",
               i, (long long)f->n_more[i], i - 1);
    GA_TRY(ga_complete_rows("gemm", "y_more_stride", d->m, f->n_more[i], &f->y_more_stride[i]));
    GA_TRY(ga_check_elements("gemm", "w_more", f->n_more[i], d->k, 1, 1));
  }
  GA_REQUIRE(normed ? f->norm_eps >= 0 && isfinite(f->norm_eps) : f->norm_eps == 0, GA_ERR_ARG,
             "gemm: norm_eps is %g; must be %s", (double)f->norm_eps,
             normed ? "finite and not negative" : "0 without NORM");
  GA_REQUIRE(!(f->fused & GA_GEMM_FUSED_ADD_NORM) || (normed && d->x_dtype == GA_F32 && d->n), GA_ERR_ARG,
             "gemm: fused 0x%x with x of %s and n %lld: ADD_NORM goes with NORM, x of f32 and n of at least 1",
             f->fused, ga_dtype_name((ga_dtype)d->x_dtype), (long long)d->n);
  const bool as_stored = !(d->flags & (GA_GEMM_XT | GA_GEMM_WT)) && (d->w_stride == 0 || d->w_stride == d->k);
  GA_REQUIRE(!normed || !(d->flags & GA_GEMM_X_E4M3), GA_ERR_ARG, "gemm: flags 0x%x: X_E4M3 does not go with NORM",
             d->flags);
  GA_REQUIRE((!gated && !normed && !f->n_more[0]) || (as_stored && !d->scales), GA_ERR_ARG,
             "gemm: flags 0x%x, scales %d, w_stride %lld, n_more[0] %lld: XT, WT, scales and w_stride go with neither "
             "NORM, GATED nor n_more",
             d->flags, d->scales, (long long)d->w_stride, (long long)f->n_more[0]);
  return GA_OK;
}

static ga_status complete(ga_gemm_fused_desc *fused) {
  ga_gemm_desc *d = &fused->plain;
  GA_TRY(ga_gemm_complete_fields(fused));
  GA_REQUIRE(is_weight(d->w_dtype), GA_ERR_DTYPE, "gemm: w_dtype %s (%d) is no weight type",
             ga_dtype_name((ga_dtype)d->w_dtype), d->w_dtype);
  int32_t block = ga_dtype_info((ga_dtype)d->w_dtype)->block_elems;
  GA_REQUIRE(d->k % block == 0, GA_ERR_SHAPE, "gemm: k is %lld; %s needs a multiple of %d", (long long)d->k,
             ga_dtype_name((ga_dtype)d->w_dtype), block);
  GA_REQUIRE(fused->fused < 2 * GA_GEMM_FUSED_ADD_NORM, GA_ERR_ARG, "gemm: fused is 0x%x; allowed: bits of 0x%x",
             fused->fused, 2 * GA_GEMM_FUSED_ADD_NORM - 1);
  GA_TRY(complete_more(fused));
  GA_TRY(complete_operands(d));
  return ga_complete_rows("gemm", "y_stride", d->m, d->n, &d->y_stride);
}

/* With ADD_NORM all of a launch reads x, add and the norms while some of it writes already. */
static ga_status check_apart(const char *name, const void *written, const ga_gemm_fused_io *io) {
  const void *const read[] = {io->plain.x, io->add, io->norm, io->add_norm};
  static const char *const names[] = {"x", "add", "norm", "add_norm"};
  for (size_t i = 0; i < GA_COUNT_OF(read); i++)
    GA_REQUIRE(!written || written != read[i], GA_ERR_ARG, "gemm: %s overlaps %s", name, names[i]);
  return GA_OK;
}

static ga_status check_more(const ga_gemm_fused_desc *d, const ga_gemm_fused_io *io) {
  GA_CHECK_PTR("gemm", io->norm || !(d->fused & GA_GEMM_FUSED_NORM) || d->plain.k == 0, "norm");
  if (d->fused & GA_GEMM_FUSED_ADD_NORM && d->plain.k) {
    GA_CHECK_PTR("gemm", io->add, "add");
    GA_CHECK_PTR("gemm", io->add_norm, "add_norm");
    GA_TRY(check_apart("sum", io->sum, io));
    GA_TRY(check_apart("y", io->plain.y, io));
    for (int i = 0; i < GA_GEMM_MORE && d->n_more[i]; i++) GA_TRY(check_apart("y_more", io->y_more[i], io));
    GA_REQUIRE(!io->sum || (io->sum != io->plain.y && io->sum != io->plain.residual), GA_ERR_ARG,
               "gemm: sum overlaps %s", io->sum == io->plain.y ? "y" : "residual");
  }
  GA_CHECK_PTR("gemm", io->w_more[0] || !(d->fused & GA_GEMM_FUSED_GATED) || d->plain.k == 0, "w_more[0]");
  for (int i = 0; i < GA_GEMM_MORE; i++) {
    if (!d->n_more[i]) continue;
    GA_CHECK_PTR("gemm", io->y_more[i], "y_more");
    GA_CHECK_PTR("gemm", io->w_more[i] || d->plain.k == 0, "w_more");
    GA_CHECK_PTR("gemm", io->bias_more[i] || !(d->plain.flags & GA_GEMM_BIAS), "bias_more");
  }
  return GA_OK;
}

/* A misaligned address, named. */
static GA_NOINLINE ga_status refuse_misaligned(const ga_gemm_fused_desc *fused, const ga_gemm_fused_io *io) {
  const ga_gemm_desc *d = &fused->plain;
  GA_CHECK_ALIGN("gemm", io->plain.x, d->x_dtype, "x");
  GA_CHECK_ALIGN("gemm", io->plain.w, d->w_dtype, "w");
  GA_CHECK_ALIGN("gemm", io->plain.y, d->y_dtype, "y");
  GA_CHECK_ALIGN("gemm", io->plain.bias, GA_F32, "bias");
  GA_CHECK_ALIGN("gemm", io->plain.gate, d->y_dtype, "gate");
  GA_CHECK_ALIGN("gemm", io->plain.residual, d->y_dtype, "residual");
  GA_CHECK_ALIGN("gemm", io->plain.x_scale, GA_F32, "x_scale");
  GA_CHECK_ALIGN("gemm", io->plain.w_scale, GA_F32, "w_scale");
  if (!fused->fused && !fused->n_more[0]) return GA_OK;
  GA_CHECK_ALIGN("gemm", io->norm, GA_F32, "norm");
  GA_CHECK_ALIGN("gemm", io->add, GA_F32, "add");
  GA_CHECK_ALIGN("gemm", io->add_norm, GA_F32, "add_norm");
  GA_CHECK_ALIGN("gemm", io->sum, GA_F32, "sum");
  for (int i = 0; i < GA_GEMM_MORE; i++) {
    GA_CHECK_ALIGN("gemm", io->w_more[i], d->w_dtype, "w_more");
    GA_CHECK_ALIGN("gemm", io->y_more[i], d->y_dtype, "y_more");
    GA_CHECK_ALIGN("gemm", io->bias_more[i], GA_F32, "bias_more");
  }
  return GA_OK;
}

#define BITS(p) ((uintptr_t)(p))

/* Every call pays for this: multiples of 4, which suit every type, are recognised all at once. */
static ga_status check_operands_aligned(const ga_gemm_fused_desc *fused, const ga_gemm_fused_io *io) {
  const ga_gemm_io *p = &io->plain;
  uintptr_t bits = BITS(p->x) | BITS(p->w) | BITS(p->y) | BITS(p->bias) | BITS(p->gate) | BITS(p->residual) |
                   BITS(p->x_scale) | BITS(p->w_scale);
  if (fused->fused || fused->n_more[0]) {
    bits |= BITS(io->norm) | BITS(io->add) | BITS(io->add_norm) | BITS(io->sum);
    for (int i = 0; i < GA_GEMM_MORE; i++) bits |= BITS(io->w_more[i]) | BITS(io->y_more[i]) | BITS(io->bias_more[i]);
  }
  return GA_LIKELY(bits % sizeof(float) == 0) ? GA_OK : refuse_misaligned(fused, io);
}

static ga_status check_io(const ga_gemm_fused_desc *fused, const ga_gemm_fused_io *fused_io) {
  const ga_gemm_desc *d = &fused->plain;
  const ga_gemm_io *io = &fused_io->plain;
  if (d->m == 0 || d->n == 0) return GA_OK;
  GA_TRY(check_more(fused, fused_io));
  GA_CHECK_PTR("gemm", io->y, "y");
  GA_CHECK_PTR("gemm", (io->x && io->w) || d->k == 0, io->x ? "w" : "x");
  GA_CHECK_PTR("gemm", io->bias || !(d->flags & GA_GEMM_BIAS), "bias");
  GA_CHECK_PTR("gemm", io->gate || !(d->flags & GA_GEMM_GLU), "gate");
  GA_CHECK_PTR("gemm", io->x_scale || !d->scales, "x_scale");
  GA_CHECK_PTR("gemm", io->w_scale || !d->scales, "w_scale");
  GA_CHECK_PTR("gemm", io->residual || !(d->flags & GA_GEMM_RESIDUAL), "residual");
  GA_REQUIRE(io->y != io->x && io->y != io->w, GA_ERR_ARG, "gemm: y overlaps %s", io->y == io->x ? "x" : "w");
  return check_operands_aligned(fused, fused_io);
}

GA_DEFINE_FUSED_OP(gemm);
