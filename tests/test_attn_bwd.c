/* Gradients of attention: the oracle against finite differences of the forward oracle in double, for every argument and
 * every feature; errors; and what must not change a result. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/ctx.h"
#include "opdef/attn_rows.h"
#include "opdef/ops.h"
#include "ref/ref.h"

enum { B = 2, NQ = 5, NKV = 7, HQ = 4, HKV = 2, D = 3, DV = 2 };
enum { SIZE_Q = B * NQ * HQ * D, SIZE_K = B * NKV * HKV * D, SIZE_V = B * NKV * HKV * DV, SIZE_O = B * NQ * HQ * DV };

typedef struct problem {
  ga_attn_bwd_desc d;
  double q[SIZE_Q], k[SIZE_K], v[SIZE_V], o[SIZE_O], dout[SIZE_O];
  double dq[SIZE_Q], dk[SIZE_K], dv[SIZE_V];
  float lse[B * HQ * NQ], sinks[HQ], alibi[HQ], dsinks[HQ];
} problem;

static ga_attn_strides contiguous(int64_t tokens, int64_t heads, int64_t dim) {
  return (ga_attn_strides){tokens * heads * dim, heads * dim, dim};
}

/* sum(dO O), by the forward oracle. */
static double loss(problem *p) {
  ga_attn_desc f = GA_ATTN_DESC_INIT;
  f.batch = B, f.max_q = p->d.max_q, f.max_kv = p->d.max_kv, f.q_heads = HQ, f.kv_heads = HKV, f.head_dim = D,
  f.v_dim = DV;
  f.q_dtype = f.kv_dtype = f.o_dtype = GA_F64;
  f.flags = (p->d.flags & 0xffff) | GA_ATTN_LSE, f.window = p->d.window, f.scale = p->d.scale, f.softcap = p->d.softcap;
  ga_attn_io io = {.q = p->q, .k = p->k, .v = p->v, .o = p->o, .lse = p->lse, .sinks = p->sinks, .alibi = p->alibi};
  io.q_stride = contiguous(f.max_q, HQ, D), io.k_stride = contiguous(f.max_kv, HKV, D);
  io.v_stride = contiguous(f.max_kv, HKV, DV), io.o_stride = contiguous(f.max_q, HQ, DV);
  assert_int_equal(ga_ref_attn(NULL, &f, &io, NULL, NULL), GA_OK);
  double sum = 0;
  for (int64_t i = 0; i < B * f.max_q * HQ * DV; i++) sum += p->dout[i] * p->o[i];
  return sum;
}

static void run_attn_bwd(problem *p) {
  const ga_attn_bwd_desc *d = &p->d;
  ga_attn_bwd_io io = {.q = p->q,
                       .k = p->k,
                       .v = p->v,
                       .o = p->o,
                       .dout = p->dout,
                       .lse = p->lse,
                       .dq = p->dq,
                       .dk = p->dk,
                       .dv = p->dv,
                       .sinks = p->sinks,
                       .alibi = p->alibi,
                       .dsinks = p->dsinks};
  io.q_stride = io.dq_stride = contiguous(d->max_q, HQ, D), io.k_stride = io.dk_stride = contiguous(d->max_kv, HKV, D);
  io.v_stride = io.dv_stride = contiguous(d->max_kv, HKV, DV),
  io.o_stride = io.dout_stride = contiguous(d->max_q, HQ, DV);
  (void)loss(p); /* o and lse */
  assert_int_equal(ga_ref_attn_bwd(NULL, d, &io, NULL, NULL), GA_OK);
}

static void fill_normals(double *x, int n, ga_rng *rng) {
  for (int i = 0; i < n; i++) x[i] = ga_rng_normal(rng);
}

