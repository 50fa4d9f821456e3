/* Block formulas against vectors of another implementation (tests/refs/make_quants.py); quantisers against the
 * formulas. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/half.h"
#include "base/hash.h"
#include "base/quant.h"
#include "base/quant_grid.h"
#include "base/rng.h"
#include "ref/ref.h"

static const ga_dtype types[] = {GA_Q4_0, GA_Q4_1, GA_Q5_0, GA_Q5_1,   GA_Q8_0,   GA_Q2_K,  GA_Q3_K,
                                 GA_Q4_K, GA_Q5_K, GA_Q6_K, GA_IQ4_NL, GA_IQ4_XS, GA_MXFP4, GA_NVFP4};

/* Those that can only be read. */
static const ga_dtype read_only[] = {GA_IQ2_XXS, GA_IQ2_XS, GA_IQ2_S, GA_IQ3_XXS, GA_IQ3_S, GA_TQ1_0, GA_TQ2_0};

static void test_formulas_agree_with_vectors(void **state) {
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(types) + GA_COUNT_OF(read_only); i++) {
    const ga_dtype type = i < GA_COUNT_OF(types) ? types[i] : read_only[i - GA_COUNT_OF(types)];
    const ga_dtype_traits *t = ga_dtype_info(type);
    char path[512];
    uint32_t head[3];
    uint8_t bytes[8 * 256];
    float values[8 * 256];
    (void)snprintf(path, sizeof path, "%s/quants/%s.bin", GA_TEST_DATA, t->name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(head, 4, 3, f), 3);
    assert_true(head[0] <= 8);
    assert_int_equal(head[1], t->block_elems);
    assert_int_equal(head[2], t->block_bytes);
    assert_int_equal(fread(bytes, head[2], head[0], f), head[0]);
    assert_int_equal(fread(values, 4, head[0] * head[1], f), head[0] * head[1]);
    (void)fclose(f);
    /* The other side computes in f32: d * scale is rounded, then the product, then the difference. */
    for (uint32_t e = 0; e < head[0] * head[1]; e++) {
      double want = (double)values[e], have = ga_ref_load(type, bytes, e), slack = 1e-5;
      if (fabs(have - want) > 3e-7 * fabs(want) + slack * 0x1p-20) {
        print_error("%s element %u: %.9g, expected %.9g\n", t->name, e, have, want);
        fail();
      }
    }
  }
}

/* Root mean square error of each quantiser on normal data, in standard deviations: a little over what ideal uniform
 * codes of that many levels would have. */
static double rms_allowed(ga_dtype t) {
  switch (t) {
  case GA_Q8_0: return 0.006;
  case GA_Q6_K: return 0.025;
  case GA_Q5_0:
  case GA_Q5_1:
  case GA_Q5_K: return 0.05;
  case GA_Q3_K: return 0.21;
  case GA_Q2_K: return 0.36;
  case GA_MXFP4: return 0.14;
  default: return 0.11;
  }
}

/* The points of the grids, each of which few blocks have: all of them were compared with those
 * of the package gguf (its quants.py). */
static void test_grids(void **state) {
  static const struct {
    const uint16_t *grid;
    size_t n;
    uint64_t hash;
  } all[] = {{ga_iq2_xxs_grid, 256, 0x6fca17f5c451905d},
             {ga_iq2_xs_grid, 512, 0x29d6ac8e0e6b14e3},
             {ga_iq2_s_grid, 1024, 0x641f9aa3fbd98694},
             {ga_iq3_xxs_grid, 256, 0x79d733576d562547},
             {ga_iq3_s_grid, 512, 0x55b224116d1e5ca2}};
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(all); i++) {
    uint64_t hash = GA_FNV64_START;
    for (size_t e = 0; e < all[i].n; e++) { /* the same on any order of bytes */
      uint8_t le[2];
      le[0] = (uint8_t)all[i].grid[e], le[1] = (uint8_t)(all[i].grid[e] >> 8);
      hash = ga_fnv64(hash, le, 2);
    }
    if (hash != all[i].hash) fail_msg("grid %zu: 0x%016llx", i, (unsigned long long)hash);
  }
}

static void test_quantisers_are_near(void **state) {
  (void)state;
  ga_rng rng;
  ga_rng_seed(&rng, 7);
  for (size_t i = 0; i < GA_COUNT_OF(types); i++) {
    const ga_dtype_traits *t = ga_dtype_info(types[i]);
    double sum = 0;
    int count = 0;
    for (int round = 0; round < 40; round++) {
      float x[GA_QUANT_MAX_BLOCK];
      uint8_t block[256];
      for (int e = 0; e < t->block_elems; e++) x[e] = (float)ga_rng_normal(&rng);
      ga_quantise_block(types[i], x, block);
      for (int e = 0; e < t->block_elems; e++, count++) sum += pow(ga_ref_load(types[i], block, e) - (double)x[e], 2);
    }
    double rms = sqrt(sum / count);
    if (rms > rms_allowed(types[i])) {
      print_error("%s: rms error %.4f\n", t->name, rms);
      fail();
    }
  }
}

/* What a block says can be said again: quantising its own values gives them back (types whose extreme code is used). */
static void test_exact_values_stay(void **state) {
  (void)state;
  const ga_dtype exact[] = {GA_Q4_0, GA_Q4_1, GA_Q5_0, GA_Q5_1, GA_MXFP4};
  for (size_t i = 0; i < GA_COUNT_OF(exact); i++) {
    float x[32];
    uint8_t block[64];
    int levels = exact[i] == GA_Q5_0 || exact[i] == GA_Q5_1 ? 32 : 16;
    for (int e = 0; e < 32; e++)
      x[e] = exact[i] == GA_MXFP4 ? ga_e2m1_to_f32((uint8_t)(e % 16)) : 0.25f * (float)(e % levels - levels / 2);
    ga_quantise_block(exact[i], x, block);
    for (int e = 0; e < 32; e++) assert_true((double)x[e] == ga_ref_load(exact[i], block, e));
  }
}

static void test_zero_and_hostile(void **state) {
  (void)state;
  for (size_t i = 0; i < GA_COUNT_OF(types); i++) {
    float x[GA_QUANT_MAX_BLOCK] = {0};
    uint8_t block[256];
    ga_quantise_block(types[i], x, block);
    for (int e = 0; e < ga_dtype_info(types[i])->block_elems; e++) assert_true(ga_ref_load(types[i], block, e) == 0);
    x[0] = INFINITY;
    x[1] = NAN;
    x[2] = 1e-30f;
    x[3] = 1;
    ga_quantise_block(types[i], x, block);
    for (int e = 0; e < ga_dtype_info(types[i])->block_elems; e++)
      assert_true(isfinite(ga_ref_load(types[i], block, e)));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_formulas_agree_with_vectors),
      cmocka_unit_test(test_grids),
      cmocka_unit_test(test_quantisers_are_near),
      cmocka_unit_test(test_exact_values_stay),
      cmocka_unit_test(test_zero_and_hostile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
