/* The elementary functions of src/cpu/simd/simd_math.h against the C library in double, on the plain C vectors (the
 * others differ in fma only), and norm, rope, softmax by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/ctx.h"
#include "cpu/simd/simd_generic.h"
#include "opdef/ops.h"

#include "cpu/simd/simd_math.h"

static float lane(vf x) { return x.v[0]; }

static double ulps(float got, double want) {
  int e;
  (void)frexp(want, &e);
  return fabs((double)got - want) / ldexp(1, (e - 24 > -149 ? e - 24 : -149));
}

static void worse(double *worst, double x) {
  if (!(x <= *worst)) *worst = x;
}

static void test_exp(void **state) {
  (void)state;
  double worst = 0;
  for (float x = -87; x < 88.7f; x += 0.00137f) worse(&worst, ulps(lane(vf_exp(vf_set(x))), exp((double)x)));
  assert_true(worst < 1.5);
  assert_true(lane(vf_exp(vf_set(0))) == 1);
  assert_true(lane(vf_exp(vf_set(-INFINITY))) == 0);
  assert_true(lane(vf_exp(vf_set(-105))) == 0);
  assert_true(lane(vf_exp(vf_set(89))) == INFINITY);
  assert_true(lane(vf_exp(vf_set(INFINITY))) == INFINITY);
  assert_true(isnan(lane(vf_exp(vf_set(NAN)))));
}

static void test_tanh(void **state) {
  (void)state;
  double worst = 0;
  for (float x = -12; x < 12; x += 0.000731f) worse(&worst, ulps(lane(vf_tanh(vf_set(x))), tanh((double)x)));
  assert_true(worst < 2);
  assert_true(lane(vf_tanh(vf_set(1e-30f))) == 1e-30f);
  assert_true(lane(vf_tanh(vf_set(-INFINITY))) == -1);
  assert_true(isnan(lane(vf_tanh(vf_set(NAN)))));
}

/* Without fma the rounding of x^2 costs x^2 units more. */
static void test_erfc(void **state) {
  (void)state;
  double worst = 0;
  for (float x = -9; x < 4; x += 0.00051f) {
    const double want = erfc((double)x);
    worse(&worst, ulps(lane(vf_erfc(vf_set(x))), want) / (1 + (x > 0 ? (double)x * (double)x : 0)));
  }
  assert_true(worst < 6);
  assert_true(lane(vf_erfc(vf_set(INFINITY))) == 0);
  assert_true(lane(vf_erfc(vf_set(-INFINITY))) == 2);
  assert_true(isnan(lane(vf_erfc(vf_set(NAN)))));
}

static void test_sincos(void **state) {
  (void)state;
  double worst = 0;
  for (float x = -0.785398f; x < 0.785398f; x += 0.0000173f) {
    vf s, c;
    vf_sincos_quarter(vf_set(x), &s, &c);
    worse(&worst, ulps(lane(s), sin((double)x)));
    worse(&worst, ulps(lane(c), cos((double)x)));
  }
  assert_true(worst < 1.5);
}

/* --- ops by hand --- */

static const char *const devices[] = {"ref", "cpu"};

