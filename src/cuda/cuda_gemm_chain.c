#include "cuda/cuda_gemm_chain.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/status.h"
#include "core/kargs_gemm_chain.h"
#include "cuda/cuda_gemm.h"
#include "cuda/cuda_gemm_ring.h"
#include "cuda/kern/gemm/gemm_chain_rows.h"

#define LEAST_DEPTH 2 /* with less, weights would not come while blocks wait */

/* Bytes of weights of a product that is held back: larger ones gain nothing. On an H200 a link ends some 1 us sooner than a launch does, but a
 * cooperative launch does not begin under the one ahead. Gemma 3 270M (products of up to 2 MB) gains 5 % of a token, Llama 3 8B (9 to 66 MB)
 * would lose 8 %; the place between is a guess. */
#define JOIN_BYTES (4 << 20)

typedef struct span {
  uintptr_t from, to;
} span;
enum { SPANS = 9 }; /* of what a link reads, and of what it writes */

struct cuda_chain {
  int n;
  bool wait[GA_CHAIN_LINKS];
  int since; /* the link that waited last, or 0 */
  const struct chain_row *row;
  cuda_ring_launch link[GA_CHAIN_LINKS];
};

/* --- rows --- */

static const struct chain_row {
  const char *id;
  int32_t dtype[2];
} rows[] = {
#define GA_CUDA_GEMM(...)
#define GA_CUDA_T16(...)
#define GA_CUDA_GEMM_MMA(...)
#define GA_CUDA_T16_RING(...)
#define GA_CUDA_GEMM_STEP(...)
#define GA_CUDA_GEMM_TILE(...)
#define GA_CUDA_GEMM_WIDE(...)
#define GA_CUDA_CHAIN(a, A, b, B, threads) {GA_GEMM_CHAIN_ID(a, b), {GA_##A, GA_##B}},
#include "cuda/kern/gemm/gemm.def"
#undef GA_CUDA_CHAIN
#undef GA_CUDA_GEMM_WIDE
#undef GA_CUDA_GEMM_TILE
#undef GA_CUDA_GEMM_STEP
#undef GA_CUDA_T16_RING
#undef GA_CUDA_T16
#undef GA_CUDA_GEMM_MMA
#undef GA_CUDA_GEMM
};

static const ga_kernel *kernel_of(const ga_device *d, const struct chain_row *row) {
  for (size_t i = 0; i < d->n_kernels; i++)
    if (!strcmp(d->kernels[i].id, row->id)) return &d->kernels[i];
  return NULL;
}

static bool has(const struct chain_row *row, int32_t dtype) { return row->dtype[0] == dtype || row->dtype[1] == dtype; }

/* The row that takes all held links and `dtype` too; NULL: none. */
static const struct chain_row *row_for(const ga_device *d, const struct cuda_chain *c, int32_t dtype) {
  for (size_t i = 0; i < GA_COUNT_OF(rows); i++) {
    bool all = has(&rows[i], dtype) && kernel_of(d, &rows[i]);
    for (int l = 0; l < c->n; l++) all = all && has(&rows[i], c->link[l].args.gemm.w_dtype);
    if (all) return &rows[i];
  }
  return NULL;
}

/* --- what must wait for what --- */

static span span_of(const void *p, int64_t floats) {
  return (span){(uintptr_t)p, p ? (uintptr_t)p + (uintptr_t)floats * sizeof(float) : (uintptr_t)p};
}
static void reads_of(const ga_kargs_gemm_ring *a, span *s) {
  s[0] = span_of(a->gemm.x, a->gemm.k);
  s[1] = span_of(a->gemm.gate, a->gemm.n);
  s[2] = span_of(a->gemm.residual, a->gemm.n);
  s[3] = span_of(a->norm, a->gemm.k);
  s[4] = span_of(a->gemm.bias, a->gemm.n);
  s[5] = span_of(a->bias_more[0], a->n_more[0]);
  s[6] = span_of(a->bias_more[1], a->n_more[1]);
  s[7] = span_of(a->add, a->gemm.k);
  s[8] = span_of(a->add_norm, a->gemm.k);
}
static void writes_of(const ga_kargs_gemm_ring *a, span *s) {
  memset(s, 0, SPANS * sizeof *s);
  s[0] = span_of(a->gemm.y, a->gemm.n);
  s[1] = span_of(a->y_more[0], a->n_more[0]);
  s[2] = span_of(a->y_more[1], a->n_more[1]);
  s[3] = span_of(a->sum, a->gemm.k);
}
static bool meet(const span *a, const span *b) {
  for (int i = 0; i < SPANS; i++)
    for (int j = 0; j < SPANS; j++)
      if (a[i].from < b[j].to && b[j].from < a[i].to) return true;
  return false;
}

