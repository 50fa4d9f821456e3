/* ga_attn_merge by hand, on the oracle and on the CPU, and the descriptions that it refuse_merge. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "ga/layer.h"

/* Results over one key each, whose logits differ by ln 3: weights of 1/4 and 3/4. */
static void merges_by_hand(ga_ctx *ctx) {
  const float part[2] = {4, 8}, part_lse = 1.09861229f /* ln 3 */;
  float o[2] = {0, 4}, lse = 0;
  ga_attn_merge_desc d = GA_ATTN_MERGE_DESC_INIT;
  d.rows = d.heads = 1;
  d.dim = 2;
  const ga_attn_merge_io io = {.o = o, .lse = &lse, .part = part, .part_lse = &part_lse};
  assert_int_equal(ga_attn_merge(ctx, &d, &io, NULL), GA_OK);
  assert_float_equal(o[0], 3, 1e-6);
  assert_float_equal(o[1], 7, 1e-6);
  assert_float_equal(lse, logf(4), 1e-6);
}

/* An LSE of -infinity marks a part over no keys: its O is not read. */
static void with_nothing(ga_ctx *ctx) {
  const float part[1] = {NAN}, part_lse = -INFINITY;
  float o[1] = {5}, lse = 2;
  ga_attn_merge_desc d = GA_ATTN_MERGE_DESC_INIT;
  d.rows = d.heads = d.dim = 1;
  const ga_attn_merge_io io = {.o = o, .lse = &lse, .part = part, .part_lse = &part_lse};
  assert_int_equal(ga_attn_merge(ctx, &d, &io, NULL), GA_OK);
  assert_float_equal(o[0], 5, 0);
  assert_float_equal(lse, 2, 0);
}

static void refuse_merge(ga_ctx *ctx, const ga_attn_merge_desc *d, ga_status status, const char *text) {
  ga_plan *plan;
  assert_int_equal(ga_attn_merge_plan(ctx, d, &plan), status);
  if (!strstr(ga_error_text(), text)) fail_msg("'%s' is not in '%s'", text, ga_error_text());
}

static void refuse_descriptions(ga_ctx *ctx) {
  ga_attn_merge_desc d = GA_ATTN_MERGE_DESC_INIT;
  d.rows = d.heads = 1;
  refuse_merge(ctx, &d, GA_ERR_SHAPE, "attn_merge: dim is 0; must be 1 to 1024");
  d.dim = 8;
  d.kind = 2;
  refuse_merge(ctx, &d, GA_ERR_ARG, "attn_merge: kind is 2; must be 0 to 1 (ga_attn_merge_kind)");
  d.kind = 0;
  d.reserved = 1;
  refuse_merge(ctx, &d, GA_ERR_ARG, "attn_merge: reserved is 1; must be 0");
}

static void test_all(void **state) {
  (void)state;
  static const char *const devices[] = {"ref", "cpu"};
  for (size_t i = 0; i < 2; i++) {
    ga_ctx_options o = GA_CTX_OPTIONS_INIT;
    ga_ctx *ctx;
    o.device = devices[i];
    assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
    merges_by_hand(ctx);
    with_nothing(ctx);
    refuse_descriptions(ctx);
    ga_ctx_destroy(ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
