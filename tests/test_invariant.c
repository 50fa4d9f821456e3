/* Batch-invariant rows: a row of the result has the same bits whatever else the call has. Each instruction set of this
 * machine, by leaving the better ones out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "ga/attn.h"
#include "ga/gemm.h"
#include "ga/layer.h"
#include "tests/gemm_data.h"

/* Kernels left out, so that rows of all instruction sets have their turn. */
static const char *const left_out[] = {NULL, "*amx*", "*amx*,*avx512*", "*amx*,*avx512*,*avx2*,*neon*"};
enum { SETS = sizeof left_out / sizeof left_out[0] };

static ga_ctx *open_set(int i, const char *device) {
  ga_ctx *ctx;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = device;
  o.threads = 2;
  o.disable_kernels = left_out[i];
  assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
  return ctx;
}

/* --- products --- */

enum { ROWS = 41, OUT = 72, IN = 512 };

static void one_product(ga_ctx *ctx, ga_dtype t, ga_layout layout, const void *w, const float *x, int m, float *y) {
  ga_gemm_desc d = GA_GEMM_DESC_INIT;
  d.m = m;
  d.n = OUT;
  d.k = IN;
  d.w_dtype = (int32_t)t;
  d.w_layout = (int32_t)layout;
  d.flags = GA_GEMM_INVARIANT;
  if (ga_gemm(ctx, &d, &(ga_gemm_io){.x = x, .w = w, .y = y}, NULL) != GA_OK)
    fail_msg("%s: %s", ga_dtype_name(t), ga_error_text());
}

static void all_rows_alike(ga_ctx *ctx, ga_dtype t, ga_layout layout, const void *w) {
  static float x[ROWS * IN], all[ROWS * OUT], some[ROWS * OUT];
  ga_rng rng;
  ga_rng_seed(&rng, 5);
  for (int i = 0; i < ROWS * IN; i++) x[i] = (float)ga_rng_normal(&rng);
  one_product(ctx, t, layout, w, x, ROWS, all);
  for (int m = 1; m < ROWS; m += m < 12 ? 1 : 7)
    for (int at = 0; at + m <= ROWS; at += 5) {
      one_product(ctx, t, layout, w, x + at * IN, m, some);
      for (int r = 0; r < m; r++)
        if (memcmp(some + r * OUT, all + (at + r) * OUT, OUT * sizeof(float)))
          fail_msg("%s, layout %d: row %d of %d differs from row %d of %d", ga_dtype_name(t), (int)layout, r, m, at + r,
                   ROWS);
    }
}

static void test_invariant_gemm(void **state) {
  (void)state;
  static const ga_dtype types[] = {GA_F32,  GA_F16,  GA_BF16, GA_Q4_0, GA_Q4_1, GA_Q5_0, GA_Q5_1,
                                   GA_Q8_0, GA_Q2_K, GA_Q3_K, GA_Q4_K, GA_Q5_K, GA_Q6_K, GA_IQ4_NL};
  for (int s = 0; s < SETS; s++) {
    ga_ctx *ctx = open_set(s, "cpu");
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
      const ga_dtype t = types[i];
      ga_rng rng;
      uint64_t bytes, packed;
      ga_layout layout;
      ga_rng_seed(&rng, i);
      assert_int_equal(ga_dtype_bytes(t, OUT * IN, &bytes), GA_OK);
      assert_int_equal(ga_pack_choose(ctx, t, OUT, IN, &layout, &packed), GA_OK);
      uint8_t *w = malloc(bytes), *p = aligned_alloc(64, (packed + 63) / 64 * 64);
      for (uint64_t at = 0; at < bytes; at += (uint64_t)ga_dtype_info(t)->block_bytes)
        gemm_data_random(&rng, t, w + at);
      all_rows_alike(ctx, t, GA_LAYOUT_NATIVE, w);
      if (layout != GA_LAYOUT_NATIVE) {
        ga_pack_desc d = GA_PACK_DESC_INIT;
        d.n = OUT;
        d.k = IN;
        d.w_dtype = (int32_t)t;
        d.w_layout = (int32_t)layout;
        assert_int_equal(ga_pack(ctx, &d, w, p, NULL), GA_OK);
        all_rows_alike(ctx, t, layout, p);
      }
      free(w);
      free(p);
    }
    ga_ctx_destroy(ctx);
  }
}

/* --- attention over pages --- */

enum { TOKENS = 340, PAGE = 64, PAGES = 9, HEADS = 6, KV_HEADS = 2, DIM = 48 };

static const int32_t table[] = {5, 2, 7, 0, 3, 8, 1};

typedef struct attn_case {
  ga_dtype kv;
  int32_t window;
  void *k, *v; /* [PAGES, PAGE, KV_HEADS, DIM], in e4m3 with scales behind */
} attn_case;

