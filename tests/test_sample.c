/* Sampling: the chain by hand, its statistics, and the CPU against the oracle over a large vocabulary. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/ctx.h"
#include "opdef/ops.h"

static ga_ctx *open_ctx(const char *name) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = name;
  o.threads = 1;
  ga_ctx *ctx;
  assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
  return ctx;
}

static int32_t sample(ga_ctx *ctx, const ga_sample_desc *d, ga_sample_io io) {
  int32_t id = -1;
  io.id = &id;
  assert_int_equal(ga_sample(ctx, d, &io, NULL), GA_OK);
  return id;
}

static void greedy(ga_ctx *ctx) {
  const float x[6] = {1, 3, NAN, 3, -INFINITY, 2}, none[2] = {-INFINITY, NAN};
  const ga_logit_bias ban[] = {{1, -INFINITY}, {99, 5}, {-1, 5}};
  const int32_t history[] = {1, 3, 3, 77, -5};
  ga_sample_desc d = GA_SAMPLE_DESC_INIT;
  d.vocab = 6;
  assert_int_equal(sample(ctx, &d, (ga_sample_io){.logits = x}), 1); /* the lower of equals */
  assert_int_equal(sample(ctx, &d, (ga_sample_io){.logits = x, .bias = ban, .n_bias = 3}), 3);
  d.frequency_penalty = 0.75f; /* 3 - 0.75, 3 - 1.5 */
  assert_int_equal(sample(ctx, &d, (ga_sample_io){.logits = x, .history = history, .n_history = 5}), 1);
  d.presence_penalty = 0.5f; /* 1.75, 1 */
  assert_int_equal(sample(ctx, &d, (ga_sample_io){.logits = x, .history = history, .n_history = 5}), 5);
  d.frequency_penalty = d.presence_penalty = 0;
  d.repetition_penalty = 1.6f; /* 3 / 1.6 < 2 */
  assert_int_equal(sample(ctx, &d, (ga_sample_io){.logits = x, .history = history, .n_history = 5}), 5);
  d.vocab = 2;
  assert_int_equal(sample(ctx, &d, (ga_sample_io){.logits = none}), 0);
}

static int32_t sample_and_advance(ga_ctx *ctx, const ga_sample_desc *d, ga_sample_fused_io io) {
  int32_t id = -1;
  io.plain.id = &id;
  assert_int_equal(ga_sample_fused(ctx, &(ga_sample_fused_desc){.plain = *d}, &io, NULL), GA_OK);
  return id;
}

/* A sequence's last tokens are the history; the token joins it, and its length may be what advances. */
static void sequence(ga_ctx *ctx) {
  const float x[4] = {1, 3, 2.5f, 0};
  int32_t tokens[5] = {0, 2, 1, -7, -7}, n = 3;
  ga_sample_desc d = GA_SAMPLE_DESC_INIT;
  d.vocab = 4;
  d.presence_penalty = 4;
  const ga_sample_fused_io io = {
      .plain = {.logits = x, .n_history = 2}, .sequence = tokens, .n_sequence = &n, .advance = &n, .n_advance = 1};
  assert_int_equal(sample_and_advance(ctx, &d, io), 0); /* sees 2, 1 */
  assert_int_equal(n, 4);
  assert_int_equal(tokens[3], 0);
  assert_int_equal(sample_and_advance(ctx, &d, io), 2); /* sees 1, 0 */
  assert_int_equal(tokens[4], 2);
  n = 1; /* fewer than n_history */
  assert_int_equal(sample_and_advance(ctx, &d, io), 1);
}

static void test_greedy(void **state) {
  (void)state;
  ga_ctx *ref = open_ctx("ref"), *cpu = open_ctx("cpu");
  greedy(ref);
  greedy(cpu);
  sequence(ref);
  sequence(cpu);
  ga_ctx_destroy(ref);
  ga_ctx_destroy(cpu);
}

