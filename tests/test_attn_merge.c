/* ga_attn_merge by hand, on the oracle and on the CPU, and the descriptions that it refuses. */
#include <math.h>

#include "base/compiler.h"
#include "ga/layer.h"
#include "tests/op_rig.h"

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

/* Parts of 16 bits: 4 and 8 as bf16, and as f16. A type of 0 is f32, as callers of the first version have it. */
static void merges_other_types(ga_ctx *ctx) {
  static const uint16_t bf16[2] = {0x4080, 0x4100}, f16[2] = {0x4400, 0x4800};
  static const float f32[2] = {4, 8};
  const struct {
    int32_t dtype;
    const void *part;
  } types[] = {{GA_BF16, bf16}, {GA_F16, f16}, {GA_F32, f32}, {0, f32}};
  for (size_t i = 0; i < GA_COUNT_OF(types); i++) {
    const float part_lse = 1.09861229f;
    float o[2] = {0, 4}, lse = 0;
    ga_attn_merge_desc d = GA_ATTN_MERGE_DESC_INIT;
    d.rows = d.heads = 1;
    d.dim = 2;
    d.part_dtype = types[i].dtype;
    const ga_attn_merge_io io = {.o = o, .lse = &lse, .part = types[i].part, .part_lse = &part_lse};
    assert_int_equal(ga_attn_merge(ctx, &d, &io, NULL), GA_OK);
    assert_float_equal(o[0], 3, 1e-6);
    assert_float_equal(o[1], 7, 1e-6);
  }
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
  const ga_status got = ga_attn_merge_plan(ctx, d, &plan);
  assert_plan_refused(got, plan, status, text);
}

static void refuse_descriptions(ga_ctx *ctx) {
  ga_attn_merge_desc d = GA_ATTN_MERGE_DESC_INIT;
  d.rows = d.heads = 1;
  refuse_merge(ctx, &d, GA_ERR_SHAPE, "attn_merge: dim is 0; must be 1 to 1024");
  d.dim = 8;
  d.kind = 2;
  refuse_merge(ctx, &d, GA_ERR_ARG, "attn_merge: kind is 2; must be 0 to 1 (ga_attn_merge_kind)");
  d.kind = 0;
  d.part_dtype = GA_Q8_0;
  refuse_merge(ctx, &d, GA_ERR_DTYPE, "attn_merge: part_dtype is q8_0; must be f32, f16 or bf16");
  d.part_dtype = GA_BF16;
  d.kind = GA_ATTN_MERGE_STATE;
  refuse_merge(ctx, &d, GA_ERR_DTYPE, "attn_merge: part_dtype is bf16; the state of GA_ATTN_MERGE_STATE is f32");
}

static void look_at_merge(ga_ctx *ctx) {
  merges_by_hand(ctx);
  merges_other_types(ctx);
  with_nothing(ctx);
  refuse_descriptions(ctx);
}

static void test_all(void **state) {
  (void)state;
  on_ref_and_cpu(look_at_merge);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
