/* How even tokens come while long prompts are read: the scheduler and its pace on a simulated clock. A step takes what
 * an H200 took for Qwen3-8B's shape in Q4_K_M (docs/results/serve.md). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "engine/pace.h"
#include "engine/scheduler.h"
#include "tests/memory_kinds.h"

enum {
  STREAMS_MAX = 64,
  PROMPT = 32000,
  NEW = 64,
  PAGE = 64,
  MOST_GAPS = 4000000,
  STREAM_IDS = 60000,
  STEP_TOKENS = 2048
};
#define SECONDS       120.0
#define PROMPTS_EVERY 6.0 /* seconds: some steps have no prompt, so that the median is of those */

/* Rows of a step and its milliseconds, prompts alone; 32: 5.6 ms less what their keys took; between 256 and 2048 rows
 * the next larger one counts. */
static const double measured[][2] = {{1, 1.84},   {32, 5.2},   {64, 5.5},   {128, 8.2},   {192, 9.9},
                                     {256, 10.6}, {512, 17.1}, {768, 26.6}, {1024, 32.4}, {2048, 61.1}};

static double product_ms(double rows) {
  size_t i = 1;
  while (rows > measured[i][0]) i++;
  if (rows > 256) return measured[i][1];
  const double part = (rows - measured[i - 1][0]) / (measured[i][0] - measured[i - 1][0]);
  return measured[i - 1][1] + part * (measured[i][1] - measured[i - 1][1]);
}

/* A key of a sequence that generates: 7.98 ms for 64 of 2048, 5.5 of it products. A key of a token of a prompt: 35.5 ms
 * for 480 tokens behind 32000, 17.1 of it products. */
#define DECODE_KEY_MS ((7.98 - 5.5) / (64 * 2048))
#define PROMPT_KEY_MS ((35.5 - 17.1) / (480.0 * 32000))

typedef struct outcome {
  double median, p99; /* ms between two tokens of a stream */
  double tokens;      /* generated and read, per second */
  int32_t prompts;    /* that were answered */
  double first;       /* seconds to the first token of such a prompt, the mean */
} outcome;

static struct world {
  layer_memory *memory;
  scheduler *s;
  step_pace pace;
  sched_request streams[STREAMS_MAX], prompt;
  int32_t ids[STREAM_IDS + PROMPT];
  double *gaps;
  int64_t n_gaps, n_tokens;
  double now, first; /* first: seconds to the first token of the last prompt */
  double keys;       /* of a stream */
  double short_wait; /* the longest until the first token of a stream's next request */
  int32_t answer;    /* tokens; 0: streams have no end */
} world;

static sched_request stream_request(double arrival) {
  const int32_t most = world.answer ? 64 + world.answer : STREAM_IDS;
  return (sched_request){.ids = world.ids, .n_prompt = 64, .n_ids = 64, .max_ids = most, .arrival = arrival};
}

/* Whoever has its answer asks again. */
static void requests_return(int32_t n_streams) {
  for (int32_t i = 0; i < n_streams; i++) {
    sched_request *r = &world.streams[i];
    if (r->n_ids < r->max_ids) continue;
    scheduler_remove(world.s, r);
    *r = stream_request(world.now);
    assert_int_equal(scheduler_add(world.s, r), GA_OK);
  }
}

static void world_open(int32_t n_streams, double keys, int32_t answer) {
  layer_memory_options po = memory_test_options(PAGE, 0);
  const sched_options so = {256, STEP_TOKENS, STEP_TOKENS / 4, PACE_TILE_GPU, 0};
  world = (struct world){.keys = keys, .answer = answer, .pace = {.least = PACE_LEAST_GPU}};
  world.gaps = malloc(MOST_GAPS * sizeof *world.gaps);
  assert_non_null(world.gaps);
  po.n_units[FULL] = (STREAMS_MAX + 1) * STREAM_IDS / PAGE;
  po.keep_prefixes = false;
  assert_int_equal(layer_memory_create(&po, &world.memory), GA_OK);
  assert_int_equal(scheduler_create(&so, world.memory, &world.s), GA_OK);
  for (int32_t i = 0; i < n_streams; i++) {
    world.streams[i] = stream_request(0);
    assert_int_equal(scheduler_add(world.s, &world.streams[i]), GA_OK);
  }
}

static void world_close(int32_t n_streams) {
  for (int32_t i = 0; i < n_streams; i++) scheduler_remove(world.s, &world.streams[i]);
  scheduler_remove(world.s, &world.prompt);
  scheduler_destroy(world.s);
  layer_memory_destroy(world.memory);
  free(world.gaps);
}

