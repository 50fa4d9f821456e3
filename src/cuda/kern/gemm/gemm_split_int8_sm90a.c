#include "cuda/kern/gemm/gemm_split_int8_sm90a.h"

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/gemm/gemm.h"
#include "cuda/kern/gemm/gemm_split_int8_sm90a_args.h"

#define ROWS         8                  /* of X that a launch takes, at most */
#define MOST         ((int64_t)1 << 28) /* rows, and k */
#define SMALL_X      (32 << 10) /* bytes of X ahead of which two stages may be asked for: what is under way delays X */
#define STATIC_BYTES 1024       /* of shared memory, which rows keep free */
#define COUNTERS     (CUDA_COUNTER_BYTES / (int64_t)sizeof(int32_t))

/* How a launch is cut. */
typedef struct shape {
  const cuda_unit *unit;
  int64_t mats;        /* whose tiles of the same number a group has: 2 when gated */
  bool cluster_reduce; /* parts of k are blocks of a cluster */
  int64_t warps, rows /* of X, filled up */, tiles, units, splits, groups, slots, depth, early, shared_bytes;
} shape;

static int64_t row_tiles_of(int64_t n) { return ga_div_up(n, GA_PACKED_ROWS); }

/* Of an element of X, columns in shared memory: digits of 8 bits by integer codes, bf16 by weights of 16 bits and of
 * e4m3. */
static int64_t splits_x(const shape *s) { return cuda_gemm_in_bf16(s->unit->dtype) ? 2 : 3; }

/* Digits, scales and sums of so many units of X. */
static int64_t x_bytes(const shape *s, int64_t units) {
  if (cuda_gemm_in_bf16(s->unit->dtype)) return units * s->unit->k * splits_x(s) * s->rows * (int64_t)sizeof(uint16_t);
  const int64_t cols = splits_x(s) * s->rows, width = (cols + 1) / 2 * 2,
                runs = s->unit->k / (s->unit->dtype == GA_Q2_K ? 16 : 32);
  const int64_t scales = (int64_t)ga_round_up((size_t)(units * width) * sizeof(float), 16);
  return units * s->unit->k * cols + scales +
         (cuda_gemm_has_min(s->unit->dtype) ? units * runs * s->rows * (int64_t)sizeof(float) : 0);
}

/* Items that so many units of a tile make. */
static int64_t items_of(const shape *s, int64_t units) {
  return ga_div_up(units, GA_RING_ITEM(s->unit->k, s->unit->bytes));
}

/* Tiles that a run of items which one warp sums may touch. */
static int64_t slots_of(const shape *s) {
  const int64_t most = items_of(s, ga_div_up(s->units, s->splits)), least = items_of(s, s->units / s->splits);
  const int64_t run = ga_div_up(ga_div_up(s->tiles, s->groups) * s->mats * most, s->warps);
  return (run + least - 2) / least + 1;
}

static int64_t stage_bytes(const shape *s) {
  return s->warps * GA_RING_ITEM(s->unit->k, s->unit->bytes) * s->unit->bytes;
}
static int64_t bars_bytes(const shape *s) { return s->warps * GA_RING_BARS; }
static int64_t ring_bytes(const shape *s) { return GA_RING_CONTROL + bars_bytes(s) + s->depth * stage_bytes(s); }
static int64_t groups_of(const shape *s, int64_t blocks) {
  return ga_max_i64(1, ga_min_i64(s->tiles, blocks / s->splits));
}

/* Tiles of a group, and what a block of a cluster is sent of them. */
static int64_t group_tiles(const shape *s) { return ga_div_up(s->tiles, s->groups); }
static int64_t met_bytes(const shape *s) {
  const int64_t own = ga_div_up(group_tiles(s), s->splits) * s->mats;
  return s->cluster_reduce ? s->splits * own * GA_PACKED_ROWS * s->rows * (int64_t)sizeof(float) : 0;
}
static int64_t table_bytes(const shape *s) {
  return (int64_t)ga_round_up((size_t)(GA_RING_CONSTANTS + group_tiles(s) * s->mats * (int64_t)sizeof(uint32_t)), 16);
}

/* Blocks that are there at once: clusters of four leave some of a processing cluster's multiprocessors out (120 of an
 * H200's 132 are used). */
static int64_t blocks_at_once(int64_t cluster, const ga_caps *caps) {
  return cluster > 2 ? (int64_t)caps->sms * 10 / 11 : caps->sms;
}

/* Clocks that tell clusters of so many blocks apart, roughly: a block's part of X, its weights, and sums that meet.
 * docs/log/cuda-decode.md. */
