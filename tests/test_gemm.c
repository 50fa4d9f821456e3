/* Every CPU row of the matrix product that this machine can run, called directly, against the oracle's values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/mem.h"
#include "core/ctx.h"
#include "cpu/cpu.h"
#include "ga/layer.h"
#include "opdef/gemm.h"
#include "ref/ref.h"
#include "tests/gemm_data.h"

#define ROUNDS_X (uint32_t)(GA_GEMM_ROW_Q8_ACT | GA_GEMM_ROW_Q15_ACT)
#define GUARD    64 /* canary floats before and after y */
static const float canary = 12345.5f;

typedef struct fixture {
  ga_ctx *one, *two; /* CPU contexts of 1 and 2 threads */
  const ga_kernel *rows;
  size_t n_rows;
} fixture;

/* A product with all its operands. */
typedef struct product {
  ga_gemm_desc desc;
  ga_gemm_io io;
  void *packed;
  double *w; /* [n, k] the weights' values */
  float *x, *y_all, *bias, *extra;
  uint8_t *native;
} product;

static void *alloc_or_fail(size_t bytes) {
  void *p;
  assert_int_equal(ga_mem_alloc(bytes ? bytes : 1, "test", &p), GA_OK);
  return p;
}

static int setup(void **state) {
  static fixture f;
  ga_ctx_options options = GA_CTX_OPTIONS_INIT;
  options.device = "cpu";
  options.threads = 1;
  assert_int_equal(ga_ctx_create(&options, &f.one), GA_OK);
  options.threads = 2;
  assert_int_equal(ga_ctx_create(&options, &f.two), GA_OK);
  f.rows = ga_cpu_backend.kernels(&f.n_rows);
  *state = &f;
  return 0;
}

static int teardown(void **state) {
  fixture *f = *state;
  ga_ctx_destroy(f->one);
  ga_ctx_destroy(f->two);
  return 0;
}

static bool usable(const fixture *f, const ga_kernel *row) { return f->one->device->caps.isas >> row->isa & 1; }

/* The weights in the row's layout; native ones as they are. */
static const void *laid_out(const fixture *f, const ga_kernel *row, product *p) {
  if (row->layout == GA_LAYOUT_NATIVE) return p->native;
  ga_pack_desc pack = GA_PACK_DESC_INIT;
  pack.n = p->desc.n;
  pack.k = p->desc.k;
  pack.w_dtype = p->desc.w_dtype;
  pack.w_layout = (int32_t)row->layout;
  const ga_kernel *packer = ga_kernel_choose(f->one->device, NULL, GA_OP_pack, &pack);
  assert_non_null(packer);
  uint64_t bytes = packer->out_bytes(packer, &pack, &f->one->device->caps);
  p->packed = alloc_or_fail(bytes + 64);
  memset((uint8_t *)p->packed + bytes, 0x5a, 64);
  assert_int_equal(ga_pack(f->one, &pack, p->native, p->packed, NULL), GA_OK);
  for (int i = 0; i < 64; i++) assert_int_equal(((uint8_t *)p->packed)[bytes + (uint64_t)i], 0x5a);
  return p->packed;
}

