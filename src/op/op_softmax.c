#include "op/op.h"

static ga_status complete(ga_softmax_desc *d) {
  GA_TRY(ga_softmax_complete_fields(d));
  if (d->width == 0) d->rows = 0; /* see op_norm.c */
  GA_TRY(ga_complete_rows("softmax", "x_stride", d->rows, d->width, &d->x_stride));
  return ga_complete_rows("softmax", "y_stride", d->rows, d->width, &d->y_stride);
}

static ga_status check_io(const ga_softmax_desc *d, const ga_softmax_io *io) {
  if (d->rows == 0 || d->width == 0) return GA_OK;
  GA_CHECK_AT("softmax", io->x, GA_F32, "x");
  GA_CHECK_AT("softmax", io->y, GA_F32, "y");
  return GA_OK;
}

GA_DEFINE_OP(softmax);
