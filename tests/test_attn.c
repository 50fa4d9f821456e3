/* Attention against cases worked out by hand, on the oracle and on the CPU; and what must not change a result: other
 * sequences of the batch, the number of threads, the order of pages. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/ctx.h"
#include "opdef/attn.h"
#include "opdef/ops.h"

#define D 4 /* head and value dimension */

static ga_ctx *open_ctx(const char *name, int threads) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = name;
  o.threads = threads;
  ga_ctx *ctx;
  assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
  return ctx;
}

static const char *const devices[] = {"ref", "cpu"};

/* Queries of zeros: every visible key has the logit of the mask alone. v[j] = j + 1 in all columns. */
typedef struct zero_case {
  ga_attn_desc d;
  ga_attn_io io;
  float q[64 * D], k[64 * D], v[64 * D], o[64 * D], lse[64];
} zero_case;

static void zero_init(zero_case *z, int64_t n_q, int64_t n_kv, uint32_t flags) {
  memset(z, 0, sizeof *z);
  z->d = (ga_attn_desc)GA_ATTN_DESC_INIT;
  z->d.max_q = n_q;
  z->d.max_kv = n_kv;
  z->d.q_heads = z->d.kv_heads = 1;
  z->d.head_dim = D;
  z->d.flags = flags | GA_ATTN_LSE;
  z->io = (ga_attn_io){.q = z->q, .k = z->k, .v = z->v, .o = z->o, .lse = z->lse};
  for (int i = 0; i < 64 * D; i++) z->v[i] = (float)(i / D + 1);
}

static void expect_row(const zero_case *z, int row, double o, double lse) {
  for (int c = 0; c < D; c++) assert_float_equal(z->o[row * D + c], (float)o, 1e-5);
  if (isinf(lse))
    assert_true(z->lse[row] == -INFINITY);
  else
    assert_float_equal(z->lse[row], (float)lse, 1e-5);
}

static void run_zero_case(ga_ctx *ctx, zero_case *z) {
  memset(z->o, 0x7f, sizeof z->o);
  assert_int_equal(ga_attn(ctx, &z->d, &z->io, NULL), GA_OK);
}

static void masks(ga_ctx *ctx) {
  zero_case z;
  zero_init(&z, 1, 1, 0); /* one key: its value */
  run_zero_case(ctx, &z);
  expect_row(&z, 0, 1, 0);
  zero_init(&z, 1, 4, 0); /* the mean */
  run_zero_case(ctx, &z);
  expect_row(&z, 0, 2.5, log(4));
  zero_init(&z, 3, 2, GA_ATTN_CAUSAL); /* bottom right: query 0 stands before the first key */
  run_zero_case(ctx, &z);
  expect_row(&z, 0, 0, -INFINITY);
  expect_row(&z, 1, 1, 0);
  expect_row(&z, 2, 1.5, log(2));
  zero_init(&z, 4, 4, GA_ATTN_CAUSAL); /* itself and the one before */
  z.d.window = 2;
  run_zero_case(ctx, &z);
  expect_row(&z, 0, 1, 0);
  expect_row(&z, 3, 3.5, log(2));
  zero_init(&z, 4, 4, 0); /* the window bounds the past only */
  z.d.window = 2;
  run_zero_case(ctx, &z);
  expect_row(&z, 0, 2.5, log(4));
  expect_row(&z, 3, 3.5, log(2));
  zero_init(&z, 2, 0, 0); /* no keys at all */
  run_zero_case(ctx, &z);
  expect_row(&z, 1, 0, -INFINITY);
}

