/* Attention of 8-bit inputs and their quantiser where there is no GPU: the order of V, scales of tokens, the transform
 * that must not change logits, what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/rng.h"
#include "core/ctx.h"
#include "opdef/attn_fp8.h"
#include "opdef/ops.h"

enum { DIM = 64, TOKENS = 150, PADDED = 256, BLOCKS = 3 /* of 64 */ };

static ga_ctx *open_ctx(const char *name) {
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

static void quantise_input(ga_ctx *ctx, input *t, int32_t type, int32_t tokens, int32_t kind, int32_t hadamard) {
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
    ga_ctx *ctx = open_ctx(devices[i]);
    input *t = calloc(1, sizeof *t);
    assert_non_null(t);
    memset(t->values, 0x55, sizeof t->values);
    for (int j = 0; j < TOKENS; j++)
      for (int c = 0; c < DIM; c++)
        t->x[j * DIM + c] = c == 3 ? 1 + (float)(j % 16) / 16 : 1; /* exact at scale 1 / 224 */
    t->x[3] = 2;
    t->x[64 * DIM + 3] = 2;
    t->x[128 * DIM + 3] = 2;
    quantise_input(ctx, t, GA_E4M3, 64, GA_ATTN_QUANT_VALUES, 0);
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

/* Root mean square of what o is off by, relative to that of want. */
static double distance(const float *o, const float *want, int n) {
  double off = 0, size = 0;
  for (int i = 0; i < n; i++) {
    off += pow((double)(o[i] - want[i]), 2);
    size += pow((double)want[i], 2);
  }
  return sqrt(off / size);
}

/* A scale a token; nearest even; what i8 cannot hold is in the scale. */
static void int8_by_tokens(void **state) {
  (void)state;
  static const char *const devices[] = {"ref", "cpu"};
  for (int i = 0; i < 2; i++) {
    ga_ctx *ctx = open_ctx(devices[i]);
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
    quantise_input(ctx, t, GA_I8, 1, GA_ATTN_QUANT_ROWS, 0);
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
  ga_ctx *ref = open_ctx("ref");
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
    for (int i = 0; i < 2; i++) quantise_input(ref, &t[i], type, i ? 64 : q_tokens, GA_ATTN_QUANT_ROWS, hadamard);
    quantise_input(ref, &t[2], GA_E4M3, 64, GA_ATTN_QUANT_VALUES, 0);
    io = (ga_attn_io){.q = t[0].rows, .k = t[1].rows, .v = t[2].values, .o = got};
    ga_attn_scale *const scale[3] = {&io.q_scale, &io.k_scale, &io.v_scale};
    for (int i = 0; i < 3; i++) *scale[i] = (ga_attn_scale){.data = t[i].scale, .block = 1};
    assert_int_equal(ga_attn(ref, &d, &io, NULL), GA_OK);
    assert_true(distance(got, want, TOKENS * DIM) < most);
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

/* V with signs and without: its columns' means taken off and added again leave the same attention, which is closer
 * where means are large. */
static void values_lose_their_mean(void **state) {
  (void)state;
  static const char *const devices[] = {"ref", "cpu"};
  static float q[TOKENS * DIM], k[TOKENS * DIM], want[TOKENS * DIM], got[2][TOKENS * DIM], one = 1;
  static _Alignas(16) float mean[DIM];
  static uint8_t q8[TOKENS * DIM], k8[TOKENS * DIM];
  ga_ctx *ref = open_ctx("ref");
  input *t = calloc(1, sizeof *t);
  assert_non_null(t);
  ga_rng rng;
  ga_rng_seed(&rng, 9);
  for (int i = 0; i < TOKENS * DIM; i++) {
    q8[i] = ga_f32_to_e4m3((float)ga_rng_normal(&rng)), k8[i] = ga_f32_to_e4m3((float)ga_rng_normal(&rng));
    q[i] = ga_e4m3_to_f32(q8[i]), k[i] = ga_e4m3_to_f32(k8[i]);
    t->x[i] = (float)ga_rng_normal(&rng) + (float)(i % DIM);
  }
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = d.max_kv = TOKENS;
  d.q_heads = d.kv_heads = 1;
  d.head_dim = DIM;
  assert_int_equal(ga_attn(ref, &d, &(ga_attn_io){.q = q, .k = k, .v = t->x, .o = want}, NULL), GA_OK);
  d.flags = GA_ATTN_FAST_SUM; /* a permission */
  d.q_dtype = d.kv_dtype = GA_E4M3;
  for (int i = 0; i < 2; i++) {
    ga_ctx *ctx = open_ctx(devices[i]);
    for (int centre = 0; centre < 2; centre++) {
      ga_attn_quant_desc to = GA_ATTN_QUANT_DESC_INIT;
      to.tokens = TOKENS;
      to.heads = 1;
      to.dim = DIM;
      to.x_dtype = GA_F32;
      to.kind = GA_ATTN_QUANT_VALUES;
      to.scale_tokens = 0;
      to.centre = centre;
      float scale = centre ? 0.01f : 0.2f;
      const ga_attn_quant_io from = {
          .x = t->x, .y = t->values, .given = {.data = &scale}, .mean = centre ? mean : NULL};
      assert_int_equal(ga_attn_quant(ctx, &to, &from, NULL), GA_OK);
      ga_attn_io io = {.q = q8,
                       .k = k8,
                       .v = t->values,
                       .o = got[centre],
                       .q_scale = {.data = &one},
                       .k_scale = {.data = &one},
                       .v_scale = {.data = &scale},
                       .v_mean = from.mean};
      assert_int_equal(ga_attn(ref, &d, &io, NULL), GA_OK);
    }
    float exact = 0;
    for (int j = 0; j < TOKENS; j++) exact += t->x[j * DIM + 40] / TOKENS;
    assert_float_equal(mean[40], exact, 1e-3f);
    assert_true(distance(got[1], want, TOKENS * DIM) < 0.002);
    assert_true(distance(got[1], want, TOKENS * DIM) < 0.2 * distance(got[0], want, TOKENS * DIM));
    ga_ctx_destroy(ctx);
  }
  free(t);
  ga_ctx_destroy(ref);
}

/* --- a cache of e4m3 --- */

enum { PAGE = 32, PAGES = 5, SLOTS = PAGES * PAGE, KV_HEADS = 2 };

typedef struct cache {
  uint8_t k[SLOTS * KV_HEADS * DIM], v[SLOTS * KV_HEADS * DIM];
  float k_scale[KV_HEADS * SLOTS], v_scale[KV_HEADS * SLOTS];
} cache;

/* Values of 1e-5 and of 1e4 in one cache, where e4m3 by itself ends at 2^-9 and 448; pages in another order. Without
 * scales of its own each token has that of the first. */
static void cache_on(const char *device) {
  static cache c;
  static float x[2][TOKENS * KV_HEADS * DIM], q[DIM * KV_HEADS], want[KV_HEADS * DIM], got[KV_HEADS * DIM];
  ga_ctx *ctx = open_ctx(device);
  ga_rng rng;
  int32_t slot[TOKENS], pages[PAGES] = {2, 0, 4, 1, 3}, length = TOKENS;
  ga_rng_seed(&rng, 5);
  for (int i = 0; i < KV_HEADS * DIM; i++) q[i] = (float)ga_rng_normal(&rng);
  for (int t = 0; t < TOKENS; t++)
    for (int i = 0; i < KV_HEADS * DIM; i++) {
      x[0][t * KV_HEADS * DIM + i] = (float)(ga_rng_normal(&rng) * 1e4);
      x[1][t * KV_HEADS * DIM + i] = (float)(ga_rng_normal(&rng) * (t % 2 ? 1e-5 : 1e-4));
    }
  for (int t = 0; t < TOKENS; t++) slot[t] = pages[t / PAGE] * PAGE + t % PAGE;
  ga_kv_store_desc s = GA_KV_STORE_DESC_INIT;
  s.tokens = TOKENS;
  s.slots = SLOTS;
  s.heads = KV_HEADS;
  s.head_dim = s.v_dim = DIM;
  s.kv_dtype = GA_E4M3;
  ga_kv_store_io store = {.k = x[0], .v = x[1], .slot = slot, .k_cache = c.k, .v_cache = c.v};
  assert_int_equal(ga_kv_store(ctx, &s, &store, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "k_scale is null"));
  store.k_scale = c.k_scale;
  store.v_scale = c.v_scale;
  assert_int_equal(ga_kv_store(ctx, &s, &store, NULL), GA_OK);
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = 1;
  d.max_kv = TOKENS;
  d.q_heads = d.kv_heads = KV_HEADS;
  d.head_dim = DIM;
  d.scale = 1e-4f / 8;
  assert_int_equal(ga_attn(ctx, &d, &(ga_attn_io){.q = q, .k = x[0], .v = x[1], .o = want}, NULL), GA_OK);
  d.kv_dtype = GA_E4M3;
  d.flags = GA_ATTN_PAGED;
  d.page_size = PAGE;
  ga_attn_io io = {
      .q = q, .k = c.k, .v = c.v, .o = got, .kv_len = &length, .page_table = pages, .page_table_stride = PAGES};
  assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "k_scale.data is null"));
  io.k_scale = (ga_attn_scale){.data = c.k_scale, .batch = PAGE, .head = SLOTS, .block = 1};
  io.v_scale = (ga_attn_scale){.data = c.v_scale, .batch = PAGE, .head = SLOTS, .block = 1};
  for (int by_token = 0; by_token < 2; by_token++) {
    d.kv_scale_tokens = by_token;
    assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_OK);
    assert_true(by_token == (distance(got, want, KV_HEADS * DIM) < 0.06));
  }
  ga_ctx_destroy(ctx);
}

static void cache_has_scales(void **state) {
  (void)state;
  cache_on("ref");
  cache_on("cpu");
}

/* --- what is refused --- */

static void attn_refused(ga_ctx *ctx, const ga_attn_desc *d, ga_status status, const char *word) {
  ga_plan *plan = NULL;
  assert_int_equal(ga_attn_plan(ctx, d, &plan), status);
  assert_null(plan);
  assert_non_null(strstr(ga_error_text(), word));
}

static void errors(void **state) {
  (void)state;
  ga_ctx *ctx = open_ctx("ref");
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.max_q = d.max_kv = 4;
  d.q_heads = d.kv_heads = 1;
  d.head_dim = DIM;
  d.q_scale_tokens = 64;
  attn_refused(ctx, &d, GA_ERR_ARG, "q_scale_tokens is 64");
  d.q_dtype = GA_E4M3;
  attn_refused(ctx, &d, GA_ERR_DTYPE, "kv_dtype is f32");
  d.kv_dtype = GA_E4M3;
  d.kv_scale_tokens = 32;
  attn_refused(ctx, &d, GA_ERR_ARG, "kv_scale_tokens is 32");
  d.q_dtype = GA_F32;
  d.q_scale_tokens = 0;
  attn_refused(ctx, &d, GA_ERR_ARG, "kv_scale_tokens is 32; must be 0 or 1 with q_dtype f32, kv_dtype e4m3");
  d.kv_scale_tokens = 1;
  d.kv_segments = 2;
  attn_refused(ctx, &d, GA_ERR_ARG, "kv_segments is 2; must be 0 with kv_dtype e4m3");
  d.kv_segments = 0;
  d.kv_dtype = GA_F16;
  attn_refused(ctx, &d, GA_ERR_ARG, "kv_scale_tokens is 1");
  d.q_dtype = d.kv_dtype = GA_E4M3;
  attn_refused(ctx, &d, GA_ERR_ARG, "kv_scale_tokens is 1");
  d.q_scale_tokens = 64;
  d.kv_scale_tokens = 128;
  d.flags = GA_ATTN_VARLEN;
  attn_refused(ctx, &d, GA_ERR_ARG, "VARLEN");
  d.flags = 0;
  d.q_scale_tokens = 1;
  attn_refused(ctx, &d, GA_ERR_ARG, "q_scale_tokens is 1; must be 0, 64 or 128 with q_dtype e4m3");
  d.q_dtype = GA_I8;
  d.kv_scale_tokens = 1;
  attn_refused(ctx, &d, GA_ERR_ARG, "kv_scale_tokens is 1; must be 0, 64 or 128 with q_dtype i8");
  d.kv_scale_tokens = 0;
  d.kv_dtype = GA_I8;
  attn_refused(ctx, &d, GA_ERR_DTYPE, "kv_dtype is i8");
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
  q.y_dtype = GA_E4M3;
  q.kind = GA_ATTN_QUANT_ROWS;
  q.scale_tokens = 128;
  q.centre = 1;
  assert_int_equal(ga_attn_quant_plan(ctx, &q, &plan), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "centre is 1; must be 0, or 1 with kind VALUES"));
  ga_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(order_of_values),
                                     cmocka_unit_test(int8_by_tokens),
                                     cmocka_unit_test(e4m3_keeps_logits),
                                     cmocka_unit_test(int8_keeps_logits),
                                     cmocka_unit_test(values_lose_their_mean),
                                     cmocka_unit_test(cache_has_scales),
                                     cmocka_unit_test(errors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
