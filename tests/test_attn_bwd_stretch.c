/* Gradients of attention over stretches against the definition in double: lists drawn at random, and what is refused.
 * With GA_TEST_DEVICE on that device alone, and in bf16 too. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/half.h"
#include "base/mem.h"
#include "base/rng.h"
#include "core/ctx.h"
#include "ga/attn_bwd.h"

#ifdef GA_TEST_DEVICE
static const char *const devices[] = {GA_TEST_DEVICE};
enum { DRAWS = 6, TYPES = 2 };
#else
static const char *const devices[] = {"ref", "cpu"};
enum { DRAWS = 60, TYPES = 1 };
#endif

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, DIM = 16, VDIM = 8, MOST = 90, LISTED = 4 };
enum { Q, K, V, O, DOUT, LSE, DQ, DK, DV, TENSORS };
#define BEFORE 3.0F /* in dQ, dK and dV before a call, which adds */

typedef struct problem {
  ga_attn_bwd_desc d;
  int32_t n_q, n_kv;
  ga_attn_stretch q[LISTED], kv[LISTED];
  float x[TENSORS][BATCH * MOST * HEADS * DIM]; /* as the device has them, in f32 */
  double want[TENSORS][BATCH * MOST * HEADS * DIM];
} problem;

static int64_t count_of(const problem *p, int tensor) {
  const int64_t q = BATCH * p->d.max_q * HEADS, kv = BATCH * p->d.max_kv * KV_HEADS;
  const int64_t all[TENSORS] = {q * DIM, kv * DIM, kv * VDIM, q * VDIM, q * VDIM, q, q * DIM, kv * DIM, kv * VDIM};
  return all[tensor];
}

/* --- draws --- */

static int64_t pick(ga_rng *rng, int64_t n) { return (int64_t)ga_rng_below(rng, (uint64_t)n); }

/* Pieces of rows, in any order of memory, with rows that no stretch has between them. */
static int32_t draw_rows(ga_rng *rng, ga_attn_stretch *s, int64_t rows) {
  const int32_t n = 1 + (int32_t)pick(rng, LISTED);
  int64_t at = 0;
  for (int32_t i = 0; i < n; i++) {
    const int64_t left = rows - at, take = i + 1 < n ? pick(rng, left + 1) : left;
    s[i] = (ga_attn_stretch){.first = at, .rows = take - pick(rng, take < 4 ? 1 : 4)};
    at += take;
  }
  for (int32_t i = n - 1; i > 0; i--) {
    const int64_t j = pick(rng, i + 1);
    const ga_attn_stretch x = s[i];
    s[i] = s[j], s[j] = x;
  }
  return n;
}

static void draw_problem(problem *p, uint64_t seed, int32_t dtype) {
  ga_rng rng;
  ga_rng_seed(&rng, seed);
  p->d = (ga_attn_bwd_desc)GA_ATTN_BWD_DESC_INIT;
  p->d.batch = BATCH, p->d.q_heads = HEADS, p->d.kv_heads = KV_HEADS, p->d.head_dim = DIM, p->d.v_dim = VDIM;
  p->d.max_q = 1 + pick(&rng, MOST), p->d.max_kv = 1 + pick(&rng, MOST);
  p->d.dtype = dtype;
  p->d.flags = GA_ATTN_BWD_ADD | (pick(&rng, 3) ? GA_ATTN_CAUSAL : 0);
  p->d.window = pick(&rng, 2) ? 1 + (int32_t)pick(&rng, 40) : 0;
  p->n_q = draw_rows(&rng, p->q, p->d.max_q);
  p->n_kv = draw_rows(&rng, p->kv, p->d.max_kv);
  int64_t at = pick(&rng, 2) ? 0 : (int64_t)1 << 39;
  for (int32_t i = 0, document = 0; i < p->n_kv; i++) {
    if (pick(&rng, 4) == 0) document++;
    p->kv[i].document = document, p->kv[i].position = at;
    at += p->kv[i].rows + pick(&rng, 2) * pick(&rng, 20);
  }
  for (int32_t i = 0; i < p->n_q; i++) {
    const ga_attn_stretch *s = &p->kv[pick(&rng, p->n_kv)];
    p->q[i].document = s->document;
    p->q[i].position = ga_max_i64(0, s->position + pick(&rng, 2) * (pick(&rng, 120) - 60));
  }
  for (int i = 0; i < TENSORS; i++)
    for (int64_t j = 0; j < count_of(p, i); j++) {
      const float x = i < DQ ? (float)ga_rng_normal(&rng) : BEFORE;
      p->x[i][j] = dtype == GA_BF16 && i < LSE ? ga_bf16_to_f32(ga_f32_to_bf16(x)) : x;
    }
}

/* --- the definition --- */

static double dot_of_rows(const float *x, const float *y, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
  return sum;
}