static void extras(ga_ctx *ctx) {
  zero_case z;
  const float sink = 0, slope = 0.693147181f /* ln 2 */;
  zero_init(&z, 1, 1, GA_ATTN_SINKS); /* half of the weight goes nowhere */
  z.io.sinks = &sink;
  run_zero_case(ctx, &z);
  expect_row(&z, 0, 0.5, log(2));
  zero_init(&z, 1, 2, GA_ATTN_ALIBI); /* weights 1/2 and 1 */
  z.io.alibi = &slope;
  run_zero_case(ctx, &z);
  expect_row(&z, 0, (0.5 * 1 + 2) / 1.5, log(1.5));
  zero_init(&z, 1, 2, 0); /* logits 100 and 0, bent to 10 tanh 10 and 0 */
  z.q[0] = z.k[0] = 10;
  z.d.scale = 1;
  z.d.softcap = 10;
  run_zero_case(ctx, &z);
  const double w = exp(10 * tanh(10));
  expect_row(&z, 0, (w + 2) / (w + 1), log(w + 1));
}

/* Query head h reads KV head h / 2. */
static void groups(ga_ctx *ctx) {
  zero_case z;
  zero_init(&z, 1, 1, 0);
  z.d.q_heads = 4;
  z.d.kv_heads = 2;
  run_zero_case(ctx, &z);
  for (int h = 0; h < 4; h++) expect_row(&z, h, h / 2 + 1, 0);
}

static void test_attn_by_hand(void **state) {
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    ga_ctx *ctx = open_ctx(devices[i], 2);
    masks(ctx);
    extras(ctx);
    groups(ctx);
    ga_ctx_destroy(ctx);
  }
}

/* --- what must not matter --- */

#define HEADS    6
#define KV_HEADS 2
#define DIM      40

static float *alloc_normals(size_t n, uint64_t seed) {
  ga_rng rng;
  float *x = malloc(n * sizeof *x);
  assert_non_null(x);
  ga_rng_seed(&rng, seed);
  for (size_t i = 0; i < n; i++) x[i] = (float)ga_rng_normal(&rng);
  return x;
}

static ga_attn_desc packed_desc(int64_t batch, int64_t max_q, int64_t max_kv) {
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.batch = batch;
  d.max_q = max_q;
  d.max_kv = max_kv;
  d.q_heads = HEADS;
  d.kv_heads = KV_HEADS;
  d.head_dim = DIM;
  d.flags = GA_ATTN_CAUSAL | GA_ATTN_VARLEN;
  return d;
}

/* Each sequence alone gives the bits it gives in the batch, with 1, 2 and 3 threads. */
static void test_attn_alone_and_together(void **state) {
  (void)state;
  const int32_t q_start[] = {0, 1, 1, 70, 75, 76}, kv_start[] = {0, 700, 705, 805, 2105, 2106};
  const size_t n_q = 76 * HEADS * DIM, n_kv = 2106 * KV_HEADS * DIM;
  float *q = alloc_normals(n_q, 1), *k = alloc_normals(n_kv, 2), *v = alloc_normals(n_kv, 3);
  float *together = calloc(n_q, sizeof *together), *alone = calloc(n_q, sizeof *alone);
  assert_true(together && alone);
  for (int threads = 1; threads <= 3; threads++) {
    ga_ctx *ctx = open_ctx("cpu", threads);
    ga_attn_desc d = packed_desc(5, 69, 1300);
    ga_attn_io io = {.q = q, .k = k, .v = v, .o = together, .q_start = q_start, .kv_start = kv_start};
    assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_OK);
    for (int b = 0; b < 5; b++) {
      d = packed_desc(1, q_start[b + 1] - q_start[b], kv_start[b + 1] - kv_start[b]);
      io = (ga_attn_io){.q = q, .k = k, .v = v, .o = alone, .q_start = q_start + b, .kv_start = kv_start + b};
      assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_OK);
    }
    assert_memory_equal(together, alone, n_q * sizeof *alone);
    ga_ctx_destroy(ctx);
  }
  free(q), free(k), free(v), free(together), free(alone);
}

/* Sequences with gaps, in any order, over shared keys: each has the bits that it has alone. LSE lies by tokens; rows of
 * no sequence are left as they are, and keys of none may be anything. */