static void start_problem(problem *p, int64_t n_q, int64_t n_kv, uint32_t flags) {
  ga_rng rng;
  ga_rng_seed(&rng, 7);
  memset(p, 0, sizeof *p);
  p->d = (ga_attn_bwd_desc)GA_ATTN_BWD_DESC_INIT;
  p->d.batch = B, p->d.max_q = n_q, p->d.max_kv = n_kv, p->d.q_heads = HQ, p->d.kv_heads = HKV, p->d.head_dim = D,
  p->d.v_dim = DV;
  p->d.dtype = p->d.grad_dtype = GA_F64; /* of the oracle alone */
  p->d.flags = flags, p->d.scale = 0.7f;
  fill_normals(p->q, SIZE_Q, &rng), fill_normals(p->k, SIZE_K, &rng), fill_normals(p->v, SIZE_V, &rng),
      fill_normals(p->dout, SIZE_O, &rng);
  for (int h = 0; h < HQ; h++) {
    p->sinks[h] = (float)ga_rng_normal(&rng);
    p->alibi[h] = 0.25f * (float)(h + 1);
  }
}

/* Central differences; LSE reaches the gradients as a float, which is where 1e-6 comes from. */
static void compare_gradient(problem *p, double *x, const double *gradient, int64_t n) {
  const double step = 1e-5;
  for (int64_t i = 0; i < n; i++) {
    const double old = x[i];
    x[i] = old + step;
    const double up = loss(p);
    x[i] = old - step;
    const double down = loss(p);
    x[i] = old;
    assert_true(fabs((up - down) / (2 * step) - gradient[i]) < 1e-6 * (1 + fabs(gradient[i])));
  }
}

static void compare_all(problem *p) {
  run_attn_bwd(p);
  compare_gradient(p, p->q, p->dq, B * p->d.max_q * HQ * D);
  compare_gradient(p, p->k, p->dk, B * p->d.max_kv * HKV * D);
  compare_gradient(p, p->v, p->dv, B * p->d.max_kv * HKV * DV);
  if (!(p->d.flags & GA_ATTN_SINKS)) return;
  for (int h = 0; h < HQ; h++) {
    const float old = p->sinks[h], step = 0x1p-10f;
    p->sinks[h] = old + step;
    const double up = loss(p), width = (double)p->sinks[h];
    p->sinks[h] = old - step;
    const double down = loss(p), from = (double)p->sinks[h];
    p->sinks[h] = old;
    assert_true(fabs((up - down) / (width - from) - (double)p->dsinks[h]) < 1e-5 * (1 + fabs((double)p->dsinks[h])));
  }
}

static void test_finite_differences(void **state) {
  (void)state;
  static const uint32_t flags[] = {0, GA_ATTN_CAUSAL, GA_ATTN_SINKS, GA_ATTN_ALIBI,
                                   GA_ATTN_CAUSAL | GA_ATTN_SINKS | GA_ATTN_ALIBI};
  static problem p;
  for (size_t f = 0; f < GA_COUNT_OF(flags); f++)
    for (int more = 0; more < 4; more++) { /* soft-cap, window */
      start_problem(&p, NQ, NKV, flags[f]);
      p.d.softcap = more & 1 ? 1.5f : 0;
      p.d.window = more & 2 ? 3 : 0;
      compare_all(&p);
    }
}

/* More queries than keys under a causal mask: the first rows see nothing, and give nothing. */
static void test_masked_rows(void **state) {
  (void)state;
  static problem p;
  start_problem(&p, NQ, 3, GA_ATTN_CAUSAL | GA_ATTN_SINKS);
  compare_all(&p);
  for (int i = 0; i < 2 * HQ * D; i++) assert_true(p.dq[i] == 0);
  assert_true(p.lse[0] == -INFINITY);
}

/* Gradients are linear in dO, and both flags add. */
static void test_add(void **state) {
  (void)state;
  static problem once, twice;
  start_problem(&once, NQ, NKV, GA_ATTN_SINKS);
  run_attn_bwd(&once);
  twice = once;
  twice.d.flags |= GA_ATTN_BWD_ADDS;
  run_attn_bwd(&twice);
  for (int i = 0; i < SIZE_Q; i++) assert_true(fabs(twice.dq[i] - 2 * once.dq[i]) < 1e-12);
  for (int i = 0; i < SIZE_V; i++) assert_true(fabs(twice.dv[i] - 2 * once.dv[i]) < 1e-12);
  for (int h = 0; h < HQ; h++) assert_float_equal(twice.dsinks[h], 2 * once.dsinks[h], 1e-6);
}