/* exact: integers; every 32 activations contain 127, so that rows that round them scale by a power of two. */
static product make_product(const fixture *f, const ga_kernel *row, int64_t m, int64_t n, int64_t k, bool exact,
                            uint64_t seed) {
  product p = {.desc = GA_GEMM_DESC_INIT};
  const ga_dtype_traits *t = ga_dtype_info(row->dtype[0]);
  ga_rng rng;
  ga_rng_seed(&rng, seed);
  p.desc.m = m;
  p.desc.n = n;
  p.desc.k = k;
  p.desc.w_dtype = (int32_t)row->dtype[0];
  p.desc.w_layout = (int32_t)row->layout;
  p.desc.x_stride = k + 3;
  p.desc.w_stride = k;
  p.desc.y_stride = n + 5;
  size_t blocks = (size_t)(n * k / t->block_elems);
  p.native = alloc_or_fail(blocks * (size_t)t->block_bytes);
  for (size_t i = 0; i < blocks; i++)
    (exact ? gemm_data_exact : gemm_data_random)(&rng, row->dtype[0], p.native + i * (size_t)t->block_bytes);
  p.w = alloc_or_fail((size_t)(n * k) * sizeof *p.w);
  for (int64_t i = 0; i < n * k; i++) p.w[i] = ga_ref_load(row->dtype[0], p.native, i);
  size_t xs = (size_t)(m * p.desc.x_stride), ys = (size_t)(m * p.desc.y_stride);
  p.x = alloc_or_fail(xs * sizeof *p.x);
  for (size_t i = 0; i < xs; i++) p.x[i] = exact ? (float)ga_rng_below(&rng, 7) - 3 : (float)ga_rng_normal(&rng);
  for (int64_t r = 0; exact && r < m; r++)
    for (int64_t b = 0; b < k; b += 32)
      p.x[r * p.desc.x_stride + b + (int64_t)ga_rng_below(&rng, (uint64_t)ga_min_i64(32, k - b))] = 127;
  p.y_all = alloc_or_fail((ys + 2 * GUARD) * sizeof *p.y_all);
  for (size_t i = 0; i < ys + 2 * GUARD; i++) p.y_all[i] = canary;
  p.extra = alloc_or_fail((2 * ys + (size_t)n + 1) * sizeof *p.extra);
  for (size_t i = 0; i < 2 * ys + (size_t)n; i++)
    p.extra[i] = exact ? (float)ga_rng_below(&rng, 9) - 4 : (float)ga_rng_normal(&rng);
  p.io.x = p.x;
  p.io.y = p.y_all + GUARD;
  p.io.bias = p.extra;
  p.io.gate = p.extra + n;
  p.io.residual = p.extra + n + ys;
  p.io.w = laid_out(f, row, &p);
  return p;
}

static void free_product(product *p) {
  ga_mem_free(p->packed);
  ga_mem_free(p->native);
  ga_mem_free(p->w);
  ga_mem_free(p->x);
  ga_mem_free(p->y_all);
  ga_mem_free(p->extra);
}

static void run_gemm_row(ga_ctx *ctx, const ga_kernel *row, const product *p) {
  ga_plan_steps steps;
  assert_null(ga_plan_steps_fill(&steps, ctx->device, NULL, row, &p->desc));
  const uint64_t bytes = steps.workspace_bytes;
  uint8_t *workspace = alloc_or_fail(bytes + 256 + 64),
          *at = (uint8_t *)(((uintptr_t)workspace + 255) & ~(uintptr_t)255);
  memset(workspace, 0xff, bytes + 256 + 64); /* NaN, if it is ever read before it is written */
  assert_int_equal(ga_plan_steps_launch(&steps, &p->desc, &p->io, at, ctx->stream), GA_OK);
  for (int i = 0; i < 64; i++) assert_int_equal(at[bytes + (uint64_t)i], 0xff);
  ga_mem_free(workspace);
}

static const char *refusal(const fixture *f, const ga_kernel *row, const product *p) {
  return row->ok(row, &p->desc, &f->one->device->caps);
}

static double activate(int act, double x) {
  if (act == GA_ACT_SILU) return x / (1 + exp(-x));
  if (act == GA_ACT_GELU_TANH) return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
  return act == GA_ACT_GELU_ERF ? 0.5 * x * (1 + erf(x * 0.7071067811865476)) : x;
}

static double finish_expected(const product *p, double dot, int64_t r, int64_t c) {
  const ga_gemm_desc *d = &p->desc;
  int64_t at = r * d->y_stride + c;
  double t = (double)d->scale * dot;
  if (d->flags & GA_GEMM_BIAS) t += (double)p->io.bias[c];
  if (d->flags & GA_GEMM_GLU)
    t *= activate(d->act, (double)((const float *)p->io.gate)[at]);
  else
    t = activate(d->act, t);
  return d->flags & GA_GEMM_RESIDUAL ? t + (double)((const float *)p->io.residual)[at] : t;
}

