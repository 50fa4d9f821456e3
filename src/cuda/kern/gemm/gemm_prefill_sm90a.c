#include "cuda/kern/gemm/gemm_prefill_sm90a.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/gemm/gemm.h"

#define BM         128 /* rows of W of a tile */
#define BK         64
#define MOST       ((int64_t)1 << 28)
#define LEAST_TILE 64
#define X_THREADS  256
#define X_SEGMENT  4096 /* columns of a row that a block converts */
#define X_WARP     128  /* and a warp at once */
#define X_ROWS     4    /* e4m3: rows of a block, */
#define X_ACROSS   1024 /* and columns */
#define BOX_BYTES  128  /* of a row of X */
#define TWO_SETS   1000 /* clocks: what adding two sets of sums up takes */

#define ORDERED_PAIRS 2 /* sums of a part of k, whose units take turns at them: quantised weights, GA_GEMM_INVARIANT */

#define COUNTERS     (CUDA_COUNTER_BYTES / (int64_t)sizeof(int32_t))
#define MAX_K_SPLITS 8
#define SHARES       16 /* of a tile, at most: what a warp adds up */

/* How a product is cut: tiles, and each tile's k among `parts` (a power of two) clusters of `cluster` (1 or 2) blocks.
 * */
typedef struct shape {
  int64_t w_tiles, x_tiles, units, width /* k, in whole units */, bn, m;
  int64_t cluster, k_splits;
  int64_t parts_inside;                   /* of k, one behind the other in a block; 1: k_splits says all */
  int64_t launch, tile, step, split_ends; /* clocks: of a launch, a tile's ends, 64 columns, meeting in gmem */
  int64_t w_bytes;                        /* 0: what is bound by memory is not known to be */
  int64_t x_bytes_each;                   /* of an element, converted: 2, or 1 of e4m3 */
} shape;

/* Clocks of 1.98 GHz that a launch takes, measured on an H200: docs/log/gemm.md. A step of 64 columns is bound by the
 * products of 256 rows, and by power, or by working weights out; before it X is converted; sums of parts go to gmem and
 * back. */
static int64_t clocks_of(const shape *s, const ga_caps *caps) {
  enum { EXCHANGE = 2000, BYTES = 2100 /* a clock */, PART_INSIDE = 1500, X_F32 = 4 /* bytes */ };
  const int64_t items = s->w_tiles * s->x_tiles * s->k_splits,
                waves = ga_div_up(items, ga_max_i64(1, caps->sms / s->cluster));
  const int64_t steps = ga_div_up(s->units, s->cluster * s->k_splits) * (s->width / s->units / BK);
  const int64_t ends = s->tile + (s->cluster > 1 ? EXCHANGE : 0) + (s->k_splits > 1 ? s->split_ends / s->cluster : 0);
  return s->launch + s->m * s->width * (X_F32 + s->x_bytes_each) / BYTES +
         ga_max_i64(waves * steps * s->step, s->w_bytes / BYTES) + waves * (ends + (s->parts_inside - 1) * PART_INSIDE);
}

/* What clocks_of needs of the type of W and of the tile. Weights of 16 bits are bound by memory where X has few
 * rows. */
static void set_clocks(shape *s, int32_t w_dtype, bool x_e4m3) {
  enum { LAUNCH = 16000, TILE = 6000, STEP_256 = 1350, STEP_128 = 740, STEP_64 = 480 };
  enum { SPLITS_256 = 10000, SPLITS_128 = 7000, SPLITS_64 = 2000 };
  enum { PLAIN_LAUNCH = 8000, PLAIN_TILE_64 = 2000, PLAIN_TILE_128 = 8000, PLAIN_TILE_256 = 12000 };
  enum { PLAIN_256 = 1300, PLAIN_128 = 840, PLAIN_64 = 640, PLAIN_SPLITS_256 = 10000, PLAIN_SPLITS = 5000 };
  enum { E4M3_256 = 1400, E4M3_128 = 780 };
  const bool large = s->bn == 256;
  s->x_bytes_each = x_e4m3 ? 1 : 2;
  if (x_e4m3) {
    s->launch = LAUNCH;
    s->tile = TILE;
    s->step = large ? E4M3_256 : E4M3_128;
    s->split_ends = large ? SPLITS_256 : SPLITS_128;
    s->w_bytes = s->w_tiles * BM * s->width;
  } else if (cuda_gemm_is_16_bit(w_dtype)) {
    s->step = large ? PLAIN_256 : s->bn == 128 ? PLAIN_128 : PLAIN_64;
    s->launch = PLAIN_LAUNCH;
    s->tile = large ? PLAIN_TILE_256 : s->bn == 128 ? PLAIN_TILE_128 : PLAIN_TILE_64;
    s->split_ends = large ? PLAIN_SPLITS_256 : PLAIN_SPLITS;
    s->w_bytes = s->w_tiles * BM * s->width * 2;
  } else {
    s->launch = LAUNCH;
    s->tile = TILE;
    s->step = large ? STEP_256 : s->bn == 128 ? STEP_128 : STEP_64;
    s->split_ends = large ? SPLITS_256 : s->bn == 128 ? SPLITS_128 : SPLITS_64;
  }
}

