/* FP8 attention and its quantiser where there is no GPU: the order of V, the transform that must not change logits, what is refused. */
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
  float x[TOKENS * DIM], scale[BLOCKS];
  uint8_t rows[TOKENS * DIM], values[DIM * PADDED];
} input;

static void quantise(ga_ctx *ctx, input *t, int32_t kind, int32_t hadamard) {
  ga_attn_quant_desc d = GA_ATTN_QUANT_DESC_INIT;
  d.tokens = TOKENS;
  d.heads = 1;
  d.dim = DIM;
  d.x_dtype = GA_F32;
  d.kind = kind;
  d.scale_tokens = 64;
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
    quantise(ctx, t, GA_ATTN_QUANT_VALUES, 0);
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

/* Q and K transformed alike have the logits they had: O moves no further than rounding to e4m3 does. */
static void transform_keeps_logits(void **state) {
  (void)state;
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
  d.q_dtype = d.kv_dtype = GA_E4M3;
  d.q_scale_tokens = d.kv_scale_tokens = 64;
  for (int hadamard = 0; hadamard < 2; hadamard++) {
    double off = 0, size = 0;
    for (int i = 0; i < 3; i++) quantise(ref, &t[i], i == 2 ? GA_ATTN_QUANT_VALUES : GA_ATTN_QUANT_ROWS, i < 2 && hadamard);
    io = (ga_attn_io){.q = t[0].rows, .k = t[1].rows, .v = t[2].values, .o = got};
    ga_attn_scale *const scale[3] = {&io.q_scale, &io.k_scale, &io.v_scale};
    for (int i = 0; i < 3; i++) *scale[i] = (ga_attn_scale){.data = t[i].scale, .block = 1};
    assert_int_equal(ga_attn(ref, &d, &io, NULL), GA_OK);
    for (int e = 0; e < TOKENS * DIM; e++) {
      off += pow((double)(got[e] - want[e]), 2);
      size += pow((double)want[e], 2);
    }
    assert_true(sqrt(off / size) < 0.06);
  }
  free(want);
  free(t);
  ga_ctx_destroy(ref);
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
  ga_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(order_of_values), cmocka_unit_test(transform_keeps_logits), cmocka_unit_test(errors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