/* One row of activations as the row's plain evaluation sees it. */
static void round_x(uint32_t flags, const float *x, int64_t k, double *out) {
  for (int64_t b = 0; b < k; b += 32) {
    double most = 0;
    int64_t n = ga_min_i64(32, k - b);
    for (int64_t i = b; i < b + n; i++) most = fmax(most, fabs((double)x[i]));
    for (int64_t i = b; i < b + n; i++) {
      double steps = flags & GA_GEMM_ROW_Q8_ACT ? 127 : 16256;
      if (flags & ROUNDS_X)
        out[i] = most > 0 ? nearbyint((double)x[i] * steps / most) * most / steps : 0;
      else
        out[i] = flags & GA_GEMM_ROW_BF16 ? (double)ga_bf16_to_f32(ga_f32_to_bf16(x[i])) : (double)x[i];
    }
  }
}

static double round_w(uint32_t flags, double w) {
  return flags & GA_GEMM_ROW_BF16 ? (double)ga_bf16_to_f32(ga_f32_to_bf16((float)w)) : w;
}

/* Largest error of the row and of the plain evaluation, and largest value. */
typedef struct errors {
  double row, plain, value;
} errors;

static errors measure_errors(const ga_kernel *row, const product *p) {
  errors e = {0, 0, 0};
  const ga_gemm_desc *d = &p->desc;
  double *x = alloc_or_fail((size_t)d->k * sizeof *x);
  for (int64_t r = 0; r < d->m; r++) {
    const float *xr = p->x + r * d->x_stride;
    round_x(row->op_flags, xr, d->k, x);
    for (int64_t c = 0; c < d->n; c++) {
      double dot = 0, near = 0;
      float plain = 0;
      for (int64_t i = 0; i < d->k; i++) {
        double w = p->w[c * d->k + i];
        dot += (double)xr[i] * w;
        near += x[i] * round_w(row->op_flags, w);
        plain += xr[i] * (float)w;
      }
      if (!(row->op_flags & (ROUNDS_X | GA_GEMM_ROW_BF16))) near = (double)plain;
      double want = finish_expected(p, dot, r, c), have = (double)((const float *)p->io.y)[r * d->y_stride + c];
      e.row = fmax(e.row, isnan(have) ? INFINITY : fabs(have - want));
      e.plain = fmax(e.plain, fabs(finish_expected(p, near, r, c) - want));
      e.value = fmax(e.value, fmax(fabs(want), fabs(dot)));
    }
  }
  ga_mem_free(x);
  return e;
}

static void check_guards(const product *p) {
  const ga_gemm_desc *d = &p->desc;
  const float *y = p->io.y;
  for (int i = 0; i < GUARD; i++) assert_true(p->y_all[i] == canary && y[d->m * d->y_stride + i] == canary);
  for (int64_t r = 0; r < d->m; r++)
    for (int64_t c = d->n; c < d->y_stride; c++) assert_true(y[r * d->y_stride + c] == canary);
}

static void fail_row(const ga_kernel *row, const product *p, errors e) {
  print_error("%s m %lld n %lld k %lld act %d flags %u: error %.3g, plain %.3g, values to %.3g\n", row->id,
              (long long)p->desc.m, (long long)p->desc.n, (long long)p->desc.k, p->desc.act, p->desc.flags, e.row,
              e.plain, e.value);
  fail();
}

#define EACH_ROW(f, row)                                                       \
  for (const ga_kernel *row = (f)->rows; row < (f)->rows + (f)->n_rows; row++) \
    if (row->op == GA_OP_gemm && row->dtype[0] && usable((f), row)) /* the others: ga check */