static bool x_fits(const shape *s) {
  return s->cluster * s->k_splits <= s->units && (s->k_splits == 1 || s->w_tiles * s->x_tiles * SHARES <= COUNTERS);
}

/* Of m rows in tiles of bn, k not cut. */
static shape shape_of_rows(const ga_gemm_desc *d, int64_t m, int64_t bn) {
  const cuda_unit *u = cuda_unit_of(d->w_dtype);
  shape s = {
      .w_tiles = ga_div_up(d->n, BM), .x_tiles = ga_div_up(m, bn), .units = ga_div_up(d->k, u->k), .bn = bn, .m = m};
  s.width = s.units * u->k;
  s.cluster = s.k_splits = s.parts_inside = 1;
  set_clocks(&s, d->w_dtype, d->flags & GA_GEMM_X_E4M3);
  return s;
}

/* Cuts k so that it takes the least time. */
static void cut_k(shape *best, int32_t kw, const ga_caps *caps) {
  shape s = *best;
  for (s.cluster = 1; s.cluster <= (kw == 1 ? 2 : 1); s.cluster++)
    for (s.k_splits = 1; s.k_splits <= MAX_K_SPLITS; s.k_splits *= 2)
      if (x_fits(&s) && clocks_of(&s, caps) < clocks_of(best, caps)) *best = s;
}

/* Of LEAST_TILE rows, which says how GA_GEMM_INVARIANT cuts k whatever m is. kw: of the rows that add up so. */
static shape shape_of_few(const ga_gemm_desc *d, int32_t kw, const ga_caps *caps) {
  shape few = shape_of_rows(d, LEAST_TILE, LEAST_TILE);
  cut_k(&few, kw, caps);
  return few;
}

int64_t cuda_gemm_ordered_parts(const ga_gemm_desc *d, const ga_caps *caps) {
  return shape_of_few(d, ORDERED_PAIRS, caps).k_splits;
}

/* What decides about the order of sums is how k is cut, and how many sums its units take turns at. With
 * GA_GEMM_INVARIANT k is cut as it is best for the least tile, whatever m is; parts may be the turn of one block. */
static shape shape_of(const ga_kernel *k, const ga_gemm_desc *d, const ga_caps *caps) {
  const cuda_gemm_prefill_variant *v = k->impl;
  shape s = shape_of_rows(d, d->m, v->bn);
  if (v->sum_sets == ORDERED_PAIRS) s.tile += TWO_SETS;
  if (!(d->flags & GA_GEMM_INVARIANT)) {
    cut_k(&s, v->kw, caps);
    return s;
  }
  const shape few = shape_of_few(d, v->kw * v->sum_sets, caps);
  s.cluster = few.cluster;
  s.k_splits = few.k_splits;
  shape inside = s;
  inside.k_splits = 1;
  inside.parts_inside = few.k_splits;
  return v->sum_sets == ORDERED_PAIRS && clocks_of(&inside, caps) < clocks_of(&s, caps) ? inside : s;
}

/* Rows of X that a launch may have: there are counters for so many tiles whose k is cut. */
static int64_t most_rows(const shape *s) {
  return s->k_splits == 1 ? MOST : ga_max_i64(1, COUNTERS / (s->w_tiles * SHARES)) * s->bn;
}

static bool takes_e4m3_x(const ga_kernel *k) { return ((const cuda_gemm_prefill_variant *)k->impl)->x_e4m3; }

