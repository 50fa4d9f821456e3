#include <math.h>

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/gemm/gemm.h"

#define MMA_SIDE 128 /* of a tile */

const char *cuda_gemm_mma_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_gemm_desc *d = desc;
  const cuda_variant *v = k->impl;
  if (ga_gemm_one_product(desc)) return ga_gemm_one_product(desc);
  if (d->w_layout != GA_LAYOUT_NATIVE) return "the weights are packed";
  if (d->w_dtype != (int32_t)k->dtype[0] || d->x_dtype != (int32_t)k->dtype[1]) return "x and w must be of its dtype";
  if (d->x_stride % 8 || d->w_stride % 8 || d->y_stride % 8) return "strides must be multiples of 8";
  if (d->m > INT32_MAX / 2 || d->n > INT32_MAX / 2 || d->k > INT32_MAX / 2)
    return "too large: at most 2^30 rows, columns, k";
  if (ga_div_up(d->m, MMA_SIDE) * ga_div_up(d->n, MMA_SIDE) > INT32_MAX) return "too many tiles";
  return v->shared_bytes > caps->smem_bytes ? "shared memory is too small" : NULL;
}

/* Estimated: a third of what wgmma does; k is not split. */
double cuda_gemm_mma_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  enum { STEP = 2000, STEP_COLS = 64, TILE = 3000, LAUNCH = 6000 };
  const ga_gemm_desc *d = desc;
  const double tiles = (double)ga_div_up(d->m, MMA_SIDE) * (double)ga_div_up(d->n, MMA_SIDE);
  const double tile_clocks = (double)ga_div_up(d->k, STEP_COLS) * STEP + TILE;
  const double waves = ceil(tiles / (double)ga_max_i64(caps->sms, 1));
  return cuda_clocks_us(caps, 1) * (LAUNCH + waves * tile_clocks) * 100 / k->speed;
}

ga_status cuda_gemm_mma(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_gemm_desc *d = desc;
  const cuda_variant *v = k->impl;
  if (d->m == 0 || d->n == 0) return GA_OK;
  GA_TRY(cuda_gemm_check_io(stream, k, d, io, 16));
  const ga_kargs_gemm_plain args = cuda_gemm_plain_kargs(d, io);
  const cuda_launch l = {.grid = {(uint32_t)(ga_div_up(d->m, MMA_SIDE) * ga_div_up(d->n, MMA_SIDE)), 1, 1},
                         .block = {v->threads, 1, 1},
                         .shared_bytes = v->shared_bytes,
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
