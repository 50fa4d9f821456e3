/* Attention over stretches of Q and of K and V: against the definition in double, on the oracle and on the CPU; the
 * bits of one plain call; words that keys wait for; what is refused; and plans with a row named by its id. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/rng.h"
#include "core/ctx.h"
#include "opdef/ops.h"

enum { BATCH = 2, HEADS = 6, KV_HEADS = 2, DIM = 24, VDIM = 16, MOST = 300, LISTED = 6 };
#define POISON 12345.0F /* in O and LSE before a call */
#define FAR    ((int64_t)1 << 40)

static const char *const devices[] = {"ref", "cpu"};

static ga_ctx *open_ctx(const char *name, int threads) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = name;
  o.threads = threads;
  ga_ctx *ctx;
  assert_int_equal(ga_ctx_create(&o, &ctx), GA_OK);
  return ctx;
}

typedef struct stretch_case {
  const char *what;
  int64_t max_q, max_kv;
  uint32_t flags;
  int32_t window, n_q, n_kv;
  ga_attn_stretch q[LISTED], kv[LISTED];
} stretch_case;

#define AT(first, rows, position, document) \
  { first, rows, position, document, 0, 0, 0 }

static const stretch_case cases[] = {
    {"one of each", 70, 70, GA_ATTN_CAUSAL, 0, 1, 1, {AT(0, 70, 0, 0)}, {AT(0, 70, 0, 0)}},
    {"full", 70, 90, 0, 0, 1, 2, {AT(0, 70, 0, 0)}, {AT(50, 40, 0, 0), AT(0, 50, 40, 0)}},
    /* chunks 1 and 6 of 8 of 25 each; keys came as ranks hold them */
    {"a rank of zigzag",
     50,
     200,
     GA_ATTN_CAUSAL,
     0,
     2,
     4,
     {AT(0, 25, 25, 0), AT(25, 25, 150, 0)},
     {AT(100, 50, 0, 0), AT(0, 50, 50, 0), AT(150, 50, 100, 0), AT(50, 50, 150, 0)}},
    {"a window over chunks",
     50,
     200,
     GA_ATTN_CAUSAL,
     40,
     2,
     4,
     {AT(25, 25, 150, 0), AT(0, 25, 25, 0)},
     {AT(100, 50, 0, 0), AT(0, 50, 50, 0), AT(150, 50, 100, 0), AT(50, 50, 150, 0)}},
    {"a window that bounds the past alone",
     60,
     100,
     0,
     7,
     1,
     2,
     {AT(0, 60, 20, 3)},
     {AT(0, 50, 0, 3), AT(50, 50, 50, 3)}},
    /* stretches of documents 2, 5 and 9; nobody has keys of 4 */
    {"documents",
     100,
     130,
     GA_ATTN_CAUSAL,
     0,
     5,
     4,
     {AT(70, 30, 10, 9), AT(0, 20, 0, 2), AT(20, 10, 5, 4), AT(30, 20, 33, 5), AT(50, 20, 0, 5)},
     {AT(0, 20, 0, 2), AT(20, 40, 0, 5), AT(60, 30, 40, 5), AT(90, 40, 0, 9)}},
    {"documents and a window",
     100,
     130,
     GA_ATTN_CAUSAL,
     9,
     5,
     4,
     {AT(70, 30, 10, 9), AT(0, 20, 0, 2), AT(20, 10, 5, 4), AT(30, 20, 33, 5), AT(50, 20, 0, 5)},
     {AT(0, 20, 0, 2), AT(20, 40, 0, 5), AT(60, 30, 40, 5), AT(90, 40, 0, 9)}},
    {"two documents that begin with the same rows",
     40,
     90,
     GA_ATTN_CAUSAL,
     0,
     2,
     4,
     {AT(0, 20, 50, 0), AT(20, 20, 50, 1)},
     {AT(0, 50, 0, 0), AT(50, 20, 50, 0), AT(0, 50, 0, 1), AT(70, 20, 50, 1)}},
    {"empty stretches, and rows that no stretch has",
     80,
     80,
     GA_ATTN_CAUSAL,
     0,
     4,
     5,
     {AT(80, 0, 0, 0), AT(3, 30, 40, 1), AT(40, 0, 7, 1), AT(50, 21, 0, 1)},
     {AT(0, 0, 0, 0), AT(10, 0, 5, 1), AT(11, 30, 5, 1), AT(0, 0, 35, 1), AT(50, 30, 60, 1)}},
    {"no keys before, in a hole, behind the window",
     90,
     60,
     GA_ATTN_CAUSAL,
     5,
     3,
     2,
     {AT(0, 30, 0, 0), AT(30, 30, 35, 0), AT(60, 30, 95, 0)},
     {AT(0, 30, 10, 0), AT(30, 30, 70, 0)}},
    {"no keys at all", 20, 0, GA_ATTN_CAUSAL, 0, 1, 1, {AT(0, 20, 0, 0)}, {AT(0, 0, 0, 0)}},
    {"far positions",
     60,
     120,
     GA_ATTN_CAUSAL,
     33,
     2,
     2,
     {AT(0, 30, FAR - 60, 7), AT(30, 30, FAR - 30, 7)},
     {AT(60, 60, FAR - 120, 7), AT(0, 60, FAR - 60, 7)}},
    {"one query, many keys",
     1,
     300,
     GA_ATTN_CAUSAL,
     0,
     1,
     2,
     {AT(0, 1, 299, 0)},
     {AT(0, 150, 0, 0), AT(150, 150, 150, 0)}},
};

