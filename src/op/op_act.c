#include "op/op.h"

static ga_status complete(ga_act_desc *d) {
  GA_CHECK_DIM("act", d->rows);
  GA_CHECK_DIM("act", d->width);
  GA_TRY(ga_check_plain("act", "dtype", d->dtype));
  GA_REQUIRE(d->act >= GA_ACT_NONE && d->act <= GA_ACT_TANH, GA_ERR_ARG, "act: act is %d; allowed: 0 to 5", d->act);
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
