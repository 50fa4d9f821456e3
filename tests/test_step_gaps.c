/* Gaps between steps, over the mock driver: which are counted, classes and quantiles, events that fail. */
#include <math.h>

#include "engine/step_gaps.h"
#include "tests/cuda_rig.h"

#define MOCK_GAP 1.5e-3 /* seconds between any two events of the mock */

static void run_gap_step(ga_ctx *ctx, step_gaps *g) {
  step_gaps_begin(ctx, g);
  step_gaps_end(ctx, g);
}

/* The first step and the first after a pause follow none; steps are taken in their order, each once. */
static void gaps_of_steps(void **state) {
  (void)state;
  ga_ctx *ctx = open_cuda();
  step_gaps g = {0};
  assert_int_equal(step_gaps_create(ctx, &g), GA_OK);
  assert_true(step_gaps_take(&g) == -1);
  run_gap_step(ctx, &g);
  run_gap_step(ctx, &g);
  assert_true(step_gaps_take(&g) == -1);
  assert_true(fabs(step_gaps_take(&g) - MOCK_GAP) < 1e-9);
  assert_true(step_gaps_take(&g) == -1);
  for (int i = 0; i < 3 * STEP_GAP_PLACES; i++) {
    run_gap_step(ctx, &g);
    assert_true(fabs(step_gaps_take(&g) - MOCK_GAP) < 1e-9);
  }
  run_gap_step(ctx, &g);
  step_gaps_pause(&g);
  assert_true(step_gaps_take(&g) == -1);
  run_gap_step(ctx, &g);
  assert_true(step_gaps_take(&g) == -1);
  run_gap_step(ctx, &g);
  assert_true(fabs(step_gaps_take(&g) - MOCK_GAP) < 1e-9);
  step_gaps_destroy(&g);
  ga_ctx_destroy(ctx);
}

static int n_warned;

static void count_warning(void *user, ga_log_level level, const char *text) {
  (void)user;
  n_warned += level == GA_LOG_WARN && strstr(text, "gaps between steps are no longer measured: ") != NULL;
}

/* A measurement that fails is the last one: later steps record no events, and have no gap. The log says so once. */
static void events_that_fail(void **state) {
  static const char *const calls[] = {"cuEventRecord", "cuEventElapsedTime"};
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(calls); i++) {
    ga_ctx *ctx = open_cuda();
    step_gaps g = {0};
    assert_int_equal(step_gaps_create(ctx, &g), GA_OK);
    run_gap_step(ctx, &g);
    (void)step_gaps_take(&g);
    n_warned = 0;
    ga_log_set(count_warning, NULL, GA_LOG_WARN);
    mockcu.fail_name = calls[i];
    mockcu.fail_rc = CUDA_ERROR_INVALID_VALUE;
    run_gap_step(ctx, &g);
    assert_true(step_gaps_take(&g) == -1);
    mockcu.fail_name = NULL;
    ga_log_set(NULL, NULL, GA_LOG_WARN);
    assert_int_equal(n_warned, 1);
    const long before = mockcu.calls;
    run_gap_step(ctx, &g);
    assert_true(step_gaps_take(&g) == -1);
    assert_int_equal(mockcu.calls, before);
    step_gaps_destroy(&g);
    ga_ctx_destroy(ctx);
  }
}

/* A quantile is the upper bound of the class in which it lies: at most 2^(1/16) times the gap. */
static void classes_and_quantiles(void **state) {
  (void)state;
  static step_gaps g;
  assert_true(step_gaps_quantile(&g, 0.5) == 0);
  const double width = exp2(1.0 / STEP_GAP_FINE);
  for (double gap = 2e-7; gap < 10; gap *= 1.37) {
    memset(&g, 0, sizeof g);
    step_gaps_count(&g, gap);
    assert_int_equal(g.n, 1);
    const double q = step_gaps_quantile(&g, 0.5);
    if (!(q >= gap * (1 - 1e-9) && q < gap * width)) fail_msg("gap %g: quantile %g", gap, q);
  }
  memset(&g, 0, sizeof g);
  for (int i = 1; i <= 100; i++) step_gaps_count(&g, i * 1e-4);
  for (int part = 1; part <= 100; part++) {
    const double q = step_gaps_quantile(&g, (part - 0.5) / 100), gap = part * 1e-4;
    if (!(q >= gap * (1 - 1e-9) && q < gap * width)) fail_msg("part %d: quantile %g", part, q);
  }
  memset(&g, 0, sizeof g);
  step_gaps_count(&g, 0);
  step_gaps_count(&g, 1e6);
  assert_int_equal(g.counts[0], 1);
  assert_int_equal(g.counts[STEP_GAP_COUNTS - 1], 1);
  assert_true(step_gaps_quantile(&g, 0.5) == STEP_GAP_LEAST);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(gaps_of_steps, reset, no_leaks),
                                     cmocka_unit_test_setup_teardown(events_that_fail, reset, no_leaks),
                                     cmocka_unit_test(classes_and_quantiles)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