static void test_lengths_forward(void **state) {
  (void)state;
  enum { N = 4, Q = 40, KV = 900, STRIDE = Q + 3 };
  const int32_t q_start[N] = {20, 3, 13, 0}, q_len[N] = {20, 9, 0, 2};
  const int32_t kv_start[N] = {100, 100, 0, 850}, kv_len[N] = {700, 333, 50, 1};
  const size_t n_q = (size_t)Q * HEADS * DIM, n_kv = (size_t)KV * KV_HEADS * DIM, n_lse = (size_t)HEADS * STRIDE;
  float *q = alloc_normals(n_q, 1), *k = alloc_normals(n_kv, 2), *v = alloc_normals(n_kv, 3);
  float *o = alloc_normals(n_q, 4), *lse = alloc_normals(n_lse, 5), *want = alloc_normals(n_q, 4),
        *want_lse = alloc_normals(n_lse, 5);
  for (size_t i = 0; i < n_kv; i++)
    if (i / (KV_HEADS * DIM) > 850 || (i / (KV_HEADS * DIM) > 50 && i / (KV_HEADS * DIM) < 100)) k[i] = v[i] = NAN;
  for (size_t i = 0; i < 2; i++) {
    ga_ctx *ctx = open_ctx(devices[i], 2);
    ga_attn_desc d = packed_desc(N, 20, 700);
    d.flags |= GA_ATTN_LENGTHS | GA_ATTN_LSE, d.lse_stride = STRIDE;
    ga_attn_io io = {.q = q, .k = k, .v = v, .o = o, .lse = lse, .q_start = q_start, .q_len = q_len};
    io.kv_start = kv_start, io.kv_len = kv_len;
    assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_OK);
    for (int b = 0; b < N; b++) {
      float alone_lse[HEADS * 20];
      d = packed_desc(1, q_len[b], kv_len[b]);
      d.flags = GA_ATTN_CAUSAL | GA_ATTN_LSE;
      const size_t at = (size_t)q_start[b] * HEADS * DIM, key = (size_t)kv_start[b] * KV_HEADS * DIM;
      io = (ga_attn_io){.q = q + at, .k = k + key, .v = v + key, .o = want + at, .lse = alone_lse};
      assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_OK);
      for (int h = 0; h < HEADS; h++)
        for (int j = 0; j < q_len[b]; j++) want_lse[h * STRIDE + q_start[b] + j] = alone_lse[h * q_len[b] + j];
    }
    assert_memory_equal(o, want, n_q * sizeof *o);
    assert_memory_equal(lse, want_lse, n_lse * sizeof *lse);
    ga_ctx_destroy(ctx);
  }
  free(q), free(k), free(v), free(o), free(lse), free(want), free(want_lse);
}

static void test_lengths_refused(void **state) {
  (void)state;
  const int32_t start[] = {0, 1}, len[] = {5};
  float lse[4];
  zero_case z;
  ga_ctx *ctx = open_ctx("cpu", 1);
  zero_init(&z, 1, 4, GA_ATTN_LENGTHS);
  assert_int_equal(ga_attn(ctx, &z.d, &z.io, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "LENGTHS needs VARLEN"));
  zero_init(&z, 1, 4, 0);
  z.d.lse_stride = 4;
  assert_int_equal(ga_attn(ctx, &z.d, &z.io, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "lse_stride is 4"));
  zero_init(&z, 1, 4, GA_ATTN_VARLEN | GA_ATTN_LENGTHS);
  z.io.q_start = z.io.kv_start = start, z.io.kv_len = len, z.io.lse = lse;
  assert_int_equal(ga_attn(ctx, &z.d, &z.io, NULL), GA_ERR_ARG); /* longer than max_kv */
  assert_non_null(strstr(ga_error_text(), "5 keys; at most 1, 4"));
  const int32_t one[] = {1}, below[] = {-1, 0};
  z.io.kv_len = one, z.io.kv_start = below;
  assert_int_equal(ga_attn(ctx, &z.d, &z.io, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "keys from -1 on"));
  z.io.kv_start = start, z.io.q_start = one, z.io.q_len = one;
  z.d.flags |= GA_ATTN_LSE, z.d.lse_stride = 1; /* the second token's entry would be the next head's */
  assert_int_equal(ga_attn(ctx, &z.d, &z.io, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "queries 1 to 2"));
  z.io.q_tokens = 2;
  assert_int_equal(ga_attn(ctx, &z.d, &z.io, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "lse_stride is 1; must be 0, or at least q_tokens, 2"));
  z.io.q_tokens = 0, z.io.q_len = NULL, z.io.q_start = start, z.d.lse_stride = 0;
  z.io.kv_len = (const int32_t *)(const void *)((const char *)len + 1);
  assert_int_equal(ga_attn(ctx, &z.d, &z.io, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "kv_len is at"));
  ga_ctx_destroy(ctx);
}

