/* The plans of a context in words: ga_ctx_plan_at, ga_plan_explain; and the names of backends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/ctx.h"
#include "opdef/ops.h"

static ga_ctx *open_ctx(const char *device, const char *disabled) {
  ga_ctx *ctx;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = device;
  o.disable_kernels = disabled;
  if (ga_ctx_create(&o, &ctx) != GA_OK) fail_msg("%s", ga_error_text());
  return ctx;
}

static ga_add_desc add_desc(int64_t rows) {
  ga_add_desc d = GA_ADD_DESC_INIT;
  d.rows = rows;
  d.b_rows = rows;
  d.width = 4;
  d.dtype = GA_F32;
  return d;
}

static void add_test_rows(ga_ctx *ctx, int64_t rows) {
  float x[16] = {0}, y[16];
  const ga_add_desc d = add_desc(rows);
  if (ga_add(ctx, &d, &(ga_add_io){.x = x, .b = x, .y = y}, NULL) != GA_OK) fail_msg("%s", ga_error_text());
}

static void soft_rows(ga_ctx *ctx, int64_t rows) {
  float x[16] = {0}, y[16];
  ga_softmax_desc d = GA_SOFTMAX_DESC_INIT;
  d.rows = rows;
  d.width = 4;
  if (ga_softmax(ctx, &d, &(ga_softmax_io){.x = x, .y = y}, NULL) != GA_OK) fail_msg("%s", ga_error_text());
}

/* Each remembered plan once, op by op, whatever the order of calls. */
static void test_plans_of_context(void **state) {
  (void)state;
  ga_ctx *ctx = open_ctx("cpu", NULL);
  assert_int_equal(ga_ctx_plan_count(ctx), 0);
  assert_null(ga_ctx_plan_at(ctx, 0));
  soft_rows(ctx, 1);
  add_test_rows(ctx, 2);
  soft_rows(ctx, 3);
  add_test_rows(ctx, 2);
  assert_int_equal(ga_ctx_plan_count(ctx), 3);
  static const ga_op want[3] = {GA_OP_add, GA_OP_softmax, GA_OP_softmax};
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(ga_ctx_plan_at(ctx, i)->op, want[i]);
    for (size_t k = 0; k < i; k++) assert_ptr_not_equal(ga_ctx_plan_at(ctx, i), ga_ctx_plan_at(ctx, k));
  }
  assert_null(ga_ctx_plan_at(ctx, 3));
  assert_null(ga_ctx_plan_at(ctx, SIZE_MAX));
  ga_ctx_destroy(ctx);
}

static void explained(ga_ctx *ctx, char *text, size_t capacity) {
  const ga_add_desc d = add_desc(3);
  ga_plan *plan;
  if (ga_add_plan(ctx, &d, &plan) != GA_OK) fail_msg("%s", ga_error_text());
  ga_plan_explain(plan, text, capacity);
  if (capacity > 80) {
    assert_memory_equal(text, "add ", 4);
    assert_non_null(strstr(text, ga_plan_kernel_id(plan)));
    assert_non_null(strstr(text, "3 x 4 f32"));
  }
  ga_plan_destroy(plan);
}

/* A row that was disabled is named with that reason, and no longer as legal. */
static void test_reasons(void **state) {
  (void)state;
  char text[4096], id[96];
  ga_ctx *ctx = open_ctx("cpu", NULL);
  const ga_add_desc d = add_desc(3);
  ga_plan *plan;
  assert_int_equal(ga_add_plan(ctx, &d, &plan), GA_OK);
  (void)snprintf(id, sizeof id, "%s", ga_plan_kernel_id(plan));
  ga_plan_destroy(plan);
  explained(ctx, text, sizeof text);
  assert_null(strstr(text, "disabled by option"));
  ga_ctx_destroy(ctx);
  ctx = open_ctx("cpu", id);
  explained(ctx, text, sizeof text);
  const char *line = strstr(text, "  not ");
  assert_non_null(line);
  assert_non_null(strstr(line, id));
  assert_non_null(strstr(line, "disabled by option"));
  ga_ctx_destroy(ctx);
}

/* The oracle device has one row an op. */
static void test_only_row(void **state) {
  (void)state;
  char text[4096];
  ga_ctx *ctx = open_ctx("ref", NULL);
  explained(ctx, text, sizeof text);
  assert_non_null(strstr(text, "\n  the only legal row\n"));
  assert_null(strstr(text, "legal too"));
  ga_ctx_destroy(ctx);
}

/* Cut at any length it is a prefix, with a NUL, and nothing is written behind. */
static void test_cut(void **state) {
  (void)state;
  char whole[4096], cut[4096];
  ga_ctx *ctx = open_ctx("cpu", NULL);
  explained(ctx, whole, sizeof whole);
  const size_t n = strlen(whole);
  assert_true(n > 80);
  for (size_t capacity = 0; capacity <= n + 1; capacity++) {
    memset(cut, 1, sizeof cut);
    explained(ctx, cut, capacity);
    if (capacity) assert_int_equal(strlen(cut), capacity - 1);
    assert_memory_equal(cut, whole, capacity ? capacity - 1 : 0);
    assert_int_equal(cut[capacity], 1);
  }
  ga_ctx_destroy(ctx);
}

/* The names that ga_ctx_create takes, and no others. */
static void test_backend_names(void **state) {
  (void)state;
  bool cpu = false;
  size_t n = 0;
  for (; ga_backend_name(n); n++) cpu |= !strcmp(ga_backend_name(n), "cpu");
  assert_true(cpu);
  assert_int_equal(n, ga_n_backends);
  assert_null(ga_backend_name(SIZE_MAX));
}

/* Ever new shapes: the memory of plans stays bounded, and what is made again works. */
static void test_plans_bounded(void **state) {
  (void)state;
  ga_ctx *ctx = open_ctx("cpu", NULL);
  static float x[40000], y[40000];
  for (int64_t width = 1; width <= 40000; width++) {
    ga_add_desc d = add_desc(1);
    d.width = width;
    x[width - 1] = (float)width;
    if (ga_add(ctx, &d, &(ga_add_io){.x = x, .b = x, .y = y}, NULL) != GA_OK) fail_msg("%s", ga_error_text());
    assert_true(y[width - 1] == 2 * (float)width);
    assert_true(ga_ctx_plan_count(ctx) <= GA_PLANS_MOST);
  }
  assert_true(ga_ctx_plan_count(ctx) > 0);
  ga_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_plans_bounded), cmocka_unit_test(test_plans_of_context),
      cmocka_unit_test(test_reasons),       cmocka_unit_test(test_only_row),
      cmocka_unit_test(test_cut),           cmocka_unit_test(test_backend_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