/* A k that suits the row: a multiple of its block; odd for plain types. */
static int64_t a_k(const ga_kernel *row, int64_t blocks) {
  int64_t elems = ga_dtype_info(row->dtype[0])->block_elems;
  return elems == 1 ? blocks * 32 + 7 : elems * blocks;
}

static void test_exact(void **state) {
  const fixture *f = *state;
  const int64_t ms[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 64}, ns[] = {1, 15, 16, 17, 31, 48, 83};
  EACH_ROW(f, row) {
    for (size_t i = 0; i < GA_COUNT_OF(ms) * GA_COUNT_OF(ns); i++) {
      int64_t m = ms[i % GA_COUNT_OF(ms)], n = ns[i / GA_COUNT_OF(ms)];
      product p = make_product(f, row, m, n, a_k(row, 1 + (int64_t)(i % 2)), true, 100 + i);
      if (!refusal(f, row, &p)) {
        run_gemm_row(f->one, row, &p);
        errors e = measure_errors(row, &p);
        if (e.row != 0) fail_row(row, &p, e);
        check_guards(&p);
      }
      free_product(&p);
    }
  }
}

static void test_random(void **state) {
  const fixture *f = *state;
  const int64_t ms[] = {1, 2, 4, 8, 9, 17, 64};
  EACH_ROW(f, row) {
    for (size_t i = 0; i < GA_COUNT_OF(ms); i++) {
      product p = make_product(f, row, ms[i], 83, a_k(row, ga_dtype_info(row->dtype[0])->block_elems == 256 ? 3 : 17),
                               false, i);
      p.desc.scale = 0.75f;
      if (!refusal(f, row, &p)) {
        run_gemm_row(f->two, row, &p);
        errors e = measure_errors(row, &p);
        if (e.row > row->tolerance * e.plain + 1e-6 * e.value) fail_row(row, &p, e);
        check_guards(&p);
      }
      free_product(&p);
    }
  }
}

static void test_epilogues(void **state) {
  const fixture *f = *state;
  EACH_ROW(f, row) {
    for (int i = 0; i < 32; i++) {
      product p = make_product(f, row, row->rows_min > 3 ? row->rows_min + 2 : 3, 37, a_k(row, 1), false, 7);
      p.desc.act = i / 8;
      p.desc.flags = (uint32_t)i % 8;
      p.desc.scale = 0.125f;
      if (!refusal(f, row, &p)) {
        run_gemm_row(f->one, row, &p);
        errors e = measure_errors(row, &p);
        if (e.row > row->tolerance * e.plain + 2e-6 * (1 + e.value)) fail_row(row, &p, e);
        check_guards(&p);
      }
      free_product(&p);
    }
  }
}

/* Same bits for 1 and 2 threads, from run to run, and for a row of X alone or among others. */
static void test_repeatable(void **state) {
  const fixture *f = *state;
  EACH_ROW(f, row) {
    int64_t m = row->rows_min > 7 ? 2 * row->rows_min + 3 : 7, n = 211;
    product p = make_product(f, row, m, n, a_k(row, 4), false, 11);
    if (row->rows_max && m > row->rows_max) p.desc.m = row->rows_max;
    size_t bytes = (size_t)(m * p.desc.y_stride) * sizeof(float);
    float *first = alloc_or_fail(bytes);
    if (!refusal(f, row, &p)) {
      run_gemm_row(f->one, row, &p);
      memcpy(first, p.io.y, bytes);
      for (int round = 0; round < 3; round++) {
        run_gemm_row(f->two, row, &p);
        assert_memory_equal(first, p.io.y, bytes);
      }
      int64_t fewer = ga_max_i64(1, row->rows_min); /* the last rows alone */
      product part = p;
      part.desc.m = fewer;
      part.io.x = p.x + (p.desc.m - fewer) * p.desc.x_stride;
      run_gemm_row(f->two, row, &part);
      for (int64_t r = 0; r < fewer; r++)
        assert_memory_equal((const float *)p.io.y + r * p.desc.y_stride,
                            first + (p.desc.m - fewer + r) * p.desc.y_stride, (size_t)n * sizeof(float));
    }
    ga_mem_free(first);
    free_product(&p);
  }
}