/* Of either flag alone: its own gradients are added to, the others' are written. */
static void test_add_apart(void **state) {
  (void)state;
  static problem none, both, one;
  start_problem(&none, NQ, NKV, GA_ATTN_SINKS);
  run_attn_bwd(&none);
  both = none;
  both.d.flags |= GA_ATTN_BWD_ADDS;
  run_attn_bwd(&both);
  for (int of_q = 0; of_q < 2; of_q++) {
    one = none;
    one.d.flags |= of_q ? GA_ATTN_BWD_ADD_DQ : GA_ATTN_BWD_ADD_DKV;
    run_attn_bwd(&one);
    const problem *const q = of_q ? &both : &none, *const kv = of_q ? &none : &both;
    assert_memory_equal(one.dq, q->dq, sizeof one.dq);
    assert_memory_equal(one.dk, kv->dk, sizeof one.dk);
    assert_memory_equal(one.dv, kv->dv, sizeof one.dv);
    assert_memory_equal(one.dsinks, kv->dsinks, sizeof one.dsinks);
  }
}

/* --- the public functions --- */

static ga_ctx *open_ctx(int threads) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = "cpu";
  o.threads = threads;
  ga_ctx *ctx;
  assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
  return ctx;
}

typedef struct floats {
  float q[3 * 100 * 2 * 8], k[3 * 100 * 2 * 8], v[3 * 100 * 2 * 8], o[3 * 100 * 2 * 8], dout[3 * 100 * 2 * 8],
      lse[3 * 2 * 100];
  float dq[3 * 100 * 2 * 8], dk[3 * 100 * 2 * 8], dv[3 * 100 * 2 * 8];
} floats;

static void run_floats(ga_ctx *ctx, floats *x, const int32_t *start, int64_t batch, int64_t longest, float *lse) {
  ga_attn_bwd_desc d = GA_ATTN_BWD_DESC_INIT;
  d.batch = batch, d.max_q = d.max_kv = longest, d.total_q = d.total_kv = start[batch] - start[0],
  d.q_heads = d.kv_heads = 2;
  d.head_dim = 8, d.flags = GA_ATTN_VARLEN | GA_ATTN_KEEP_PADDING | GA_ATTN_CAUSAL;
  ga_attn_bwd_io io = {.q = x->q,
                       .k = x->k,
                       .v = x->v,
                       .o = x->o,
                       .dout = x->dout,
                       .lse = lse,
                       .dq = x->dq,
                       .dk = x->dk,
                       .dv = x->dv,
                       .q_start = start,
                       .kv_start = start};
  assert_int_equal(ga_attn_bwd(ctx, &d, &io, NULL), GA_OK);
}

/* Each sequence alone gives the bits it gives in the batch, with any number of threads. */
static void test_attn_bwd_alone_and_together(void **state) {
  (void)state;
  static floats together, alone;
  const int32_t begin[] = {0, 100, 100, 170};
  ga_rng rng;
  ga_rng_seed(&rng, 3);
  float *all[] = {together.q, together.k, together.v, together.o, together.dout};
  for (int a = 0; a < 5; a++)
    for (int i = 0; i < 170 * 16; i++) all[a][i] = (float)ga_rng_normal(&rng);
  for (int i = 0; i < 600; i++) together.lse[i] = 3 + 0.001f * (float)i;
  for (int threads = 1; threads <= 3; threads++) {
    ga_ctx *ctx = open_ctx(threads);
    run_floats(ctx, &together, begin, 3, 100, together.lse);
    memcpy(&alone, &together, sizeof alone);
    memset(alone.dq, 0xff, sizeof alone.dq), memset(alone.dk, 0xff, sizeof alone.dk),
        memset(alone.dv, 0xff, sizeof alone.dv);
    for (int b = 0; b < 3; b++) run_floats(ctx, &alone, begin + b, 1, 100, together.lse + b * 200);
    assert_memory_equal(alone.dq, together.dq, 170 * 16 * sizeof(float));
    assert_memory_equal(alone.dk, together.dk, 170 * 16 * sizeof(float));
    assert_memory_equal(alone.dv, together.dv, 170 * 16 * sizeof(float));
    ga_ctx_destroy(ctx);
  }
}

