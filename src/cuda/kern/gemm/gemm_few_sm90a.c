#include "cuda/kern/gemm/gemm_few_sm90a.h"

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/gemm/gemm.h"
#include "cuda/kern/gemm/gemm_prefill_sm90a.h"

#define MOST        ((int64_t)1 << 28) /* rows of W, and k */
#define BLOCK_BYTES ((int64_t)1024)    /* of shared memory, the driver's */
#define DEPTH       GA_FEW_DEPTH
#define LEAST_DEPTH 2 /* where two blocks share a multiprocessor; else one has all of it */

typedef struct shape {
  int64_t parts, group /* tiles of a block */, tiles, units, blocks, stage_bytes, depth;
} shape;

static int64_t depth_of(const shape *s, int64_t bytes) {
  return ga_max_i64(1, ga_min_i64(DEPTH, (bytes - GA_FEW_RING_AT) / (GA_FEW_WARPS * s->stage_bytes)));
}

static shape shape_of(const ga_gemm_desc *d, const ga_caps *caps) {
  const cuda_unit *u = cuda_unit_of(d->w_dtype);
  shape s = {.parts = cuda_gemm_ordered_parts(d, caps),
             .tiles = ga_div_up(d->n, GA_PACKED_ROWS),
             .units = ga_div_up(d->k, u->k),
             .stage_bytes = u->bytes + d->m * GA_FEW_X_ROW(u->k)};
  s.group = ga_max_i64(1, GA_FEW_WARPS / (2 * s.parts));
  s.blocks = ga_div_up(s.tiles, s.group);
  const int64_t both = ((int64_t)caps->smem_bytes + BLOCK_BYTES) / 2 - BLOCK_BYTES;
  s.depth = depth_of(&s, both);
  if (s.depth < LEAST_DEPTH) s.depth = depth_of(&s, caps->smem_bytes);
  return s;
}

const char *cuda_gemm_few_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_gemm_desc *d = desc;
  const char *refusal = cuda_gemm_packed_refusal(k, d);
  if (refusal) return refusal;
  if (ga_gemm_one_product(desc)) return ga_gemm_one_product(desc);
  if (!(d->flags & GA_GEMM_INVARIANT)) return "for GA_GEMM_INVARIANT alone";
  if (d->m < k->rows_min || d->m > k->rows_max) return "m is outside of this row's range";
  if (d->k % 4 || d->x_stride % 4) return "k and x_stride must be multiples of 4";
  if (d->y_stride % 4) return "y_stride must be a multiple of 4";
  return d->n > MOST || d->k > MOST ? "n or k is too large" : NULL;
}

/* Clocks of 1.98 GHz: bound by memory, X from L2 to every block, or by working weights out, at the rate that
 * gemm_prefill's tiles of 64 have. Predicted, not measured. */
double cuda_gemm_few_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k;
  enum { LAUNCH = 6000, BYTES = 2000, ELEMENTS = 17 /* a multiprocessor's */ };
  const ga_gemm_desc *d = desc;
  if (d->m == 0 || d->n == 0) return 0;
  const shape s = shape_of(d, caps);
  const cuda_unit *u = cuda_unit_of(d->w_dtype);
  const int64_t units = s.tiles * s.units, x = s.blocks * d->m * d->k * (int64_t)sizeof(float);
  const int64_t copies = (units * u->bytes + x) / BYTES,
                work = units * u->k * GA_PACKED_ROWS / (ELEMENTS * ga_max_i64(1, caps->sms));
  return cuda_clocks_us(caps, LAUNCH + ga_max_i64(copies, work));
}

ga_status cuda_gemm_few(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_gemm_desc *d = desc;
  if (d->n == 0) return GA_OK;
  GA_TRY(cuda_gemm_check_io(stream, k, d, io, 16));
  const shape s = shape_of(d, &stream->device->caps);
  ga_kargs_gemm_few args = {.g = cuda_gemm_kargs(d, io),
                            .group = (int32_t)s.group,
                            .depth = (int32_t)s.depth,
                            .stage_bytes = (int32_t)s.stage_bytes};
  while (1 << args.parts_log < s.parts) args.parts_log++;
  args.g.tiles = (int32_t)s.tiles;
  args.g.units = (int32_t)s.units;
  const cuda_launch l = {.grid = {(uint32_t)s.blocks, 1, 1},
                         .block = {GA_FEW_WARPS * 32, 1, 1},
                         .shared_bytes = (uint32_t)(GA_FEW_RING_AT + GA_FEW_WARPS * s.depth * s.stage_bytes),
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
