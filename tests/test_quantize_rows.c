/* Fitted blocks: never worse than those of plain rounding, better where it counts, and what is refused. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/quant.h"
#include "base/rng.h"
#include "ga/quantize.h"
#include "quant/fit.h"
#include "ref/ref.h"

enum { BLOCKS = 24, MOST = 256 };

static const ga_dtype blocks[] = {GA_Q4_0, GA_Q4_1, GA_Q5_0, GA_Q5_1,   GA_Q8_0,   GA_Q2_K, GA_Q3_K,
                                  GA_Q4_K, GA_Q5_K, GA_Q6_K, GA_IQ4_NL, GA_IQ4_XS, GA_MXFP4};
static const ga_dtype plain[] = {GA_F32, GA_F16, GA_BF16};

/* --- values --- */

static void values_normal(ga_rng *r, float *x, int n) {
  for (int i = 0; i < n; i++) x[i] = 0.02f * (float)ga_rng_normal(r);
}
static void values_outliers(ga_rng *r, float *x, int n) {
  values_normal(r, x, n);
  for (int i = 0; i < n; i += 37) x[i] *= 30;
}
static void values_positive(ga_rng *r, float *x, int n) {
  for (int i = 0; i < n; i++) x[i] = 5 + (float)ga_rng_normal(r);
}
static void values_runs(ga_rng *r, float *x, int n) { /* runs of very different sizes */
  for (int i = 0; i < n; i++) x[i] = (float)ga_rng_normal(r) * powf(10, (float)(i / 16 % 7) - 4);
}
static void values_few(ga_rng *r, float *x, int n) { /* mostly zeros */
  for (int i = 0; i < n; i++) x[i] = ga_rng_normal(r) > 1.5 ? (float)ga_rng_normal(r) : 0;
}
static void values_zero(ga_rng *r, float *x, int n) {
  (void)r;
  memset(x, 0, (size_t)n * sizeof *x);
}
static void values_tiny(ga_rng *r, float *x, int n) { /* f16 scales end at 6e-8 */
  for (int i = 0; i < n; i++) x[i] = 1e-9f * (float)ga_rng_normal(r);
}
static void values_large(ga_rng *r, float *x, int n) {
  for (int i = 0; i < n; i++) x[i] = (i & 1 ? 65504.0f : -65504.0f) * (i % 5 ? 0.3f : 1) + 0 * (float)ga_rng_normal(r);
}

static void (*const draws[])(ga_rng *, float *, int) = {values_normal, values_outliers, values_positive, values_runs,
                                                        values_few,    values_zero,     values_tiny,     values_large};

static double block_error(ga_dtype t, const uint8_t *block, const float *x, const float *w, int n) {
  double sum = 0;
  for (int e = 0; e < n; e++) {
    const double d = ga_ref_load(t, block, e) - (double)x[e];
    assert_true(isfinite(d));
    sum += (double)w[e] * d * d;
  }
  return sum;
}

/* Weights that errors of a block have, fit.h. Those of iq4 go by the size of values, too: it is taken relative to the
 * root of their mean square, so that bounds mean the same for all types. */
static void error_weights(ga_dtype t, const float *x, const float *w, int n, float *out) {
  double mean = 0;
  memcpy(out, w, (size_t)n * sizeof *out);
  if (t != GA_IQ4_NL && t != GA_IQ4_XS) return;
  for (int e = 0; e < n; e++) mean += (double)x[e] * (double)x[e] / n;
  for (int e = 0; e < n && mean > 0; e++) out[e] *= (float)sqrt((double)x[e] * (double)x[e] / mean + 2);
}

/* --- tests --- */

