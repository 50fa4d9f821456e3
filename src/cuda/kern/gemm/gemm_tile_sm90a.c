#include "cuda/kern/gemm/gemm_tile_sm90a.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/gemm/gemm.h"
#include "opdef/gemm.h"

#define STEP_BYTES  128 /* along k */
#define BAND        8   /* rows of clusters' tiles that share columns in L2: 66 clusters are then about a square */
#define ALIGN_BYTES 16  /* of strides: for tensor maps and stores */
#define EPILOGUE    (GA_GEMM_BIAS | GA_GEMM_GLU | GA_GEMM_RESIDUAL)
/* As in dev/ptx/bulk.h: W is read once, or stays for other rows of tiles. */
#define L2_EVICT_FIRST 0x12F0000000000000ull
#define L2_EVICT_LAST  0x14F0000000000000ull
#define MAX_K_SPLITS   16
#define COUNTERS       (CUDA_COUNTER_BYTES / (int64_t)sizeof(int32_t))
#define MOST           ((int64_t)1 << 28) /* rows, columns, k: places of tiles are 32-bit */

static int64_t cluster_of(const cuda_gemm_tile_variant *v) { return v->cooperative || v->cluster_k ? 2 : 1; }
static int64_t operand_bytes(int32_t dtype) { return ga_dtype_info((ga_dtype)dtype)->block_bytes; }
/* k of a step. */
static int64_t step_k(const ga_gemm_desc *d) { return STEP_BYTES / operand_bytes(d->w_dtype); }
static int64_t steps_of(const ga_gemm_desc *d) { return ga_div_up(d->k, step_k(d)); }
static bool is_aligned(int64_t stride, int32_t dtype) { return stride * operand_bytes(dtype) % ALIGN_BYTES == 0; }

/* Tiles of clusters: rows, columns. */
static int64_t row_tiles(const cuda_gemm_tile_variant *v, const ga_gemm_desc *d) {
  return ga_div_up(d->m, v->cooperative ? 2 * v->bm : v->bm);
}
static int64_t col_tiles(const cuda_gemm_tile_variant *v, const ga_gemm_desc *d) { return ga_div_up(d->n, v->bn); }

const char *cuda_gemm_tile_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_gemm_desc *d = desc;
  const cuda_gemm_tile_variant *v = k->impl;
  if (d->w_layout != GA_LAYOUT_NATIVE) return "the weights are packed";
  if (ga_gemm_one_product(desc)) return ga_gemm_one_product(desc);
  if (d->w_dtype != (int32_t)k->dtype[0] || d->x_dtype != (int32_t)k->dtype[1]) return "x and w must be of its dtype";
  if (d->w_dtype != GA_E4M3 && d->y_dtype != GA_F32 && d->y_dtype != (int32_t)k->dtype[0])
    return "y must be f32 or of its dtype";
  if ((d->flags & (GA_GEMM_XT | GA_GEMM_WT)) != v->across) return "x and w must lie as it takes them";
  if (k->op_flags & GA_GEMM_ROW_FAST_SUM && !(d->flags & GA_GEMM_FAST_SUM))
    return "it sums all of k in the tensor cores, which was not asked for";
  if (!v->block_scales && d->scales == GA_GEMM_SCALES_BLOCK) return "blocks of k have scales";
  if (v->block_scales && d->scales != GA_GEMM_SCALES_BLOCK) return "it is for scales of blocks";
  if (!is_aligned(d->x_stride, d->x_dtype) || !is_aligned(d->w_stride, d->w_dtype))
    return "strides must be multiples of 16 bytes";
  if (d->y_stride % 8) return "y_stride must be a multiple of 8";
  if (d->k == 0) return "k is 0";
  if (v->cluster_k && steps_of(d) < 2) return "k is less than two steps";
  if (d->m > MOST || d->n > MOST || d->k > MOST || d->x_stride > MOST || d->w_stride > MOST ||
      row_tiles(v, d) * col_tiles(v, d) > MOST)
    return "too large: at most 2^28 rows, columns, tiles";
  return NULL;
}