/* --- the definition --- */

typedef struct tensors {
  float q[BATCH * MOST * HEADS * DIM], k[BATCH * MOST * KV_HEADS * DIM], v[BATCH * MOST * KV_HEADS * VDIM];
  float o[BATCH * MOST * HEADS * VDIM], lse[BATCH * MOST * HEADS];
} tensors;

static void draw_normals(float *x, size_t n, uint64_t seed) {
  ga_rng rng;
  ga_rng_seed(&rng, seed);
  for (size_t i = 0; i < n; i++) x[i] = (float)ga_rng_normal(&rng);
}

static tensors *stretch_tensors(void) {
  tensors *t = malloc(sizeof *t);
  assert_non_null(t);
  draw_normals(t->q, GA_COUNT_OF(t->q), 1);
  draw_normals(t->k, GA_COUNT_OF(t->k), 2);
  draw_normals(t->v, GA_COUNT_OF(t->v), 3);
  return t;
}

static void poison(tensors *t) {
  for (size_t i = 0; i < GA_COUNT_OF(t->o); i++) t->o[i] = POISON;
  for (size_t i = 0; i < GA_COUNT_OF(t->lse); i++) t->lse[i] = POISON;
}

static ga_attn_desc desc_of(const stretch_case *c) {
  ga_attn_desc d = GA_ATTN_DESC_INIT;
  d.batch = BATCH, d.max_q = c->max_q, d.max_kv = c->max_kv;
  d.q_heads = HEADS, d.kv_heads = KV_HEADS, d.head_dim = DIM, d.v_dim = VDIM;
  d.flags = c->flags | GA_ATTN_LSE, d.window = c->window;
  d.q_stretches = c->n_q, d.kv_stretches = c->n_kv;
  return d;
}

static ga_attn_io io_of(const stretch_case *c, tensors *t) {
  return (ga_attn_io){
      .q = t->q, .k = t->k, .v = t->v, .o = t->o, .lse = t->lse, .q_stretches = c->q, .kv_stretches = c->kv};
}

