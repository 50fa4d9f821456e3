/* Packing in slices gives the bytes of packing at once (GA_PACK_ROWS in ga/gemm.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/cost.h"
#include "core/ctx.h"
#include "opdef/ops.h"

static void pack_rows(ga_ctx *ctx, ga_pack_desc d, const char *src, char *dst, int64_t slice, size_t row_bytes) {
  int64_t n = d.n;
  for (int64_t row = 0; row < n; row += slice) {
    uint64_t bytes;
    d.n = n - row < slice ? n - row : slice;
    assert_int_equal(ga_pack_bytes(ctx, &d, &bytes), GA_OK);
    assert_int_equal(ga_pack(ctx, &d, src, dst, NULL), GA_OK);
    src += (size_t)d.n * row_bytes;
    dst += bytes;
  }
}

static void check_packed(ga_ctx *ctx, ga_dtype dtype) {
  enum { ROWS = 3 * GA_PACK_ROWS + 37, K = 512 };
  ga_pack_desc d = GA_PACK_DESC_INIT;
  ga_layout layout;
  uint64_t bytes, native;
  assert_int_equal(ga_pack_choose(ctx, dtype, ROWS, K, &layout, &bytes), GA_OK);
  if (layout == GA_LAYOUT_NATIVE) return;
  assert_int_equal(ga_dtype_bytes(dtype, (int64_t)ROWS * K, &native), GA_OK);
  d.n = ROWS;
  d.k = K;
  d.w_dtype = (int32_t)dtype;
  d.w_layout = (int32_t)layout;
  char *src = malloc(native), *whole = malloc(bytes), *sliced = malloc(bytes);
  ga_rng rng;
  ga_rng_seed(&rng, (uint64_t)dtype);
  for (uint64_t i = 0; i < native; i++) src[i] = (char)ga_rng_u64(&rng);
  memset(whole, 1, bytes);
  memset(sliced, 1, bytes);
  pack_rows(ctx, d, src, whole, ROWS, native / ROWS);
  pack_rows(ctx, d, src, sliced, GA_PACK_ROWS, native / ROWS);
  assert_memory_equal(whole, sliced, bytes);
  free(src);
  free(whole);
  free(sliced);
}

static void test_slices(void **state) {
  (void)state;
  ga_ctx *ctx;
  assert_int_equal(ga_ctx_create(&(ga_ctx_options){.struct_size = sizeof(ga_ctx_options), .device = "cpu"}, &ctx),
                   GA_OK);
  for (int t = 0; t < 64; t++) {
    const ga_dtype_traits *traits = ga_dtype_info((ga_dtype)t);
    if (traits && (traits->is_quant || t == GA_F32 || t == GA_F16 || t == GA_BF16)) check_packed(ctx, (ga_dtype)t);
  }
  ga_ctx_destroy(ctx);
}

/* The layout is that of the row that a plan for one token takes among all layouts: what choosing fills in by itself
 * must be what ga_gemm_plan fills in, or no packed row is legal and everything works, slowly. */
static void test_choice(void **state) {
  (void)state;
  ga_ctx *ctx;
  assert_int_equal(ga_ctx_create(&(ga_ctx_options){.struct_size = sizeof(ga_ctx_options), .device = "cpu"}, &ctx),
                   GA_OK);
  for (int t = 0; t < 64; t++) {
    const ga_dtype_traits *traits = ga_dtype_info((ga_dtype)t);
    if (!traits || !traits->is_quant) continue;
    ga_layout layout;
    uint64_t bytes;
    double least = -1;
    int32_t best_layout = 0;
    assert_int_equal(ga_pack_choose(ctx, (ga_dtype)t, 512, 512, &layout, &bytes), GA_OK);
    for (int32_t l = 0; l < 8; l++) {
      ga_gemm_desc d = GA_GEMM_DESC_INIT;
      ga_plan *plan;
      d.m = 1;
      d.n = d.k = 512;
      d.w_dtype = t;
      d.w_layout = l;
      if (ga_gemm_plan(ctx, &d, &plan) != GA_OK) continue;
      const double cost = ga_cost_us(plan->kernel, plan->desc, &ctx->device->caps);
      if (least < 0 || cost < least) {
        least = cost;
        best_layout = l;
      }
      ga_plan_destroy(plan);
    }
    if (best_layout != (int32_t)layout)
      fail_msg("%s: layout %d chosen, %d is best", traits->name, (int)layout, best_layout);
  }
  ga_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_slices), cmocka_unit_test(test_choice)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
