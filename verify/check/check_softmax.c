/* Y = softmax(scale * X), or its logarithm. */
#include <math.h>

#include "verify/check/check.h"

#define Y_IS_X 1u /* bits of c->bits */
#define BANNED 2u /* some elements are -infinity, now and then a whole row */

static void draw(check_case *c) {
  ga_softmax_desc *d = c->desc;
  *d = (ga_softmax_desc)GA_SOFTMAX_DESC_INIT;
  d->rows = check_extent(c, 0, 40);
  d->width = check_dim(c, 0, 2500);
  d->scale = check_factor(c) * (check_pick(c, 8) ? 1 : -1);
  d->log = check_pick(c, 2);
  d->x_stride = check_stride(c, d->width, 1);
  d->y_stride = check_pick(c, 2) ? d->x_stride : check_stride(c, d->width, 1);
}

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_softmax_desc *d = desc;
  check_arg *x = check_in(a, "x", offsetof(ga_softmax_io, x), GA_F32, d->rows, d->width, d->x_stride);
  if (c->bits & BANNED) x->fill = CHECK_FILL_OP;
  check_arg *y = check_out(a, "y", offsetof(ga_softmax_io, y), GA_F32, d->rows, d->width, d->y_stride);
  if (c->bits & Y_IS_X && d->y_stride == d->x_stride) y->alias = 0;
}

static void fill(check_case *c, const check_arg *arg, double *values, int64_t n) {
  const int64_t width = arg->dim[arg->n_dims - 1];
  for (int64_t i = 0; i < n; i += width) {
    const bool all = check_pick(c, 4) == 0;
    for (int64_t k = i; k < i + width; k++)
      values[k] = all || check_pick(c, 3) == 0 ? -(double)INFINITY : 10 * ga_rng_normal(&c->rng);
  }
}

static ga_status plain(const ga_kernel *kernel, const void *desc, const void *io) {
  (void)kernel;
  const ga_softmax_desc *d = desc;
  const ga_softmax_io *a = io;
  for (int64_t r = 0; r < d->rows; r++) {
    const float *x = a->x + r * d->x_stride;
    float *y = a->y + r * d->y_stride, most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < d->width; i++) most = fmaxf(most, d->scale * x[i]);
    for (int64_t i = 0; i < d->width; i++) sum += expf(d->scale * x[i] - most);
    for (int64_t i = 0; i < d->width; i++) {
      float s = d->scale * x[i] - most;
      y[i] = most == -INFINITY ? (d->log ? -INFINITY : 0) : d->log ? s - logf(sum) : expf(s) / sum;
    }
  }
  return GA_OK;
}

/* Rounding scale * x moves the exponent by half a spacing of it: the unit is that of the row's largest logit. */
static void unit(const check_case *c, const check_arg *arg, const void *io, double *unit, int64_t n) {
  const ga_softmax_desc *d = c->oracle_desc;
  const ga_softmax_io *a = io;
  for (int64_t i = 0; i < n; i += d->width) {
    double most = 1, largest = 0;
    for (int64_t k = 0; k < d->width; k++) {
      double s = fabs((double)d->scale * (double)a->x[i / d->width * d->x_stride + k]);
      double y = fabs((double)a->y[i / d->width * d->y_stride + k]);
      if (isfinite(s)) most = fmax(most, s);
      if (isfinite(y)) largest = fmax(largest, y);
    }
    double size = check_ulp(arg->dtype, d->log ? most + largest : largest) * (d->log ? 1 : most);
    for (int64_t k = 0; k < d->width; k++) unit[i + k] = size;
  }
}

const check_op check_softmax = {
    .modes = CHECK_NORMAL | CHECK_HOSTILE,
    .specials = CHECK_INF | CHECK_NAN | CHECK_TINY,
    .ulps = 4,
    .draw = draw,
    .args = args,
    .fill = fill,
    .plain = plain,
    .unit = unit,
};
