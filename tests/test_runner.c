/* Steps of a runner by themselves: several rows of logits a part, masks, drafts, what is refused, tickets. On a tiny
 * model of tests/data/arch. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"
#include "base/status.h"
#include "engine/runner.h"
#include "tests/tiny_model.h"

#ifndef GA_TEST_DEVICE
#define GA_TEST_DEVICE "cpu"
#endif

enum { TOKENS = 12, SEQUENCES = 2, BATCH = 32, LENGTH = 64, DRAWS = 8, MASK_WORDS = (TINY_VOCAB + 31) / 32 };

typedef struct runner_rig {
  ga_ctx *ctx[2];
  ga_model *model;
  ga_kv_cache cache;
  layer_memory *memory;
  sequence_memory sequence[SEQUENCES];
  runner *runner;
} runner_rig;

#define OK(expr)                                          \
  do {                                                    \
    if ((expr) != GA_OK) fail_msg("%s", ga_error_text()); \
  } while (0)

static const int32_t ids[TOKENS] = {1, 5, 9, 20, 7, 11, 12, 13, 40, 41, 8, 33};

static void create_memory_of(runner_rig *r) {
  layer_memory_options o = {.page_tokens = GA_KV_PAGE};
  memory_kinds kinds;
  OK(memory_kinds_of(&r->model->hparams, GA_F16, &kinds));
  o.n_kinds = kinds.n;
  for (int32_t i = 0; i < kinds.n; i++) {
    o.kinds[i] = kinds.kind[i];
    o.n_units[i] = 2 * SEQUENCES;
  }
  OK(layer_memory_create(&o, &r->memory));
  OK(kv_cache_create(r->model, GA_F16, o.n_units, &r->cache));
  for (int i = 0; i < SEQUENCES; i++) OK(layer_memory_extend(r->memory, &r->sequence[i], LENGTH));
}

/* n: stages. max_out: rows of logits at once. */
static void open_runner(runner_rig *r, int n, int32_t max_out) {
  *r = (runner_rig){.runner = NULL};
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  ga_model_options mo = GA_MODEL_OPTIONS_INIT;
  co.device = GA_TEST_DEVICE;
  co.threads = 1;
  OK(tiny_make("llama", TINY_VOCAB));
  for (int i = 0; i < n; i++) OK(ga_ctx_create(&co, &r->ctx[i]));
  mo.more = r->ctx + 1;
  mo.n_more = n - 1;
  OK(ga_model_load(r->ctx[0], tiny_path, &mo, &r->model));
  create_memory_of(r);
  const runner_options o = {.model = r->model,
                            .cache = &r->cache,
                            .memory = r->memory,
                            .sizes = {.context = LENGTH, .batch = BATCH, .max_out = max_out, .kv_dtype = GA_F16},
                            .max_sequences = SEQUENCES,
                            .max_draws = DRAWS,
                            .n_vocab = TINY_VOCAB,
                            .is_invariant = true};
  OK(runner_create(&o, &r->runner));
}

static void close_runner(runner_rig *r) {
  OK(runner_drop_steps(r->runner));
  runner_destroy(r->runner);
  for (int i = 0; i < SEQUENCES; i++) layer_memory_release(r->memory, 0, &r->sequence[i], NULL, 0);
  kv_cache_destroy(&r->cache);
  layer_memory_destroy(r->memory);
  ga_model_destroy(r->model);
  for (int i = 0; i < 2; i++) ga_ctx_destroy(r->ctx[i]);
}

/* --- rows that are shown --- */

typedef struct shown_rows {
  float logits[TOKENS][TINY_VOCAB];
  int32_t row[TOKENS], id[TOKENS], n;
} shown_rows;

static ga_status keep_row(void *user, int32_t row, int32_t id, const float *logits) {
  shown_rows *rows = user;
  assert_true(rows->n < TOKENS);
  rows->row[rows->n] = row;
  rows->id[rows->n] = id;
  memcpy(rows->logits[rows->n++], logits, sizeof rows->logits[0]);
  return GA_OK;
}

static step_part part_of_ids(runner_rig *r, int sequence, int32_t first, int32_t n, int32_t n_wanted) {
  return (step_part){.memory = &r->sequence[sequence],
                     .ids = ids + first,
                     .first = first,
                     .n = n,
                     .n_wanted = n_wanted,
                     .adapter = -1,
                     .draw = -1};
}