/* What is not finite stays in its own row of W or X, and is not lost there. */
static void test_hostile_products(void **state) {
  const fixture *f = *state;
  EACH_ROW(f, row) {
    int64_t m = row->rows_min > 5 ? row->rows_min : 5, n = 35;
    product p = make_product(f, row, m, n, a_k(row, 2), false, 13);
    if (row->rows_max && m > row->rows_max) p.desc.m = m = row->rows_max;
    size_t bytes = (size_t)(m * p.desc.y_stride) * sizeof(float);
    float *clean = alloc_or_fail(bytes), *y = p.y_all + GUARD;
    if (!refusal(f, row, &p)) {
      run_gemm_row(f->one, row, &p);
      memcpy(clean, y, bytes);
      const float bad[] = {INFINITY, -INFINITY, NAN, 3e38f};
      for (size_t i = 0; i < GA_COUNT_OF(bad); i++) {
        float keep = p.x[1];
        p.x[1] = bad[i];
        run_gemm_row(f->one, row, &p);
        for (int64_t c = 0; c < n; c++)
          if (i < 3) assert_false(isfinite(y[c]) && p.w[c * p.desc.k + 1] != 0);
        if (m > 1)
          assert_memory_equal(clean + p.desc.y_stride, y + p.desc.y_stride, bytes - (size_t)p.desc.y_stride * 4);
        p.x[1] = keep;
      }
      for (int64_t i = 0; i < p.desc.k; i++)
        p.x[i] = (i & 1 ? -1e-42f : 1e-42f); /* below any scale: nothing, not NaN */
      run_gemm_row(f->one, row, &p);
      for (int64_t c = 0; c < n; c++) assert_true(fabsf(y[c]) < 1e-30f);
    }
    ga_mem_free(clean);
    free_product(&p);
  }
}

/* Dispatch finds a row for every type and m, natively laid out and as ga_pack_choose says. */
static void test_dispatch(void **state) {
  const fixture *f = *state;
  for (int t = 0; t < 64; t++) {
    const ga_dtype_traits *info = ga_dtype_info((ga_dtype)t);
    if (!info || ga_dtype_is_read_only((ga_dtype)t)) continue;
    if (!info->is_quant && t != GA_F32 && t != GA_F16 && t != GA_BF16) continue;
    ga_gemm_desc d = GA_GEMM_DESC_INIT;
    d.n = 64;
    d.k = 512;
    d.w_dtype = t;
    uint64_t bytes, plain;
    ga_layout layout;
    assert_int_equal(ga_pack_choose(f->two, (ga_dtype)t, d.n, d.k, &layout, &bytes), GA_OK);
    assert_int_equal(ga_dtype_bytes((ga_dtype)t, d.n * d.k, &plain), GA_OK);
    assert_true((double)bytes <= (double)plain * 1.04);
    for (d.m = 0; d.m < 40; d.m++) {
      const int32_t layouts[] = {GA_LAYOUT_NATIVE, (int32_t)layout};
      for (int i = 0; i < 2; i++) {
        ga_plan *plan;
        d.w_layout = layouts[i];
        assert_int_equal(ga_gemm_plan(f->two, &d, &plan), GA_OK);
        ga_plan_destroy(plan);
      }
    }
  }
}