/* Does `later` read or write what `sooner` writes, or write what it reads? */
static bool depends(const ga_kargs_gemm_ring *later, const ga_kargs_gemm_ring *sooner) {
  span r[SPANS], w[SPANS], r0[SPANS], w0[SPANS];
  reads_of(later, r);
  writes_of(later, w);
  reads_of(sooner, r0);
  writes_of(sooner, w0);
  return meet(r, w0) || meet(w, w0) || meet(w, r0);
}

/* --- launching --- */

typedef struct budget {
  int64_t depth, early, shared_bytes;
} budget;

static int64_t item_bytes(int32_t dtype) {
  const cuda_unit *u = cuda_unit_of(dtype);
  return GA_RING_ITEM(u->k, u->bytes) * u->bytes;
}

/* With x_bytes behind the rings, x_floats of X asked for by the first link. */
static budget budget_of(const ga_caps *caps, const cuda_variant *v, const struct chain_row *row, int64_t x_bytes, int64_t x_floats) {
  const int64_t warps = v->threads / 32, limit = (int64_t)caps->smem_bytes - v->static_bytes, control = GA_CHAIN_CONTROL(warps);
  const int64_t slot = warps * ga_max_i64(item_bytes(row->dtype[0]), item_bytes(row->dtype[1]));
  const int64_t rest = limit - x_bytes - control - warps * GA_RING_BARS;
  budget b = {.depth = rest > 0 ? ga_min_i64(rest / slot, GA_RING_DEPTH) : 0};
  b.early = ga_max_i64(1, ga_min_i64((CUDA_RING_EARLY_BYTES - x_floats * (int64_t)sizeof(float)) / slot, b.depth));
  b.shared_bytes = x_bytes + control + warps * GA_RING_BARS + b.depth * slot;
  return b;
}

/* Of shared memory: who sums which tile of a link. */
static int64_t table_bytes(const cuda_ring_launch *l) {
  const int64_t tiles = l->args.tiles_each + (l->args.tiles_longer > 0);
  return (int64_t)ga_round_up((size_t)(GA_RING_CONSTANTS + (l->args.gated ? 2 : 1) * tiles * (int64_t)sizeof(uint32_t)), 16);
}

static int64_t widest(const struct cuda_chain *c) {
  int64_t bytes = 0;
  for (int i = 0; i < c->n; i++) bytes = ga_max_i64(bytes, c->link[i].x_bytes);
  return bytes;
}
static int64_t all_tables(const struct cuda_chain *c) {
  int64_t bytes = 0;
  for (int i = 0; i < c->n; i++) bytes += table_bytes(&c->link[i]);
  return bytes;
}

static ga_kargs_gemm_link link_of(const cuda_ring_launch *l, const struct chain_row *row, bool wait) {
  const cuda_unit *u = cuda_unit_of(l->args.gemm.w_dtype);
  const int32_t per = GA_RING_ITEM(u->k, u->bytes);
  return (ga_kargs_gemm_link){.ring = l->args,
                              .second = u->dtype != row->dtype[0],
                              .unit_bytes = u->bytes,
                              .per = per,
                              .items = (int32_t)ga_div_up(l->args.gemm.units, per),
                              .wait = wait,
                              .plain = !l->args.gated && !l->args.n_more[0] && l->args.gemm.units % per == 0};
}

static ga_status launch_chain(ga_stream *stream, const struct cuda_chain *c) {
  const ga_kernel *k = kernel_of(stream->device, c->row);
  const cuda_variant *v = k->impl;
  const budget b = budget_of(&stream->device->caps, v, c->row, widest(c) + all_tables(c), c->link[0].args.gemm.k);
  ga_kargs_gemm_chain args = {.n = c->n, .depth = (int32_t)b.depth, .early = (int32_t)b.early};
  uint32_t blocks = 1, next = 0;
  for (int i = 0; i < c->n; i++) {
    const uint32_t own = c->link[i].launch.grid[0];
    const bool beside = !c->wait[i] && next + own <= (uint32_t)stream->device->caps.sms;
    args.link[i] = link_of(&c->link[i], c->row, c->wait[i]);
    args.link[i].block = beside ? (int32_t)next : 0;
    next = (uint32_t)args.link[i].block + own;
    args.waits += c->wait[i];
    args.link[i].table = args.tables;
    args.tables += (int32_t)table_bytes(&c->link[i]);
    if (next > blocks) blocks = next;
  }
  args.counter = (int32_t *)(uintptr_t)cuda_counters_of(stream);
  const cuda_launch l = {.grid = {blocks, 1, 1},
                         .block = {v->threads, 1, 1},
                         .shared_bytes = (uint32_t)b.shared_bytes,
                         .dependent = true,
                         .cooperative = args.waits > 0};
  return cuda_enqueue(stream, k, &l, &args);
}

