#include "cuda/kern/mla/mla_decode_sm90a.h"

#include <float.h>
#include <math.h>

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/mla/mla_decode_args.h"

#define HEAD         576
#define VALUES       512
#define ROWS         64 /* heads of a tile */
#define KEYS         64
#define PANEL        64 /* elements */
#define LEAST_PAGE   8  /* a box begins on a period of the swizzle */
#define ALIGN_BYTES  16
#define MOST_CLUSTER 8
#define MANY_SPLITS  16
#define COUNTERS     ((int64_t)(CUDA_COUNTER_BYTES / sizeof(int32_t)))
#define MOST_ROWS    ((uint64_t)1 << 31) /* of the cache: their number is not known here */

static int64_t elem_size_of(int32_t dtype) { return ga_dtype_info((ga_dtype)dtype)->block_bytes; }

const char *cuda_mla_decode_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_mla_desc *d = desc;
  if (d->head_dim != HEAD || d->v_dim != VALUES) return "head_dim and v_dim must be 576 and 512";
  if (d->page_size % KEYS && d->page_size != 32 && d->page_size != 16 && d->page_size != LEAST_PAGE)
    return "page_size must be 8, 16, 32 or a multiple of 64";
  if (d->q_stride * elem_size_of(d->q_dtype) % ALIGN_BYTES) return "q_stride must be a multiple of 16 bytes";
  if (d->o_stride * elem_size_of(d->o_dtype) % ALIGN_BYTES) return "o_stride must be a multiple of 16 bytes";
  return cuda_mla_refusal(k, d);
}

/* The division of a call: c.splits is a multiple of the number of blocks of a cluster. */
typedef struct decode_cut {
  cuda_mla_cut c;
  int64_t cluster;
} decode_cut;

/* Divides the keys of a unit so that all multiprocessors have work, and a split has two blocks of keys at least. Pairs
 * of blocks fit on all multiprocessors, clusters of eight on three quarters of them. These pay where a unit has many
 * splits: partial results of its clusters go through memory, and their sum is shared by the blocks of a cluster. */
static decode_cut cut_latent(const ga_mla_desc *d, const ga_caps *caps) {
  decode_cut x = {.c = cuda_mla_cut_of(d, ROWS, 1, caps->sms, 2 * KEYS), .cluster = 1};
  const int64_t splits = x.c.splits;
  if (splits < 2) return x;
  x.cluster = splits >= MANY_SPLITS ? MOST_CLUSTER : 2;
  if (x.cluster == MOST_CLUSTER) x.c.splits = ga_min_i64(splits, caps->sms * 3 / 4 / x.c.units);
  x.c.splits = ga_max_i64(1, x.c.splits / x.cluster) * x.cluster;
  if (x.c.units * x.cluster > COUNTERS) x.c.splits = x.cluster;
  return x;
}

static bool has_partials(const decode_cut *x) { return x->c.splits > x->cluster; }
uint64_t cuda_mla_decode_workspace(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k;
  const decode_cut x = cut_latent(desc, caps);
  const int64_t of_block = (1 + VALUES / 16 / x.cluster) * 256 * 4; /* partial_of in the kernel */
  return has_partials(&x) ? (uint64_t)(x.c.units * x.c.splits * of_block) * sizeof(float) : 0;
}

double cuda_mla_decode_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_mla_desc *d = desc;
  const decode_cut x = cut_latent(d, caps);
  return cuda_mla_us(d, &x.c, ROWS, 1, caps) * 100 / k->speed;
}

static ga_status encode_cache(const cuda_device *dev, const ga_kernel *k, const void *cache, uint32_t rows,
                              uint32_t panels, ga_tmap *out) {
  const int type = k->dtype[1] == GA_F16 ? CU_TMAP_FLOAT16 : CU_TMAP_BFLOAT16;
  const uint64_t dims[3] = {PANEL, MOST_ROWS, HEAD / PANEL}, bytes[2] = {2 * HEAD, 2 * PANEL};
  const uint32_t box[3] = {PANEL, rows, panels}, ones[3] = {1, 1, 1};
  CUresult rc =
      dev->cu->TensorMapEncodeTiled(out, type, 3, (void *)(uintptr_t)cache, dims, bytes, box, ones,
                                    CU_TMAP_INTERLEAVE_NONE, CU_TMAP_SWIZZLE_128B, CU_TMAP_L2_256B, CU_TMAP_OOB_ZERO);
  return rc == CUDA_SUCCESS ? GA_OK : ga_fail_in(ga_cu_fail(dev->cu, rc, "cuTensorMapEncodeTiled"), "%s: cache", k->id);
}

ga_status cuda_mla_decode(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  const ga_mla_desc *d = desc;
  const ga_mla_io *a = io;
  const cuda_variant *v = k->impl;
  const decode_cut x = cut_latent(d, &stream->device->caps);
  const int64_t blocks = x.c.units * x.c.splits;
  if (blocks == 0 || a->q_tokens == 0) return GA_OK;
  GA_TRY(cuda_mla_check_io(stream, k, d, a, ALIGN_BYTES));
  GA_REQUIRE(blocks <= INT32_MAX, GA_ERR_SHAPE, "%s: %lld blocks of work; at most 2^31 - 1 are allowed", k->id,
             (long long)blocks);
  const uint32_t rows = (uint32_t)ga_min_i64(d->page_size, KEYS);
  ga_kargs_mla_decode args = {.m = cuda_mla_kargs(d, a, &x.c, workspace, stream),
                              .box_rows = (int32_t)rows,
                              .cluster = (int32_t)x.cluster,
                              .scale = fmaxf(fabsf(d->scale) * 1.44269504f, FLT_MIN)};
  GA_TRY(encode_cache(cuda_device_of(stream), k, a->cache, rows, rows == KEYS ? 4 : 1, &args.latent));
  GA_TRY(encode_cache(cuda_device_of(stream), k, a->cache, rows, 1, &args.rope));
  const cuda_launch l = {.grid = {(uint32_t)blocks, 1, 1},
                         .block = {v->threads, 1, 1},
                         .cluster = {x.cluster > 1 ? (uint32_t)x.cluster : 0, 1, 1},
                         .shared_bytes = v->shared_bytes,
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