/* Clocks of a step: of wide tiles bound by the products (short sums: and by adding them up), of small ones by what
 * comes from L2, rows behind the end of X included; measured: docs/log/gemm.md. */
static int64_t step_clocks(const ga_kernel *k, const ga_gemm_desc *d) {
  enum { CLUSTER_K = 500 / 2 /* a block has half of the steps */, BEHIND = 7 };
  const cuda_gemm_tile_variant *v = k->impl;
  const int64_t products = 4 * v->bn, rows = row_tiles(v, d);
  if (v->cluster_k) return CLUSTER_K + BEHIND * (rows * v->bm - d->m) / (2 * rows);
  if (v->bn <= 128) return v->bn == 64 ? 370 : 720;
  if (v->block_scales) return products * 7 / 6;
  return k->dtype[0] == GA_E4M3 && !(k->op_flags & GA_GEMM_ROW_FAST_SUM) ? products * 65 / 64 : products;
}

/* Clocks of the whole, k in so many parts. */
static int64_t clocks_of(const ga_kernel *k, const ga_gemm_desc *d, const ga_caps *caps, int64_t k_splits) {
  enum { TILE = 2000, JOIN = 3000, ADD_SPLIT_CLOCKS = 700, LAUNCH = 6000 };
  const cuda_gemm_tile_variant *v = k->impl;
  const int64_t clusters = ga_max_i64(1, caps->sms / cluster_of(v)),
                waves = ga_div_up(row_tiles(v, d) * col_tiles(v, d) * k_splits, clusters);
  return LAUNCH + waves * (ga_div_up(steps_of(d), k_splits) * step_clocks(k, d) + TILE +
                           (k_splits > 1 ? JOIN + k_splits * ADD_SPLIT_CLOCKS : 0));
}

/* Parts of k: the fastest, as long as there are counters for them. */
static int64_t k_splits_of(const ga_kernel *k, const ga_gemm_desc *d, const ga_caps *caps) {
  const cuda_gemm_tile_variant *v = k->impl;
  const int64_t tiles = row_tiles(v, d) * col_tiles(v, d), most = ga_min_i64(MAX_K_SPLITS, steps_of(d));
  int64_t best = 1;
  if (!v->k_splits || tiles * (v->bm / 16) > COUNTERS) return 1;
  for (int64_t p = 2; p <= most; p++)
    if (clocks_of(k, d, caps, p) < clocks_of(k, d, caps, best)) best = p;
  return best;
}

/* Products at the full rate run at the clock that power allows: 1.55 of 1.98 GHz. */
#define POWER_CAP 1.28

double cuda_gemm_tile_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_gemm_desc *d = desc;
  return d->m == 0 || d->n == 0 ? 0 : POWER_CAP * cuda_clocks_us(caps, clocks_of(k, d, caps, k_splits_of(k, d, caps)));
}

uint64_t cuda_gemm_tile_workspace(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_gemm_desc *d = desc;
  const cuda_gemm_tile_variant *v = k->impl;
  if (d->m == 0 || d->n == 0) return 0;
  const int64_t k_splits = k_splits_of(k, d, caps);
  return k_splits == 1 ? 0 : (uint64_t)(row_tiles(v, d) * col_tiles(v, d) * k_splits * v->bm * v->bn) * sizeof(float);
}