static void by_hand(ga_ctx *ctx) {
  float x[4] = {3, 4, 0, 0}, y[4];
  ga_norm_desc n = GA_NORM_DESC_INIT;
  n.rows = 1;
  n.width = 4;
  n.eps = 0;
  ga_norm_io ni = {.x = x, .y = y};
  assert_int_equal(ga_norm(ctx, &n, &ni, NULL), GA_OK); /* rms = 2.5 */
  assert_float_equal(y[0], 1.2f, 1e-6);
  n.kind = GA_NORM_L2;
  assert_int_equal(ga_norm(ctx, &n, &ni, NULL), GA_OK);
  assert_float_equal(y[1], 0.8f, 1e-6);
  ni.residual = y; /* onto y itself */
  assert_int_equal(ga_norm(ctx, &n, &ni, NULL), GA_OK);
  assert_float_equal(y[1], 1.6f, 1e-6);
  n.y_stride = 8;
  assert_int_equal(ga_norm(ctx, &n, &ni, NULL), GA_ERR_ARG);

  const float quarter = 1.57079633f; /* pi / 2 */
  const int32_t position = 1;
  float r[4] = {1, 2, 3, 4};
  ga_rope_desc d = GA_ROPE_DESC_INIT;
  d.tokens = d.heads = 1;
  d.head_dim = 4;
  d.rot_dim = 2;
  ga_rope_io ri = {.x = r, .positions = &position, .inv_freq = &quarter};
  assert_int_equal(ga_rope(ctx, &d, &ri, NULL), GA_OK); /* (1, 2) -> (-2, 1); the rest stays */
  assert_float_equal(r[0], -2, 1e-6);
  assert_float_equal(r[1], 1, 1e-6);
  assert_float_equal(r[2], 3, 0);

  const float l[3] = {0, 0.693147181f /* ln 2 */, -INFINITY};
  ga_softmax_desc s = GA_SOFTMAX_DESC_INIT;
  s.rows = 1;
  s.width = 3;
  ga_softmax_io si = {.x = l, .y = y};
  assert_int_equal(ga_softmax(ctx, &s, &si, NULL), GA_OK);
  assert_float_equal(y[0], 1.0f / 3, 1e-6);
  assert_float_equal(y[2], 0, 0);
}

/* A rotation behind the public description is not looked at, nor taken for a newer version of it. */
static void stores_alone(ga_ctx *ctx, ga_kv_store_fused_desc d) {
  ga_plan *plan;
  assert_int_equal(ga_kv_store_plan(ctx, &d.plain, &plan), GA_OK);
  assert_int_equal(((const ga_kv_store_fused_desc *)(const void *)plan->desc)->rot_dim, 0);
  ga_plan_destroy(plan);
  d.plain.struct_size = sizeof d;
  assert_int_equal(ga_kv_store_plan(ctx, &d.plain, &plan), GA_ERR_ARG);
}

/* A head of (3, 4) is normed to (0.8485, 1.1314) and turned by pi / 2. The oracle does it; a CPU leaves it to ops of
 * its own. */
static void heads_by_hand(ga_ctx *ctx, bool oracle) {
  const float quarter = 1.57079633f /* pi / 2 */, weight[2] = {1, 10}, k[2] = {3, 4}, v[2] = {5, 6};
  const int32_t position = 1, slot = 0;
  float q[2] = {3, 4}, k_cache[2], v_cache[2];
  ga_kv_store_fused_desc d = GA_KV_STORE_FUSED_DESC_INIT;
  ga_kv_store_fused_io io = {.plain = {.k = k, .v = v, .slot = &slot, .k_cache = k_cache, .v_cache = v_cache},
                             .q = q,
                             .positions = &position,
                             .inv_freq = &quarter};
  d.plain.tokens = d.plain.slots = d.plain.heads = d.q_heads = d.head_norm = 1;
  d.plain.head_dim = 2;
  d.plain.kv_dtype = GA_F32;
  assert_int_equal(ga_kv_store_fused(ctx, &d, &io, NULL), GA_ERR_ARG); /* nothing turns */
  d.rot_dim = 2;
  stores_alone(ctx, d);
  if (!oracle) {
    assert_int_equal(ga_kv_store_fused(ctx, &d, &io, NULL), GA_ERR_UNSUPPORTED);
    return;
  }
  assert_int_equal(ga_kv_store_fused(ctx, &d, &io, NULL), GA_ERR_ARG); /* no weights */
  io.q_norm = io.k_norm = weight;
  assert_int_equal(ga_kv_store_fused(ctx, &d, &io, NULL), GA_OK);
  assert_float_equal(k_cache[0], -11.3137085f, 1e-5);
  assert_float_equal(k_cache[1], 0.848528137f, 1e-6);
  assert_float_equal(q[0], -11.3137085f, 1e-5);
  assert_float_equal(v_cache[1], 6, 0);
}

static void test_layers_by_hand(void **state) {
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    ga_ctx_options o = GA_CTX_OPTIONS_INIT;
    ga_ctx *ctx;
    o.device = devices[i];
    assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
    by_hand(ctx);
    heads_by_hand(ctx, i == 0);
    ga_ctx_destroy(ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_exp),    cmocka_unit_test(test_tanh),           cmocka_unit_test(test_erfc),
      cmocka_unit_test(test_sincos), cmocka_unit_test(test_layers_by_hand),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