static int64_t cost_of(const shape *s, int64_t cluster, const ga_caps *caps) {
  enum { X = 28, WEIGHTS = 20 /* bytes a clock */, CLUSTER_REDUCE_CLOCKS = 1250 };
  const int64_t x = s->units * s->unit->k * s->rows * (int64_t)sizeof(float),
                weights = s->tiles * s->mats * s->units * s->unit->bytes;
  return x / cluster / X + weights / blocks_at_once(cluster, caps) / WEIGHTS +
         (cluster > 1 ? CLUSTER_REDUCE_CLOCKS : 0);
}

/* Parts of k: 1, or the blocks of a cluster, while X gets at most half of shared memory; else as many as it takes,
 * whose sums meet in memory. */
static void split_k_of(shape *s, const ga_caps *caps, int64_t limit) {
  int64_t best = INT64_MAX;
  for (int64_t c = 1; c <= GA_SPLIT_INT8_MAX_CLUSTER; c *= 2) {
    const bool fits = x_bytes(s, ga_div_up(s->units, c)) <= limit / 2 && (c == 1 || (s->rows > 1 && s->units >= 2 * c));
    if (!fits || cost_of(s, c, caps) >= best) continue;
    best = cost_of(s, c, caps);
    s->splits = c;
  }
  s->cluster_reduce = s->splits > 1;
  while (best == INT64_MAX && s->splits < s->units && x_bytes(s, ga_div_up(s->units, s->splits)) > limit / 2)
    s->splits++;
}

/* Stages of a ring, of which `most` fit: what is under way makes the next launch's X wait, and several rows take longer
 * than an item's way. Two of many are asked for ahead of a small X. */
static void set_depth(shape *s, int64_t most, int64_t m) {
  const int64_t items = group_tiles(s) * s->mats * items_of(s, ga_div_up(s->units, s->splits)) / s->warps;
  const bool waits = (s->cluster_reduce || s->rows == ROWS) && !cuda_gemm_in_bf16(s->unit->dtype);
  s->depth = ga_max_i64(1, ga_min_i64(most, waits ? 2 : 3));
  s->early = ga_min_i64(s->depth, items >= 6 && s->units * s->unit->k * m * (int64_t)sizeof(float) <= SMALL_X ? 2 : 1);
}

/* X gets at most half of shared memory. Rows are cut into groups, one a multiprocessor, or a cluster. */
static shape shape_of(const ga_kernel *k, const ga_gemm_fused_desc *d, const ga_caps *caps) {
  const int64_t m = ga_min_i64(d->plain.m, ROWS), limit = caps->smem_bytes - STATIC_BYTES;
  shape s = {.unit = cuda_unit_of(d->plain.w_dtype), .splits = 1};
  s.mats = d->fused & GA_GEMM_FUSED_GATED ? 2 : 1;
  s.warps = ((const cuda_variant *)k->impl)->threads / 32;
  s.rows = k->rows_max == 1 ? 1 : m <= 2 ? 2 : m <= 4 ? 4 : ROWS;
  s.tiles = row_tiles_of(d->plain.n) + row_tiles_of(d->n_more[0]) + row_tiles_of(d->n_more[1]);
  s.units = ga_div_up(d->plain.k, s.unit->k);
  split_k_of(&s, caps, limit);
  s.groups = groups_of(&s, s.cluster_reduce ? blocks_at_once(s.splits, caps) : caps->sms);
  for (;; s.groups = ga_min_i64(s.tiles, 2 * s.groups)) {
    const int64_t x = x_bytes(&s, ga_div_up(s.units, s.splits));
    s.slots = slots_of(&s);
    s.depth = 0;
    s.shared_bytes =
        x + s.warps * s.slots * GA_PACKED_ROWS * s.rows * (int64_t)sizeof(float) + table_bytes(&s) + met_bytes(&s);
    set_depth(&s, (limit - s.shared_bytes - ring_bytes(&s)) / stage_bytes(&s), m);
    s.shared_bytes += ring_bytes(&s);
    if (s.shared_bytes <= limit || s.groups >= s.tiles) return s;
  }
}

const char *cuda_gemm_split_int8_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_gemm_fused_desc *d = desc;
  const char *refusal = cuda_gemm_packed_refusal(k, &d->plain);
  if (refusal) return refusal;
  if (d->plain.n > MOST || d->plain.k > MOST) return "n or k is too large";
  if (d->plain.m < k->rows_min || (k->rows_max && d->plain.m > k->rows_max)) return "m is outside of this row's range";
  if (d->plain.m == 0 || d->plain.n == 0) return NULL;
  if (d->fused & GA_GEMM_FUSED_ADD_NORM && (d->plain.m != 1 || d->plain.k > GA_RING_SUM_K))
    return "it adds a norm to one row alone, of up to 4096";
  if (d->fused & GA_GEMM_FUSED_ADD_NORM && d->plain.k % 4) return "k must be a multiple of 4 where a norm is added";
  if (d->n_more[0] > MOST || d->n_more[1] > MOST) return "n_more is too large";
  const shape s = shape_of(k, d, caps);
  const bool in_memory = s.splits > 1 && !s.cluster_reduce;
  if (in_memory && (s.mats > 1 || d->fused & GA_GEMM_FUSED_NORM || d->n_more[0]))
    return "k is too long for one block: no norm, no further matrices";
  if (s.shared_bytes > (int64_t)caps->smem_bytes - STATIC_BYTES) return "shared memory is too small";
  return in_memory && s.groups > COUNTERS ? "too many parts" : NULL;
}