/* Row `row` of Q at a position of a document: o[VDIM], and the return value is the LSE. */
static double defined_row(const stretch_case *c, const tensors *t, int b, int head, int64_t row, int64_t position,
                          int32_t document, double *o) {
  const float *q = t->q + ((b * c->max_q + row) * HEADS + head) * DIM;
  double sum = 0;
  for (int e = 0; e < VDIM; e++) o[e] = 0;
  for (int s = 0; s < c->n_kv; s++)
    for (int64_t j = 0; j < c->kv[s].rows; j++) {
      const int64_t behind = position - (c->kv[s].position + j),
                    at = (b * c->max_kv + c->kv[s].first + j) * KV_HEADS + head / 3;
      if (c->kv[s].document != document || (c->flags & GA_ATTN_CAUSAL && behind < 0)) continue;
      if (c->window && behind >= c->window) continue;
      double x = 0;
      for (int e = 0; e < DIM; e++) x += (double)q[e] * (double)t->k[at * DIM + e];
      const double weight = exp(x / sqrt(DIM)); /* of normals: no overflow */
      sum += weight;
      for (int e = 0; e < VDIM; e++) o[e] += weight * (double)t->v[at * VDIM + e];
    }
  for (int e = 0; e < VDIM && sum > 0; e++) o[e] /= sum;
  return sum > 0 ? log(sum) : -INFINITY;
}

static void expect_stretch_row(const stretch_case *c, const tensors *t, int b, int head, int64_t row, double lse,
                               const double *o) {
  const float *got = t->o + ((b * c->max_q + row) * HEADS + head) * VDIM,
              got_lse = t->lse[(b * HEADS + head) * c->max_q + row];
  for (int e = 0; e < VDIM; e++)
    if (fabs((double)got[e] - o[e]) > 2e-6 * (1 + fabs(o[e])))
      fail_msg("%s: O of row %d, head %d, column %d is %g; must be %g", c->what, (int)row, head, e, (double)got[e],
               o[e]);
  if (isinf(lse) ? (double)got_lse != lse : fabs((double)got_lse - lse) > 1e-5)
    fail_msg("%s: LSE of row %d, head %d is %g; must be %g", c->what, (int)row, head, (double)got_lse, lse);
}

/* Rows of stretches have what the definition says, all others what was there before. */
static void expect_all(const stretch_case *c, const tensors *t) {
  double o[VDIM];
  for (int64_t row = 0; row < c->max_q; row++) {
    const ga_attn_stretch *s = NULL;
    for (int i = 0; i < c->n_q; i++)
      if (row >= c->q[i].first && row < c->q[i].first + c->q[i].rows) s = &c->q[i];
    for (int e = 0; e < VDIM; e++) o[e] = (double)POISON;
    for (int b = 0; b < BATCH; b++)
      for (int head = 0; head < HEADS; head++) {
        double lse = (double)POISON;
        if (s) lse = defined_row(c, t, b, head, row, s->position + row - s->first, s->document, o);
        expect_stretch_row(c, t, b, head, row, lse, o);
      }
  }
}

static void test_definition(void **state) {
  (void)state;
  tensors *t = stretch_tensors();
  for (size_t device = 0; device < GA_COUNT_OF(devices); device++) {
    ga_ctx *ctx = open_ctx(devices[device], 2);
    for (size_t i = 0; i < GA_COUNT_OF(cases); i++) {
      const ga_attn_desc d = desc_of(&cases[i]);
      const ga_attn_io io = io_of(&cases[i], t);
      poison(t);
      assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_OK);
      expect_all(&cases[i], t);
    }
    ga_ctx_destroy(ctx);
  }
  free(t);
}

/* --- pages --- */

enum { TABLE = 64 }; /* entries of a sequence */

/* Pages of K and V, out of order. Slots without a key are NaN, pages without one have number 10^9. */
typedef struct paged {
  int size;
  float *k, *v;
  int32_t table[BATCH * TABLE];
} paged;