static void one_attention(ga_ctx *ctx, const attn_case *c, const float *q, int first, int n, int max_kv, float *o) {
  const int32_t q_start[3] = {0, n, n}, kv_len[2] = {first + n, 0};
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.batch = 2; /* the other one is empty */
  d.max_q = n + first % 3;
  d.max_kv = max_kv;
  d.q_heads = HEADS;
  d.kv_heads = KV_HEADS;
  d.head_dim = d.v_dim = DIM;
  d.kv_dtype = (int32_t)c->kv;
  d.kv_scale_tokens = c->kv == GA_E4M3;
  d.flags = GA_ATTN_CAUSAL | GA_ATTN_VARLEN | GA_ATTN_PAGED | GA_ATTN_INVARIANT;
  d.page_size = PAGE;
  d.window = c->window;
  ga_attn_io io = {.q = q + first * HEADS * DIM,
                   .k = c->k,
                   .v = c->v,
                   .o = o,
                   .q_start = q_start,
                   .kv_len = kv_len,
                   .page_table = table,
                   .q_tokens = n};
  io.k_scale = io.v_scale = (ga_attn_scale){.batch = PAGE, .head = PAGES * PAGE, .block = 1};
  io.k_scale.data = (const float *)(const void *)((const uint8_t *)c->k + PAGES * PAGE * KV_HEADS * DIM);
  io.v_scale.data = (const float *)(const void *)((const uint8_t *)c->v + PAGES * PAGE * KV_HEADS * DIM);
  if (ga_attn(ctx, &d, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
}

static void all_queries_alike(ga_ctx *ctx, const attn_case *c, const float *q) {
  static float all[TOKENS * HEADS * DIM], some[TOKENS * HEADS * DIM];
  static const int sizes[] = {1, 2, 3, 7, 8, 9, 33, 64, 100};
  one_attention(ctx, c, q, 0, TOKENS, 1024, all);
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
    for (int at = 0; at < TOKENS; at += sizes[s] * (sizes[s] < 8 ? 11 : 1)) {
      const int n = sizes[s] < TOKENS - at ? sizes[s] : TOKENS - at;
      one_attention(ctx, c, q, at, n, at % 2 ? at + n : 2048, some);
      if (memcmp(some, all + at * HEADS * DIM, (size_t)n * HEADS * DIM * sizeof(float)))
        fail_msg("%s, window %d: queries %d to %d differ from those of all at once", ga_dtype_name(c->kv), c->window,
                 at, at + n);
    }
}

static void fill_cache(ga_ctx *ctx, attn_case *c) {
  enum { ROW = KV_HEADS * DIM, SLOTS = PAGES * PAGE };
  static float k[TOKENS * ROW], v[TOKENS * ROW];
  static int32_t slots[TOKENS];
  uint64_t bytes;
  ga_rng rng;
  ga_rng_seed(&rng, 9);
  for (int i = 0; i < TOKENS * ROW; i++) k[i] = (float)ga_rng_normal(&rng), v[i] = (float)ga_rng_normal(&rng);
  for (int i = 0; i < TOKENS; i++) slots[i] = table[i / PAGE] * PAGE + i % PAGE;
  assert_int_equal(ga_dtype_bytes(c->kv, SLOTS * ROW, &bytes), GA_OK);
  bytes += SLOTS * KV_HEADS * sizeof(float);
  c->k = malloc(bytes);
  c->v = malloc(bytes);
  memset(c->k, 0xff, bytes); /* pages of others: anything */
  memset(c->v, 0xff, bytes);
  ga_kv_store_desc d = GA_KV_STORE_DESC_INIT;
  d.tokens = TOKENS;
  d.slots = SLOTS;
  d.heads = KV_HEADS;
  d.head_dim = d.v_dim = DIM;
  d.kv_dtype = (int32_t)c->kv;
  ga_kv_store_io io = {.k = k, .v = v, .slot = slots, .k_cache = c->k, .v_cache = c->v};
  if (c->kv == GA_E4M3) io.k_scale = (float *)(void *)((uint8_t *)c->k + SLOTS * ROW);
  if (c->kv == GA_E4M3) io.v_scale = (float *)(void *)((uint8_t *)c->v + SLOTS * ROW);
  if (ga_kv_store(ctx, &d, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
}

static void test_invariant_attn(void **state) {
  (void)state;
  static float q[TOKENS * HEADS * DIM];
  static const ga_dtype types[] = {GA_F16, GA_F32, GA_BF16, GA_E4M3};
  static const int32_t windows[] = {0, 1, 50, 64, 130};
  ga_rng rng;
  ga_rng_seed(&rng, 3);
  for (int i = 0; i < TOKENS * HEADS * DIM; i++) q[i] = 3 * (float)ga_rng_normal(&rng);
  for (int s = 0; s < SETS; s++) {
    ga_ctx *ctx = open_set(s, "cpu");
    for (int i = 0; i < (s ? 2 : 4); i++) {
      attn_case c = {.kv = types[i]};
      fill_cache(ctx, &c);
      for (int w = 0; w < 5; w++) {
        c.window = windows[w];
        all_queries_alike(ctx, &c, q);
      }
      free(c.k);
      free(c.v);
    }
    ga_ctx_destroy(ctx);
  }
}

/* Rows that do not keep it are refused. */
static void test_variant_rows_refused(void **state) {
  (void)state;
  ga_ctx *ctx;
  ga_plan *plan;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = "cpu";
  o.disable_kernels = "gemm_f32_any*";
  assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
  ga_gemm_desc d = GA_GEMM_DESC_INIT;
  d.m = d.n = d.k = 64;
  assert_int_equal(ga_gemm_plan(ctx, &d, &plan), GA_OK);
  ga_plan_destroy(plan);
  d.flags = GA_GEMM_INVARIANT;
  assert_int_equal(ga_gemm_plan(ctx, &d, &plan), GA_ERR_UNSUPPORTED);
  assert_non_null(strstr(ga_error_text(), "not batch-invariant"));
  ga_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_invariant_gemm),
      cmocka_unit_test(test_invariant_attn),
      cmocka_unit_test(test_variant_rows_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