/* Each block, by the formulas of the oracle, whether weights are even or not. */
static void test_never_worse(void **state) {
  (void)state;
  ga_rng rng;
  ga_rng_seed(&rng, 3);
  for (size_t t = 0; t < GA_COUNT_OF(blocks); t++)
    for (size_t d = 0; d < GA_COUNT_OF(draws); d++)
      for (int round = 0; round < BLOCKS; round++) {
        const int n = ga_dtype_info(blocks[t])->block_elems;
        float x[MOST], given[MOST], w[MOST];
        uint8_t fitted[MOST], simple[MOST];
        draws[d](&rng, x, n);
        for (int e = 0; e < n; e++) given[e] = round & 1 ? 1 : (float)exp(ga_rng_normal(&rng));
        quant_fit_blocks(blocks[t], x, given, 1, fitted);
        error_weights(blocks[t], x, given, n, w);
        ga_quantise_block(blocks[t], x, simple);
        const double have = block_error(blocks[t], fitted, x, w, n), most = block_error(blocks[t], simple, x, w, n);
        double size = 0;
        for (int e = 0; e < n; e++) size += (double)(w[e] * x[e]) * (double)x[e];
        if (have > most * (1 + 1e-5) + 1e-12 * size + 1e-22) {
          print_error("%s, values %zu, round %d: %.9g, plain rounding has %.9g\n", ga_dtype_name(blocks[t]), d, round,
                      have, most);
          fail();
        }
      }
}

/* On normal values the search, with all rounds of its refinement, leaves this part of plain rounding's error. A round
 * less of a k-type shows in the fourth digit. */
static double part_left(ga_dtype t) {
  switch (t) {
  case GA_Q4_0: return 0.886468;
  case GA_Q4_1: return 0.780239;
  case GA_Q5_0: return 0.880663;
  case GA_Q5_1: return 0.796454;
  case GA_Q8_0: return 0.854731;
  case GA_Q2_K: return 0.634145;
  case GA_Q3_K: return 0.861742;
  case GA_Q4_K: return 0.793206;
  case GA_Q5_K: return 0.817853;
  case GA_Q6_K: return 0.821796;
  case GA_IQ4_NL: return 0.846599;
  case GA_IQ4_XS: return 0.863787;
  case GA_MXFP4: return 0.957477;
  default: return 0;
  }
}

static void test_better_on_normal_values(void **state) {
  (void)state;
  ga_rng rng;
  ga_rng_seed(&rng, 4);
  float ones[MOST];
  for (int e = 0; e < MOST; e++) ones[e] = 1;
  for (size_t t = 0; t < GA_COUNT_OF(blocks); t++) {
    const int n = ga_dtype_info(blocks[t])->block_elems;
    double fitted = 0, simple = 0;
    for (int round = 0; round < 200; round++) {
      float x[MOST];
      uint8_t b[MOST];
      values_normal(&rng, x, n);
      quant_fit_blocks(blocks[t], x, ones, 1, b);
      fitted += block_error(blocks[t], b, x, ones, n);
      ga_quantise_block(blocks[t], x, b);
      simple += block_error(blocks[t], b, x, ones, n);
    }
    if (getenv("GA_TEST_SHOW"))
      print_message("%-8s error %.6f of plain rounding's\n", ga_dtype_name(blocks[t]), fitted / simple);
    if (!(fitted <= (part_left(blocks[t]) + 2e-5) * simple))
      fail_msg("%s: error %.6f of plain rounding's; must be %.6f", ga_dtype_name(blocks[t]), fitted / simple,
               part_left(blocks[t]));
  }
}

typedef struct rows_data {
  ga_quantizer *q;
  ga_quantize_desc d;
  float x[6 * 512], w[512], back[6 * 512];
  uint8_t y[4 * 6 * 512];
} rows_data;

static rows_data data;

static void rows_of_type(ga_dtype t, int threads) {
  ga_rng rng;
  ga_rng_seed(&rng, 5);
  ga_quantizer_destroy(data.q);
  assert_int_equal(ga_quantizer_create(threads, &data.q), GA_OK);
  data.d = (ga_quantize_desc)GA_QUANTIZE_DESC_INIT;
  data.d.rows = 6;
  data.d.cols = 512;
  data.d.dtype = (int32_t)t;
  values_normal(&rng, data.x, 6 * 512);
  for (int i = 0; i < 512; i++) data.w[i] = (float)exp(3 * ga_rng_normal(&rng));
}