typedef struct gradients {
  float dq[2 * 70 * 4 * 8], dk[2 * 70 * 2 * 8], dv[2 * 70 * 2 * 8], dsinks[4];
} gradients;

static void add_to_sevens(ga_ctx *ctx, const floats *x, uint32_t flags, gradients *g) {
  static const float sinks[4] = {0.5f, 1, 2, 3};
  ga_attn_bwd_desc d = GA_ATTN_BWD_DESC_INIT;
  d.batch = 2, d.max_q = d.max_kv = 70, d.q_heads = 4, d.kv_heads = 2, d.head_dim = 8;
  d.flags = GA_ATTN_CAUSAL | GA_ATTN_SINKS | flags;
  float *const all = (float *)(void *)g;
  for (size_t i = 0; i < sizeof *g / sizeof *all; i++) all[i] = 7;
  const ga_attn_bwd_io io = {.q = x->q,
                             .k = x->k,
                             .v = x->v,
                             .o = x->o,
                             .dout = x->dout,
                             .lse = x->lse,
                             .sinks = sinks,
                             .dq = g->dq,
                             .dk = g->dk,
                             .dv = g->dv,
                             .dsinks = g->dsinks};
  assert_int_equal(ga_attn_bwd(ctx, &d, &io, NULL), GA_OK);
}

/* Either flag alone gives the bits of both, or of neither. One thread takes whole heads, many take tiles. */
static void test_attn_bwd_adds_apart(void **state) {
  (void)state;
  static floats x;
  static gradients none, both, one;
  ga_rng rng;
  ga_rng_seed(&rng, 5);
  float *const all[] = {x.q, x.k, x.v, x.o, x.dout};
  for (int a = 0; a < 5; a++)
    for (size_t i = 0; i < GA_COUNT_OF(x.q); i++) all[a][i] = (float)ga_rng_normal(&rng);
  for (size_t i = 0; i < GA_COUNT_OF(x.lse); i++) x.lse[i] = 3;
  for (int threads = 1; threads <= 3; threads += 2) {
    ga_ctx *ctx = open_ctx(threads);
    add_to_sevens(ctx, &x, 0, &none);
    add_to_sevens(ctx, &x, GA_ATTN_BWD_ADD, &both);
    add_to_sevens(ctx, &x, GA_ATTN_BWD_ADDS, &one);
    assert_memory_equal(&one, &both, sizeof one);
    assert_memory_not_equal(none.dq, both.dq, sizeof one.dq);
    assert_memory_not_equal(none.dk, both.dk, sizeof one.dk);
    add_to_sevens(ctx, &x, GA_ATTN_BWD_ADD_DQ, &one);
    assert_memory_equal(one.dq, both.dq, sizeof one.dq);
    assert_memory_equal(one.dk, none.dk, sizeof one - offsetof(gradients, dk));
    add_to_sevens(ctx, &x, GA_ATTN_BWD_ADD_DKV, &one);
    assert_memory_equal(one.dq, none.dq, sizeof one.dq);
    assert_memory_equal(one.dk, both.dk, sizeof one - offsetof(gradients, dk));
    ga_ctx_destroy(ctx);
  }
}

/* Sequences with gaps, in any order: each has the bits that it has alone, and with KEEP_PADDING rows of no sequence
 * stay as they are, whether gradients are added or not. */