static void run_shown(runner_rig *r, const step_part *parts, int32_t n_parts, const row_draw *draws, shown_rows *rows) {
  const runner_step step = {.parts = parts, .n_parts = n_parts, .rows = draws, .show = keep_row, .user = rows};
  int64_t ticket;
  rows->n = 0;
  OK(runner_enqueue(r->runner, &step, &ticket));
  assert_false(runner_may_enqueue(r->runner));
  OK(runner_take(r->runner, ticket));
  assert_true(runner_may_enqueue(r->runner));
  for (int32_t i = 0; i < n_parts; i++) {
    assert_int_equal(runner_results(r->runner, ticket)[i].status, GA_OK);
    assert_int_equal(runner_results(r->runner, ticket)[i].n_accepted, 0);
    assert_int_equal(runner_results(r->runner, ticket)[i].next, -1);
  }
}

/* The last 4 tokens of one part and the last 2 of another, in blocks of 1, 3 and 16 rows: the same logits as if each
 * token had been the last of a step. A row that nobody uses is left out. */
static void test_several_rows(void **state) {
  (void)state;
  static const int32_t max_out[] = {1, 3, 16};
  static shown_rows want[2], one;
  runner_rig r;
  row_draw draws[6];
  for (int i = 0; i < 6; i++) draws[i] = (row_draw){.shows = i != 2};
  for (size_t i = 0; i < sizeof max_out / sizeof *max_out; i++) {
    open_runner(&r, 1 + i % 2, max_out[i]);
    const step_part parts[] = {part_of_ids(&r, 0, 0, 8, 4), part_of_ids(&r, 1, 0, 5, 2)};
    run_shown(&r, parts, 2, draws, &want[i > 0]);
    assert_int_equal(want[i > 0].n, 5);
    assert_int_equal(want[i > 0].row[2], 3);
    assert_int_equal(want[i > 0].row[4], 5);
    assert_memory_equal(want[i > 0].logits, want[0].logits, 5 * sizeof want[0].logits[0]);
    const step_part last = part_of_ids(&r, 0, 0, 6, 1); /* the second wanted row */
    run_shown(&r, &last, 1, draws, &one);
    assert_int_equal(one.n, 1);
    assert_memory_equal(one.logits[0], want[0].logits[1], sizeof one.logits[0]);
    close_runner(&r);
  }
}

/* --- draws --- */

/* Draws the token behind the first n ids. */
static int32_t draw_behind(runner_rig *r, int32_t n, const ga_sample_desc *sample, const uint32_t *mask) {
  uint64_t rng[4];
  draw_history history = DRAW_HISTORY_INIT;
  int64_t ticket;
  ga_sample_seed(rng, 3);
  OK(runner_check_sample(r->runner, sample));
  const row_draw draw = {
      .sample = sample, .ids = ids, .n_ids = n, .window = 4, .mask = mask, .rng = rng, .history = &history};
  const step_part part = part_of_ids(r, 0, 0, n, 1);
  const runner_step step = {.parts = &part, .n_parts = 1, .rows = &draw};
  OK(runner_enqueue(r->runner, &step, &ticket));
  OK(runner_take(r->runner, ticket));
  const part_result *result = runner_results(r->runner, ticket);
  if (result->status != GA_OK) fail_msg("%s", result->error);
  const int32_t id = result->next;
  runner_forget(r->runner, &history);
  return id;
}

/* Forbidden tokens are not drawn, and with all allowed but those nothing else changes. */
static void test_masks(void **state) {
  (void)state;
  runner_rig r;
  open_runner(&r, 2, 8);
  for (int warm = 0; warm < 2; warm++) {
    ga_sample_desc sample = GA_SAMPLE_DESC_INIT;
    sample.vocab = TINY_VOCAB;
    sample.temperature = warm ? 0.8f : 0;
    sample.repetition_penalty = 1.1f;
    uint32_t mask[MASK_WORDS];
    memset(mask, 0xff, sizeof mask);
    const int32_t plain = draw_behind(&r, 6, &sample, NULL);
    assert_int_equal(draw_behind(&r, 6, &sample, mask), plain);
    mask[plain / 32] &= ~(1u << plain % 32);
    assert_int_not_equal(draw_behind(&r, 6, &sample, mask), plain);
    memset(mask, 0, sizeof mask);
    mask[50 / 32] = 1u << 50 % 32;
    assert_int_equal(draw_behind(&r, 6, &sample, mask), 50);
  }
  close_runner(&r);
}

/* --- drafts --- */