/* GA_GEMM_X_E4M3 is the product by what ga_convert makes of X, on the CPU and by the oracle. */
static void test_rounded_x(void **state) {
  enum { M = 5, N = 12, K = 384, BLOCKS = K / GA_GEMM_SCALE_BLOCK, BLOCK = 4 + GA_GEMM_SCALE_BLOCK };
  static float x[M * K], y[M * N], scale[BLOCKS * M];
  static uint8_t w[N * BLOCKS * BLOCK], codes[M * K];
  (void)state;
  ga_rng rng;
  ga_rng_seed(&rng, 5);
  for (int i = 0; i < M * K; i++) x[i] = (float)ga_rng_normal(&rng) * (i % 7 ? 1.0f : 30.0f);
  for (size_t i = 0; i < sizeof w; i += BLOCK) gemm_data_random(&rng, GA_E4M3_128, w + i);
  for (int oracle = 0; oracle < 2; oracle++) {
    ga_ctx_options o = GA_CTX_OPTIONS_INIT;
    ga_ctx *ctx;
    o.device = oracle ? "ref" : "cpu";
    assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
    ga_convert_desc c = GA_CONVERT_DESC_INIT;
    c.rows = M;
    c.width = K;
    c.x_dtype = GA_F32;
    c.y_dtype = GA_E4M3;
    c.scales = GA_CONVERT_SCALES_ROW;
    assert_int_equal(ga_convert(ctx, &c, &(ga_convert_io){.x = x, .y = codes, .scale = scale}, NULL), GA_OK);
    ga_gemm_desc d = GA_GEMM_DESC_INIT;
    d.m = M;
    d.n = N;
    d.k = K;
    d.w_dtype = GA_E4M3_128;
    d.flags = GA_GEMM_X_E4M3;
    assert_int_equal(ga_gemm(ctx, &d, &(ga_gemm_io){.x = x, .w = w, .y = y}, NULL), GA_OK);
    for (int r = 0; r < M; r++)
      for (int n = 0; n < N; n++) {
        double want = 0, size = 0;
        for (int k = 0; k < K; k++) {
          const double term = (double)ga_e4m3_to_f32(codes[r * K + k]) *
                              (double)scale[k / GA_GEMM_SCALE_BLOCK * M + r] * ga_ref_load(GA_E4M3_128, w, n * K + k);
          want += term;
          size += fabs(term);
        }
        assert_true(fabs(want - (double)y[r * N + n]) <= 1e-6 * size);
      }
    ga_ctx_destroy(ctx);
  }
}

/* What it goes with. */
static void test_rounded_x_arguments(void **state) {
  const fixture *f = *state;
  ga_gemm_fused_desc d = GA_GEMM_FUSED_DESC_INIT;
  ga_plan *plan;
  d.plain.m = d.plain.n = 16;
  d.plain.k = 128;
  d.plain.w_dtype = GA_Q8_0;
  d.plain.flags = GA_GEMM_X_E4M3;
  assert_int_equal(ga_gemm_fused_plan(f->two, &d, &plan), GA_ERR_DTYPE);
  assert_non_null(strstr(ga_error_text(), "X_E4M3 needs w of e4m3_128; it is q8_0"));
  d.plain.w_dtype = GA_E4M3_128;
  d.plain.flags = GA_GEMM_X_E4M3 | GA_GEMM_XT;
  assert_int_equal(ga_gemm_fused_plan(f->two, &d, &plan), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "X_E4M3 needs x with k contiguous"));
  d.plain.flags = GA_GEMM_X_E4M3;
  d.n_more[0] = 16;
  assert_int_equal(ga_gemm_fused_plan(f->two, &d, &plan), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "n_more[0] is 16 with flags 0x200"));
  d.n_more[0] = 0;
  d.fused = GA_GEMM_FUSED_NORM;
  assert_int_equal(ga_gemm_fused_plan(f->two, &d, &plan), GA_ERR_ARG);
  assert_non_null(strstr(ga_error_text(), "X_E4M3 does not go with NORM"));
}

static void gemm_refused(ga_ctx *ctx, const ga_gemm_fused_desc *d, const ga_gemm_fused_io *io, const char *why) {
  assert_int_equal(ga_gemm_fused(ctx, d, io, NULL), GA_ERR_ARG);
  if (!strstr(ga_error_text(), why)) fail_msg("'%s' instead of '%s'", ga_error_text(), why);
}