/* Clocks of 1.98 GHz that a launch of so many rows takes, measured on an H200 with Q4_K: docs/log/cuda-decode.md.
 * Quantised weights come at 2700 bytes a clock to one row or two; more are bound by their products. Those of 16 bits
 * are bound by memory; so are those of e4m3, which is predicted, not measured. */
static int64_t clocks_of(int32_t w_dtype, int64_t rows, int64_t bytes) {
  enum { LAUNCH = 6000, SEVERAL = 3000, BYTES = 2700, PLAIN_BYTES = 2000 };
  const int64_t tenths = rows <= 2 ? 10 : rows <= 4 ? 12 : 15;
  if (cuda_gemm_in_bf16(w_dtype)) return LAUNCH + (rows == 1 ? 0 : SEVERAL) + bytes / PLAIN_BYTES;
  return LAUNCH + (rows <= 2 ? 0 : SEVERAL) + bytes / BYTES * tenths / 10;
}

double cuda_gemm_split_int8_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)caps;
  const ga_gemm_fused_desc *d = desc;
  const int32_t type = d->plain.w_dtype;
  const cuda_unit *u = cuda_unit_of(type);
  if (d->plain.m == 0 || d->plain.n == 0) return 0;
  const int64_t tiles = (row_tiles_of(d->plain.n) + row_tiles_of(d->n_more[0]) + row_tiles_of(d->n_more[1])) *
                        (d->fused & GA_GEMM_FUSED_GATED ? 2 : 1);
  const int64_t bytes = tiles * ga_div_up(d->plain.k, u->k) * u->bytes, rest = d->plain.m % ROWS;
  return cuda_clocks_us(caps,
                        d->plain.m / ROWS * clocks_of(type, ROWS, bytes) + (rest ? clocks_of(type, rest, bytes) : 0));
}

uint64_t cuda_gemm_split_int8_workspace(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_gemm_fused_desc *d = desc;
  if (d->plain.m == 0 || d->plain.n == 0) return 0;
  const shape s = shape_of(k, d, caps);
  return s.splits == 1 || s.cluster_reduce ? 0 : (uint64_t)(s.splits * ROWS * s.tiles * GA_PACKED_ROWS) * sizeof(float);
}

/* Two matrices whose tiles a block takes in turn. */
static void fill_gated(const ga_gemm_fused_io *a, const shape *s, ga_kargs_gemm_split_int8 *out) {
  const int64_t tile = s->units * s->unit->bytes;
  const char *w = a->plain.w, *gate = a->w_more[0];
  out->gated = 1;
  out->begin[0] = (int32_t)s->tiles;
  out->w_more[0] = gate;
  out->end[0] = w + s->tiles * tile;
  out->end[1] = gate + s->tiles * tile;
  out->hop[1] = (int64_t)((intptr_t)w - (intptr_t)gate);
  out->hop[0] = -out->hop[1] - tile;
}

/* Matrices after the first. */
static void fill_more(const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a, int64_t row, const shape *s,
                      ga_kargs_gemm_split_int8 *out) {
  const char *before = a->plain.w;
  int64_t begin = 0, tiles = row_tiles_of(d->plain.n); /* of the matrix before */
  for (int i = 0; i < GA_GEMM_MORE && d->n_more[i]; i++) {
    begin += tiles;
    out->begin[i] = (int32_t)begin;
    out->end[i] = before + tiles * s->units * s->unit->bytes;
    out->w_more[i] = before = a->w_more[i];
    out->y_more[i] = (float *)a->y_more[i] + row * d->y_more_stride[i];
    out->bias_more[i] = d->plain.flags & GA_GEMM_BIAS ? a->bias_more[i] : NULL;
    out->n_more[i] = d->n_more[i];
    out->y_more_stride[i] = d->y_more_stride[i];
    tiles = row_tiles_of(d->n_more[i]);
  }
}

