/* One token, equal to the oracle's for the same generator state. */
#include <math.h>

#include "base/half.h"
#include "verify/check/check.h"

#define N_BIAS        (c->bits & 1 ? (int64_t)(c->bits >> 8 & 15) : 0)
#define N_HISTORY     (c->bits & 2 ? (int64_t)(c->bits >> 12 & 127) : 0)
#define N_ADVANCE     (c->bits & 8 ? 3 : 0)
#define HAS_SEQUENCE  (c->bits & 16)
#define SEQUENCE_ROOM 90 /* tokens that may be there */
#define NO_LOGPROB    4u

static float share(check_case *c) { return check_pick(c, 2) ? 1.0f : 0.05f + 0.95f * (float)ga_rng_unit(&c->rng); }

static void draw(check_case *c) {
  ga_sample_desc *d = c->desc;
  *d = (ga_sample_desc)GA_SAMPLE_DESC_INIT;
  d->vocab = check_pick(c, 16) ? check_dim(c, 1, 3000) : check_dim(c, 1, 60000);
  d->temperature = check_pick(c, 4) ? 0.05f + 2 * (float)ga_rng_unit(&c->rng) : 0;
  d->top_k = check_pick(c, 2) ? 0 : 1 + check_pick(c, check_pick(c, 2) ? 50 : 4000);
  d->top_p = share(c);
  d->typical_p = check_pick(c, 3) ? 1 : share(c);
  d->min_p = check_pick(c, 2) ? 0 : 0.3f * (float)ga_rng_unit(&c->rng);
  d->repetition_penalty = check_pick(c, 2) ? 1 : 0.8f + (float)ga_rng_unit(&c->rng);
  d->presence_penalty = check_pick(c, 2) ? 0 : (float)ga_rng_normal(&c->rng);
  d->frequency_penalty = check_pick(c, 2) ? 0 : (float)ga_rng_normal(&c->rng);
}

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_sample_desc *d = desc;
  ga_sample_fused_io *io = (ga_sample_fused_io *)(void *)a->io;
  check_in(a, "logits", offsetof(ga_sample_fused_io, plain.logits), GA_F32, 1, d->vocab, d->vocab);
  check_index(a, "history", offsetof(ga_sample_fused_io, plain.history), N_HISTORY, -2, d->vocab + 2);
  check_index(a, "bias", offsetof(ga_sample_fused_io, plain.bias), 2 * N_BIAS, 0, d->vocab)->fill = CHECK_FILL_OP;
  check_arg *rng = check_inout(a, "rng", offsetof(ga_sample_fused_io, plain.rng), GA_I32, 1, 8, 8);
  rng->fill = CHECK_FILL_INDEX;
  rng->align = 8;
  rng->lo = -0x7fffffff;
  rng->hi = 0x7fffffff;
  check_out(a, "id", offsetof(ga_sample_fused_io, plain.id), GA_I32, 1, 1, 1);
  if (!(c->bits & NO_LOGPROB)) check_out(a, "logprob", offsetof(ga_sample_fused_io, plain.logprob), GA_F32, 1, 1, 1);
  check_arg *advance =
      check_inout(a, "advance", offsetof(ga_sample_fused_io, advance), GA_I32, 1, N_ADVANCE, N_ADVANCE);
  advance->fill = CHECK_FILL_INDEX;
  advance->hi = 1 << 20;
  if (HAS_SEQUENCE) {
    check_arg *sequence = check_inout(a, "sequence", offsetof(ga_sample_fused_io, sequence), GA_I32, 1,
                                      SEQUENCE_ROOM + 1, SEQUENCE_ROOM + 1);
    sequence->fill = CHECK_FILL_INDEX;
    sequence->lo = -2;
    sequence->hi = (int32_t)ga_min_i64(d->vocab + 2, INT32_MAX);
    check_index(a, "n_sequence", offsetof(ga_sample_fused_io, n_sequence), 1, 0, SEQUENCE_ROOM + 1);
  }
  io->n_advance = N_ADVANCE;
  io->plain.n_history = N_HISTORY;
  io->plain.n_bias = N_BIAS;
}

/* Pairs of an id and the bits of a float. */
static void fill(check_case *c, const check_arg *arg, double *values, int64_t n) {
  for (int64_t i = 0; i + 1 < n; i += 2) {
    const float bias = check_pick(c, 4) ? (float)(3 * ga_rng_normal(&c->rng)) : -INFINITY;
    values[i] = check_pick(c, (int32_t)arg->hi);
    values[i + 1] = (double)(int32_t)ga_f32_bits(bias);
  }
}

static const char *judge(const check_case *c, const check_arg *arg, const double *got, const double *want, int64_t n) {
  (void)c;
  if (arg->dtype == GA_F32) {
    const bool same = got[0] == want[0] || (isnan(got[0]) && isnan(want[0]));
    /* The sum is within 1e-5, the difference of two logits within two spacings of the larger. */
    return same || fabs(got[0] - want[0]) <= 2e-5 + 1e-6 * fabs(want[0]) ? NULL : "the log-probability is off";
  }
  for (int64_t i = 0; i < n; i++)
    if (got[i] != want[i]) return "not the oracle's";
  return NULL;
}

const check_op check_sample = {
    .modes = CHECK_EXACT | CHECK_NORMAL | CHECK_HOSTILE,
    .specials = CHECK_INF | CHECK_NAN | CHECK_TINY,
    .draw = draw,
    .args = args,
    .fill = fill,
    .judge = judge,
};