static void test_lengths_backward(void **state) {
  (void)state;
  enum { N = 3, ROWS = 120 };
  static floats x, want;
  const int32_t q_start[N] = {60, 5, 3}, q_len[N] = {50, 40, 0}, kv_start[N] = {0, 70, 110}, kv_len[N] = {61, 30, 9};
  ga_rng rng;
  ga_rng_seed(&rng, 3);
  float *all[] = {x.q, x.k, x.v, x.o, x.dout, x.dq, x.dk, x.dv, x.lse};
  for (int a = 0; a < 9; a++)
    for (int i = 0; i < (a < 8 ? ROWS * 16 : 600); i++) all[a][i] = (float)ga_rng_normal(&rng);
  for (int pass = 0; pass < 4; pass++) {
    want = x;
    ga_ctx *ctx = open_ctx(1 + pass / 2);
    ga_attn_bwd_desc d = GA_ATTN_BWD_DESC_INIT;
    d.batch = N, d.max_q = 50, d.max_kv = 61, d.total_q = d.total_kv = ROWS, d.q_heads = d.kv_heads = 2, d.head_dim = 8;
    d.flags = GA_ATTN_VARLEN | GA_ATTN_LENGTHS | GA_ATTN_KEEP_PADDING | GA_ATTN_CAUSAL |
              (pass % 2 ? (uint32_t)GA_ATTN_BWD_ADD : 0u);
    d.lse_stride = ROWS + 1;
    ga_attn_bwd_io io = {.q = x.q,
                         .k = x.k,
                         .v = x.v,
                         .o = x.o,
                         .dout = x.dout,
                         .lse = x.lse,
                         .dq = x.dq,
                         .dk = x.dk,
                         .dv = x.dv,
                         .q_start = q_start,
                         .kv_start = kv_start,
                         .q_len = q_len,
                         .kv_len = kv_len};
    assert_int_equal(ga_attn_bwd(ctx, &d, &io, NULL), GA_OK);
    for (int b = 0; b < N; b++) {
      float lse[2 * 50];
      for (int i = 0; i < 2 * q_len[b]; i++) lse[i] = x.lse[i / q_len[b] * (ROWS + 1) + q_start[b] + i % q_len[b]];
      const int q = 16 * q_start[b], k = 16 * kv_start[b];
      ga_attn_bwd_desc one = GA_ATTN_BWD_DESC_INIT;
      one.max_q = q_len[b], one.max_kv = kv_len[b], one.q_heads = one.kv_heads = 2, one.head_dim = 8;
      one.flags = d.flags & ~(uint32_t)(GA_ATTN_VARLEN | GA_ATTN_LENGTHS | GA_ATTN_KEEP_PADDING);
      const ga_attn_bwd_io alone = {.q = x.q + q,
                                    .k = x.k + k,
                                    .v = x.v + k,
                                    .o = x.o + q,
                                    .dout = x.dout + q,
                                    .lse = lse,
                                    .dq = want.dq + q,
                                    .dk = want.dk + k,
                                    .dv = want.dv + k};
      assert_int_equal(ga_attn_bwd(ctx, &one, &alone, NULL), GA_OK);
    }
    assert_memory_equal(want.dq, x.dq, ROWS * 16 * sizeof(float));
    assert_memory_equal(want.dk, x.dk, ROWS * 16 * sizeof(float));
    assert_memory_equal(want.dv, x.dv, ROWS * 16 * sizeof(float));
    ga_ctx_destroy(ctx);
  }
}

static void run_causal(ga_ctx *ctx, floats *x, int64_t n) {
  ga_attn_bwd_desc d = GA_ATTN_BWD_DESC_INIT;
  d.max_q = d.max_kv = n, d.q_heads = d.kv_heads = 2, d.head_dim = 8, d.flags = GA_ATTN_CAUSAL;
  const ga_attn_bwd_io io = {.q = x->q,
                             .k = x->k,
                             .v = x->v,
                             .o = x->o,
                             .dout = x->dout,
                             .lse = x->lse,
                             .dq = x->dq,
                             .dk = x->dk,
                             .dv = x->dv};
  assert_int_equal(ga_attn_bwd(ctx, &d, &io, NULL), GA_OK);
}

static void assert_near(const float *x, const float *want, int first, int end) {
  for (int i = first * 16; i < end * 16; i++)
    if (!(fabsf(x[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i]))))
      fail_msg("row %d: %g, not %g", i / 16, (double)x[i], (double)want[i]);
}

