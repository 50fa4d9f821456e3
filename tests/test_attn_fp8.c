/* Attention of 8-bit inputs and their quantiser where there is no GPU: the order of V, scales of tokens, the transform that must not
 * change logits, what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/rng.h"
#include "core/attn_fp8.h"
#include "core/ctx.h"

enum { DIM = 64, TOKENS = 150, PADDED = 256, BLOCKS = 3 /* of 64 */ };

static ga_ctx *open_device(const char *name) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = name;
  ga_ctx *ctx;
  assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
  return ctx;
}

typedef struct input {
  float x[TOKENS * DIM], scale[TOKENS];
  uint8_t rows[TOKENS * DIM], values[DIM * PADDED];
} input;

static void quantise(ga_ctx *ctx, input *t, int32_t type, int32_t tokens, int32_t kind, int32_t hadamard) {
  ga_attn_quant_desc d = GA_ATTN_QUANT_DESC_INIT;
  d.tokens = TOKENS;
  d.heads = 1;
  d.dim = DIM;
  d.x_dtype = GA_F32;
  d.kind = kind;
  d.y_dtype = type;
  d.scale_tokens = tokens;
  d.hadamard = hadamard;
  d.seed = 5;
  const ga_attn_quant_io io = {.x = t->x, .y = kind == GA_ATTN_QUANT_ROWS ? t->rows : t->values, .scale = t->scale};
  assert_int_equal(ga_attn_quant(ctx, &d, &io, NULL), GA_OK);
}

/* Of 16 tokens, 8 b + 2 q + e stands at 4 q + 2 b + e; behind the last there are zeros. */
static void order_of_values(void **state) {
  (void)state;
  static const char *const devices[] = {"ref", "cpu"};
  for (int i = 0; i < 2; i++) {
    ga_ctx *ctx = open_device(devices[i]);
    input *t = calloc(1, sizeof *t);
    assert_non_null(t);
    memset(t->values, 0x55, sizeof t->values);
    for (int j = 0; j < TOKENS; j++)
      for (int c = 0; c < DIM; c++) t->x[j * DIM + c] = c == 3 ? 1 + (float)(j % 16) / 16 : 1; /* exact at scale 1 / 224 */
    t->x[3] = 2;
    t->x[64 * DIM + 3] = 2;
    t->x[128 * DIM + 3] = 2;
    quantise(ctx, t, GA_E4M3, 64, GA_ATTN_QUANT_VALUES, 0);
    assert_float_equal(t->scale[0], 2.0f / 448, 1e-9);
    for (int j = 0; j < PADDED; j++) {
      const int slot = j / 16 * 16 + (j / 2 % 4) * 4 + (j / 8 % 2) * 2 + j % 2;
      const float want = j < TOKENS ? t->x[j * DIM + 3] * 224 : 0;
      assert_float_equal(ga_e4m3_to_f32(t->values[3 * PADDED + slot]), want, fabsf(want) / 16);
      assert_float_equal(ga_e4m3_to_f32(t->values[5 * PADDED + slot]), j < TOKENS ? 224 : 0, 0);
    }
    free(t);
    ga_ctx_destroy(ctx);
  }
}

/* A scale a token; nearest even; what i8 cannot hold is in the scale. */
static void int8_by_tokens(void **state) {
  (void)state;
  static const char *const devices[] = {"ref", "cpu"};
  for (int i = 0; i < 2; i++) {
    ga_ctx *ctx = open_device(devices[i]);
    input *t = calloc(1, sizeof *t);
    assert_non_null(t);
    const int8_t *y = (const int8_t *)t->rows;
    for (int j = 0; j < TOKENS; j++) {
      const float scale = (float)(1 << j % 8);
      t->x[j * DIM] = scale * (j % 2 ? -127 : 127);
      t->x[j * DIM + 1] = scale * 2.5f;
      t->x[j * DIM + 2] = scale * -3.5f;
    }
    t->x[7 * DIM + 5] = NAN;
    t->x[8 * DIM + 5] = INFINITY;
    for (int c = 0; c < DIM; c++) t->x[9 * DIM + c] = 0;
    quantise(ctx, t, GA_I8, 1, GA_ATTN_QUANT_ROWS, 0);
    for (int j = 0; j < TOKENS; j++) {
      const int8_t *row = y + j * DIM;
      const bool none = j >= 7 && j <= 9;
      assert_int_equal(row[0], none ? 0 : j % 2 ? -127 : 127);
      assert_int_equal(row[1], none ? 0 : 2);
      assert_int_equal(row[2], none ? 0 : -4);
      if (!none) assert_float_equal(t->scale[j], (float)(1 << j % 8), 1e-5f);
    }
    assert_true(isnan(t->scale[7]));
    assert_true(isinf(t->scale[8]));
    assert_float_equal(t->scale[9], 1, 0);
    free(t);
    ga_ctx_destroy(ctx);
  }
}