/* Counts of 100 000 draws against the probabilities; -1 in p marks tokens that must not come. */
static void draws_fit(const ga_sample_desc *d, const float *x, const double *p) {
  enum { DRAWS = 100000 };
  ga_ctx *ctx = open_ctx("cpu");
  uint64_t rng[4];
  int count[8] = {0}, kinds = 0;
  double chi = 0;
  ga_sample_seed(rng, 12345);
  for (int i = 0; i < DRAWS; i++) count[sample(ctx, d, (ga_sample_io){.logits = x, .rng = rng})]++;
  for (int i = 0; i < 8; i++) {
    if (p[i] < 0) {
      assert_int_equal(count[i], 0);
      continue;
    }
    chi += (count[i] - p[i] * DRAWS) * (count[i] - p[i] * DRAWS) / (p[i] * DRAWS);
    kinds++;
  }
  /* Mean kinds - 1, variance 2 (kinds - 1); five deviations. */
  assert_true(chi < kinds - 1 + 5 * sqrt(2.0 * kinds));
  ga_ctx_destroy(ctx);
}

static void test_statistics(void **state) {
  (void)state;
  /* Probabilities 1/2, 1/4, ... 1/128, 1/128 at temperature 1. */
  float x[8];
  double p[8];
  for (int i = 0; i < 8; i++) x[i] = (float)(-log(2) * (i < 7 ? i + 1 : 7));
  ga_sample_desc d = GA_SAMPLE_DESC_INIT;
  d.vocab = 8;
  d.temperature = 1;
  for (int i = 0; i < 8; i++) p[i] = exp((double)x[i]);
  draws_fit(&d, x, p);
  d.temperature = 2; /* square roots, scaled to 1 */
  double sum = 0;
  for (int i = 0; i < 8; i++) sum += p[i] = sqrt(exp((double)x[i]));
  for (int i = 0; i < 8; i++) p[i] /= sum;
  draws_fit(&d, x, p);
  d.temperature = 1;
  const double three[8] = {4.0 / 7, 2.0 / 7, 1.0 / 7, -1, -1, -1, -1, -1};
  d.top_k = 3;
  draws_fit(&d, x, three);
  d.top_k = 0;
  d.top_p = 0.8f; /* 1/2 + 1/4 < 0.8 */
  draws_fit(&d, x, three);
  d.top_p = 1;
  d.min_p = 0.2f; /* 1/4 and more of the largest */
  draws_fit(&d, x, three);
  d.min_p = 0;
  d.typical_p = 0.2f; /* the entropy is 1.98 bits: 1/4 (2 bits) is nearest */
  const double nearest[8] = {-1, 1, -1, -1, -1, -1, -1, -1};
  draws_fit(&d, x, nearest);
}

/* --- a device's shortcuts against the oracle: on the CPU here, by CUDA rows in tests/emu (GA_TEST_DEVICE) --- */

#ifndef GA_TEST_DEVICE
#define GA_TEST_DEVICE "cpu"
enum { LARGE = 262144 };
#else /* emulated: many times slower */
enum { LARGE = 40000 };
#endif
enum { PLAIN = 32 /* without typical */, SETTINGS = 44 };

typedef struct on_device {
  ga_ctx *ctx;
  float *logits;
  uint64_t *rng;
  int32_t *id;
} on_device;

static void *room(ga_ctx *ctx, size_t bytes) {
  void *p;
  assert_int_equal(ga_buffer_alloc(ctx, bytes, &p), GA_OK);
  return p;
}

