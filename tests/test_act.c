/* ga_act by hand, on the oracle and on the CPU, and the descriptions that it refuses. */
#include <math.h>

#include "ga/layer.h"
#include "tests/op_rig.h"

static ga_act_desc act_of_width(int64_t width) {
  ga_act_desc d = GA_ACT_DESC_INIT;
  d.rows = 1;
  d.width = width;
  return d;
}

static void acts_by_hand(ga_ctx *ctx) {
  const float x[3] = {-2, 0, 3}, g[3] = {10, 10, 10};
  float y[3];
  ga_act_io io = {.x = x, .g = g, .y = y};
  ga_act_desc d = act_of_width(3);
  d.act = GA_ACT_RELU2;
  assert_int_equal(ga_act(ctx, &d, &io, NULL), GA_OK);
  assert_float_equal(y[0], 0, 0);
  assert_float_equal(y[2], 90, 0);
  d.act = GA_ACT_SILU;
  io.g = NULL;
  assert_int_equal(ga_act(ctx, &d, &io, NULL), GA_OK);
  assert_float_equal(y[0], -2 / (1 + expf(2)), 1e-6);
  assert_float_equal(y[1], 0, 0);
}

static void test_by_hand(void **state) {
  (void)state;
  on_ref_and_cpu(acts_by_hand);
}

static void refuse_act(ga_ctx *ctx, const ga_act_desc *d, ga_status status, const char *text) {
  ga_plan *plan;
  const ga_status got = ga_act_plan(ctx, d, &plan);
  assert_plan_refused(got, plan, status, text);
}

static void test_refused_acts(void **state) {
  (void)state;
  ga_ctx *ctx = open_op_device("cpu");
  ga_act_desc d = act_of_width(-1);
  refuse_act(ctx, &d, GA_ERR_SHAPE, "act: width is -1; must be 0 to 2^40");
  d = act_of_width(4);
  d.act = 6;
  refuse_act(ctx, &d, GA_ERR_ARG, "act: act is 6; must be 0 to 5 (ga_act_kind)");
  d = act_of_width(4);
  d.dtype = GA_Q4_0;
  refuse_act(ctx, &d, GA_ERR_DTYPE, "act: dtype is q4_0; allowed: f32, f16, bf16");
  d = act_of_width(4);
  d.g_stride = 3;
  refuse_act(ctx, &d, GA_ERR_SHAPE, "act: g_stride is 3; must be 0, or 4 to 2^40");
  d = act_of_width(4);
  const ga_act_io io = {0};
  assert_int_equal(ga_act(ctx, &d, &io, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "act: x is null"));
  ga_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_by_hand), cmocka_unit_test(test_refused_acts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
