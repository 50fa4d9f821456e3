/* Tokens, equal to the oracle's for the same generator state. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "verify/check/check.h"

#define N_BIAS        (c->bits & 1 ? (int64_t)(c->bits >> 8 & 15) : 0)
#define N_HISTORY     (c->bits & 2 ? (int64_t)(c->bits >> 12 & 127) : 0)
#define N_ADVANCE     (c->bits & 8 ? 3 : 0)
#define HAS_SEQUENCE  (c->bits & 16)
#define SEQUENCE_ROOM 90 /* tokens that may be there, of a row */
#define NO_LOGPROB    4u
#define BIAS_ROOM     12 /* entries of a row */
#define ROW_WORDS     ((int)(sizeof(ga_sample_row) / sizeof(int32_t)))

static float share(check_case *c) { return check_pick(c, 2) ? 1.0f : 0.05f + 0.95f * (float)ga_rng_unit(&c->rng); }

static void draw_chain(check_case *c, ga_sample_desc *d) {
  d->temperature = check_pick(c, 4) ? 0.05f + 2 * (float)ga_rng_unit(&c->rng) : 0;
  d->top_k = check_pick(c, 2) ? 0 : 1 + check_pick(c, check_pick(c, 2) ? 50 : 4000);
  d->top_p = share(c);
  d->typical_p = check_pick(c, 3) ? 1 : share(c);
  d->min_p = check_pick(c, 2) ? 0 : 0.3f * (float)ga_rng_unit(&c->rng);
  d->repetition_penalty = check_pick(c, 2) ? 1 : 0.8f + (float)ga_rng_unit(&c->rng);
  d->presence_penalty = check_pick(c, 2) ? 0 : (float)ga_rng_normal(&c->rng);
  d->frequency_penalty = check_pick(c, 2) ? 0 : (float)ga_rng_normal(&c->rng);
}

static void draw(check_case *c) {
  ga_sample_fused_desc *d = c->desc;
  *d = (ga_sample_fused_desc)GA_SAMPLE_FUSED_DESC_INIT;
  d->plain.vocab = check_pick(c, 16) ? check_dim(c, 1, 3000) : check_dim(c, 1, 60000);
  d->rows = check_pick(c, 2) ? 0 : (int32_t)check_dim(c, 1, 7);
  if (d->rows)
    d->logits_stride = check_stride(c, d->plain.vocab, 1);
  else
    draw_chain(c, &d->plain);
}

static void rng_args(check_args *a, int64_t rows) {
  check_arg *rng = check_inout(a, "rng", offsetof(ga_sample_fused_io, plain.rng), GA_I32, 1, 8 * rows, 8 * rows);
  rng->fill = CHECK_FILL_INDEX;
  rng->align = 8;
  rng->lo = -0x7fffffff;
  rng->hi = 0x7fffffff;
}

/* Each row has SEQUENCE_ROOM + 1 places of the sequence, BIAS_ROOM biases and a mask of its own. */
static void row_args(const check_case *c, const ga_sample_fused_desc *d, check_args *a) {
  const int64_t n = d->rows, words = ga_div_up(d->plain.vocab, 32);
  check_in(a, "logits", offsetof(ga_sample_fused_io, plain.logits), GA_F32, n, d->plain.vocab, d->logits_stride);
  check_index(a, "bias", offsetof(ga_sample_fused_io, plain.bias), 2 * BIAS_ROOM * n, 0, d->plain.vocab)->fill =
      CHECK_FILL_OP;
  rng_args(a, n);
  check_out(a, "id", offsetof(ga_sample_fused_io, plain.id), GA_I32, 1, n, n);
  if (!(c->bits & NO_LOGPROB)) check_out(a, "logprob", offsetof(ga_sample_fused_io, plain.logprob), GA_F32, 1, n, n);
  check_arg *sequence = check_inout(a, "sequence", offsetof(ga_sample_fused_io, sequence), GA_I32, 1,
                                    (SEQUENCE_ROOM + 1) * n, (SEQUENCE_ROOM + 1) * n);
  sequence->fill = CHECK_FILL_INDEX;
  sequence->lo = -2;
  sequence->hi = (int32_t)ga_min_i64(d->plain.vocab + 2, INT32_MAX);
  check_index(a, "mask", offsetof(ga_sample_fused_io, mask), words * n, 0, 1)->fill = CHECK_FILL_OP;
  check_arg *rows = check_index(a, "rows", offsetof(ga_sample_fused_io, rows), ROW_WORDS * n, 0, n);
  rows->fill = CHECK_FILL_OP;
  rows->align = 8;
}

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_sample_desc *d = desc;
  if (((const ga_sample_fused_desc *)desc)->rows) {
    row_args(c, desc, a);
    return;
  }
  ga_sample_fused_io *io = (ga_sample_fused_io *)(void *)a->io;
  check_in(a, "logits", offsetof(ga_sample_fused_io, plain.logits), GA_F32, 1, d->vocab, d->vocab);
  check_index(a, "history", offsetof(ga_sample_fused_io, plain.history), N_HISTORY, -2, d->vocab + 2);
  check_index(a, "bias", offsetof(ga_sample_fused_io, plain.bias), 2 * N_BIAS, 0, d->vocab)->fill = CHECK_FILL_OP;
  rng_args(a, 1);
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