/* Pages in any order hold the same sequence. */
static void test_pages(void **state) {
  (void)state;
  enum { KV = 333, PAGE = 16, PAGES = 32 };
  const size_t row = KV_HEADS * DIM;
  float *q = alloc_normals(HEADS * DIM, 1), *k = alloc_normals(KV * row, 2), *v = alloc_normals(KV * row, 3);
  float *kp = alloc_normals(PAGES * PAGE * row, 4), *vp = alloc_normals(PAGES * PAGE * row, 5), dense[HEADS * DIM],
        paged[HEADS * DIM];
  int32_t table[PAGES];
  const int32_t kv_len = KV;
  for (int p = 0; p < PAGES; p++) table[p] = (p * 7 + 3) % PAGES;
  for (size_t j = 0; j < KV; j++) {
    const size_t at = ((size_t)table[j / PAGE] * PAGE + j % PAGE) * row;
    memcpy(kp + at, k + j * row, row * sizeof *k);
    memcpy(vp + at, v + j * row, row * sizeof *v);
  }
  ga_ctx *ctx = open_ctx("cpu", 2);
  ga_attn_desc d = packed_desc(1, 1, KV);
  d.flags = GA_ATTN_CAUSAL;
  ga_attn_io io = {.q = q, .k = k, .v = v, .o = dense};
  assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_OK);
  d.flags |= GA_ATTN_PAGED;
  d.page_size = PAGE;
  io = (ga_attn_io){
      .q = q, .k = kp, .v = vp, .o = paged, .kv_len = &kv_len, .page_table = table, .page_table_stride = PAGES};
  assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_OK);
  assert_memory_equal(dense, paged, sizeof dense);
  ga_ctx_destroy(ctx);
  free(q), free(k), free(v), free(kp), free(vp);
}

/* Lengths beyond the description are refused before anything is written. */
static void test_refuses_long_sequences(void **state) {
  (void)state;
  zero_case z;
  const int32_t kv_len = 5, table[2] = {0, 1};
  zero_init(&z, 1, 4, GA_ATTN_PAGED);
  z.d.page_size = 4;
  z.io.kv_len = &kv_len;
  z.io.page_table = table;
  z.io.page_table_stride = 2;
  z.o[0] = 42;
  ga_ctx *ctx = open_ctx("cpu", 1);
  assert_int_equal(ga_attn(ctx, &z.d, &z.io, NULL), GA_ERR_ARG);
  assert_true(z.o[0] == 42);
  ga_ctx_destroy(ctx);
}

/* Seven queries at seven keys: those nearer than three on either side, each step of distance a factor of two less. */
static void test_both_ways(void **state) {
  static const float slope = 0.69314718f; /* ln 2 */
  (void)state;
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
    for (int alibi = 0; alibi < 2; alibi++) {
      ga_ctx *ctx = open_ctx(devices[i], 2);
      zero_case z;
      zero_init(&z, 7, 7, GA_ATTN_SYMMETRIC | (alibi ? GA_ATTN_ALIBI : 0));
      z.d.window = 3;
      z.io.alibi = &slope;
      run_zero_case(ctx, &z);
      for (int q = 0; q < 7; q++) {
        double sum = 0, o = 0;
        for (int k = 0; k < 7; k++) {
          const double weight = abs(k - q) >= 3 ? 0 : alibi ? pow(2, -abs(k - q)) : 1;
          sum += weight;
          o += weight * (k + 1);
        }
        expect_row(&z, q, o / sum, log(sum));
      }
      ga_ctx_destroy(ctx);
    }
}

