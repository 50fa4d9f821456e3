#include "op/op.h"

static ga_status complete(ga_add_desc *d) {
  GA_TRY(ga_add_complete_fields(d));
  if (d->b_rows == 0) d->b_rows = d->rows;
  GA_REQUIRE(d->b_rows == d->rows || d->b_rows == 1, GA_ERR_SHAPE, "add: b_rows is %lld; must be 1 or rows (%lld)",
             (long long)d->b_rows, (long long)d->rows);
  if (d->width == 0) d->rows = 0; /* see op_norm.c */
  GA_TRY(ga_complete_rows("add", "x_stride", d->rows, d->width, &d->x_stride));
  GA_TRY(ga_complete_rows("add", "b_stride", d->b_rows, d->width, &d->b_stride));
  if (d->factor_stride && d->rows) GA_TRY(ga_complete_rows("add", "factor_stride", d->rows, 1, &d->factor_stride));
  return ga_complete_rows("add", "y_stride", d->rows, d->width, &d->y_stride);
}

static ga_status check_io(const ga_add_desc *d, const ga_add_io *io) {
  if (d->rows == 0 || d->width == 0) return GA_OK;
  GA_CHECK_AT("add", io->x, d->dtype, "x");
  GA_CHECK_AT("add", io->y, d->dtype, "y");
  GA_CHECK_ALIGN("add", io->b, d->dtype, "b");
  if (d->factor_stride) GA_CHECK_AT("add", io->factors, GA_F32, "factors");
  return GA_OK;
}

GA_DEFINE_OP(add);