ga_status cuda_launch_held(ga_stream *stream) {
  cuda_stream *s = (cuda_stream *)stream;
  struct cuda_chain *c = s->held;
  if (!c || !c->n) return GA_OK;
  s->held = NULL; /* launching asks for what is held */
  const ga_status status = c->n == 1 ? cuda_enqueue(stream, c->link[0].kernel, &c->link[0].launch, &c->link[0].args) : launch_chain(stream, c);
  memset(c, 0, sizeof *c);
  s->held = c;
  return status;
}

void cuda_launch_held_late(ga_stream *stream) {
  if (cuda_launch_held(stream) != GA_OK) ga_log(GA_LOG_ERROR, "%s: launches held back are dropped: %s", stream->device->name, ga_error_text());
}

/* Holds it as one more link; false: it does not go with those that are there. */
static bool hold(const ga_stream *stream, struct cuda_chain *c, const cuda_ring_launch *l) {
  const struct chain_row *row = row_for(stream->device, c, l->args.gemm.w_dtype);
  if (!row || c->n == GA_CHAIN_LINKS) return false;
  const int64_t x_bytes = ga_max_i64(widest(c), l->x_bytes) + all_tables(c) + table_bytes(l);
  const budget b = budget_of(&stream->device->caps, kernel_of(stream->device, row)->impl, row, x_bytes, 0);
  if (b.depth < LEAST_DEPTH) return false;
  bool wait = false;
  for (int i = c->since; i < c->n; i++) wait = wait || depends(&l->args, &c->link[i].args);
  if (wait) c->since = c->n;
  c->row = row;
  c->wait[c->n] = wait;
  c->link[c->n++] = *l;
  return true;
}

static int64_t weight_bytes(const ga_kargs_gemm_ring *a) {
  return (int64_t)a->gemm.tiles * (a->gated ? 2 : 1) * a->gemm.units * cuda_unit_of(a->gemm.w_dtype)->bytes;
}

ga_status cuda_gemm_join(ga_stream *stream, const cuda_ring_launch *l) {
  struct cuda_chain *c = ((cuda_stream *)stream)->held;
  /* What is left of several rows is one that lies as several do. */
  const bool one = l->kernel->rows_max == 1 && l->args.gemm.splits == 1 && l->launch.grid[0] <= (uint32_t)stream->device->caps.sms &&
                   weight_bytes(&l->args) <= JOIN_BYTES;
  if (c && one && hold(stream, c, l)) return GA_OK;
  GA_TRY(cuda_launch_held(stream));
  if (c && one && hold(stream, c, l)) return GA_OK;
  return cuda_enqueue(stream, l->kernel, &l->launch, &l->args);
}

/* $GA_JOIN=off is for timing launches one by one. */
static ga_status joining_allowed(bool *allowed) {
  const char *s = getenv("GA_JOIN");
  *allowed = !s || !*s || !strcmp(s, "auto");
  GA_REQUIRE(*allowed || !strcmp(s, "off"), GA_ERR_ARG, "GA_JOIN is '%s'; allowed: auto, off", s);
  return GA_OK;
}

ga_status cuda_join_begin(ga_stream *stream) {
  void *p;
  bool allowed;
  GA_TRY(joining_allowed(&allowed));
  if (!allowed) return GA_OK;
  GA_TRY(ga_mem_zalloc(1, sizeof(struct cuda_chain), "launches held back", &p));
  ((cuda_stream *)stream)->held = p;
  return GA_OK;
}

ga_status cuda_join_end(ga_stream *stream) {
  cuda_stream *s = (cuda_stream *)stream;
  const ga_status status = cuda_launch_held(stream);
  ga_mem_free(s->held);
  s->held = NULL;
  return status;
}
