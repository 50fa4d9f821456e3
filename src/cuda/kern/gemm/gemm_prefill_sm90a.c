#include "cuda/kern/gemm/gemm_prefill_sm90a.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/gemm/gemm.h"

#define BM        128 /* rows of W of a tile */
#define BK        64
#define MOST      ((int64_t)1 << 28)
#define X_THREADS 256
#define X_SEGMENT 4096 /* columns of a row that a block converts */

#define COUNTERS     (CUDA_COUNTER_BYTES / (int64_t)sizeof(int32_t))
#define MAX_K_SPLITS 8
#define SHARES       16 /* of a tile, at most: what a warp adds up */

/* How a product is cut: tiles, and each tile's k among `parts` (a power of two) clusters of `cluster` (1 or 2) blocks.
 * */
typedef struct shape {
  int64_t w_tiles, x_tiles, units, width /* k, in whole units */, bn, m;
  int64_t cluster, k_splits;
} shape;

/* Clocks of 1.98 GHz that a launch takes, measured on an H200: docs/log/gemm.md. A step of 64 columns is bound by the
 * products of 256 rows, and by power, or by working weights out; before it X is converted, 6 bytes an element; sums of
 * parts go to gmem and back. */
static int64_t clocks_of(const shape *s, const ga_caps *caps) {
  enum {
    STEP_256 = 1350,
    STEP_64 = 440,
    TILE = 6000,
    EXCHANGE = 2000,
    SPLITS_256 = 10000,
    SPLITS_64 = 2000,
    LAUNCH = 16000
  };
  enum { BYTES = 2100 /* a clock */ };
  const bool large = s->bn == 256;
  const int64_t items = s->w_tiles * s->x_tiles * s->k_splits,
                waves = ga_div_up(items, ga_max_i64(1, caps->sms / s->cluster));
  const int64_t steps = ga_div_up(s->units, s->cluster * s->k_splits) * (s->width / s->units / BK);
  const int64_t ends =
      TILE + (s->cluster > 1 ? EXCHANGE : 0) + (s->k_splits > 1 ? (large ? SPLITS_256 : SPLITS_64) / s->cluster : 0);
  return LAUNCH + s->m * s->width * 6 / BYTES + waves * (steps * (large ? STEP_256 : STEP_64) + ends);
}

static bool x_fits(const shape *s) {
  return s->cluster * s->k_splits <= s->units && (s->k_splits == 1 || s->w_tiles * s->x_tiles * SHARES <= COUNTERS);
}

static shape shape_of(const ga_kernel *k, const ga_gemm_desc *d, const ga_caps *caps) {
  const cuda_unit *u = cuda_unit_of(d->w_dtype);
  const cuda_gemm_prefill_variant *v = k->impl;
  shape s = {.w_tiles = ga_div_up(d->n, BM),
             .x_tiles = ga_div_up(d->m, v->bn),
             .units = ga_div_up(d->k, u->k),
             .bn = v->bn,
             .m = d->m};
  s.width = s.units * u->k;
  s.cluster = s.k_splits = 1;
  shape best = s;
  for (s.cluster = 1; s.cluster <= (v->kw == 1 ? 2 : 1); s.cluster++)
    for (s.k_splits = 1; s.k_splits <= MAX_K_SPLITS; s.k_splits *= 2)
      if (x_fits(&s) && clocks_of(&s, caps) < clocks_of(&best, caps)) best = s;
  return best;
}

const char *cuda_gemm_prefill_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_gemm_desc *d = desc;
  const char *refusal = cuda_gemm_packed_refusal(k, d);
  if (refusal) return refusal;
  if (ga_gemm_one_product(desc)) return ga_gemm_one_product(desc);
  if (d->m < k->rows_min) return "m is below 9";
  if (d->y_stride % 4) return "y_stride must be a multiple of 4";
  const int64_t tiles = ga_div_up(d->n, BM) * ga_div_up(d->m, ((const cuda_gemm_prefill_variant *)k->impl)->bn);
  return d->m > MOST || d->n > MOST || d->k > MOST || tiles > MOST ? "too large: at most 2^28 rows, columns, tiles"
                                                                   : NULL;
}

double cuda_gemm_prefill_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_gemm_desc *d = desc;
  if (d->m == 0 || d->n == 0) return 0;
  const shape s = shape_of(k, d, caps);
  return cuda_clocks_us(clocks_of(&s, caps));
}

/* X in bf16, then the sums of parts. */
static uint64_t x_bytes(const shape *s) { return (uint64_t)ga_div_up(s->m * s->width * 2, 256) * 256; }