typedef struct row {
  int64_t b, at, position; /* of the tensor; of the document */
  int32_t document;
  int h;
} row;

/* Calls for each key that the row sees; `what` 0: adds up weights to *sum and O, 1: gradients. */
static void walk_keys(problem *p, const row *r, int what, double *sum, double *o) {
  const int64_t q = (r->b * p->d.max_q + r->at) * HEADS + r->h;
  const double lse = (double)p->x[LSE][(r->b * HEADS + r->h) * p->d.max_q + r->at], scale = 1 / sqrt(DIM);
  const float *dout = p->x[DOUT] + q * VDIM;
  const double delta = dot_of_rows(dout, p->x[O] + q * VDIM, VDIM);
  for (int s = 0; s < p->n_kv; s++)
    for (int64_t j = 0; j < p->kv[s].rows; j++) {
      const int64_t behind = r->position - p->kv[s].position - j;
      const int64_t k = (r->b * p->d.max_kv + p->kv[s].first + j) * KV_HEADS + r->h / (HEADS / KV_HEADS);
      if (p->kv[s].document != r->document || (p->d.flags & GA_ATTN_CAUSAL && behind < 0)) continue;
      if (p->d.window && behind >= p->d.window) continue;
      const double x = scale * dot_of_rows(p->x[Q] + q * DIM, p->x[K] + k * DIM, DIM);
      if (what == 0) {
        *sum += exp(x);
        for (int e = 0; e < VDIM; e++) o[e] += exp(x) * (double)p->x[V][k * VDIM + e];
        continue;
      }
      const double w = exp(x - lse), ds = scale * w * (dot_of_rows(dout, p->x[V] + k * VDIM, VDIM) - delta);
      for (int e = 0; e < DIM; e++) {
        p->want[DQ][q * DIM + e] += ds * (double)p->x[K][k * DIM + e];
        p->want[DK][k * DIM + e] += ds * (double)p->x[Q][q * DIM + e];
      }
      for (int e = 0; e < VDIM; e++) p->want[DV][k * VDIM + e] += w * (double)dout[e];
    }
}

/* O and LSE of the rows of stretches, rounded as the device is given them; then what the gradients must be. */
static void define_gradients(problem *p) {
  for (int i = DQ; i < TENSORS; i++)
    for (int64_t j = 0; j < count_of(p, i); j++) p->want[i][j] = (double)BEFORE;
  for (int s = 0; s < p->n_q; s++)
    for (int64_t i = 0; i < p->q[s].rows * BATCH * HEADS; i++) {
      const int64_t in = i % p->q[s].rows;
      const row r = {i / p->q[s].rows / HEADS, p->q[s].first + in, p->q[s].position + in, p->q[s].document,
                     (int)(i / p->q[s].rows % HEADS)};
      double sum = 0, o[VDIM] = {0};
      walk_keys(p, &r, 0, &sum, o);
      for (int e = 0; e < VDIM; e++) {
        const float x = (float)(sum > 0 ? o[e] / sum : 0);
        p->x[O][((r.b * p->d.max_q + r.at) * HEADS + r.h) * VDIM + e] =
            p->d.dtype == GA_BF16 ? ga_bf16_to_f32(ga_f32_to_bf16(x)) : x;
      }
      p->x[LSE][(r.b * HEADS + r.h) * p->d.max_q + r.at] = sum > 0 ? (float)log(sum) : -INFINITY;
      walk_keys(p, &r, 1, NULL, NULL);
    }
}

/* --- runs --- */

static void copy_in(ga_ctx *ctx, const problem *p, int i, void *to) {
  static uint16_t half[BATCH * MOST * HEADS * DIM];
  const bool bf16 = p->d.dtype == GA_BF16 && i < LSE;
  for (int64_t j = 0; j < count_of(p, i) && bf16; j++) half[j] = ga_f32_to_bf16(p->x[i][j]);
  const size_t bytes = (size_t)count_of(p, i) * (bf16 ? sizeof *half : sizeof(float));
  assert_int_equal(ga_copy_to_device(ctx, to, bf16 ? (const void *)half : p->x[i], bytes, NULL), GA_OK);
  assert_int_equal(ga_stream_sync(ctx, NULL), GA_OK);
}

static void expect_gradients(ga_ctx *ctx, problem *p, void *const *at, uint64_t seed) {
  static const char *const names[TENSORS] = {[DQ] = "dQ", [DK] = "dK", [DV] = "dV"};
  const double bound = p->d.dtype == GA_BF16 ? 0.03 : 1e-5;
  for (int i = DQ; i < TENSORS; i++) {
    assert_int_equal(ga_copy_to_host(ctx, p->x[i], at[i], (size_t)count_of(p, i) * sizeof(float), NULL), GA_OK);
    assert_int_equal(ga_stream_sync(ctx, NULL), GA_OK);
    for (int64_t j = 0; j < count_of(p, i); j++)
      if (fabs((double)p->x[i][j] - p->want[i][j]) > bound * (1 + fabs(p->want[i][j])))
        fail_msg("draw %llu, %s: %s[%lld] is %.7g; must be %.7g", (unsigned long long)seed,
                 ga_dtype_name((ga_dtype)p->d.dtype), names[i], (long long)j, (double)p->x[i][j], p->want[i][j]);
  }
}