static double plan_seconds(const sched_plan *plan) {
  double ms = product_ms(plan->n_tokens);
  for (int32_t i = 0; i < plan->n_items; i++) {
    const sched_item *item = &plan->items[i];
    ms += item->n == 1 ? world.keys * DECODE_KEY_MS : item->n * (item->first + item->n / 2.0) * PROMPT_KEY_MS;
  }
  return ms / 1000;
}

/* One step, and what the engine does behind it. */
static void world_step(bool even) {
  const sched_plan *plan;
  int32_t n_decode = 0;
  assert_int_equal(scheduler_plan(world.s, world.now, &plan), GA_OK);
  const double seconds = plan_seconds(plan);
  scheduler_done(world.s);
  world.now += seconds;
  world.n_tokens += plan->n_tokens;
  for (int32_t i = 0; i < plan->n_items; i++) {
    sched_request *r = plan->items[i].request;
    n_decode += plan->items[i].n == 1;
    r->n_ids += plan->items[i].samples;
    if (r != &world.prompt && r->n_ids == 65 && world.now > 2)
      world.short_wait = fmax(world.short_wait, world.now - r->arrival);
    if (r == &world.prompt && r->n_ids == PROMPT + 1 && plan->items[i].n > 1) world.first = world.now - r->arrival;
    if (plan->items[i].n > 1 || world.n_gaps == MOST_GAPS || world.now < 2) continue; /* while the pace is found */
    if (r != &world.prompt) world.gaps[world.n_gaps++] = seconds * 1000;
  }
  pace_note(&world.pace, n_decode, plan->n_tokens - n_decode, seconds);
  scheduler_set_chunk(world.s, pace_chunk(&world.pace, STEP_TOKENS));
  if (even) scheduler_set_even(world.s, pace_even_rows(&world.pace, n_decode));
}

static int compare_gaps(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* n streams that generate all the time; a long prompt comes as often as PROMPTS_EVERY says. */
static outcome run_world(int32_t n_streams, double keys, int32_t answer, bool even) {
  outcome o = {.prompts = 0};
  double next = 1;
  world_open(n_streams, keys, answer);
  while (world.now < SECONDS) {
    sched_request *p = &world.prompt;
    if (p->state != SCHED_NONE && p->n_ids == p->max_ids) {
      scheduler_remove(world.s, p);
      o.prompts++;
      o.first += world.first;
    }
    if (p->state == SCHED_NONE && world.now >= next) {
      *p = (sched_request){
          .ids = world.ids, .n_prompt = PROMPT, .n_ids = PROMPT, .max_ids = PROMPT + NEW, .arrival = next};
      assert_int_equal(scheduler_add(world.s, p), GA_OK);
      next += PROMPTS_EVERY;
    }
    world_step(even);
    requests_return(n_streams);
  }
  qsort(world.gaps, (size_t)world.n_gaps, sizeof *world.gaps, compare_gaps);
  o.median = world.gaps[world.n_gaps / 2];
  o.p99 = world.gaps[world.n_gaps * 99 / 100];
  o.tokens = (double)world.n_tokens / world.now;
  o.first /= o.prompts;
  world_close(n_streams);
  print_message("%2d streams, %s: gaps of %.2f ms, p99 %.2f, %.0f tokens a second, %d prompts, %.2f s; %.2f s\n",
                n_streams, even ? "even" : "before", o.median, o.p99, o.tokens, o.prompts, o.first, world.short_wait);
  return o;
}

static void gaps_stay_even(void **state) {
  (void)state;
  static const struct {
    int32_t streams;
    double keys;
    int32_t answer;
  } loads[] = {{32, 600, 0}, {64, 2048, 0}, {32, 364, 600}};
  for (size_t i = 0; i < GA_COUNT_OF(loads); i++) {
    const outcome before = run_world(loads[i].streams, loads[i].keys, loads[i].answer, false);
    const outcome even = run_world(loads[i].streams, loads[i].keys, loads[i].answer, true);
    assert_true(before.p99 > 3.2 * before.median);
    assert_true(even.p99 <= 2.5 * even.median);
    assert_true(even.tokens >= 0.95 * before.tokens);
    assert_int_equal(even.prompts, before.prompts);
  }
}

/* One stream takes 1.84 ms a token: no step with a useful piece of a prompt is that short. */
static void one_stream_does_not_starve_prompts(void **state) {
  (void)state;
  const outcome before = run_world(1, 600, 0, false), even = run_world(1, 600, 0, true);
  assert_true(even.p99 < 0.7 * before.p99);
  assert_int_equal(even.prompts, before.prompts);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gaps_stay_even),
      cmocka_unit_test(one_stream_does_not_starve_prompts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