const char *cuda_gemm_prefill_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_gemm_desc *d = desc;
  const char *refusal = cuda_gemm_packed_refusal(k, d);
  if (refusal) return refusal;
  if (ga_gemm_one_product(desc)) return ga_gemm_one_product(desc);
  if (takes_e4m3_x(k) && !(d->flags & GA_GEMM_X_E4M3)) return "it rounds X to e4m3, which was not asked for";
  if (d->m < k->rows_min && !(d->flags & GA_GEMM_INVARIANT)) return "m is below 9";
  if (d->y_stride % 4) return "y_stride must be a multiple of 4";
  const int64_t tiles = ga_div_up(d->n, BM) * ga_div_up(d->m, ((const cuda_gemm_prefill_variant *)k->impl)->bn);
  return d->m > MOST || d->n > MOST || d->k > MOST || tiles > MOST ? "too large: at most 2^28 rows, columns, tiles"
                                                                   : NULL;
}

double cuda_gemm_prefill_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_gemm_desc *d = desc;
  if (d->m == 0 || d->n == 0) return 0;
  const shape s = shape_of(k, d, caps);
  return cuda_clocks_us(caps, clocks_of(&s, caps));
}

/* Columns of X as it is converted: whole warps write it. */
static int64_t x_width(const shape *s) { return ga_div_up(s->width, X_WARP) * X_WARP; }

/* X converted, then what its rows (f16) or 128 of k of them (e4m3) are multiplied by, then the sums of parts. */
static uint64_t x_bytes(const shape *s) { return (uint64_t)ga_div_up(s->m * x_width(s) * s->x_bytes_each, 256) * 256; }
static int64_t scale_stride(int64_t m) { return ga_div_up(m, X_ROWS) * X_ROWS; } /* of e4m3 */
static int64_t n_scales(const shape *s, int32_t w_dtype) {
  return s->x_bytes_each == 1 ? s->units * scale_stride(s->m) : w_dtype == GA_F16 ? s->m : 0;
}
static uint64_t sums_at(const shape *s, int32_t w_dtype) {
  return x_bytes(s) + (uint64_t)ga_div_up(n_scales(s, w_dtype) * (int64_t)sizeof(float), 256) * 256;
}

static uint64_t workspace_bytes(const shape *s, int32_t w_dtype) {
  const int64_t rows = ga_min_i64(s->x_tiles * s->bn, most_rows(s));
  return sums_at(s, w_dtype) + (s->k_splits > 1 ? (uint64_t)(s->k_splits * rows * s->w_tiles * BM) * sizeof(float) : 0);
}

/* What X is multiplied by; NULL: nothing. */
static float *x_scales_of(const shape *s, int32_t w_dtype, void *workspace) {
  return n_scales(s, w_dtype) ? (float *)(void *)((char *)workspace + x_bytes(s)) : NULL;
}

static int64_t convert_blocks(const shape *s, int32_t w_dtype) {
  if (s->x_bytes_each == 1) return ga_div_up(s->m, X_ROWS) * ga_div_up(x_width(s), X_ACROSS);
  return s->m * (w_dtype == GA_F16 ? 1 : ga_div_up(x_width(s), X_SEGMENT));
}

/* A block a segment of a row; to f16, whose rows have a scale each, a block a row; to e4m3, a block of rows. */
static ga_status convert_x(const ga_plan_step *step, const void *desc, const void *io, void *workspace,
                           ga_stream *stream) {
  const ga_gemm_desc *d = desc;
  const ga_gemm_io *a = io;
  GA_TRY(cuda_gemm_check_io(stream, step->chosen, d, a, 16));
  const shape s = shape_of(step->chosen, d, &stream->device->caps);
  const ga_kargs_gemm_x args = {.x = a->x,
                                .out = workspace,
                                .m = d->m,
                                .k = d->k,
                                .stride = d->x_stride,
                                .width = x_width(&s),
                                .dtype = d->x_dtype,
                                .scale = x_scales_of(&s, d->w_dtype, workspace)};
  const cuda_launch l = {
      .grid = {(uint32_t)convert_blocks(&s, d->w_dtype), 1, 1}, .block = {X_THREADS, 1, 1}, .dependent = true};
  return cuda_enqueue(stream, step->row, &l, &args);
}

const char *cuda_gemm_prefill_plan(const ga_kernel *k, const void *desc, ga_plan_steps *steps) {
  const ga_gemm_desc *d = desc;
  if (d->m == 0 || d->n == 0) return NULL;
  const shape s = shape_of(k, d, &steps->device->caps);
  steps->workspace_bytes = workspace_bytes(&s, d->w_dtype);
  const char *why = ga_plan_steps_add(steps, ((const cuda_gemm_prefill_variant *)k->impl)->convert_x, convert_x, 0);
  return why ? why : ga_plan_steps_add(steps, k, NULL, 0);
}