/* A sequence that draws: all that a step needs of it, and what it has drawn. */
typedef struct drawn_text {
  int32_t ids[LENGTH];
  int32_t n; /* tokens known: all but the last are evaluated */
  uint64_t rng[4];
  draw_history history;
  ga_sample_desc sample;
  int32_t sequence, n_accepted, n_drafts;
} drawn_text;

static const ga_logit_bias drawn_bias[] = {{5, 1.5f}, {17, -INFINITY}, {60, 1}};

static void begin_text(drawn_text *t, int sequence, int kind) {
  *t = (drawn_text){.sequence = sequence, .n = 3, .history = DRAW_HISTORY_INIT, .sample = GA_SAMPLE_DESC_INIT};
  memcpy(t->ids, ids + sequence, (size_t)t->n * sizeof *ids);
  ga_sample_seed(t->rng, 7);
  t->sample.vocab = TINY_VOCAB;
  if (kind & 1) t->sample.temperature = 0.9f, t->sample.top_k = 30, t->sample.top_p = 0.95f;
  if (kind & 2) t->sample.repetition_penalty = 1.3f, t->sample.frequency_penalty = 0.4f;
}

/* Fills in the part of a step that evaluates ids [first, n) and n_drafts drafts behind them, and its draws. */
static step_part part_of_text(runner_rig *r, drawn_text *t, int32_t first, int32_t n_drafts, row_draw *draws) {
  for (int32_t i = 0; i <= n_drafts; i++)
    draws[i] = (row_draw){.sample = &t->sample,
                          .ids = t->ids,
                          .n_ids = t->n + i,
                          .window = 6,
                          .bias = drawn_bias,
                          .n_bias = 3,
                          .rng = t->rng,
                          .history = &t->history};
  t->n_drafts += n_drafts;
  return (step_part){.memory = &r->sequence[t->sequence],
                     .ids = t->ids + first,
                     .first = first,
                     .n = t->n + n_drafts - first,
                     .n_wanted = n_drafts + 1,
                     .adapter = -1,
                     .draw = -1};
}

/* The drafts that were accepted are the text's by now; the token behind them joins it. */
static void take_drawn_text(drawn_text *t, const part_result *result) {
  if (result->status != GA_OK) fail_msg("%s", result->error);
  t->n += result->n_accepted;
  t->n_accepted += result->n_accepted;
  t->ids[t->n++] = result->next;
}

static void run_texts(runner_rig *r, const step_part *parts, const row_draw *draws, drawn_text *const *texts, int n) {
  const runner_step step = {.parts = parts, .n_parts = n, .rows = draws};
  int64_t ticket;
  OK(runner_enqueue(r->runner, &step, &ticket));
  OK(runner_take(r->runner, ticket));
  for (int i = 0; i < n; i++) take_drawn_text(texts[i], &runner_results(r->runner, ticket)[i]);
}

enum { TEXT_END = 30 };

/* The text decoded one by one. */
static void decode_plain(runner_rig *r, drawn_text *t) {
  row_draw draw;
  for (int32_t first = 0; t->n < TEXT_END;) {
    const step_part part = part_of_text(r, t, first, 0, &draw);
    first = t->n;
    run_texts(r, &part, &draw, &t, 1);
    assert_int_equal(t->n, first + 1);
  }
  runner_forget(r->runner, &t->history);
}

/* Puts drafts behind the text: those of the plain one up to the step's n_right-th, then a wrong one. */
static int32_t put_drafts(drawn_text *t, const drawn_text *plain, int32_t n_right, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    const int32_t right = plain->ids[t->n + i];
    t->ids[t->n + i] = i < n_right ? right : (right + 1) % TINY_VOCAB;
  }
  return n;
}

/* Two texts with drafts in the same steps, of 0 to 3 drafts of which 0 to all are right: the tokens of decoding one by
 * one, and the same state of the generator. */