/* Pairs of a query and a key that predicted costs count: a query sees half of the last keys on average, and at most a
 * window of them. Work follows them, forward and backward. */
static void test_predicted_pairs(void **state) {
  (void)state;
  assert_true(ga_attn_pairs(100, 1000, false, 0) == 100.0 * 1000);
  assert_true(ga_attn_pairs(100, 1000, true, 0) == 100.0 * 950);
  assert_true(ga_attn_pairs(1000, 100, true, 0) == 1000.0 * 50);
  assert_true(ga_attn_pairs(100, 1000, true, 64) == 100.0 * 64);
  assert_true(ga_attn_pairs(100, 1000, false, 64) == 100.0 * 64);
  assert_true(ga_attn_pairs(100, 1000, true, 950) == 100.0 * 950);
  assert_true(ga_attn_pairs(100, 1000, true, 951) == 100.0 * 950);
  assert_true(ga_attn_pairs(100, 1000, true, INT32_MAX) == 100.0 * 950);
  assert_true(ga_attn_pairs(0, 1000, true, 64) == 0);
  for (int32_t window = 0; window <= 64; window += 64) {
    ga_attn_desc d = GA_ATTN_DESC_INIT;
    d.batch = 3, d.max_q = 100, d.max_kv = 1000, d.q_heads = 4, d.kv_heads = 2, d.head_dim = 16, d.v_dim = 8;
    d.kv_dtype = GA_BF16, d.window = window;
    d.flags = GA_ATTN_CAUSAL;
    const double pairs = 3 * 4 * ga_attn_pairs(100, 1000, true, window);
    const ga_work work = opdef_attn_work(&d);
    assert_true(work.flops == 2 * pairs * (16 + 8));
    assert_true(work.bytes == 3.0 * 1000 * 2 * (16 + 8) * 2);
    ga_attn_bwd_desc b = GA_ATTN_BWD_DESC_INIT;
    b.batch = 3, b.max_q = 100, b.max_kv = 1000, b.q_heads = 4, b.kv_heads = 2, b.head_dim = 16, b.v_dim = 8;
    b.window = window;
    b.flags = GA_ATTN_CAUSAL;
    assert_true(opdef_attn_bwd_work(&b).flops == 2 * pairs * (3 * 16 + 2 * 8));
  }
}

static void test_both_ways_refused(void **state) {
  static const uint32_t others[] = {GA_ATTN_CAUSAL, GA_ATTN_STATE_IN, GA_ATTN_STATE_OUT};
  (void)state;
  ga_ctx *ctx = open_ctx("cpu", 1);
  for (size_t i = 0; i <= sizeof others / sizeof *others; i++) {
    zero_case z;
    zero_init(&z, 7, 7, GA_ATTN_SYMMETRIC);
    if (i < sizeof others / sizeof *others)
      z.d.flags |= others[i];
    else
      z.d.kv_segments = 2;
    z.o[0] = 42;
    assert_int_equal(ga_attn(ctx, &z.d, &z.io, NULL), GA_ERR_ARG);
    assert_non_null(strstr(ga_error_text(), "SYMMETRIC takes neither CAUSAL, STATE_*, segments nor 8 bits"));
    assert_true(z.o[0] == 42);
  }
  ga_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_attn_by_hand),
      cmocka_unit_test(test_both_ways),
      cmocka_unit_test(test_both_ways_refused),
      cmocka_unit_test(test_predicted_pairs),
      cmocka_unit_test(test_attn_alone_and_together),
      cmocka_unit_test(test_lengths_forward),
      cmocka_unit_test(test_lengths_refused),
      cmocka_unit_test(test_pages),
      cmocka_unit_test(test_refuses_long_sequences),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