static void alloc_stretch_pages(paged *p, int size) {
  const size_t rows = (size_t)(BATCH * TABLE * size) * KV_HEADS;
  p->size = size;
  p->k = malloc(rows * DIM * sizeof *p->k), p->v = malloc(rows * VDIM * sizeof *p->v);
  assert_true(p->k && p->v);
  for (size_t i = 0; i < rows * DIM; i++) p->k[i] = NAN;
  for (size_t i = 0; i < rows * VDIM; i++) p->v[i] = NAN;
  for (int i = 0; i < BATCH * TABLE; i++) p->table[i] = 1000000000;
}

/* Rows [from, from + n) of the tensors, to slots from `to` on, counted through the whole table. */
static void put_in_pages(paged *p, int64_t to, const tensors *t, int64_t from, int64_t n) {
  for (int64_t end = to + n; to < end; to++, from++) {
    const int64_t page = (to / p->size * 5 + 3) % (BATCH * TABLE), slot = page * p->size + to % p->size;
    p->table[to / p->size] = (int32_t)page;
    memcpy(p->k + slot * KV_HEADS * DIM, t->k + from * KV_HEADS * DIM, KV_HEADS * DIM * sizeof *p->k);
    memcpy(p->v + slot * KV_HEADS * VDIM, t->v + from * KV_HEADS * VDIM, KV_HEADS * VDIM * sizeof *p->v);
  }
}

static void free_stretch_pages(paged *p) { free(p->k), free(p->v); }

static void test_stretches_in_pages(void **state) {
  (void)state;
  static const int sizes[] = {5, 16, 64};
  tensors *t = stretch_tensors();
  for (size_t device = 0; device < GA_COUNT_OF(devices); device++) {
    ga_ctx *ctx = open_ctx(devices[device], 2);
    for (size_t i = 0; i < GA_COUNT_OF(cases); i++)
      for (size_t s = 0; s < GA_COUNT_OF(sizes); s++) {
        paged p;
        ga_attn_desc d = desc_of(&cases[i]);
        ga_attn_io io = io_of(&cases[i], t);
        alloc_stretch_pages(&p, sizes[s]);
        for (int b = 0; b < BATCH; b++)
          for (int j = 0; j < cases[i].n_kv; j++)
            put_in_pages(&p, b * TABLE * sizes[s] + cases[i].kv[j].first, t, b * cases[i].max_kv + cases[i].kv[j].first,
                         cases[i].kv[j].rows);
        d.flags |= GA_ATTN_PAGED, d.page_size = sizes[s];
        io.k = p.k, io.v = p.v, io.page_table = p.table, io.page_table_stride = TABLE;
        poison(t);
        if (ga_attn(ctx, &d, &io, NULL) != GA_OK) fail_msg("%s: %s", cases[i].what, ga_error_text());
        expect_all(&cases[i], t);
        free_stretch_pages(&p);
      }
    ga_ctx_destroy(ctx);
  }
  free(t);
}

/* --- packed sequences --- */

enum { PACKED = 4 };
static const int32_t packed_q[PACKED + 1] = {0, 30, 31, 31, 90}, packed_kv[PACKED + 1] = {0, 50, 130, 140, 199};

/* A document for each sequence, its last query at its last key. from: the row of its first key, by sequence. */
static stretch_case documents_of(uint32_t flags, int32_t window, const int32_t *from) {
  stretch_case c = {.what = "packed", .max_q = 90, .max_kv = 199, .flags = flags, .window = window, PACKED, PACKED};
  for (int b = 0; b < PACKED; b++) {
    const int64_t n_q = packed_q[b + 1] - packed_q[b], n_kv = packed_kv[b + 1] - packed_kv[b];
    c.q[b] = (ga_attn_stretch)AT(packed_q[b], n_q, n_kv - n_q + 1000, b);
    c.kv[b] = (ga_attn_stretch)AT(from[b], n_kv, 1000, b);
  }
  return c;
}

static void expect_close(const float *got, const float *want, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (got[i] != want[i] && !(fabsf(got[i] - want[i]) <= 2e-6F * (1 + fabsf(want[i]))))
      fail_msg("element %d is %g; must be %g", (int)i, (double)got[i], (double)want[i]);
}