static int32_t sample_there(const on_device *t, const ga_sample_desc *d, const float *x, uint64_t rng[4]) {
  int32_t id = -1;
  const ga_sample_io io = {.logits = t->logits, .rng = t->rng, .id = t->id};
  assert_int_equal(ga_copy_to_device(t->ctx, t->logits, x, LARGE * sizeof *x, NULL), GA_OK);
  assert_int_equal(ga_copy_to_device(t->ctx, t->rng, rng, 4 * sizeof *rng, NULL), GA_OK);
  if (ga_sample(t->ctx, d, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  assert_int_equal(ga_copy_to_host(t->ctx, &id, t->id, sizeof id, NULL), GA_OK);
  assert_int_equal(ga_copy_to_host(t->ctx, rng, t->rng, 4 * sizeof *rng, NULL), GA_OK);
  return id;
}

static bool is_whole; /* all settings, not three of seven */

/* Every path of the shortcuts, from peaked to flat logits, each setting with few and with many tokens kept. */
static void test_large_vocabulary(void **state) {
  (void)state;
  ga_ctx *ref = open_ctx("ref"), *ctx = open_ctx(GA_TEST_DEVICE);
  const on_device there = {ctx, room(ctx, LARGE * sizeof(float)), room(ctx, 32), room(ctx, 4)};
  float *x = malloc(LARGE * sizeof *x);
  assert_non_null(x);
  ga_rng rng;
  ga_rng_seed(&rng, 7);
  for (int i = 0; i < SETTINGS; i++) {
    uint64_t a[4], b[4];
    const double sharp = 0.5 * (1 + i % 8);
    ga_sample_desc d = GA_SAMPLE_DESC_INIT;
    d.vocab = LARGE;
    d.temperature = i % 5 ? 0.8f : 1.5f;
    d.top_p = i % 3 ? 0.95f : 1;
    d.top_k = i < 24 ? i % 3 == 2 && i % 2 ? 40 : 0 : i % 2 ? 300 : 5000;
    if (i >= PLAIN) { /* typical, behind all tokens, few, and many */
      d.top_k = i % 3 == 0 ? 0 : i % 3 == 1 ? 40 : 5000;
      d.typical_p = i % 4 == 0 ? 0.2f : i % 4 == 1 ? 0.9f : 0.5f;
      d.top_p = i % 2 ? 0.9f : 1;
    }
    d.min_p = i % 4 == 0 ? 0.05f : i % 4 == 1 ? 1e-4f : 0;
    if (!is_whole && i % 7 % 3) continue;
    for (int k = 0; k < LARGE; k++) x[k] = (float)(sharp * ga_rng_normal(&rng));
    ga_sample_seed(a, (uint64_t)i);
    ga_sample_seed(b, (uint64_t)i);
    const int32_t want = sample(ref, &d, (ga_sample_io){.logits = x, .rng = a}), got = sample_there(&there, &d, x, b);
    if (got != want) fail_msg("setting %d: %d, the oracle's is %d", i, got, want);
    assert_memory_equal(a, b, sizeof a);
  }
  free(x);
  ga_buffer_free(ctx, there.logits);
  ga_buffer_free(ctx, there.rng);
  ga_buffer_free(ctx, there.id);
  ga_ctx_destroy(ref);
  ga_ctx_destroy(ctx);
}

/* --- rows of parameters --- */

enum { ROWS = 6, ROW_VOCAB = 3000, ROW_STRIDE = 3007, ROW_TOKENS = 40 };

static ga_sample_desc row_settings(int i) {
  ga_sample_desc d = GA_SAMPLE_DESC_INIT;
  d.vocab = ROW_VOCAB;
  d.temperature = i % 3 ? 0.9f : 0;
  d.top_k = i % 2 ? 40 : 0;
  d.top_p = i > 2 ? 0.9f : 1;
  d.typical_p = i == 5 ? 0.5f : 1;
  d.repetition_penalty = i > 1 ? 1.3f : 1;
  return d;
}

/* What rows are drawn from and into, and a single draw: one piece of device memory. */
typedef struct row_memory {
  ga_sample_row rows[ROWS];
  uint64_t rng[ROWS][4], one_rng[4];
  float x[ROWS][ROW_STRIDE], logprob[ROWS], one_logprob;
  int32_t sequence[ROWS][ROW_TOKENS + 1], id[ROWS], one_id;
  ga_logit_bias bias[2];
} row_memory;

static void fill_row_memory(row_memory *m) {
  ga_rng rng;
  ga_rng_seed(&rng, 3);
  memset(m, 0, sizeof *m);
  m->bias[0] = (ga_logit_bias){7, 4};
  m->bias[1] = (ga_logit_bias){11, -INFINITY};
  for (int i = 0; i < ROWS; i++) {
    const ga_sample_desc d = row_settings(i);
    for (int t = 0; t < ROW_STRIDE; t++) m->x[i][t] = (float)(2 * ga_rng_normal(&rng));
    for (int t = 0; t < ROW_TOKENS; t++) m->sequence[i][t] = (int32_t)ga_rng_below(&rng, ROW_VOCAB);
    ga_sample_seed(m->rng[i], (uint64_t)i);
    m->rows[i] = (ga_sample_row){.sequence = i > 1 ? i * (ROW_TOKENS + 1) + ROW_TOKENS : -1,
                                 .logits = i == 4 ? -1 : ROWS - 1 - i,
                                 .n_history = i > 1 ? ROW_TOKENS : 0,
                                 .n_bias = i == 3 ? 2 : 0,
                                 .mask = -1,
                                 .top_k = d.top_k,
                                 .temperature = d.temperature,
                                 .top_p = d.top_p,
                                 .min_p = d.min_p,
                                 .typical_p = d.typical_p,
                                 .repetition_penalty = d.repetition_penalty};
  }
}

/* Row i alone, into one_id, one_logprob and one_rng. */
static void sample_row_alone(ga_ctx *ctx, row_memory *there, int i) {
  const ga_sample_desc d = row_settings(i);
  uint64_t seed[4];
  ga_sample_seed(seed, (uint64_t)i);
  assert_int_equal(ga_copy_to_device(ctx, there->one_rng, seed, sizeof seed, NULL), GA_OK);
  ga_sample_io io = {
      .logits = there->x[ROWS - 1 - i], .rng = there->one_rng, .id = &there->one_id, .logprob = &there->one_logprob};
  if (i > 1) io.history = there->sequence[i], io.n_history = ROW_TOKENS;
  if (i == 3) io.bias = there->bias, io.n_bias = 2;
  if (ga_sample(ctx, &d, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
}

/* Rows draw what single calls draw, bit by bit; rows of no logits draw nothing. */
static void rows_as_single(ga_ctx *ctx) {
  static row_memory m;
  row_memory *there = room(ctx, sizeof m);
  ga_sample_fused_desc d = GA_SAMPLE_FUSED_DESC_INIT;
  uint64_t unused[4];
  d.plain.vocab = ROW_VOCAB;
  d.logits_stride = ROW_STRIDE;
  d.rows = ROWS;
  const ga_sample_fused_io io = {.plain = {.logits = there->x[0],
                                           .bias = there->bias,
                                           .rng = there->rng[0],
                                           .id = there->id,
                                           .logprob = there->logprob},
                                 .sequence = there->sequence[0],
                                 .rows = there->rows};
  fill_row_memory(&m);
  assert_int_equal(ga_copy_to_device(ctx, there, &m, sizeof m, NULL), GA_OK);
  if (ga_sample_fused(ctx, &d, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  for (int i = 0; i < ROWS; i++) {
    if (i != 4) sample_row_alone(ctx, there, i);
    assert_int_equal(ga_copy_to_host(ctx, &m, there, sizeof m, NULL), GA_OK);
    ga_sample_seed(unused, (uint64_t)i);
    if (i == 4) {
      assert_int_equal(m.id[i], -1);
      assert_memory_equal(m.rng[i], unused, sizeof unused);
      continue;
    }
    if (m.id[i] != m.one_id) fail_msg("row %d: %d, alone %d", i, m.id[i], m.one_id);
    assert_memory_equal(&m.logprob[i], &m.one_logprob, sizeof(float));
    assert_memory_equal(m.rng[i], m.one_rng, sizeof unused);
    if (i > 1) assert_int_equal(m.sequence[i][ROW_TOKENS], m.one_id);
  }
  ga_buffer_free(ctx, there);
}

static void test_rows(void **state) {
  (void)state;
  ga_ctx *ref = open_ctx("ref"), *ctx = open_ctx(GA_TEST_DEVICE);
  rows_as_single(ref);
  rows_as_single(ctx);
  ga_sample_fused_desc d = GA_SAMPLE_FUSED_DESC_INIT;
  ga_plan *plan;
  d.plain.vocab = 100;
  d.rows = GA_SAMPLE_ROWS_MAX + 1;
  assert_int_equal(ga_sample_fused_plan(ref, &d, &plan), GA_ERR_SHAPE);
  d.rows = 2;
  d.logits_stride = 99;
  assert_int_equal(ga_sample_fused_plan(ref, &d, &plan), GA_ERR_SHAPE);
  ga_ctx_destroy(ref);
  ga_ctx_destroy(ctx);
}

/* `test_sample all` has all settings. */
int main(int argc, char **argv) {
  is_whole = argc > 1 && !strcmp(argv[1], "all");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_greedy),
      cmocka_unit_test(test_statistics),
      cmocka_unit_test(test_large_vocabulary),
      cmocka_unit_test(test_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
