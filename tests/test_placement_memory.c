/* Memory of weights: small blocks share buffers, large ones have their own, and no two overlap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/model.h"

#define MIB ((size_t)1 << 20)

static void test_blocks(void **state) {
  static const size_t sizes[] = {1,       0,       255,     256, 257,      4 * MIB, 4 * MIB + 1, 3 * MIB, 20 * MIB,
                                 4 * MIB, 4 * MIB, 4 * MIB, 100, 17 * MIB, 5};
  enum { N = sizeof sizes / sizeof *sizes };
  (void)state;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  ga_placement placement = {0};
  unsigned char *at[N];
  size_t own = 0;
  o.device = "cpu", o.threads = 1;
  assert_int_equal(ga_ctx_create(&o, &placement.ctx), GA_OK);
  for (int i = 0; i < N; i++) {
    void *p;
    assert_int_equal(ga_placement_alloc(&placement, sizes[i], &p), GA_OK);
    at[i] = p;
    assert_int_equal((uintptr_t)p % 64, 0);
    own += sizes[i] > 4 * MIB;
    for (int j = 0; j < i; j++) assert_true(at[j] + sizes[j] <= at[i] || at[i] + sizes[i] <= at[j]);
    memset(at[i], i, sizes[i]); /* the block is there */
  }
  /* 16 MiB of small blocks a buffer */
  assert_int_equal(placement.n_buffers, own + 2);
  for (int i = 0; i < N; i++)
    for (size_t e = 0; e < sizes[i]; e += 4095) assert_int_equal(at[i][e], i);
  ga_ctx *ctx = placement.ctx;
  ga_placement_free(&placement);
  assert_int_equal(placement.n_buffers, 0);
  ga_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_blocks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
