#include "cuda/cuda_gemm_wide.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "cuda/cuda_gemm.h"
#include "cuda/kern/gemm/gemm_wide_rows.h"

#define BM 128 /* rows of W of a tile */
#define BK 64
#define MOST ((int64_t)1 << 28)
#define X_THREADS 256
#define X_BLOCKS_PER_SM 8

/* How a product is cut. */
typedef struct shape {
  int64_t w_tiles, x_tiles, units, width; /* width: k, in whole units */
} shape;

static shape shape_of(const ga_kernel *k, const ga_gemm_desc *d) {
  const cuda_unit *u = cuda_unit_of(d->w_dtype);
  shape s = {.w_tiles = ga_div_up(d->n, BM), .x_tiles = ga_div_up(d->m, ((const cuda_gemm_wide_variant *)k->impl)->bn)};
  s.units = ga_div_up(d->k, u->k);
  s.width = s.units * u->k;
  return s;
}

/* Clocks that a launch takes when `splits` blocks share a tile. Clusters of 3 and 4 do not fill the groups of multiprocessors (16 and 18 on an
 * H200). A step of 64 columns is bound by the products of 256 rows, or by working weights out; measured: docs/perf/gemm.md. */
static int64_t clocks_of(const ga_kernel *k, const shape *s, const ga_caps *caps, int64_t splits) {
  enum { STEP_256 = 1024, STEP_64 = 420, TILE = 2000, EXCHANGE = 3000, LAUNCH = 6000 };
  const bool large = ((const cuda_gemm_wide_variant *)k->impl)->bn == 256;
  const int64_t room = splits <= 2 ? caps->sms : ga_max_i64(splits, caps->sms - 8);
  const int64_t waves = ga_div_up(s->w_tiles * s->x_tiles * splits, room / splits * splits);
  const int64_t steps = ga_div_up(s->units, splits) * (s->width / s->units / BK);
  return LAUNCH + waves * (steps * (large ? STEP_256 : STEP_64) + TILE + (splits > 1 ? EXCHANGE : 0));
}

static int64_t best_splits(const ga_kernel *k, const shape *s, const ga_caps *caps) {
  int64_t best = 1;
  for (int64_t n = 2; n <= 4 && n <= s->units && n <= ga_max_i64(caps->sms, 1); n++)
    if (clocks_of(k, s, caps, n) < clocks_of(k, s, caps, best)) best = n;
  return best;
}

const char *cuda_gemm_wide_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_gemm_desc *d = desc;
  const char *refusal = cuda_gemm_packed_refusal(k, d);
  if (refusal) return refusal;
  if (ga_gemm_one_product(d)) return ga_gemm_one_product(d);
  if (d->m < k->rows_min) return "m is below 9";
  if (d->y_stride % 4) return "y_stride must be a multiple of 4";
  const shape s = shape_of(k, d);
  return d->m > MOST || d->n > MOST || d->k > MOST || s.w_tiles * s.x_tiles > MOST ? "too large: at most 2^28 rows, columns, tiles" : NULL;
}

/* Per mille of the tensor cores' rate that the row is expected to reach. */
int32_t cuda_gemm_wide_fit(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  enum { RATE = 2048 }; /* multiply-adds a clock */
  const ga_gemm_desc *d = desc;
  if (d->m == 0 || d->n == 0) return 0;
  const shape s = shape_of(k, d);
  const double clocks = (double)clocks_of(k, &s, caps, best_splits(k, &s, caps));
  return (int32_t)(1000 * (double)d->m * (double)d->n * (double)d->k / ((double)caps->sms * RATE * clocks));
}

/* X in bf16. */
uint64_t cuda_gemm_wide_workspace(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_gemm_desc *d = desc;
  return (uint64_t)d->m * (uint64_t)shape_of(k, d).width * 2;
}

static ga_status convert_x(const ga_kernel *k, const ga_gemm_desc *d, const ga_gemm_io *a, int64_t width, void *out, ga_stream *stream) {
  const ga_kernel *step = cuda_step_of(GA_GEMM_STEP_ID("x", "sm80"));
  GA_REQUIRE(step, GA_ERR_INTERNAL, "%s: no step to convert x", k->id);
  const ga_kargs_gemm_x args = {.x = a->x, .out = out, .m = d->m, .k = d->k, .stride = d->x_stride, .width = width, .dtype = d->x_dtype};
  const int64_t blocks = ga_div_up(d->m * (width / 16), X_THREADS), most = (int64_t)stream->device->caps.sms * X_BLOCKS_PER_SM;
  const cuda_launch l = {.grid = {(uint32_t)ga_min_i64(blocks, most), 1, 1}, .block = {X_THREADS, 1, 1}, .dependent = true};
  return cuda_enqueue(stream, step, &l, &args);
}

static ga_status encode_x(const cuda_device *dev, const ga_kernel *k, int64_t m, int64_t width, void *x, ga_tmap *out) {
  const uint64_t dims[2] = {(uint64_t)width, (uint64_t)m}, bytes[1] = {2 * (uint64_t)width};
  const uint32_t box[2] = {BK, (uint32_t)((const cuda_gemm_wide_variant *)k->impl)->bn}, ones[2] = {1, 1};
  CUresult rc = dev->cu->TensorMapEncodeTiled(out, CU_TMAP_BFLOAT16, 2, x, dims, bytes, box, ones, CU_TMAP_INTERLEAVE_NONE, CU_TMAP_SWIZZLE_128B,
                                              CU_TMAP_L2_256B, CU_TMAP_OOB_ZERO);
  return rc == CUDA_SUCCESS ? GA_OK : ga_fail_in(ga_cu_fail(dev->cu, rc, "cuTensorMapEncodeTiled"), "%s: x", k->id);
}

ga_status cuda_gemm_wide(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  const ga_gemm_desc *d = desc;
  const ga_gemm_io *a = io;
  const cuda_gemm_wide_variant *v = k->impl;
  const ga_caps *caps = &stream->device->caps;
  if (d->m == 0 || d->n == 0) return GA_OK;
  GA_TRY(cuda_gemm_check_io(stream, k, d, a, 16));
  const shape s = shape_of(k, d);
  const int64_t splits = best_splits(k, &s, caps), tiles = s.w_tiles * s.x_tiles;
  ga_kargs_gemm_wide args = {.g = cuda_gemm_kargs(d, a), .w_tiles = (int32_t)s.w_tiles, .x_tiles = (int32_t)s.x_tiles};
  args.g.splits = (int32_t)splits;
  args.g.tiles = (int32_t)ga_div_up(d->n, GA_PACKED_ROWS);
  args.g.units = (int32_t)s.units;
  GA_TRY(encode_x(cuda_device_of(stream), k, d->m, s.width, workspace, &args.x));
  GA_TRY(convert_x(k, d, a, s.width, workspace, stream));
  const int64_t blocks = splits > 1 ? tiles * splits : ga_min_i64(tiles, caps->sms);
  const cuda_launch l = {.grid = {(uint32_t)blocks, 1, 1},
                         .block = {v->base.threads, 1, 1},
                         .cluster = {splits > 1 ? (uint32_t)splits : 0, splits > 1, splits > 1},
                         .shared_bytes = v->base.shared_bytes,
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