/* Rows of a box of X: see copy_box of the device half. */
static int32_t x_box(const ga_kernel *k, int64_t m) {
  const int32_t bn = ((const cuda_gemm_prefill_variant *)k->impl)->bn;
  const bool partial = cuda_gemm_is_16_bit((int32_t)k->dtype[0]) || takes_e4m3_x(k);
  return partial && m % bn ? bn / 4 : bn;
}

static ga_status encode_x(const cuda_device *dev, const ga_kernel *k, int64_t m, int64_t width, void *x, ga_tmap *out) {
  const bool x_e4m3 = takes_e4m3_x(k);
  const uint32_t each = x_e4m3 ? 1 : 2;
  const uint64_t dims[2] = {(uint64_t)width, (uint64_t)m}, bytes[1] = {each * (uint64_t)width};
  const uint32_t box[2] = {BOX_BYTES / each, (uint32_t)x_box(k, m)}, ones[2] = {1, 1};
  const int type = x_e4m3 ? CU_TMAP_UINT8 : k->dtype[0] == GA_F16 ? CU_TMAP_FLOAT16 : CU_TMAP_BFLOAT16;
  CUresult rc = dev->cu->TensorMapEncodeTiled(out, type, 2, x, dims, bytes, box, ones, CU_TMAP_INTERLEAVE_NONE,
                                              CU_TMAP_SWIZZLE_128B, CU_TMAP_L2_256B, CU_TMAP_OOB_ZERO);
  return rc == CUDA_SUCCESS ? GA_OK : ga_fail_in(ga_cu_fail(dev->cu, rc, "cuTensorMapEncodeTiled"), "%s: x", k->id);
}

static int32_t log2_of(int64_t n) {
  int32_t e = 0;
  while (n >> (e + 1)) e++;
  return e;
}

/* Rows [first, first + rows) of a product whose X has been converted. */
static ga_status enqueue_rows(const ga_kernel *k, const ga_gemm_desc *d, const ga_gemm_io *a, const shape *s,
                              int64_t first, int64_t rows, void *workspace, ga_stream *stream) {
  const cuda_gemm_prefill_variant *v = k->impl;
  const int64_t x_tiles = ga_div_up(rows, s->bn), items = s->w_tiles * x_tiles * s->k_splits;
  char *x = (char *)workspace + first * x_width(s) * s->x_bytes_each;
  float *scales = x_scales_of(s, d->w_dtype, workspace);
  ga_gemm_desc piece = *d;
  piece.m = rows;
  ga_kargs_gemm_prefill args = {.g = cuda_gemm_kargs(&piece, a),
                                .w_tiles = (int32_t)s->w_tiles,
                                .x_tiles = (int32_t)x_tiles,
                                .cluster_log = (int32_t)(s->cluster - 1),
                                .k_splits_log = log2_of(s->k_splits),
                                .parts_inside_log = log2_of(s->parts_inside)};
  args.g.y = (float *)a->y + first * d->y_stride;
  if (args.g.gate) args.g.gate = (const float *)a->gate + first * d->y_stride;
  if (args.g.residual) args.g.residual = (const float *)a->residual + first * d->y_stride;
  args.x_scale = scales ? scales + first : NULL;
  args.x_scale_stride = (int32_t)scale_stride(s->m);
  args.x_box = x_box(k, rows);
  args.g.partial = (float *)((char *)workspace + sums_at(s, d->w_dtype));
  args.g.counter = (int32_t *)(uintptr_t)cuda_counters_of(stream);
  args.g.tiles = (int32_t)ga_div_up(d->n, GA_PACKED_ROWS);
  args.g.units = (int32_t)s->units;
  GA_TRY(encode_x(cuda_device_of(stream), k, rows, x_width(s), x, &args.x));
  const int64_t blocks = s->cluster > 1 ? items * s->cluster : ga_min_i64(items, stream->device->caps.sms);
  const cuda_launch l = {.grid = {(uint32_t)blocks, 1, 1},
                         .block = {v->base.threads, 1, 1},
                         .cluster = {s->cluster > 1 ? (uint32_t)s->cluster : 0, s->cluster > 1, s->cluster > 1},
                         .shared_bytes = v->base.shared_bytes,
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}

ga_status cuda_gemm_prefill(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  const ga_gemm_desc *d = desc;
  const shape s = shape_of(k, d, &stream->device->caps);
  const int64_t most = most_rows(&s);
  for (int64_t first = 0; first < d->m; first += most)
    GA_TRY(enqueue_rows(k, d, io, &s, first, ga_min_i64(most, d->m - first), workspace, stream));
  return GA_OK;
}
