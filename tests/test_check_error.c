/* The error arithmetic of ga check. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"
#include "verify/check/error.h"

#define N 4096

static void test_ulp(void **state) {
  (void)state;
  assert_true(check_ulp(GA_F32, 1.0) == 0x1p-23);
  assert_true(check_ulp(GA_F32, -1.5) == 0x1p-23);
  assert_true(check_ulp(GA_F32, 1.999) == 0x1p-23);
  assert_true(check_ulp(GA_F32, 2.0) == 0x1p-22);
  assert_true(check_ulp(GA_F32, 0.0) == 0x1p-149);
  assert_true(check_ulp(GA_F32, 0x1p-140) == 0x1p-149);
  assert_true(check_ulp(GA_F16, 1.0) == 0x1p-10);
  assert_true(check_ulp(GA_F16, 1e-6) == 0x1p-24);
  assert_true(check_ulp(GA_BF16, 100.0) == 0.5);
  assert_true(check_ulp(GA_F64, 1.0) == 0x1p-52);
  assert_true(check_ulp(GA_E4M3, 1.0) == 0.125);
  assert_true(check_ulp(GA_I32, 1e6) == 1.0);
  assert_true(isfinite(check_ulp(GA_F32, INFINITY)));
}

/* The spacing is what lies between a number and the next. */
static void test_ulp_is_the_spacing(void **state) {
  (void)state;
  ga_rng rng;
  ga_rng_seed(&rng, 1);
  for (int i = 0; i < 10000; i++) {
    float x = (float)(ga_rng_normal(&rng) * exp2((double)ga_rng_below(&rng, 200) - 140));
    assert_true(check_ulp(GA_F32, (double)x) == (double)nextafterf(fabsf(x), INFINITY) - fabs((double)x));
  }
}

static void test_round(void **state) {
  (void)state;
  assert_true(check_round(GA_BF16, 1.0 + 0x1p-9) == 1.0);
  assert_true(check_round(GA_F16, 70000.0) == INFINITY);
  assert_true(check_round(GA_F32, 1.0 + 0x1p-30) == 1.0);
  assert_true(check_round(GA_F64, 1.0 + 0x1p-30) == 1.0 + 0x1p-30);
  assert_true(check_round(GA_I32, 7.0) == 7.0);
}

static double want[N], got[N], unit[N];

/* bf16 results: unit is the spacing at 4, as for rows whose largest element is about 4. */
static void draw_errors(double factor, double noise) {
  ga_rng rng;
  ga_rng_seed(&rng, 5);
  for (int i = 0; i < N; i++) {
    want[i] = ga_rng_normal(&rng);
    unit[i] = check_ulp(GA_BF16, 3.0);
    got[i] = check_round(GA_BF16, factor * want[i] + noise * ga_rng_normal(&rng));
  }
}

static double used(double factor, double noise) {
  check_error plain, row;
  draw_errors(1.0, 0.0);
  check_measure(got, want, unit, N, &plain);
  draw_errors(factor, noise);
  check_measure(got, want, unit, N, &row);
  return check_used(&row, &plain, 2.0, 1.0);
}

static void test_bounds(void **state) {
  (void)state;
  assert_true(used(1.0, 0.0) <= 1.0);
  assert_true(used(1.01, 0.0) > 1.0); /* hardly more than half a unit anywhere, but everywhere the same way */
  assert_true(used(0.99, 0.0) > 1.0);
  assert_true(used(1.0, 0.001) <= 1.0);
  assert_true(used(1.0, 0.03) > 1.0);
}

/* A factor of the whole row that was rounded once, where the plain evaluation's needed no rounding. */
static void test_shared(void **state) {
  (void)state;
  check_error row, plain;
  draw_errors(1.0, 0.0);
  for (int i = 0; i < N; i++) unit[i] = check_ulp(GA_F32, want[i]), got[i] = want[i];
  check_measure(got, want, unit, N, &plain);
  for (int i = 0; i < N; i++) got[i] = want[i] * (1 + 0x1.8p-24);
  check_measure(got, want, unit, N, &row);
  assert_true(check_used(&row, &plain, 2.0, 2.0) > 1.0);
  row.shared = 0x1p-23;
  assert_true(check_used(&row, &plain, 2.0, 2.0) <= 1.0);
}