static void compare_drafts(int n_stages, int32_t max_out, int kind) {
  runner_rig r;
  drawn_text plain[2], drafted[2];
  open_runner(&r, n_stages, max_out);
  for (int i = 0; i < 2; i++) {
    begin_text(&plain[i], i, kind);
    begin_text(&drafted[i], i, kind);
    decode_plain(&r, &plain[i]);
  }
  int32_t first[2] = {0, 0};
  for (int32_t turn = 0; drafted[0].n + 4 <= TEXT_END && drafted[1].n + 4 <= TEXT_END; turn++) {
    step_part parts[2];
    row_draw draws[DRAWS];
    drawn_text *texts[2] = {&drafted[0], &drafted[1]};
    int32_t n_draws = 0, right[2];
    for (int i = 0; i < 2; i++) {
      const int32_t n = (turn + i) % 4;
      right[i] = (turn / 4 + 2 * i) % (n + 1);
      put_drafts(&drafted[i], &plain[i], right[i], n);
      parts[i] = part_of_text(&r, &drafted[i], first[i], n, draws + n_draws);
      n_draws += n + 1;
      first[i] = drafted[i].n;
    }
    run_texts(&r, parts, draws, texts, 2);
    for (int i = 0; i < 2; i++) {
      assert_int_equal(drafted[i].n, first[i] + right[i] + 1);
      first[i] = drafted[i].n - 1;
    }
  }
  for (int i = 0; i < 2; i++) {
    assert_memory_equal(drafted[i].ids, plain[i].ids, (size_t)drafted[i].n * sizeof *ids);
    assert_true(drafted[i].n_accepted > 0 && drafted[i].n_accepted < drafted[i].n_drafts);
    ga_rng rng;
    ga_sample_seed(rng.s, 7);
    for (int32_t k = 3; kind & 1 && k < drafted[i].n; k++) (void)ga_rng_unit(&rng);
    assert_memory_equal(drafted[i].rng, rng.s, sizeof rng.s);
    runner_forget(r.runner, &drafted[i].history);
  }
  close_runner(&r);
}

static void test_drafts(void **state) {
  (void)state;
  const bool is_cpu = !strcmp(GA_TEST_DEVICE, "cpu"); /* elsewhere a step takes a second */
  for (int kind = is_cpu ? 0 : 3; kind < 4; kind++) {
    if (is_cpu) compare_drafts(1, 16, kind);
    compare_drafts(2, 3, kind); /* the head computes three rows at once */
  }
}

/* --- what is refused --- */

static ga_status enqueue_one(runner_rig *r, const step_part *part, const row_draw *draws) {
  int64_t ticket;
  const runner_step step = {.parts = part, .n_parts = 1, .rows = draws, .show = keep_row};
  return runner_enqueue(r->runner, &step, &ticket);
}

static void test_refused_steps(void **state) {
  (void)state;
  static shown_rows rows;
  runner_rig r;
  ga_sample_desc sample = GA_SAMPLE_DESC_INIT;
  open_runner(&r, 1, 8);
  const row_draw draws[2] = {{.sample = &sample}, {.shows = true}};
  step_part part = part_of_ids(&r, 0, 0, 4, 2);
  assert_int_equal(enqueue_one(&r, &part, draws), GA_ERR_INTERNAL);
  assert_non_null(strstr(ga_error_text(), "a row that draws nothing behind one that draws"));
  part.adapter = 0;
  assert_int_equal(enqueue_one(&r, &part, draws), GA_ERR_UNSUPPORTED);
  assert_non_null(strstr(ga_error_text(), "adapter 0; steps have none (-1)"));
  part.adapter = -1;
  part.n_wanted = 5;
  assert_int_equal(enqueue_one(&r, &part, draws), GA_ERR_INTERNAL);
  part.n_wanted = 1;
  part.draw = 0; /* of a step before, which there is not */
  assert_int_equal(enqueue_one(&r, &part, draws), GA_ERR_INTERNAL);
  row_draw many[DRAWS + 1];
  for (int i = 0; i <= DRAWS; i++) many[i] = (row_draw){.sample = &sample};
  part = part_of_ids(&r, 0, 0, DRAWS + 1, DRAWS + 1);
  assert_int_equal(enqueue_one(&r, &part, many), GA_ERR_INTERNAL);
  assert_non_null(strstr(ga_error_text(), "9 rows that draw; at most 8"));
  part = part_of_ids(&r, 0, 0, 0, 0);
  assert_int_equal(enqueue_one(&r, &part, draws), GA_ERR_INTERNAL);
  assert_int_equal(runner_take(r.runner, 0), GA_ERR_INTERNAL);
  part = part_of_ids(&r, 0, 0, 4, 1); /* it is as good as before */
  run_shown(&r, &part, 1, draws + 1, &rows);
  assert_int_equal(rows.n, 1);
  close_runner(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_several_rows),
      cmocka_unit_test(test_masks),
      cmocka_unit_test(test_drafts),
      cmocka_unit_test(test_refused_steps),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  tiny_remove();
  return failed;
}
