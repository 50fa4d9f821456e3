/* Pairs of X turned in place. No plain evaluation: angles in f32 are wrong by far more than a kernel may be. */
#include <math.h>

#include "ref/ref.h"
#include "verify/check/check.h"

static void draw(check_case *c) {
  ga_rope_desc *d = c->desc;
  *d = (ga_rope_desc)GA_ROPE_DESC_INIT;
  d->tokens = check_extent(c, 0, 40);
  d->heads = 1 + check_pick(c, 9);
  d->head_dim = (int32_t)check_dim(c, 1, 300);
  d->rot_dim = (check_pick(c, 2) ? d->head_dim : check_pick(c, d->head_dim + 1)) / 2 * 2;
  d->pairs = check_pick(c, 2);
  d->x_dtype = check_dtype(c, 0);
  d->x_stride = check_stride(c, (int64_t)d->heads * d->head_dim, 1);
  d->magnitude = check_pick(c, 2) ? 1.0f : 1.1386294f /* 1 + 0.1 ln 4: YaRN's */;
}

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_rope_desc *d = desc;
  check_arg *x =
      check_inout(a, "x", offsetof(ga_rope_io, x), d->x_dtype, d->tokens, (int64_t)d->heads * d->head_dim, d->x_stride);
  x->n_dims = 3;
  x->dim[1] = d->heads;
  x->dim[2] = d->head_dim;
  x->stride[1] = d->head_dim;
  x->stride[2] = 1;
  check_index(a, "positions", offsetof(ga_rope_io, positions), d->tokens, 0, c->bits & 1 ? 1 << 20 : 4096);
  check_arg *f = check_in(a, "inv_freq", offsetof(ga_rope_io, inv_freq), GA_F32, 1, d->rot_dim / 2, d->rot_dim / 2);
  f->fill = CHECK_FILL_OP;
}

/* Frequencies of base 10000. */
static void fill(check_case *c, const check_arg *arg, double *values, int64_t n) {
  (void)c, (void)arg;
  for (int64_t i = 0; i < n; i++) values[i] = pow(10000, -(double)i / (double)n);
}

static void oracle_types(void *desc) { ((ga_rope_desc *)desc)->x_dtype = GA_F64; }

const check_op check_rope = {
    .modes = CHECK_NORMAL | CHECK_HOSTILE,
    .specials = CHECK_INF | CHECK_NAN | CHECK_HUGE | CHECK_TINY,
    .ulps = 4,
    .draw = draw,
    .args = args,
    .fill = fill,
    .oracle_types = oracle_types,
};