static double weighted_error(const float *importance) {
  double sum = 0;
  assert_int_equal(ga_quantize_rows(data.q, &data.d, data.x, importance, data.y), GA_OK);
  assert_int_equal(ga_dequantize_rows(data.q, &data.d, data.y, data.back), GA_OK);
  for (int i = 0; i < 6 * 512; i++) sum += (double)data.w[i % 512] * pow((double)data.back[i] - (double)data.x[i], 2);
  return sum;
}

static void test_importance_helps(void **state) {
  (void)state;
  for (size_t t = 0; t < GA_COUNT_OF(blocks); t++) {
    rows_of_type(blocks[t], 1);
    const double even = weighted_error(NULL), weighted = weighted_error(data.w);
    const double most = blocks[t] == GA_MXFP4 ? 0.98 : 0.95; /* mxfp4: of three powers of two */
    if (!(weighted < most * even)) {
      print_error("%s: weighted error %.9g; %.9g without importance\n", ga_dtype_name(blocks[t]), weighted, even);
      fail();
    }
    float scaled[512];
    for (int i = 0; i < 512; i++) scaled[i] = 1e6f * data.w[i];
    assert_true(fabs(weighted_error(scaled) - weighted) <= 1e-3 * weighted);
  }
}

static void test_threads_change_nothing(void **state) {
  (void)state;
  uint8_t first[sizeof data.y];
  for (size_t t = 0; t < GA_COUNT_OF(blocks); t++) {
    for (int threads = 1; threads <= 3; threads += 2) {
      uint64_t bytes;
      rows_of_type(blocks[t], threads);
      assert_int_equal(ga_quantize_bytes(&data.d, &bytes), GA_OK);
      assert_int_equal(ga_quantize_rows(data.q, &data.d, data.x, data.w, data.y), GA_OK);
      if (threads == 1)
        memcpy(first, data.y, bytes);
      else
        assert_memory_equal(first, data.y, bytes);
    }
  }
}

static void test_plain_types(void **state) {
  (void)state;
  static const double most[] = {0, 0x1p-11, 0x1p-8};
  for (size_t t = 0; t < GA_COUNT_OF(plain); t++) {
    rows_of_type(plain[t], 2);
    (void)weighted_error(data.w);
    for (int i = 0; i < 6 * 512; i++)
      assert_true(fabs((double)data.back[i] - (double)data.x[i]) <= most[t] * fabs((double)data.x[i]) + 3e-8);
  }
}

static void fails_saying(ga_status have, ga_status want, const char *part) {
  assert_int_equal(have, want);
  if (!strstr(ga_error_text(), part)) {
    print_error("'%s' does not say '%s'\n", ga_error_text(), part);
    fail();
  }
}

static void test_values_refused(void **state) {
  (void)state;
  static const float bad[] = {NAN, INFINITY, -INFINITY, 65520.0f};
  static const char *const says[] = {"row 2, column 7 is nan", "row 2, column 7 is inf", "row 2, column 7 is -inf",
                                     "row 2, column 7 is 65520; "};
  for (size_t t = 0; t < GA_COUNT_OF(blocks); t++)
    for (size_t b = 0; b < GA_COUNT_OF(bad); b++) {
      uint64_t bytes;
      if (blocks[t] == GA_MXFP4 && b == 3) continue; /* its scales are powers of two, up to 2^127 */
      rows_of_type(blocks[t], 2);
      data.x[2 * 512 + 7] = bad[b];
      data.x[4 * 512] = NAN; /* a later one */
      assert_int_equal(ga_quantize_bytes(&data.d, &bytes), GA_OK);
      memset(data.y, 1, bytes);
      fails_saying(ga_quantize_rows(data.q, &data.d, data.x, NULL, data.y), GA_ERR_FORMAT, says[b]);
      for (uint64_t i = 0; i < bytes; i++) assert_int_equal(data.y[i], 0);
    }
}

