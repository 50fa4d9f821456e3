/* The tile layer on the emulator, by ga/launch.h: tile_unit.cu against plain C. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "emu/emu.h"
#include "ga/launch.h"
#include "tests/emu/tile_unit.h"

extern const emu_kernel emu_kernel_tile_unit;

enum { N = 16 * 64 };

static void map_box(ga_ctx *ctx, void *data, int depth, ga_tmap *map) {
  const ga_tensor_map_desc d = {.struct_size = sizeof d,
                                .data = data,
                                .dtype = GA_BF16,
                                .n_dims = 3,
                                .dim = {64, 16, depth},
                                .stride = {1, 64, N},
                                .box = {64, 16, 1},
                                .swizzle = 128};
  assert_int_equal(ga_tensor_map(ctx, &d, map), GA_OK);
}

static void check_tile_rows(const float *rows) {
  for (int r = 0; r < 16; r++) {
    float sum = 0, powers = 0;
    for (int c = 0; c < 16; c++) {
      const float x = (float)r - 0.25f * (float)c;
      sum += (x + (float)r) * (float)(r + 1); /* the maximum is column 0's */
      powers += exp2f(x);
    }
    assert_true(rows[4 * r] == (float)r);
    assert_true(fabsf(rows[4 * r + 1] - sum) < 1e-3f * fabsf(sum) + 1e-3f);
    assert_true(fabsf(rows[4 * r + 2] - powers) < 1e-4f * powers);
    assert_true(rows[4 * r + 3] == 16);
  }
}

/* Every tile once, and a group of rows before the next. */
static void check_order(const int32_t *order) {
  int seen[UNIT_ROWS * UNIT_COLS] = {0};
  for (int i = 0; i < UNIT_ROWS * UNIT_COLS; i++) {
    assert_in_range(order[i], 0, UNIT_ROWS * UNIT_COLS - 1);
    assert_int_equal(seen[order[i]]++, 0);
    assert_int_equal(order[i] / UNIT_COLS / UNIT_GROUP, i / (UNIT_GROUP * UNIT_COLS));
  }
}

static void test_tile_unit(void **state) {
  (void)state;
  static uint16_t x[2 * N], y[4 * N];
  float rows[64];
  int32_t order[UNIT_ROWS * UNIT_COLS];
  void *dx, *dy, *dr, *d_order;
  ga_ctx *ctx;
  ga_function *f;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  tile_unit_args a;
  ga_launch l = {.struct_size = sizeof l,
                 .grid = {2, 1, 1},
                 .block = {32, 1, 1},
                 .cluster = {2, 1, 1},
                 .shared_bytes = 4 * 2048 + 8};
  o.device = "emu";
  for (int i = 0; i < 2 * N; i++) x[i] = (uint16_t)(i * 7 + 1);
  assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
  assert_int_equal(ga_buffer_alloc(ctx, sizeof x, &dx), GA_OK);
  assert_int_equal(ga_buffer_alloc(ctx, sizeof y, &dy), GA_OK);
  assert_int_equal(ga_buffer_alloc(ctx, sizeof rows, &dr), GA_OK);
  assert_int_equal(ga_buffer_alloc(ctx, sizeof order, &d_order), GA_OK);
  assert_int_equal(ga_copy_to_device(ctx, dx, x, sizeof x, NULL), GA_OK);
  map_box(ctx, dx, 2, &a.x);
  map_box(ctx, dy, 4, &a.y);
  a.rows = dr;
  a.order = d_order;
  assert_int_equal(ga_function_load(ctx, &emu_kernel_tile_unit, "tile_unit", &f), GA_OK);
  assert_int_equal(ga_function_launch(f, &l, &a, NULL), GA_OK);
  if (ga_stream_sync(ctx, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  assert_int_equal(ga_copy_to_host(ctx, y, dy, sizeof y, NULL), GA_OK);
  assert_int_equal(ga_copy_to_host(ctx, rows, dr, sizeof rows, NULL), GA_OK);
  assert_int_equal(ga_copy_to_host(ctx, order, d_order, sizeof order, NULL), GA_OK);
  for (int i = 0; i < 4 * N; i++) assert_int_equal(y[i], x[i % (2 * N)]);
  check_tile_rows(rows);
  check_order(order);
  ga_function_destroy(f);
  ga_buffer_free(ctx, dx);
  ga_buffer_free(ctx, dy);
  ga_buffer_free(ctx, dr);
  ga_buffer_free(ctx, d_order);
  ga_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tile_unit)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