/* What a call with VARLEN has; and with pages the table of all sequences as one row. */
static void test_packed_sequences(void **state) {
  (void)state;
  enum { SIZE = 16 };
  tensors *t = stretch_tensors(), *want = stretch_tensors();
  const int32_t rows[PACKED] = {0, TABLE / 2 * SIZE, TABLE * SIZE, TABLE * 3 / 2 * SIZE};
  for (size_t device = 0; device < GA_COUNT_OF(devices); device++)
    for (int window = 0; window <= 20; window += 20) {
      ga_ctx *ctx = open_ctx(devices[device], 2);
      stretch_case c = documents_of(GA_ATTN_CAUSAL, window, packed_kv);
      ga_attn_desc d = desc_of(&c), packed = d;
      ga_attn_io io = io_of(&c, want);
      d.batch = 1;
      packed.batch = PACKED, packed.flags |= GA_ATTN_VARLEN, packed.q_stretches = packed.kv_stretches = 0;
      packed.lse_stride = c.max_q;
      io.q_start = packed_q, io.kv_start = packed_kv, io.q_tokens = c.max_q, io.kv_tokens = c.max_kv;
      poison(want), poison(t);
      if (ga_attn(ctx, &packed, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
      io = io_of(&c, t);
      if (ga_attn(ctx, &d, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
      expect_close(t->o, want->o, GA_COUNT_OF(t->o));
      expect_close(t->lse, want->lse, GA_COUNT_OF(t->lse));
      paged p;
      alloc_stretch_pages(&p, SIZE);
      for (int b = 0; b < PACKED; b++) put_in_pages(&p, rows[b], t, packed_kv[b], packed_kv[b + 1] - packed_kv[b]);
      c = documents_of(GA_ATTN_CAUSAL, window, rows);
      d.flags |= GA_ATTN_PAGED, d.page_size = SIZE, d.max_kv = BATCH * TABLE * SIZE;
      io = io_of(&c, t);
      io.k = p.k, io.v = p.v, io.page_table = p.table;
      poison(t);
      if (ga_attn(ctx, &d, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
      expect_close(t->o, want->o, GA_COUNT_OF(t->o));
      expect_close(t->lse, want->lse, GA_COUNT_OF(t->lse));
      free_stretch_pages(&p);
      ga_ctx_destroy(ctx);
    }
  free(t), free(want);
}

/* --- the bits of one plain call --- */

enum { CHUNK = 63, CHUNKS = 4 }; /* three tiles of a CPU row: 64 / 3 queries, 3 heads a group */

/* Rows of chunks c and 3 - c, for each c, and keys in the order of positions: what one call over all gives. */
static void test_bits_of_one_call(void **state) {
  (void)state;
  tensors *t = stretch_tensors();
  float *const one = malloc(sizeof t->o), *const one_lse = malloc(sizeof t->lse);
  assert_true(one && one_lse);
  for (int threads = 1; threads <= 3; threads++)
    for (int window = 0; window <= 50; window += 50) {
      ga_ctx *ctx = open_ctx("cpu", threads);
      stretch_case c = {.what = "chunks", .max_q = CHUNK * CHUNKS, .max_kv = CHUNK * CHUNKS, .flags = GA_ATTN_CAUSAL};
      c.window = window, c.n_q = 2, c.n_kv = 3;
      c.kv[0] = (ga_attn_stretch)AT(0, 100, 0, 0), c.kv[1] = (ga_attn_stretch)AT(100, 1, 100, 0);
      c.kv[2] = (ga_attn_stretch)AT(101, CHUNK * CHUNKS - 101, 101, 0);
      ga_attn_desc d = desc_of(&c);
      ga_attn_io io = io_of(&c, t);
      d.q_stretches = d.kv_stretches = 0;
      poison(t);
      assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_OK);
      memcpy(one, t->o, sizeof t->o), memcpy(one_lse, t->lse, sizeof t->lse);
      poison(t);
      d = desc_of(&c);
      for (int i = 0; i < CHUNKS / 2; i++) {
        c.q[0] = (ga_attn_stretch)AT(i * CHUNK, CHUNK, i * CHUNK, 0);
        c.q[1] = (ga_attn_stretch)AT((CHUNKS - 1 - i) * CHUNK, CHUNK, (CHUNKS - 1 - i) * CHUNK, 0);
        io = io_of(&c, t);
        assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_OK);
      }
      assert_memory_equal(t->o, one, sizeof t->o);
      assert_memory_equal(t->lse, one_lse, sizeof t->lse);
      ga_ctx_destroy(ctx);
    }
  free(one), free(one_lse), free(t);
}

/* --- words that keys wait for --- */

typedef struct late_keys {
  float *k; /* of the second stretch: unknown before the word says so */
  const float *from;
  size_t n;
  _Atomic uint32_t words[4];
} late_keys;

static void *bring_keys(void *arg) {
  late_keys *x = arg;
  (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  memcpy(x->k, x->from, x->n * sizeof *x->from);
  atomic_store_explicit(&x->words[3], 7, memory_order_release);
  return NULL;
}

static const stretch_case waiting = {"keys that come later",
                                     60,
                                     120,
                                     GA_ATTN_CAUSAL,
                                     0,
                                     1,
                                     3,
                                     {AT(0, 60, 60, 0)},
                                     {AT(0, 60, 0, 0), {60, 30, 60, 0, 7, 3, 0}, {90, 30, 90, 0, 6, 3, 0}}};

static void test_waits_for_keys(void **state) {
  (void)state;
  tensors *t = stretch_tensors(), *whole = stretch_tensors();
  for (size_t device = 0; device < GA_COUNT_OF(devices); device++) {
    ga_ctx *ctx = open_ctx(devices[device], 2);
    const size_t from = 60 * KV_HEADS * DIM;
    late_keys x = {.k = t->k + from, .from = whole->k + from, .n = GA_COUNT_OF(t->k) - from};
    int32_t error = -1;
    pthread_t thread;
    const ga_attn_desc d = desc_of(&waiting);
    ga_attn_io io = io_of(&waiting, t);
    for (size_t i = 0; i < x.n; i++) x.k[i] = NAN;
    poison(t);
    io.ready = (const uint32_t *)(const void *)x.words;
    io.ready_error = &error;
    io.ready_polls = INT32_MAX;
    assert_int_equal(pthread_create(&thread, NULL, bring_keys, &x), 0);
    assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(error, -1);
    expect_all(&waiting, t);
    ga_ctx_destroy(ctx);
  }
  free(t), free(whole);
}

/* Word 3 says 6: the second stretch waits for 7, in vain. */
static void test_waits_in_vain(void **state) {
  (void)state;
  static const uint32_t words[4] = {9, 9, 9, 6};
  tensors *t = stretch_tensors();
  for (size_t device = 0; device < GA_COUNT_OF(devices); device++) {
    ga_ctx *ctx = open_ctx(devices[device], 1);
    const ga_attn_desc d = desc_of(&waiting);
    ga_attn_io io = io_of(&waiting, t);
    int32_t error = 0;
    io.ready = words, io.ready_error = &error, io.ready_polls = 10;
    assert_int_equal(ga_attn(ctx, &d, &io, NULL), GA_OK);
    assert_int_equal(error, 2);
    ga_ctx_destroy(ctx);
  }
  free(t);
}

/* --- what is refused --- */

/* A case with one thing changed: the status, the text, and O as it was. */
static void expect_refusal(ga_ctx *ctx, tensors *t, const ga_attn_desc *d, const ga_attn_io *io, const char *text) {
  poison(t);
  assert_int_equal(ga_attn(ctx, d, io, NULL), GA_ERR_ARG);
  assert_string_equal(ga_error_text(), text);
  for (size_t i = 0; i < GA_COUNT_OF(t->o); i++) assert_true(t->o[i] == POISON);
}

static void test_refused_lists(void **state) {
  (void)state;
  static const stretch_case good = {"good",
                                    60,
                                    120,
                                    GA_ATTN_CAUSAL,
                                    0,
                                    2,
                                    2,
                                    {AT(0, 30, 10, 1), AT(30, 30, 0, 0)},
                                    {AT(0, 60, 0, 0), AT(60, 60, 60, 0)}};
  static const uint32_t words[1] = {0};
  int32_t error = 0;
  tensors *t = stretch_tensors();
  ga_ctx *ctx = open_ctx("cpu", 1);
  const ga_attn_desc d = desc_of(&good);
#define REFUSED(change, text)                \
  do {                                       \
    stretch_case c = good;                   \
    ga_attn_io io = io_of(&c, t);            \
    change;                                  \
    expect_refusal(ctx, t, &d, &io, (text)); \
  } while (0)
  REFUSED(io.q_stretches = NULL, "attn: q_stretches is null");
  REFUSED(io.kv_stretches = NULL, "attn: kv_stretches is null");
  REFUSED(c.q[1].first = -1, "attn: q_stretches[1] has 30 rows from -1 on; the tensor has 60");
  REFUSED(c.q[1].rows = 31, "attn: q_stretches[1] has 31 rows from 30 on; the tensor has 60");
  REFUSED(c.q[1].rows = -1, "attn: q_stretches[1] has -1 rows from 30 on; the tensor has 60");
  REFUSED(c.kv[1].rows = INT64_MAX,
          "attn: kv_stretches[1] has 9223372036854775807 rows from 60 on; the tensor has 120");
  REFUSED(c.kv[0].first = 121, "attn: kv_stretches[0] has 60 rows from 121 on; the tensor has 120");
  REFUSED(c.q[0].position = -1, "attn: q_stretches[0] has position -1, document 1; must be 0 to 2^40, and 0 or more");
  REFUSED(c.q[0].position = FAR + 1,
          "attn: q_stretches[0] has position 1099511627777, document 1; must be 0 to 2^40, and 0 or more");
  REFUSED(c.q[0].document = -2, "attn: q_stretches[0] has position 10, document -2; must be 0 to 2^40, and 0 or more");
  REFUSED(c.q[0].ready = 1, "attn: q_stretches[0].ready is 1; must be 0");
  REFUSED(c.q[0].reserved = 1, "attn: q_stretches[0] has ready_word 0, reserved 1; must be 0 to 65535, and 0");
  REFUSED(c.kv[0].ready_word = 65536,
          "attn: kv_stretches[0] has ready_word 65536, reserved 0; must be 0 to 65535, and 0");
  REFUSED(c.q[1].first = 29, "attn: q_stretches[1], rows 29 to 59, lies over q_stretches[0], 0 to 30");
  REFUSED(
      c.kv[1].position = 59,
      "attn: kv_stretches[1] begins at position 59 of document 0; the one before it ends at 60 of document 0: order "
      "of document, then position, none over another");
  REFUSED(
      c.kv[0].document = 1,
      "attn: kv_stretches[1] begins at position 60 of document 0; the one before it ends at 60 of document 1: order "
      "of document, then position, none over another");
  REFUSED(c.kv[1].ready = 3, "attn: kv_stretches[1].ready is 3, but io.ready is null");
  REFUSED(io.ready = words, "attn: ready_error is null");
  REFUSED((io.ready = words, io.ready_error = &error, io.ready_polls = -1),
          "attn: ready_polls is -1; must be 0 to 2^31 - 1");
  REFUSED((io.ready = words, io.ready_error = &error, io.ready_polls = (int64_t)1 << 31),
          "attn: ready_polls is 2147483648; must be 0 to 2^31 - 1");
  ga_ctx_destroy(ctx);
  free(t);
}

static void test_refused_flags(void **state) {
  (void)state;
  static const uint32_t others[] = {GA_ATTN_VARLEN,    GA_ATTN_SINKS,    GA_ATTN_ALIBI,     GA_ATTN_STATE_IN,
                                    GA_ATTN_STATE_OUT, GA_ATTN_FAST_SUM, GA_ATTN_INVARIANT, GA_ATTN_SYMMETRIC};
  ga_ctx *ctx = open_ctx("cpu", 1);
  ga_plan *plan;
  for (size_t i = 0; i < GA_COUNT_OF(others) + 3; i++) {
    ga_attn_desc d = desc_of(&cases[1]);
    if (i < GA_COUNT_OF(others)) d.flags |= others[i];
    if (i == GA_COUNT_OF(others)) d.softcap = 2;
    if (i == GA_COUNT_OF(others) + 1) d.kv_segments = 2;
    if (i == GA_COUNT_OF(others) + 2) d.kv_dtype = GA_E4M3;
    assert_int_equal(ga_attn_plan(ctx, &d, &plan), GA_ERR_ARG);
    assert_null(plan);
    assert_non_null(strstr(ga_error_text(), "with stretches the flags CAUSAL, LSE, KV_READY and PAGED alone"));
  }
  ga_ctx_destroy(ctx);
}

/* --- rows by id --- */

/* Runs the plan of one query at many keys. */
static void run_row(ga_ctx *ctx, const char *id, tensors *t) {
  const stretch_case *c = &cases[GA_COUNT_OF(cases) - 1];
  const ga_attn_desc d = desc_of(c);
  const ga_attn_io io = io_of(c, t);
  ga_plan *plan;
  assert_int_equal(ga_attn_plan_row(ctx, &d, id, &plan), GA_OK);
  assert_string_equal(ga_plan_kernel_id(plan), id);
  void *workspace = malloc((size_t)ga_plan_workspace_bytes(plan) + 1);
  poison(t);
  assert_int_equal(ga_attn_run(plan, &io, workspace, NULL), GA_OK);
  expect_all(c, t);
  ga_plan_destroy(plan);
  free(workspace);
}

static void test_row_by_id(void **state) {
  (void)state;
  static const char *const other = "attn_f32_any_f32_online_generic_64"; /* of all CPU rows the last that is chosen */
  tensors *t = stretch_tensors();
  ga_ctx *ctx = open_ctx("cpu", 2);
  ga_attn_desc d = desc_of(&cases[0]);
  ga_plan *plan;
  run_row(ctx, other, t);
  assert_int_equal(ga_attn_plan_row(ctx, &d, "attn_of_nobody", &plan), GA_ERR_ARG);
  assert_null(plan);
  assert_string_equal(ga_error_text(), "attn on cpu: there is no row attn_of_nobody");
  assert_int_equal(ga_attn_plan_row(ctx, &d, "norm_any_any_rows_generic_1", &plan), GA_ERR_ARG);
  assert_int_equal(ga_attn_plan_row(ctx, &d, NULL, &plan), GA_ERR_ARG);
  assert_string_equal(ga_error_text(), "attn: row is null");
  d.q_dtype = GA_BF16;
  assert_int_equal(ga_attn_plan_row(ctx, &d, other, &plan), GA_ERR_UNSUPPORTED);
  assert_null(plan);
  assert_non_null(strstr(ga_error_text(), other));
  ga_ctx_destroy(ctx);
  free(t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_definition),       cmocka_unit_test(test_stretches_in_pages),
      cmocka_unit_test(test_packed_sequences), cmocka_unit_test(test_bits_of_one_call),
      cmocka_unit_test(test_waits_for_keys),   cmocka_unit_test(test_waits_in_vain),
      cmocka_unit_test(test_refused_lists),    cmocka_unit_test(test_refused_flags),
      cmocka_unit_test(test_row_by_id),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
