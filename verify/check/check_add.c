/* Y = scale * X + B. The worked example: read it with check.h. */
#include <math.h>

#include "ref/ref.h"
#include "verify/check/check.h"

#define NO_B   1u /* bits of c->bits */
#define Y_IS_X 2u
#define Y_IS_B 4u

static void draw(check_case *c) {
  ga_add_desc *d = c->desc;
  *d = (ga_add_desc)GA_ADD_DESC_INIT;
  d->rows = check_extent(c, 0, 40);
  d->width = check_dim(c, 0, 700);
  d->dtype = check_dtype(c, 0);
  d->b_rows = check_pick(c, 2) ? 1 : d->rows;
  d->scale = check_factor(c);
  d->x_stride = check_stride(c, d->width, 1);
  d->b_stride = check_stride(c, d->width, 1);
  d->factor_stride = check_pick(c, 2) ? check_stride(c, 1, 1) : 0;
  d->y_stride = check_pick(c, 2) ? d->x_stride : check_stride(c, d->width, 1);
}

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_add_desc *d = desc;
  check_in(a, "x", offsetof(ga_add_io, x), d->dtype, d->rows, d->width, d->x_stride);
  check_arg *y = check_out(a, "y", offsetof(ga_add_io, y), d->dtype, d->rows, d->width, d->y_stride);
  if (c->bits & Y_IS_X && d->y_stride == d->x_stride) y->alias = 0;
  if (!(c->bits & NO_B)) {
    check_in(a, "b", offsetof(ga_add_io, b), d->dtype, d->b_rows, d->width, d->b_stride);
    if (c->bits & Y_IS_B && y->alias < 0 && d->y_stride == d->b_stride && d->b_rows == d->rows) y->alias = 2;
  }
  if (d->factor_stride) check_in(a, "factors", offsetof(ga_add_io, factors), GA_F32, d->rows, 1, d->factor_stride);
}

static void oracle_types(void *desc) { ((ga_add_desc *)desc)->dtype = GA_F64; }

static ga_status plain(const ga_kernel *kernel, const void *desc, const void *io) {
  (void)kernel;
  const ga_add_desc *d = desc;
  const ga_add_io *a = io;
  ga_dtype t = (ga_dtype)d->dtype;
  for (int64_t r = 0; r < d->rows; r++)
    for (int64_t i = 0; i < d->width; i++) {
      float x = d->scale * (d->factor_stride ? a->factors[r * d->factor_stride] : 1.0f) *
                (float)ga_ref_load(t, a->x, r * d->x_stride + i);
      float b = a->b ? (float)ga_ref_load(t, a->b, (d->b_rows == 1 ? 0 : r) * d->b_stride + i) : 0.0f;
      ga_ref_store(t, a->y, r * d->y_stride + i, (double)(x + b));
    }
  return GA_OK;
}

/* One spacing of the output at the size of the two terms: their sum may be small. */
static void unit(const check_case *c, const check_arg *y, const void *io, double *unit, int64_t n) {
  const ga_add_desc *d = c->oracle_desc;
  const ga_add_io *a = io;
  for (int64_t i = 0; i < n; i++) {
    int64_t r = i / d->width, col = i % d->width;
    double factor = d->factor_stride ? ga_ref_load(GA_F32, a->factors, r * d->factor_stride) : 1;
    double x = (double)d->scale * factor * ga_ref_load(GA_F64, a->x, r * d->x_stride + col);
    double b = a->b ? ga_ref_load(GA_F64, a->b, (d->b_rows == 1 ? 0 : r) * d->b_stride + col) : 0;
    unit[i] = check_ulp(y->dtype, fabs(x) + fabs(b));
  }
}

const check_op check_add = {
    .modes = CHECK_EXACT | CHECK_NORMAL | CHECK_HOSTILE,
    .specials = CHECK_INF | CHECK_NAN | CHECK_HUGE | CHECK_TINY,
    .ulps = 1,
    .draw = draw,
    .args = args,
    .oracle_types = oracle_types,
    .plain = plain,
    .unit = unit,
};