/* Q and K transformed alike have the logits they had: O moves no further than rounding to 8 bits does. */
static void transform_keeps_logits(int32_t type, int32_t q_tokens, double most) {
  ga_ctx *ref = open_device("ref");
  input *t = calloc(3, sizeof *t);
  float *want = calloc(2 * TOKENS * DIM, sizeof *want), *got = want + TOKENS * DIM;
  assert_non_null(t);
  assert_non_null(want);
  ga_rng rng;
  ga_rng_seed(&rng, 3);
  for (int i = 0; i < 3; i++)
    for (int e = 0; e < TOKENS * DIM; e++) t[i].x[e] = (float)ga_rng_normal(&rng);
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = d.max_kv = TOKENS;
  d.q_heads = d.kv_heads = 1;
  d.head_dim = DIM;
  ga_attn_io io = {.q = t[0].x, .k = t[1].x, .v = t[2].x, .o = want};
  assert_int_equal(ga_attn(ref, &d, &io, NULL), GA_OK);
  d.q_dtype = type;
  d.kv_dtype = GA_E4M3;
  d.q_scale_tokens = q_tokens;
  d.kv_scale_tokens = 64;
  for (int hadamard = 0; hadamard < 2; hadamard++) {
    double off = 0, size = 0;
    for (int i = 0; i < 2; i++) quantise(ref, &t[i], type, i ? 64 : q_tokens, GA_ATTN_QUANT_ROWS, hadamard);
    quantise(ref, &t[2], GA_E4M3, 64, GA_ATTN_QUANT_VALUES, 0);
    io = (ga_attn_io){.q = t[0].rows, .k = t[1].rows, .v = t[2].values, .o = got};
    ga_attn_scale *const scale[3] = {&io.q_scale, &io.k_scale, &io.v_scale};
    for (int i = 0; i < 3; i++) *scale[i] = (ga_attn_scale){.data = t[i].scale, .block = 1};
    assert_int_equal(ga_attn(ref, &d, &io, NULL), GA_OK);
    for (int e = 0; e < TOKENS * DIM; e++) {
      off += pow((double)(got[e] - want[e]), 2);
      size += pow((double)want[e], 2);
    }
    assert_true(sqrt(off / size) < most);
  }
  free(want);
  free(t);
  ga_ctx_destroy(ref);
}

static void e4m3_keeps_logits(void **state) {
  (void)state;
  transform_keeps_logits(GA_E4M3, 64, 0.06);
}

/* What is left is V's. */
static void int8_keeps_logits(void **state) {
  (void)state;
  transform_keeps_logits(GA_I8, 1, 0.035);
}

static void refused(ga_ctx *ctx, const ga_attn_desc *d, ga_status status, const char *word) {
  ga_plan *plan = NULL;
  assert_int_equal(ga_attn_plan(ctx, d, &plan), status);
  assert_null(plan);
  assert_non_null(strstr(ga_error_text(), word));
}

static void errors(void **state) {
  (void)state;
  ga_ctx *ctx = open_device("ref");
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = d.max_kv = 4;
  d.q_heads = d.kv_heads = 1;
  d.head_dim = DIM;
  d.q_scale_tokens = 64;
  refused(ctx, &d, GA_ERR_ARG, "q_scale_tokens is 64");
  d.q_dtype = GA_E4M3;
  refused(ctx, &d, GA_ERR_DTYPE, "kv_dtype is f32");
  d.kv_dtype = GA_E4M3;
  d.kv_scale_tokens = 32;
  refused(ctx, &d, GA_ERR_ARG, "kv_scale_tokens is 32");
  d.kv_scale_tokens = 128;
  d.flags = GA_ATTN_VARLEN;
  refused(ctx, &d, GA_ERR_ARG, "VARLEN");
  d.flags = 0;
  d.q_scale_tokens = 1;
  refused(ctx, &d, GA_ERR_ARG, "q_scale_tokens is 1; must be 0, 64 or 128 with q_dtype e4m3");
  d.q_dtype = GA_I8;
  d.kv_scale_tokens = 1;
  refused(ctx, &d, GA_ERR_ARG, "kv_scale_tokens is 1; must be 0, 64 or 128 with q_dtype i8");
  d.kv_scale_tokens = 0;
  d.kv_dtype = GA_I8;
  refused(ctx, &d, GA_ERR_DTYPE, "kv_dtype is i8");
  d.q_dtype = d.kv_dtype = GA_E4M3;
  d.q_scale_tokens = 0;
  uint8_t x[4 * DIM] = {0};
  float o[4 * DIM] = {7};
  ga_attn_io io = {.q = x, .k = x, .v = x, .o = o};
  assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "q_scale.data is null"));
  assert_float_equal(o[0], 7, 0);
  ga_attn_quant_desc q = GA_ATTN_QUANT_DESC_INIT;
  q.tokens = 4;
  q.heads = 1;
  q.dim = 96;
  q.hadamard = 1;
  ga_plan *plan = NULL;
  assert_int_equal(ga_attn_quant_plan(ctx, &q, &plan), GA_ERR_SHAPE);
  assert_non_null(strstr(ga_error_text(), "power of two"));
  q.dim = 64;
  q.scale_tokens = 1;
  assert_int_equal(ga_attn_quant_plan(ctx, &q, &plan), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "scale_tokens is 1"));
  q.y_dtype = GA_I8;
  q.hadamard = 0;
  q.kind = GA_ATTN_QUANT_VALUES;
  assert_int_equal(ga_attn_quant_plan(ctx, &q, &plan), GA_ERR_DTYPE);
  assert_non_null(strstr(ga_error_text(), "i8 with kind ROWS"));
  ga_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(order_of_values), cmocka_unit_test(int8_by_tokens), cmocka_unit_test(e4m3_keeps_logits),
                                     cmocka_unit_test(int8_keeps_logits), cmocka_unit_test(errors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