static uint64_t workspace_bytes(const shape *s) {
  return x_bytes(s) +
         (s->k_splits > 1 ? (uint64_t)(s->k_splits * s->x_tiles * s->bn * s->w_tiles * BM) * sizeof(float) : 0);
}

static ga_status convert_x(const ga_plan_step *step, const void *desc, const void *io, void *workspace,
                           ga_stream *stream) {
  const ga_gemm_desc *d = desc;
  const ga_gemm_io *a = io;
  GA_TRY(cuda_gemm_check_io(stream, step->chosen, d, a, 16));
  const int64_t width = shape_of(step->chosen, d, &stream->device->caps).width;
  const ga_kargs_gemm_x args = {
      .x = a->x, .out = workspace, .m = d->m, .k = d->k, .stride = d->x_stride, .width = width, .dtype = d->x_dtype};
  const cuda_launch l = {
      .grid = {(uint32_t)(d->m * ga_div_up(width, X_SEGMENT)), 1, 1}, .block = {X_THREADS, 1, 1}, .dependent = true};
  return cuda_enqueue(stream, step->row, &l, &args);
}

const char *cuda_gemm_prefill_plan(const ga_kernel *k, const void *desc, ga_plan_steps *steps) {
  const ga_gemm_desc *d = desc;
  if (d->m == 0 || d->n == 0) return NULL;
  const shape s = shape_of(k, d, &steps->device->caps);
  steps->workspace_bytes = workspace_bytes(&s);
  const char *why = ga_plan_steps_add(steps, ((const cuda_gemm_prefill_variant *)k->impl)->convert_x, convert_x, 0);
  return why ? why : ga_plan_steps_add(steps, k, NULL, 0);
}

static ga_status encode_x(const cuda_device *dev, const ga_kernel *k, int64_t m, int64_t width, void *x, ga_tmap *out) {
  const uint64_t dims[2] = {(uint64_t)width, (uint64_t)m}, bytes[1] = {2 * (uint64_t)width};
  const uint32_t box[2] = {BK, (uint32_t)((const cuda_gemm_prefill_variant *)k->impl)->bn}, ones[2] = {1, 1};
  CUresult rc =
      dev->cu->TensorMapEncodeTiled(out, CU_TMAP_BFLOAT16, 2, x, dims, bytes, box, ones, CU_TMAP_INTERLEAVE_NONE,
                                    CU_TMAP_SWIZZLE_128B, CU_TMAP_L2_256B, CU_TMAP_OOB_ZERO);
  return rc == CUDA_SUCCESS ? GA_OK : ga_fail_in(ga_cu_fail(dev->cu, rc, "cuTensorMapEncodeTiled"), "%s: x", k->id);
}

static int32_t log2_of(int64_t n) {
  int32_t e = 0;
  while (n >> (e + 1)) e++;
  return e;
}

ga_status cuda_gemm_prefill(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  const ga_gemm_desc *d = desc;
  const ga_gemm_io *a = io;
  const cuda_gemm_prefill_variant *v = k->impl;
  const ga_caps *caps = &stream->device->caps;
  const shape s = shape_of(k, d, caps);
  const int64_t items = s.w_tiles * s.x_tiles * s.k_splits;
  ga_kargs_gemm_prefill args = {.g = cuda_gemm_kargs(d, a),
                                .w_tiles = (int32_t)s.w_tiles,
                                .x_tiles = (int32_t)s.x_tiles,
                                .cluster_log = (int32_t)(s.cluster - 1),
                                .k_splits_log = log2_of(s.k_splits)};
  args.g.partial = (float *)((char *)workspace + x_bytes(&s));
  args.g.counter = (int32_t *)(uintptr_t)cuda_counters_of(stream);
  args.g.tiles = (int32_t)ga_div_up(d->n, GA_PACKED_ROWS);
  args.g.units = (int32_t)s.units;
  GA_TRY(encode_x(cuda_device_of(stream), k, d->m, s.width, workspace, &args.x));
  const int64_t blocks = s.cluster > 1 ? items * s.cluster : ga_min_i64(items, caps->sms);
  const cuda_launch l = {.grid = {(uint32_t)blocks, 1, 1},
                         .block = {v->base.threads, 1, 1},
                         .cluster = {s.cluster > 1 ? (uint32_t)s.cluster : 0, s.cluster > 1, s.cluster > 1},
                         .shared_bytes = v->base.shared_bytes,
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
