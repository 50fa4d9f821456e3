/* Y = act(X), or act(X) * G. */
#include <math.h>

#include "ref/ref.h"
#include "verify/check/check.h"

#define NO_G   1u /* bits of c->bits */
#define Y_IS_X 2u
#define Y_IS_G 4u

static void draw(check_case *c) {
  ga_act_desc *d = c->desc;
  *d = (ga_act_desc)GA_ACT_DESC_INIT;
  d->rows = check_extent(c, 0, 40);
  d->width = check_dim(c, 0, 700);
  d->dtype = check_dtype(c, 0);
  d->act = check_pick(c, 6);
  d->x_stride = check_stride(c, d->width, 1);
  d->g_stride = check_stride(c, d->width, 1);
  d->y_stride = check_pick(c, 2) ? d->x_stride : check_stride(c, d->width, 1);
}

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_act_desc *d = desc;
  check_in(a, "x", offsetof(ga_act_io, x), d->dtype, d->rows, d->width, d->x_stride);
  check_arg *y = check_out(a, "y", offsetof(ga_act_io, y), d->dtype, d->rows, d->width, d->y_stride);
  if (c->bits & Y_IS_X && d->y_stride == d->x_stride) y->alias = 0;
  if (c->bits & NO_G) return;
  check_in(a, "g", offsetof(ga_act_io, g), d->dtype, d->rows, d->width, d->g_stride);
  if (c->bits & Y_IS_G && y->alias < 0 && d->y_stride == d->g_stride) y->alias = 2;
}

static void oracle_types(void *desc) { ((ga_act_desc *)desc)->dtype = GA_F64; }

static float textbook(int act, float x) {
  switch (act) {
  case GA_ACT_SILU: return x / (1 + expf(-x));
  case GA_ACT_GELU_TANH: return 0.5f * x * (1 + tanhf(0.797884561f /* sqrt(2 / pi) */ * (x + 0.044715f * x * x * x)));
  case GA_ACT_GELU_ERF: return 0.5f * x * (1 + erff(x * 0.707106781f /* 1 / sqrt(2) */));
  case GA_ACT_RELU2: return isnan(x) ? x : x > 0 ? x * x : 0;
  case GA_ACT_TANH: return tanhf(x);
  default: return x;
  }
}

static ga_status plain(const ga_kernel *kernel, const void *desc, const void *io) {
  (void)kernel;
  const ga_act_desc *d = desc;
  const ga_act_io *a = io;
  ga_dtype t = (ga_dtype)d->dtype;
  for (int64_t r = 0; r < d->rows; r++)
    for (int64_t i = 0; i < d->width; i++) {
      float y = textbook(d->act, (float)ga_ref_load(t, a->x, r * d->x_stride + i));
      if (a->g) y *= (float)ga_ref_load(t, a->g, r * d->g_stride + i);
      ga_ref_store(t, a->y, r * d->y_stride + i, (double)y);
    }
  return GA_OK;
}

const check_op check_act = {
    .modes = CHECK_NORMAL | CHECK_HOSTILE,
    .specials = CHECK_INF | CHECK_NAN | CHECK_HUGE | CHECK_TINY,
    .ulps = 6,
    .draw = draw,
    .args = args,
    .oracle_types = oracle_types,
    .plain = plain,
};