static void test_measure(void **state) {
  (void)state;
  const double w[] = {1, 2, NAN, 4, INFINITY}, g[] = {1.5, 2, 3, 3, INFINITY}, u[] = {0.5, 0.5, 0.5, 0.5, 0.5};
  check_error e;
  check_measure(g, w, u, 5, &e);
  assert_int_equal(e.n, 3);
  assert_int_equal(e.worst_at, 3);
  assert_true(e.worst == 2.0);
  assert_true(fabs(e.rms - sqrt(5.0 / 3)) < 1e-12);
  assert_true(fabs(e.gain - (0.5 - 4.0) / 21.0) < 1e-12);
}

/* Elements of every size, as hostile data has them: the slope is the error of the largest. */
static void test_slope_of_one_element(void **state) {
  (void)state;
  check_error row, plain;
  ga_rng rng;
  ga_rng_seed(&rng, 7);
  for (int i = 0; i < N; i++) {
    want[i] = ldexp(ga_rng_normal(&rng), i % 100);
    unit[i] = check_ulp(GA_F32, want[i]);
    got[i] = want[i] + unit[i] * ga_rng_normal(&rng) / 4;
  }
  want[99] = 0x1p120, unit[99] = check_ulp(GA_F32, want[99]), got[99] = want[99];
  check_measure(got, want, unit, N, &plain);
  got[99] = want[99] + 4 * unit[99]; /* of 6 that are allowed an element */
  check_measure(got, want, unit, N, &row);
  assert_true(row.gain_count < 2 && plain.gain_count < 2);
  assert_true(check_used(&row, &plain, 2.0, 6.0) <= 1.0);
  got[99] = want[99] + 9 * unit[99];
  check_measure(got, want, unit, N, &row);
  assert_true(check_used(&row, &plain, 2.0, 6.0) > 1.0);
  draw_errors(1.0, 0.0);
  check_measure(got, want, unit, N, &row);
  assert_true(row.gain_count > N / 4.0 && row.gain_count < N / 2.0); /* a third: the fourth moment of a normal is 3 */
}

static void test_exact_row_needs_nothing(void **state) {
  (void)state;
  check_error e;
  draw_errors(1.0, 0.0);
  check_measure(want, want, unit, N, &e);
  assert_true(check_used(&e, &e, 2.0, 0.0) == 0.0);
  check_error wrong = {.n = 1, .worst = 1e-9};
  assert_true(check_used(&wrong, &e, 2.0, 0.0) > 1.0); /* nothing is allowed */
}

/* Errors of 1.27 times the plain evaluation's, as a rounded largest weight makes them, beside chance. */
static void test_beside(void **state) {
  (void)state;
  static double plain[N];
  ga_rng rng;
  ga_rng_seed(&rng, 7);
  for (int i = 0; i < N; i++) want[i] = 0, plain[i] = ga_rng_normal(&rng), got[i] = ga_rng_normal(&rng);
  assert_true(check_beside(got, plain, want, N, 8, 1.05) <= 1);
  for (int i = 0; i < N; i++) got[i] *= 1.27;
  assert_true(check_beside(got, plain, want, N, 8, 1.05) > 1);
  assert_true(check_beside(want, plain, want, N, 8, 1.05) == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_beside),
      cmocka_unit_test(test_ulp),
      cmocka_unit_test(test_ulp_is_the_spacing),
      cmocka_unit_test(test_round),
      cmocka_unit_test(test_bounds),
      cmocka_unit_test(test_shared),
      cmocka_unit_test(test_measure),
      cmocka_unit_test(test_slope_of_one_element),
      cmocka_unit_test(test_exact_row_needs_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
