/* How much of prompts a step takes while others generate: from simulated times of steps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/pace.h"

/* A machine whose steps take so long. */
static double step_seconds(int32_t n_decode, int32_t n_prompt) {
  return (n_decode ? 0.010 : 0.002) + n_prompt * 0.00025;
}

static void test_learns(void **state) {
  (void)state;
  step_pace p = {.least = PACE_LEAST_CPU};
  assert_int_equal(pace_chunk(&p, 512), 128); /* nothing known */
  assert_int_equal(pace_chunk(&p, 8), 8);
  for (int i = 0; i < 20; i++) pace_note(&p, 4, 0, step_seconds(4, 0));
  assert_int_equal(pace_chunk(&p, 512), 128);
  for (int i = 0; i < 20; i++) {
    const int32_t chunk = pace_chunk(&p, 512);
    pace_note(&p, 4, chunk, step_seconds(4, chunk));
  }
  const int32_t chunk = pace_chunk(&p, 512);
  assert_in_range(chunk, 38, 41); /* 40 more tokens make 20 ms of 10 */
  assert_int_equal(pace_chunk(&p, 30), 30);
}

static void test_pace_bounds(void **state) {
  (void)state;
  step_pace p = {.least = PACE_LEAST_CPU};
  pace_note(&p, 3, 100, 1); /* nothing to compare with: no estimate */
  assert_true(p.prompt_token == 0);
  pace_note(&p, 0, 100, 1);
  assert_true(p.prompt_token == 0.01);
  pace_note(&p, 3, 0, 0.001);
  assert_int_equal(pace_chunk(&p, 512), PACE_LEAST_CPU); /* slow prompts: still some */
  assert_int_equal(pace_chunk(&p, 5), 5);
  p.least = PACE_LEAST_GPU;
  assert_int_equal(pace_chunk(&p, 512), PACE_LEAST_GPU);
  p = (step_pace){.decode = 1, .prompt_token = 1e-9};
  assert_int_equal(pace_chunk(&p, 512), 512);
  /* A mixed step that took less than one without prompts says that they are cheap, not that they are free. */
  pace_note(&p, 3, 64, 0.5);
  assert_true(p.prompt_token > 0);
}

/* On a CPU a step may read prompts for 30 ms in any case, up to 128 tokens. */
static void test_pace_brief(void **state) {
  (void)state;
  step_pace p = {.least = PACE_LEAST_CPU, .brief = PACE_BRIEF_CPU, .decode = 0.002, .prompt_token = 0.03 / 100.5};
  assert_int_equal(pace_chunk(&p, 512), 100);
  p.prompt_token = 0.0001;
  assert_int_equal(pace_chunk(&p, 512), PACE_TOKENS_CPU);
  assert_int_equal(pace_chunk(&p, 50), 50);
  p.prompt_token = 0.02; /* a slow model */
  assert_int_equal(pace_chunk(&p, 512), PACE_LEAST_CPU);
  p = (step_pace){.least = PACE_LEAST_CPU, .brief = PACE_BRIEF_CPU, .decode = 0.1, .prompt_token = 0.0005};
  assert_int_equal(pace_chunk(&p, 512), 200); /* twice as long a step without prompts is longer than that */
}

/* A request that comes while prompts are read waits for a quarter of a second, or for 64 tokens. */
static void test_pace_alone(void **state) {
  (void)state;
  step_pace p = {.least = PACE_LEAST_GPU};
  assert_int_equal(pace_alone(&p, 2048, true), 2048); /* no bound on a GPU */
  p = (step_pace){.least = PACE_LEAST_CPU, .alone = PACE_ALONE_CPU};
  assert_int_equal(pace_alone(&p, 512, false), 128); /* nothing known */
  assert_int_equal(pace_alone(&p, 512, true), 64);
  p.prompt_token = 0.25 / 300.5;
  assert_int_equal(pace_alone(&p, 512, true), 300);
  assert_int_equal(pace_alone(&p, 200, true), 200);
  p.prompt_token = 0.01; /* a slow model */
  assert_int_equal(pace_alone(&p, 512, true), 64);
  assert_int_equal(pace_alone(&p, 512, false), 128);
  assert_int_equal(pace_alone(&p, 16, false), 16);
  p.prompt_token = 1e-12;
  assert_int_equal(pace_alone(&p, 512, true), 512);
}

/* 15 ms of 25 are for prompts. */
static void test_even_rows(void **state) {
  (void)state;
  step_pace p = {.least = PACE_LEAST_GPU};
  assert_int_equal(pace_even_rows(&p, 8), 0);
  pace_note(&p, 8, 0, 0.010);
  assert_int_equal(pace_even_rows(&p, 8), 0);
  pace_note(&p, 8, 504, 0.010 + 504 * 0.0001);
  assert_int_equal(pace_even_rows(&p, 8), 128); /* 120 tokens in 15 ms, as far as is known */
  pace_note(&p, 8, 120, 0.010 + 120 * 0.00013);
  assert_int_equal(pace_even_rows(&p, 8), 128);                              /* not even 128 */
  assert_int_equal(pace_even_rows(&p, 7), 256);                              /* beside a few no fewer than 256 */
  for (int i = 0; i < 60; i++) pace_note(&p, 8, 120, 0.010 + 120 * 0.00009); /* faster, and so are the others */
  assert_int_equal(pace_even_rows(&p, 8), 192);
  for (int i = 0; i < 60; i++) pace_note(&p, 8, 120, 0.010 + 120 * 0.00002);
  assert_int_equal(pace_even_rows(&p, 8), 512);
  assert_int_equal(pace_even_rows(&p, 600), 1024);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_learns), cmocka_unit_test(test_pace_bounds),
                                     cmocka_unit_test(test_pace_alone), cmocka_unit_test(test_pace_brief),
                                     cmocka_unit_test(test_even_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