/* NaN in a key reaches the queries that see it alone, and NaN in a query or its gradient the keys that it sees. */
static void test_masked_nan(void **state) {
  (void)state;
  enum { N = 90, AT = 70 };
  static floats want, bad;
  ga_rng rng;
  ga_rng_seed(&rng, 9);
  float *const all[] = {want.q, want.k, want.v, want.o, want.dout};
  for (int a = 0; a < 5; a++)
    for (int i = 0; i < N * 16; i++) all[a][i] = (float)ga_rng_normal(&rng);
  for (int i = 0; i < 2 * N; i++) want.lse[i] = 4;
  for (int threads = 1; threads <= 3; threads++) {
    ga_ctx *ctx = open_ctx(threads);
    run_causal(ctx, &want, N);
    float *const of_key[] = {bad.k, bad.v}, *const of_query[] = {bad.q, bad.dout};
    for (int i = 0; i < 2; i++) {
      bad = want;
      of_key[i][AT * 16 + 3] = i ? INFINITY : NAN;
      run_causal(ctx, &bad, N);
      assert_near(bad.dq, want.dq, 0, AT);
      bad = want;
      of_query[i][AT * 16 + 3] = i ? INFINITY : NAN;
      run_causal(ctx, &bad, N);
      assert_near(bad.dk, want.dk, AT + 1, N);
      assert_near(bad.dv, want.dv, AT + 1, N);
      assert_near(bad.dq, want.dq, 0, AT);
    }
    ga_ctx_destroy(ctx);
  }
}

/* No sequence: nothing is read, but the sinks have a gradient, 0. */
static void test_no_sequence(void **state) {
  (void)state;
  ga_ctx *ctx = open_ctx(1);
  ga_attn_bwd_desc d = GA_ATTN_BWD_DESC_INIT;
  d.batch = 0, d.max_q = d.max_kv = 4, d.q_heads = d.kv_heads = 2, d.head_dim = 8, d.flags = GA_ATTN_SINKS;
  float sinks[2] = {1, 2}, dsinks[3] = {3, 4, 5};
  ga_attn_bwd_io io = {0};
  assert_int_equal(ga_attn_bwd(ctx, &d, &io, NULL), GA_ERR_ARG);
  assert_string_equal(ga_error_text(), "attn_bwd: sinks is null");
  io.sinks = sinks;
  assert_int_equal(ga_attn_bwd(ctx, &d, &io, NULL), GA_ERR_ARG);
  assert_string_equal(ga_error_text(), "attn_bwd: dsinks is null");
  io.dsinks = (float *)(void *)((char *)dsinks + 2);
  assert_int_equal(ga_attn_bwd(ctx, &d, &io, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "attn_bwd: dsinks is at"));
  io.dsinks = dsinks;
  assert_int_equal(ga_attn_bwd(ctx, &d, &io, NULL), GA_OK);
  assert_true(dsinks[0] == 0 && dsinks[1] == 0 && dsinks[2] == 5);
  ga_ctx_destroy(ctx);
}