/* What goes with GA_GEMM_FUSED_ADD_NORM, and what may not lie where it reads. */
static void test_sum_arguments(void **state) {
  enum { K = 32, N = 8 };
  static float x[K], w[N * K], add[K], norm[K], sum[K], y[K];
  (void)state;
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  ga_ctx *ctx;
  o.device = "ref";
  assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
  ga_gemm_fused_desc d = GA_GEMM_FUSED_DESC_INIT;
  d.plain.m = 1;
  d.plain.n = N;
  d.plain.k = K;
  d.fused = GA_GEMM_FUSED_NORM | GA_GEMM_FUSED_ADD_NORM;
  d.norm_eps = 1e-5f;
  const ga_gemm_fused_io good = {
      .plain = {.x = x, .w = w, .y = y}, .norm = norm, .add = add, .add_norm = norm, .sum = sum};
  ga_gemm_fused_io io = good;
  assert_int_equal(ga_gemm_fused(ctx, &d, &io, NULL), GA_OK);
  io.sum = add;
  gemm_refused(ctx, &d, &io, "sum overlaps add");
  io = good;
  io.plain.y = add;
  gemm_refused(ctx, &d, &io, "y overlaps add");
  io = good;
  io.sum = y;
  gemm_refused(ctx, &d, &io, "sum overlaps y");
  io = good;
  io.add = NULL;
  gemm_refused(ctx, &d, &io, "add is null");
  d.fused = GA_GEMM_FUSED_ADD_NORM;
  d.norm_eps = 0;
  gemm_refused(ctx, &d, &good, "ADD_NORM goes with NORM");
  ga_ctx_destroy(ctx);
}

/* What only fused products do cannot be asked for from outside: not by a flag, nor by bytes behind the description. */
static void test_plain_alone(void **state) {
  (void)state;
  static const uint32_t unknown[] = {8, 16, 1024, 1u << 31};
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  ga_ctx *ctx;
  ga_plan *plan;
  o.device = "ref"; /* which does all of it */
  assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
  ga_gemm_fused_desc d = GA_GEMM_FUSED_DESC_INIT;
  d.plain.m = 1;
  d.plain.n = d.plain.k = 32;
  for (size_t i = 0; i < GA_COUNT_OF(unknown); i++) {
    d.plain.flags = unknown[i];
    assert_int_equal(ga_gemm_plan(ctx, &d.plain, &plan), GA_ERR_ARG);
    assert_non_null(strstr(ga_error_text(), "allowed: bits of 0x3e7"));
  }
  d.plain.flags = 0;
  d.fused = GA_GEMM_FUSED_NORM;
  assert_int_equal(ga_gemm_plan(ctx, &d.plain, &plan), GA_OK); /* what lies behind is not looked at */
  assert_int_equal(((const ga_gemm_fused_desc *)(const void *)plan->desc)->fused, 0);
  ga_plan_destroy(plan);
  d.plain.struct_size = sizeof d;
  assert_int_equal(ga_gemm_plan(ctx, &d.plain, &plan), GA_ERR_ARG);
  d.plain.struct_size = sizeof d.plain;
  assert_int_equal(ga_gemm_fused_plan(ctx, &d, &plan), GA_OK);
  static float x[32], w[32 * 32], y[32];
  const ga_gemm_io io = {.x = x, .w = w, .y = y};
  assert_int_equal(ga_gemm_run(plan, &io, NULL, NULL), GA_ERR_ARG); /* it lacks the norm's weights */
  assert_non_null(strstr(ga_error_text(), "norm is null"));
  ga_plan_destroy(plan);
  ga_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_exact),
      cmocka_unit_test(test_random),
      cmocka_unit_test(test_epilogues),
      cmocka_unit_test(test_repeatable),
      cmocka_unit_test(test_hostile_products),
      cmocka_unit_test(test_dispatch),
      cmocka_unit_test(test_sum_arguments),
      cmocka_unit_test(test_plain_alone),
      cmocka_unit_test(test_rounded_x),
      cmocka_unit_test(test_rounded_x_arguments),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