/* The largest value that a type takes is read back as finite, and the next float is refused. */
static void test_largest_values(void **state) {
  static const struct {
    ga_dtype type;
    float most, back, above;
    const char *says;
  } cases[] = {{GA_F32, FLT_MAX, FLT_MAX, INFINITY, "is -inf; f32 holds finite values of at most 3.40282e+38"},
               {GA_BF16, 0x1.FEp127f, 0x1.FEp127f, 0x1.FE0002p127f, "bf16 holds finite values of at most 3.38953e+38"},
               {GA_F16, 65504, 65504, 65504.0039f, "f16 holds finite values of at most 65504"},
               {GA_MXFP4, FLT_MAX, 0x1.8p127f, INFINITY, "is -inf; mxfp4 holds finite values"}};
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(cases); i++) {
    rows_of_type(cases[i].type, 1);
    for (int c = 0; c < 32; c++) data.x[c] = 0;
    data.x[7] = -cases[i].most;
    assert_int_equal(ga_quantize_rows(data.q, &data.d, data.x, NULL, data.y), GA_OK);
    assert_int_equal(ga_dequantize_rows(data.q, &data.d, data.y, data.back), GA_OK);
    assert_true(data.back[7] == -cases[i].back);
    data.x[7] = -cases[i].above;
    fails_saying(ga_quantize_rows(data.q, &data.d, data.x, NULL, data.y), GA_ERR_FORMAT, cases[i].says);
  }
}

static void test_arguments_refused(void **state) {
  uint64_t bytes = 7;
  (void)state;
  rows_of_type(GA_Q4_K, 1);
  data.d.cols = 511;
  fails_saying(ga_quantize_bytes(&data.d, &bytes), GA_ERR_SHAPE, "rows of 511 elements; q4_k needs a multiple of 256");
  data.d.cols = 0;
  fails_saying(ga_quantize_bytes(&data.d, &bytes), GA_ERR_SHAPE, "6 rows of 0; must be at least 1 each");
  data.d.cols = 512;
  data.d.rows = INT64_MAX / 512;
  fails_saying(ga_quantize_bytes(&data.d, &bytes), GA_ERR_SHAPE, "too many elements");
  data.d.rows = 6;
  data.d.dtype = GA_NVFP4;
  fails_saying(ga_quantize_bytes(&data.d, &bytes), GA_ERR_DTYPE, "dtype is nvfp4; must be f32, ");
  data.d.dtype = 0;
  fails_saying(ga_quantize_rows(data.q, &data.d, data.x, NULL, data.y), GA_ERR_DTYPE, "dtype is none");
  assert_int_equal(bytes, 7);
  data.d.dtype = GA_Q4_K;
  fails_saying(ga_quantize_rows(NULL, &data.d, data.x, NULL, data.y), GA_ERR_ARG, "is NULL");
  data.w[3] = -1;
  fails_saying(ga_quantize_rows(data.q, &data.d, data.x, data.w, data.y), GA_ERR_ARG, "importance of column 3 is -1");
  data.w[3] = INFINITY;
  fails_saying(ga_quantize_rows(data.q, &data.d, data.x, data.w, data.y), GA_ERR_ARG, "importance of column 3 is inf");
  memset(data.w, 0, sizeof data.w);
  assert_int_equal(ga_quantize_rows(data.q, &data.d, data.x, data.w, data.y), GA_OK);
  ga_quantizer *q;
  fails_saying(ga_quantizer_create(-1, &q), GA_ERR_ARG, "-1 threads; must be 0 to 1024");
  assert_null(q);
}

static int free_rows(void **state) {
  (void)state;
  ga_quantizer_destroy(data.q);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_never_worse),      cmocka_unit_test(test_better_on_normal_values),
      cmocka_unit_test(test_importance_helps), cmocka_unit_test(test_threads_change_nothing),
      cmocka_unit_test(test_plain_types),      cmocka_unit_test(test_values_refused),
      cmocka_unit_test(test_largest_values),   cmocka_unit_test(test_arguments_refused),
  };
  return cmocka_run_group_tests(tests, NULL, free_rows);
}
