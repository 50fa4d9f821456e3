#include "op/op.h"

static ga_status complete(ga_act_desc *d) {
  GA_TRY(ga_act_complete_fields(d));
  if (d->width == 0) d->rows = 0; /* see op_norm.c */
  GA_TRY(ga_complete_rows("act", "x_stride", d->rows, d->width, &d->x_stride));
  GA_TRY(ga_complete_rows("act", "g_stride", d->rows, d->width, &d->g_stride));
  return ga_complete_rows("act", "y_stride", d->rows, d->width, &d->y_stride);
}

static ga_status check_io(const ga_act_desc *d, const ga_act_io *io) {
  if (d->rows == 0 || d->width == 0) return GA_OK;
  GA_CHECK_AT("act", io->x, d->dtype, "x");
  GA_CHECK_AT("act", io->y, d->dtype, "y");
  GA_CHECK_ALIGN("act", io->g, d->dtype, "g");
  return GA_OK;
}

GA_DEFINE_OP(act);
