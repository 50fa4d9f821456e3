#include "op/op.h"

static ga_status complete(ga_norm_desc *d) {
  GA_TRY(ga_norm_complete_fields(d));
  if (d->width == 0) d->rows = 0; /* else kernels walk over rows of nothing */
  GA_TRY(ga_complete_rows("norm", "x_stride", d->rows, d->width, &d->x_stride));
  GA_TRY(ga_complete_rows("norm", "residual_stride", d->rows, d->width, &d->residual_stride));
  return ga_complete_rows("norm", "y_stride", d->rows, d->width, &d->y_stride);
}

static ga_status check_io(const ga_norm_desc *d, const ga_norm_io *io) {
  if (d->rows == 0 || d->width == 0) return GA_OK;
  GA_CHECK_AT("norm", io->x, d->x_dtype, "x");
  GA_CHECK_AT("norm", io->y, d->y_dtype, "y");
  GA_CHECK_ALIGN("norm", io->weight, GA_F32, "weight");
  GA_CHECK_ALIGN("norm", io->bias, GA_F32, "bias");
  GA_CHECK_ALIGN("norm", io->residual, d->y_dtype, "residual");
  GA_REQUIRE(io->x != io->y || (d->x_stride == d->y_stride && d->x_dtype == d->y_dtype), GA_ERR_ARG,
             "norm: in place needs equal strides and dtypes");
  GA_REQUIRE(io->residual != io->y || d->residual_stride == d->y_stride, GA_ERR_ARG,
             "norm: onto the residual needs equal strides; residual_stride is %lld, y_stride %lld",
             (long long)d->residual_stride, (long long)d->y_stride);
  return GA_OK;
}

GA_DEFINE_OP(norm);
