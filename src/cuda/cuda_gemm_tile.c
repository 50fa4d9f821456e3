#include "cuda/cuda_gemm_tile.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "cuda/cuda_gemm.h"

#define BK 64
#define BAND 8         /* rows of clusters' tiles that share columns in L2: 66 clusters are then about a square */
#define ALIGN_ELEMS 8  /* of strides: 16 bytes, for tensor maps and stores */
#define MOST ((int64_t)1 << 28) /* rows, columns, k: places of tiles are 32-bit */

static int64_t cluster_of(const cuda_gemm_tile_variant *v) { return v->pair ? 2 : v->split; }
static int64_t steps_of(const ga_gemm_desc *d) { return ga_div_up(d->k, BK); }

/* Tiles of clusters: rows, columns. */
static int64_t row_tiles(const cuda_gemm_tile_variant *v, const ga_gemm_desc *d) { return ga_div_up(d->m, v->pair ? 2 * v->bm : v->bm); }
static int64_t col_tiles(const cuda_gemm_tile_variant *v, const ga_gemm_desc *d) { return ga_div_up(d->n, v->bn); }

const char *cuda_gemm_tile_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_gemm_desc *d = desc;
  const cuda_gemm_tile_variant *v = k->impl;
  if (d->w_layout != GA_LAYOUT_NATIVE) return "the weights are packed";
  if (ga_gemm_one_product(d)) return ga_gemm_one_product(d);
  if (d->w_dtype != (int32_t)k->dtype[0] || d->x_dtype != (int32_t)k->dtype[1]) return "x and w must be of its dtype";
  if (d->y_dtype != GA_F32 && d->y_dtype != (int32_t)k->dtype[0]) return "y must be f32 or of its dtype";
  if (d->k % ALIGN_ELEMS || d->x_stride % ALIGN_ELEMS || d->y_stride % ALIGN_ELEMS) return "k, x_stride and y_stride must be multiples of 8";
  if (d->k == 0) return "k is 0";
  if (d->m > MOST || d->n > MOST || d->k > MOST || d->x_stride > MOST || row_tiles(v, d) * col_tiles(v, d) > MOST)
    return "too large: at most 2^28 rows, columns, tiles";
  return steps_of(d) < v->split ? "k is too short to be split" : NULL;
}

/* Clocks of a step of 64 columns: of 128 x 256 bound by the products, of smaller tiles by shared memory; measured: docs/perf/gemm.md. */
static int64_t step_clocks(const cuda_gemm_tile_variant *v) { return v->bn == 64 ? 400 : v->bm == 64 ? 585 : v->bn == 128 ? 720 : 1024; }

/* Per mille of the tensor cores' rate that the row is expected to reach. */
int32_t cuda_gemm_tile_fit(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  enum { TILE = 2000, EXCHANGE = 3000, LAUNCH = 6000, RATE = 2048 }; /* clocks; multiply-adds a clock */
  const ga_gemm_desc *d = desc;
  const cuda_gemm_tile_variant *v = k->impl;
  if (d->m == 0 || d->n == 0) return 0;
  const int64_t clusters = ga_max_i64(1, caps->sms / cluster_of(v)), waves = ga_div_up(row_tiles(v, d) * col_tiles(v, d), clusters);
  const int64_t steps = ga_div_up(steps_of(d), v->split);
  const double clocks = (double)(LAUNCH + waves * (steps * step_clocks(v) + TILE + (v->split > 1 ? EXCHANGE : 0)));
  return (int32_t)(1000 * (double)d->m * (double)d->n * (double)d->k / ((double)caps->sms * RATE * clocks));
}

/* Rows of contiguous 16-bit elements, in boxes of 64 columns. */
static ga_status encode(const cuda_device *dev, const ga_kernel *k, const char *name, const void *data, int64_t rows, int64_t cols,
                        int64_t stride, int64_t box_rows, ga_tmap *out) {
  const uint64_t dims[2] = {(uint64_t)cols, (uint64_t)rows}, bytes[1] = {2 * (uint64_t)stride};
  const uint32_t box[2] = {BK, (uint32_t)box_rows}, ones[2] = {1, 1};
  void *base;
  memcpy(&base, &data, sizeof base); /* the driver's prototype lacks const */
  CUresult rc = dev->cu->TensorMapEncodeTiled(out, k->dtype[0] == GA_F16 ? CU_TMAP_FLOAT16 : CU_TMAP_BFLOAT16, 2, base, dims, bytes, box, ones,
                                              CU_TMAP_INTERLEAVE_NONE, CU_TMAP_SWIZZLE_128B, CU_TMAP_L2_256B, CU_TMAP_OOB_ZERO);
  if (rc == CUDA_SUCCESS) return GA_OK;
  return ga_fail_in(ga_cu_fail(dev->cu, rc, "cuTensorMapEncodeTiled"), "%s: %s", k->id, name);
}

ga_status cuda_gemm_tile(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_gemm_desc *d = desc;
  const ga_gemm_io *a = io;
  const cuda_gemm_tile_variant *v = k->impl;
  const cuda_device *dev = cuda_device_of(stream);
  if (d->m == 0 || d->n == 0) return GA_OK;
  GA_TRY(cuda_gemm_check_io(stream, k, d, a, 16));
  ga_kargs_gemm_tile args = {.g = cuda_gemm_kargs(d, a),
                             .row_tiles = (int32_t)row_tiles(v, d),
                             .col_tiles = (int32_t)col_tiles(v, d),
                             .band = BAND,
                             .steps = (int32_t)steps_of(d)};
  GA_TRY(encode(dev, k, "x", a->x, d->m, d->k, d->x_stride, v->bm, &args.x));
  GA_TRY(encode(dev, k, "w", a->w, d->n, d->k, d->k, v->pair ? v->bn / 2 : v->bn, &args.w));
  args.y_bulk = v->split == 1 && d->y_dtype != GA_F32 && d->n % ALIGN_ELEMS == 0 && !d->flags && !d->act;
  if (args.y_bulk) GA_TRY(encode(dev, k, "y", a->y, d->m, d->n, d->y_stride, 16, &args.y));
  const int64_t tiles = (int64_t)args.row_tiles * args.col_tiles, cluster = cluster_of(v);
  const int64_t clusters = v->split > 1 ? tiles : ga_min_i64(tiles, dev->base.caps.sms / cluster);
  const cuda_launch l = {.grid = {(uint32_t)(clusters * cluster), 1, 1},
                         .block = {v->base.threads, 1, 1},
                         .cluster = {(uint32_t)cluster, 1, 1},
                         .shared_bytes = v->base.shared_bytes,
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