/* rows of cols contiguous elements, in boxes of 128 bytes by box_rows. */
static ga_status encode_matrix(const cuda_device *dev, const ga_kernel *k, const char *name, int32_t dtype,
                               const void *data, int64_t rows, int64_t cols, int64_t stride, int64_t box_rows,
                               ga_tmap *out) {
  const int64_t bytes_each = operand_bytes(dtype);
  const int type = dtype == GA_F16 ? CU_TMAP_FLOAT16 : dtype == GA_BF16 ? CU_TMAP_BFLOAT16 : CU_TMAP_UINT8;
  const uint64_t dims[2] = {(uint64_t)cols, (uint64_t)rows}, bytes[1] = {(uint64_t)(bytes_each * stride)};
  const uint32_t box[2] = {(uint32_t)(STEP_BYTES / bytes_each), (uint32_t)box_rows}, ones[2] = {1, 1};
  void *base;
  memcpy(&base, &data, sizeof base); /* the driver's prototype lacks const */
  CUresult rc = dev->cu->TensorMapEncodeTiled(out, type, 2, base, dims, bytes, box, ones, CU_TMAP_INTERLEAVE_NONE,
                                              CU_TMAP_SWIZZLE_128B, CU_TMAP_L2_256B, CU_TMAP_OOB_ZERO);
  if (rc == CUDA_SUCCESS) return GA_OK;
  return ga_fail_in(ga_cu_fail(dev->cu, rc, "cuTensorMapEncodeTiled"), "%s: %s", k->id, name);
}

/* X or W: `lines` vectors of k, stored one after the other or across. */
static ga_status encode_operand(const cuda_device *dev, const ga_kernel *k, const ga_gemm_desc *d, const char *name,
                                const void *data, bool across, int64_t lines, int64_t stride, int64_t box_lines,
                                ga_tmap *out) {
  if (across) return encode_matrix(dev, k, name, d->w_dtype, data, d->k, lines, stride, step_k(d), out);
  return encode_matrix(dev, k, name, d->w_dtype, data, lines, d->k, stride, box_lines, out);
}

ga_status cuda_gemm_tile(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  const ga_gemm_desc *d = desc;
  const ga_gemm_io *a = io;
  const cuda_gemm_tile_variant *v = k->impl;
  const cuda_device *dev = cuda_device_of(stream);
  if (d->m == 0 || d->n == 0) return GA_OK;
  GA_TRY(cuda_gemm_check_io(stream, k, d, a, 16));
  ga_kargs_gemm_tile args = {.p = cuda_gemm_plain_kargs(d, a),
                             .row_tiles = (int32_t)row_tiles(v, d),
                             .col_tiles = (int32_t)col_tiles(v, d),
                             .band = BAND,
                             .steps = (int32_t)steps_of(d),
                             .w_policy = row_tiles(v, d) == 1 ? L2_EVICT_FIRST : L2_EVICT_LAST,
                             .k_splits = (int32_t)k_splits_of(k, d, &dev->base.caps)};
  args.p.g.partial = workspace;
  args.p.g.counter = (int32_t *)(uintptr_t)cuda_counters_of(stream);
  GA_TRY(encode_operand(dev, k, d, "x", a->x, v->across & GA_GEMM_XT, d->m, d->x_stride, v->bm, &args.x));
  GA_TRY(encode_operand(dev, k, d, "w", a->w, v->across & GA_GEMM_WT, d->n, d->w_stride,
                        v->cooperative ? v->bn / 2 : v->bn, &args.w));
  args.y_bulk = d->y_dtype != GA_F32 && d->n % 8 == 0 && !(d->flags & EPILOGUE) && !d->act;
  if (args.y_bulk) GA_TRY(encode_matrix(dev, k, "y", d->y_dtype, a->y, d->m, d->n, d->y_stride, 16, &args.y));
  const int64_t pieces = (int64_t)args.row_tiles * args.col_tiles * args.k_splits, cluster = cluster_of(v);
  const int64_t clusters = v->cluster_k ? pieces : ga_min_i64(pieces, dev->base.caps.sms / cluster);
  const cuda_launch l = {.grid = {(uint32_t)(clusters * cluster), 1, 1},
                         .block = {v->base.threads, 1, 1},
                         .cluster = {(uint32_t)cluster, 1, 1},
                         .shared_bytes = v->base.shared_bytes,
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