static ga_kargs_gemm_split_int8 args_of(const shape *s, const ga_gemm_fused_desc *d, const ga_gemm_fused_io *a,
                                        int64_t row) {
  ga_kargs_gemm g = cuda_gemm_kargs(&d->plain, &a->plain);
  g.x = (const float *)a->plain.x + row * d->plain.x_stride;
  g.y = (float *)a->plain.y + row * d->plain.y_stride;
  if (g.gate) g.gate = (const float *)a->plain.gate + row * d->plain.y_stride;
  if (g.residual) g.residual = (const float *)a->plain.residual + row * d->plain.y_stride;
  g.splits = (int32_t)s->splits;
  g.groups = (int32_t)s->groups;
  g.tiles = (int32_t)s->tiles;
  g.units = (int32_t)s->units;
  g.copies = (int32_t)(splits_x(s) * s->rows);
  g.slots = (int32_t)s->slots;
  g.x_units = (int32_t)ga_div_up(s->units, s->splits);
  ga_kargs_gemm_split_int8 out = {.gemm = g,
                                  .depth = (int32_t)s->depth,
                                  .early = (int32_t)s->early,
                                  .units_each = (int32_t)(s->units / s->splits),
                                  .units_longer = (int32_t)(s->units % s->splits),
                                  .tiles_each = (int32_t)(s->tiles / s->groups),
                                  .tiles_longer = (int32_t)(s->tiles % s->groups)};
  out.begin[0] = out.begin[1] = INT32_MAX;
  out.norm = d->fused & GA_GEMM_FUSED_NORM ? a->norm : NULL;
  out.norm_eps = d->norm_eps;
  if (d->fused & GA_GEMM_FUSED_ADD_NORM) out.add = a->add, out.add_norm = a->add_norm, out.sum = a->sum;
  if (d->fused & GA_GEMM_FUSED_GATED)
    fill_gated(a, s, &out);
  else
    fill_more(d, a, row, s, &out);
  return out;
}

static ga_status check_operands(ga_stream *stream, const ga_kernel *k, const ga_gemm_fused_desc *d,
                                const ga_gemm_fused_io *a) {
  if (d->fused & GA_GEMM_FUSED_NORM) GA_TRY(cuda_check_pointer(stream, k, "norm", a->norm, sizeof(float)));
  if (d->fused & GA_GEMM_FUSED_ADD_NORM) {
    const void *const rows[] = {a->plain.x, a->norm, a->add, a->add_norm, a->sum};
    static const char *const names[] = {"x", "norm", "add", "add_norm", "sum"};
    for (size_t i = 0; i < GA_COUNT_OF(rows); i++) GA_TRY(cuda_check_pointer(stream, k, names[i], rows[i], 16));
  }
  if (d->fused & GA_GEMM_FUSED_GATED) {
    GA_TRY(cuda_check_pointer(stream, k, "w_more", a->w_more[0], 16));
    GA_REQUIRE(a->w_more[0] != a->plain.w, GA_ERR_ARG, "%s: w_more[0] is w; the gate must be another matrix", k->id);
  }
  for (int i = 0; i < GA_GEMM_MORE && d->n_more[i]; i++) {
    GA_TRY(cuda_check_pointer(stream, k, "w_more", a->w_more[i], 16));
    GA_TRY(cuda_check_pointer(stream, k, "y_more", a->y_more[i], sizeof(float)));
    if (d->plain.flags & GA_GEMM_BIAS)
      GA_TRY(cuda_check_pointer(stream, k, "bias_more", a->bias_more[i], sizeof(float)));
  }
  return GA_OK;
}

ga_status cuda_gemm_split_int8(const ga_kernel *k, const void *desc, const void *io, void *workspace,
                               ga_stream *stream) {
  const ga_gemm_fused_desc *d = desc;
  const ga_gemm_fused_io *a = io;
  const cuda_variant *v = k->impl;
  if (d->plain.m == 0 || d->plain.n == 0) return GA_OK;
  GA_TRY(cuda_gemm_check_io(stream, k, &d->plain, &a->plain, 16));
  GA_TRY(check_operands(stream, k, d, a));
  for (int64_t row = 0; row < d->plain.m; row += ROWS) { /* W is read once for each 8 rows of X */
    ga_gemm_fused_desc piece = *d;
    piece.plain.m = ga_min_i64(ROWS, d->plain.m - row);
    const shape s = shape_of(k, &piece, &stream->device->caps);
    ga_kargs_gemm_split_int8 args = args_of(&s, &piece, a, row);
    args.gemm.partial = s.cluster_reduce ? NULL : workspace;
    args.gemm.counter = (int32_t *)(uintptr_t)cuda_counters_of(stream);
    const cuda_launch l = {.grid = {(uint32_t)(s.groups * s.splits), 1, 1},
                           .block = {v->threads, 1, 1},
                           .cluster = {s.cluster_reduce ? (uint32_t)s.splits : 0, 1, 1},
                           .shared_bytes = (uint32_t)s.shared_bytes,
                           .dependent = true};
    GA_TRY(cuda_enqueue(stream, k, &l, &args));
  }
  return GA_OK;
}
