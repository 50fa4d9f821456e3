#include "op/op.h"

/* True for types a weight matrix may have. */
static bool is_weight(int32_t dtype) {
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)dtype);
  return t && (t->is_quant || dtype == GA_F32 || dtype == GA_F16 || dtype == GA_BF16 || dtype == GA_E4M3);
}

static ga_status complete(ga_gemm_desc *d) {
  GA_CHECK_DIM("gemm", d->m);
  GA_CHECK_DIM("gemm", d->n);
  GA_CHECK_DIM("gemm", d->k);
  GA_REQUIRE(is_weight(d->w_dtype), GA_ERR_DTYPE, "gemm: w_dtype %s (%d) is no weight type",
             ga_dtype_name((ga_dtype)d->w_dtype), d->w_dtype);
  GA_TRY(ga_check_plain("gemm", "x_dtype", d->x_dtype));
  GA_TRY(ga_check_plain("gemm", "y_dtype", d->y_dtype));
  int32_t block = ga_dtype_info((ga_dtype)d->w_dtype)->block_elems;
  GA_REQUIRE(d->k % block == 0, GA_ERR_SHAPE, "gemm: k is %lld; %s needs a multiple of %d", (long long)d->k,
             ga_dtype_name((ga_dtype)d->w_dtype), block);
  GA_REQUIRE(d->act >= GA_ACT_NONE && d->act <= GA_ACT_GELU_ERF, GA_ERR_ARG, "gemm: act is %d; allowed: 0 to 3",
             d->act);
  GA_REQUIRE(d->flags <= (GA_GEMM_BIAS | GA_GEMM_GLU | GA_GEMM_RESIDUAL), GA_ERR_ARG, "gemm: flags 0x%x are unknown",
             d->flags);
  GA_REQUIRE(d->reserved == 0, GA_ERR_ARG, "gemm: reserved is %d; must be 0", d->reserved);
  GA_TRY(ga_complete_stride("gemm", "x_stride", d->k, &d->x_stride));
  return ga_complete_stride("gemm", "y_stride", d->n, &d->y_stride);
}

static ga_status check_io(const ga_gemm_desc *d, const ga_gemm_io *io) {
  if (d->m == 0 || d->n == 0) return GA_OK;
  GA_CHECK_PTR("gemm", io->y, "y");
  GA_CHECK_PTR("gemm", (io->x && io->w) || d->k == 0, io->x ? "w" : "x");
  GA_CHECK_PTR("gemm", io->bias || !(d->flags & GA_GEMM_BIAS), "bias");
  GA_CHECK_PTR("gemm", io->gate || !(d->flags & GA_GEMM_GLU), "gate");
  GA_CHECK_PTR("gemm", io->residual || !(d->flags & GA_GEMM_RESIDUAL), "residual");
  GA_REQUIRE(io->y != io->x && io->y != io->w, GA_ERR_ARG, "gemm: y overlaps %s", io->y == io->x ? "x" : "w");
  return GA_OK;
}

GA_DEFINE_OP(gemm);
