/* Y = residual + norm(X) * weight + bias. */
#include <math.h>

#include "ref/ref.h"
#include "verify/check/check.h"

#define NO_WEIGHT     1u /* bits of c->bits */
#define NO_BIAS       2u
#define Y_IS_X        4u
#define RESIDUAL      8u
#define Y_IS_RESIDUAL 16u

static void draw(check_case *c) {
  ga_norm_desc *d = c->desc;
  *d = (ga_norm_desc)GA_NORM_DESC_INIT;
  d->rows = check_extent(c, 0, 40);
  d->width = check_dim(c, 0, 700);
  d->x_dtype = check_dtype(c, 0);
  d->y_dtype = check_dtype(c, 1);
  d->kind = check_pick(c, 3);
  d->eps = check_pick(c, 4) ? 1e-5f : check_pick(c, 2) ? 0.0f : 1e-12f;
  d->x_stride = check_stride(c, d->width, 1);
  d->y_stride = check_pick(c, 2) ? d->x_stride : check_stride(c, d->width, 1);
  d->residual_stride = check_pick(c, 2) ? d->y_stride : check_stride(c, d->width, 1);
}

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_norm_desc *d = desc;
  check_in(a, "x", offsetof(ga_norm_io, x), d->x_dtype, d->rows, d->width, d->x_stride);
  check_arg *y = check_out(a, "y", offsetof(ga_norm_io, y), d->y_dtype, d->rows, d->width, d->y_stride);
  if (c->bits & Y_IS_X && d->y_stride == d->x_stride && d->y_dtype == d->x_dtype) y->alias = 0;
  if (!(c->bits & NO_WEIGHT)) check_in(a, "weight", offsetof(ga_norm_io, weight), GA_F32, 1, d->width, d->width);
  if (!(c->bits & NO_BIAS)) check_in(a, "bias", offsetof(ga_norm_io, bias), GA_F32, 1, d->width, d->width);
  if (!(c->bits & RESIDUAL)) return;
  if (c->bits & Y_IS_RESIDUAL && y->alias < 0 && d->residual_stride == d->y_stride) y->alias = a->n;
  check_in(a, "residual", offsetof(ga_norm_io, residual), d->y_dtype, d->rows, d->width, d->residual_stride);
}

static void oracle_types(void *desc) { ((ga_norm_desc *)desc)->y_dtype = GA_F64; }

static float plain_norm_scale(const ga_norm_desc *d, const float *x, float mean) {
  float squares = 0;
  for (int64_t i = 0; i < d->width; i++) squares += (x[i] - mean) * (x[i] - mean);
  if (d->kind == GA_NORM_L2) return 1 / fmaxf(sqrtf(squares), d->eps);
  return 1 / sqrtf(squares / (float)d->width + d->eps);
}

static ga_status plain(const ga_kernel *kernel, const void *desc, const void *io) {
  (void)kernel;
  const ga_norm_desc *d = desc;
  const ga_norm_io *a = io;
  void *p;
  ga_status status = ga_mem_alloc((size_t)d->width * sizeof(float), "row", &p);
  float *x = p;
  for (int64_t r = 0; r < d->rows && status == GA_OK; r++) {
    float mean = 0;
    for (int64_t i = 0; i < d->width; i++) x[i] = (float)ga_ref_load((ga_dtype)d->x_dtype, a->x, r * d->x_stride + i);
    for (int64_t i = 0; i < d->width && d->kind == GA_NORM_LAYER; i++) mean += x[i];
    mean /= (float)d->width;
    float scale = plain_norm_scale(d, x, d->kind == GA_NORM_LAYER ? mean : 0);
    for (int64_t i = 0; i < d->width; i++) {
      float y = (d->kind == GA_NORM_LAYER ? x[i] - mean : x[i]) * scale;
      y = y * (a->weight ? a->weight[i] : 1) + (a->bias ? a->bias[i] : 0);
      if (a->residual) y += (float)ga_ref_load((ga_dtype)d->y_dtype, a->residual, r * d->residual_stride + i);
      ga_ref_store((ga_dtype)d->y_dtype, a->y, r * d->y_stride + i, (double)y);
    }
  }
  ga_mem_free(p);
  return status;
}

/* Size of the mean in units of y, before weights: what is subtracted may be far larger than what is left. */
static double mean_size_of_row(const ga_norm_desc *d, const ga_norm_io *a, int64_t row) {
  double mean = 0, squares = 0;
  if (d->kind != GA_NORM_LAYER) return 0;
  for (int64_t k = 0; k < d->width; k++)
    mean += ga_ref_load((ga_dtype)d->x_dtype, a->x, row * d->x_stride + k) / (double)d->width;
  for (int64_t k = 0; k < d->width; k++) {
    double x = ga_ref_load((ga_dtype)d->x_dtype, a->x, row * d->x_stride + k) - mean;
    squares += x * x;
  }
  return fabs(mean) / sqrt(squares / (double)d->width + (double)d->eps);
}

/* One spacing of the output at the largest sum of the row's terms: bias and residual may cancel the rest. */
static void unit(const check_case *c, const check_arg *arg, const void *io, double *unit, int64_t n) {
  const ga_norm_desc *d = c->oracle_desc;
  const ga_norm_io *a = io;
  for (int64_t i = 0; i < n; i += d->width) {
    const double mean = mean_size_of_row(d, a, i / d->width);
    double most = 0;
    for (int64_t k = 0; k < d->width; k++) {
      double y = ga_ref_load(GA_F64, a->y, i / d->width * d->y_stride + k), b = a->bias ? (double)a->bias[k] : 0;
      const double r =
          a->residual ? ga_ref_load((ga_dtype)d->y_dtype, a->residual, i / d->width * d->residual_stride + k) : 0;
      double size = fabs(y - b - r) + fabs(b) + fabs(r) + mean * (a->weight ? fabs((double)a->weight[k]) : 1);
      if (isfinite(size)) most = fmax(most, size);
    }
    for (int64_t k = 0; k < d->width; k++) unit[i + k] = check_ulp(arg->dtype, most);
  }
}

const check_op check_norm = {
    .modes = CHECK_NORMAL | CHECK_HOSTILE,
    .specials = CHECK_INF | CHECK_NAN | CHECK_HUGE | CHECK_TINY,
    .ulps = 2,
    .draw = draw,
    .args = args,
    .oracle_types = oracle_types,
    .plain = plain,
    .unit = unit,
};