static void run_draw(ga_ctx *ctx, problem *p, uint64_t seed, int32_t dtype) {
  void *at[TENSORS];
  draw_problem(p, seed, dtype);
  define_gradients(p);
  for (int i = 0; i < TENSORS; i++) {
    assert_int_equal(ga_buffer_alloc(ctx, (size_t)count_of(p, i) * sizeof(float), &at[i]), GA_OK);
    copy_in(ctx, p, i, at[i]);
  }
  const ga_attn_bwd_io io = {.q = at[Q],
                             .k = at[K],
                             .v = at[V],
                             .o = at[O],
                             .dout = at[DOUT],
                             .lse = at[LSE],
                             .dq = at[DQ],
                             .dk = at[DK],
                             .dv = at[DV]};
  if (ga_attn_bwd_stretches(ctx, &p->d, &io, p->q, p->n_q, p->kv, p->n_kv, NULL) != GA_OK)
    fail_msg("draw %llu: %s", (unsigned long long)seed, ga_error_text());
  expect_gradients(ctx, p, at, seed);
  for (int i = 0; i < TENSORS; i++) ga_buffer_free(ctx, at[i]);
}

static ga_ctx *open_ctx(const char *device) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  ga_ctx *ctx;
  o.device = device, o.threads = 2;
  assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
  return ctx;
}

static void test_against_the_definition(void **state) {
  static const int32_t types[] = {GA_F32, GA_BF16};
  (void)state;
  problem *p = malloc(sizeof *p);
  assert_non_null(p);
  for (size_t device = 0; device < GA_COUNT_OF(devices); device++) {
    ga_ctx *ctx = open_ctx(devices[device]);
    for (int type = 0; type < TYPES; type++)
      for (uint64_t seed = 0; seed < DRAWS; seed++) run_draw(ctx, p, seed, types[type]);
    ga_ctx_destroy(ctx);
  }
  free(p);
}

static void test_refused_stretches(void **state) {
  (void)state;
  static float x[64];
  ga_ctx *ctx = open_ctx(devices[0]);
  ga_attn_bwd_desc good = GA_ATTN_BWD_DESC_INIT;
  good.max_q = good.max_kv = 4, good.q_heads = good.kv_heads = good.head_dim = 1, good.flags = GA_ATTN_BWD_ADD;
  const ga_attn_bwd_io io = {.q = x, .k = x, .v = x, .o = x, .dout = x, .lse = x, .dk = x + 16, .dv = x + 32};
  const ga_attn_stretch rows = {.rows = 4}, late = {.rows = 4, .ready = 1}, more = {.rows = 5};
  ga_attn_bwd_desc d = good;
#define REFUSED(status, q, n, kv, text)                                                                \
  do {                                                                                                 \
    assert_int_equal(ga_attn_bwd_stretches(ctx, &d, &io, &(q), (n), &(kv), 1, NULL), GA_ERR_##status); \
    assert_non_null(strstr(ga_error_text(), (text)));                                                  \
    d = good;                                                                                          \
  } while (0)
  d.flags = GA_ATTN_CAUSAL;
  REFUSED(ARG, rows, 1, rows, "attn_bwd_stretches: flags 0x1; must have ADD_DQ and ADD_DKV");
  d.flags = GA_ATTN_BWD_ADD_DQ;
  REFUSED(ARG, rows, 1, rows, "attn_bwd_stretches: flags 0x40000; must have ADD_DQ and ADD_DKV");
  d.flags |= GA_ATTN_VARLEN;
  REFUSED(ARG, rows, 1, rows, "attn_bwd_stretches: flags 0xc0002; must have ADD_DQ and ADD_DKV");
  REFUSED(ARG, rows, 65, rows, "attn_bwd_stretches: q_stretches is 65, kv_stretches 1; must be 1 to 64");
  REFUSED(ARG, more, 1, rows, "attn_bwd_stretches: q_stretches[0] has 5 rows from 0 on; the tensor has 4");
  REFUSED(ARG, rows, 1, late, "attn_bwd_stretches: kv_stretches[0].ready is 1, but io.ready is null");
  REFUSED(ARG, rows, 1, rows, "dq is null");
  d.max_q = (int64_t)1 << 31;
  REFUSED(SHAPE, rows, 1, rows, "attn_bwd_stretches: max_q 2147483648, max_kv 4; must be at most 2^31 - 1");
  ga_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_the_definition),
                                     cmocka_unit_test(test_refused_stretches)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