static void test_errors(void **state) {
  (void)state;
  static floats x;
  ga_ctx *ctx = open_ctx(1);
  ga_attn_bwd_desc d = GA_ATTN_BWD_DESC_INIT;
  d.max_q = d.max_kv = 4, d.q_heads = d.kv_heads = 1, d.head_dim = 8;
  ga_attn_bwd_io io = {
      .q = x.q, .k = x.k, .v = x.v, .o = x.o, .dout = x.dout, .lse = x.lse, .dq = x.dq, .dk = x.dk, .dv = x.dv};
  assert_int_equal(ga_attn_bwd(ctx, &d, &io, NULL), GA_OK);
  ga_attn_bwd_desc bad = d;
  bad.grad_dtype = GA_BF16;
  assert_int_equal(ga_attn_bwd(ctx, &bad, &io, NULL), GA_ERR_DTYPE);
  for (uint32_t flag = GA_ATTN_BWD_ADD_DQ; flag <= GA_ATTN_BWD_ADD_DKV; flag *= 2) {
    bad = d, bad.dtype = bad.grad_dtype = GA_BF16, bad.flags = flag;
    assert_int_equal(ga_attn_bwd(ctx, &bad, &io, NULL), GA_ERR_DTYPE);
    assert_string_equal(ga_error_text(), "attn_bwd: grad_dtype is bf16; ADD_DQ and ADD_DKV need f32");
  }
  bad = d, bad.flags = GA_ATTN_PAGED;
  assert_int_equal(ga_attn_bwd(ctx, &bad, &io, NULL), GA_ERR_ARG);
  bad = d, bad.total_q = 3;
  assert_int_equal(ga_attn_bwd(ctx, &bad, &io, NULL), GA_ERR_ARG);
  bad = d, bad.flags = GA_ATTN_VARLEN, bad.total_q = -1;
  assert_int_equal(ga_attn_bwd(ctx, &bad, &io, NULL), GA_ERR_SHAPE);
  bad = d, bad.flags = GA_ATTN_LENGTHS;
  assert_int_equal(ga_attn_bwd(ctx, &bad, &io, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "LENGTHS and KEEP_PADDING need VARLEN"));
  bad = d, bad.batch = 2, bad.lse_stride = 4;
  assert_int_equal(ga_attn_bwd(ctx, &bad, &io, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "lse_stride is 4; must be 0 without VARLEN, but for a batch of 1"));
  bad = d, bad.lse_stride = 3;
  assert_int_equal(ga_attn_bwd(ctx, &bad, &io, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "lse_stride is 3; must be 0, or at least max_q, 4"));
  const int32_t q_start[] = {0, 4}, kv_len[] = {4}, behind[] = {1};
  bad = d, bad.flags = GA_ATTN_VARLEN | GA_ATTN_LENGTHS, bad.total_q = bad.total_kv = 4, bad.lse_stride = 3;
  assert_int_equal(ga_attn_bwd(ctx, &bad, &io, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "lse_stride is 3; must be 0, or at least total_q, 4"));
  bad.lse_stride = 0;
  ga_attn_bwd_io packed = io;
  packed.q_start = q_start, packed.kv_start = behind, packed.kv_len = kv_len;
  assert_int_equal(ga_attn_bwd(ctx, &bad, &packed, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "keys 1 to 5; must lie in total_q, 4, and total_kv, 4"));
  const int32_t late[] = {1, 5}, negative[] = {-1, 3}, front[] = {0};
  packed.q_start = late, packed.kv_start = front;
  assert_int_equal(ga_attn_bwd(ctx, &bad, &packed, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "queries 1 to 5, keys 0 to 4; must lie in total_q, 4, and total_kv, 4"));
  packed.q_start = negative;
  assert_int_equal(ga_attn_bwd(ctx, &bad, &packed, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "queries -1 to 3"));
  bad = d, bad.kv_heads = 2;
  assert_int_equal(ga_attn_bwd(ctx, &bad, &io, NULL), GA_ERR_SHAPE);
  bad = d, bad.flags = GA_ATTN_SINKS;
  assert_int_equal(ga_attn_bwd(ctx, &bad, &io, NULL), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "sinks"));
  ga_attn_bwd_io same = io;
  same.dq = x.q;
  assert_int_equal(ga_attn_bwd(ctx, &d, &same, NULL), GA_ERR_ARG);
  const int32_t start[] = {0, 5};
  bad = d, bad.flags = GA_ATTN_VARLEN, bad.total_q = bad.total_kv = 4, same = io, same.q_start = same.kv_start = start;
  x.dq[0] = 42;
  assert_int_equal(ga_attn_bwd(ctx, &bad, &same, NULL), GA_ERR_ARG); /* longer than said; nothing is written */
  assert_true(x.dq[0] == 42);
  ga_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_finite_differences),
      cmocka_unit_test(test_masked_rows),
      cmocka_unit_test(test_add),
      cmocka_unit_test(test_add_apart),
      cmocka_unit_test(test_attn_bwd_adds_apart),
      cmocka_unit_test(test_attn_bwd_alone_and_together),
      cmocka_unit_test(test_lengths_backward),
      cmocka_unit_test(test_masked_nan),
      cmocka_unit_test(test_no_sequence),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