static int32_t share_row(check_case *c, int64_t i) { return check_pick(c, 8) ? (int32_t)i : -1; }

/* Row i of parameters; its logits are any row's. */
static ga_sample_row draw_row(check_case *c, int32_t i, int32_t rows) {
  ga_sample_desc d = GA_SAMPLE_DESC_INIT;
  d.vocab = ((const ga_sample_fused_desc *)c->desc)->plain.vocab;
  draw_chain(c, &d);
  ga_sample_row r = {.sequence = -1,
                     .logits = share_row(c, check_pick(c, rows)),
                     .mask = check_pick(c, 2) ? i : -1,
                     .top_k = d.top_k,
                     .temperature = d.temperature,
                     .top_p = d.top_p,
                     .min_p = d.min_p,
                     .typical_p = d.typical_p,
                     .repetition_penalty = d.repetition_penalty,
                     .presence_penalty = d.presence_penalty,
                     .frequency_penalty = d.frequency_penalty};
  if (check_pick(c, 2)) {
    r.n_history = check_pick(c, SEQUENCE_ROOM + 1);
    r.sequence = i * (SEQUENCE_ROOM + 1) + r.n_history + check_pick(c, SEQUENCE_ROOM + 1 - r.n_history);
  }
  if (check_pick(c, 2)) {
    r.bias = i * BIAS_ROOM + check_pick(c, 3);
    r.n_bias = check_pick(c, BIAS_ROOM - 2);
  }
  return r;
}

static void fill_rows(check_case *c, double *values, int64_t n) {
  for (int64_t i = 0; i < n / ROW_WORDS; i++) {
    int32_t words[ROW_WORDS];
    const ga_sample_row r = draw_row(c, (int32_t)i, (int32_t)(n / ROW_WORDS));
    memcpy(words, &r, sizeof words);
    for (int w = 0; w < ROW_WORDS; w++) values[ROW_WORDS * i + w] = words[w];
  }
}

/* Rows of which most, few or no tokens are allowed. */
static void fill_mask(check_case *c, double *values, int64_t n, int64_t words) {
  for (int64_t i = 0, kind = 0; i < n; i++) {
    if (i % words == 0) kind = check_pick(c, 8);
    uint64_t bits = ga_rng_u64(&c->rng);
    if (kind < 3) bits &= ga_rng_u64(&c->rng) & ga_rng_u64(&c->rng) & ga_rng_u64(&c->rng);
    values[i] = (double)(int32_t)(uint32_t)(kind ? bits : 0);
  }
}

/* Biases: pairs of an id and the bits of a float. */
static void fill(check_case *c, const check_arg *arg, double *values, int64_t n) {
  if (!strcmp(arg->name, "rows")) {
    fill_rows(c, values, n);
    return;
  }
  if (!strcmp(arg->name, "mask")) {
    fill_mask(c, values, n, ga_div_up(((const ga_sample_fused_desc *)c->desc)->plain.vocab, 32));
    return;
  }
  for (int64_t i = 0; i + 1 < n; i += 2) {
    const float bias = check_pick(c, 4) ? (float)(3 * ga_rng_normal(&c->rng)) : -INFINITY;
    values[i] = check_pick(c, (int32_t)arg->hi);
    values[i + 1] = (double)(int32_t)ga_f32_bits(bias);
  }
}

static const char *judge(const check_case *c, const check_arg *arg, const double *got, const double *want, int64_t n) {
  (void)c;
  for (int64_t i = 0; i < n; i++) {
    const bool same = got[i] == want[i] || (isnan(got[i]) && isnan(want[i]));
    if (same) continue;
    if (arg->dtype != GA_F32) return "not the oracle's";
    /* The sum is within 1e-5, the difference of two logits within two spacings of the larger. */
    if (!(fabs(got[i] - want[i]) <= 2e-5 + 1e-6 * fabs(want[i]))) return "the log-probability is off";
  }
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
