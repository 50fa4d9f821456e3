/* KERNEL    norm, sm80
 * COMPUTES  per row: RMS x / sqrt(mean x^2 + eps); LAYER (x - mean) / sqrt(var + eps); L2 x / max(|x|, eps);
 *           then times weight, plus bias, plus residual
 * CONTRACT  strides in elements; y may be x (same strides and types) or the residual (same strides); weight and bias
 *           f32 or absent, residual of y's type or absent
 * DATA      a row is read two or three times: from gmem once, then from L1 or L2
 * BUDGET    THREADS lanes, one block a row, rows round-robin; 256 B of shared memory
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/tile/block_row.h"
#include "cuda/kern/layer/layer_args.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_X
#error "GA_P_X: type of x: f32, f16 or bf16"
#endif
#ifndef GA_P_Y
#error "GA_P_Y: type of y: f32, f16 or bf16"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

#define GET   GA_CAT(elem_get_, GA_P_X)
#define GET_Y GA_CAT(elem_get_, GA_P_Y)
#define PUT   GA_CAT(elem_put_, GA_P_Y)
enum { AHEAD = 8, EARLY = 2 /* elements of the residual: more cost registers, and with them rows at a time */ };
enum { NORM_LAYER = 1, NORM_L2 = 2 }; /* ga_norm_kind */

/* Loads this lane's elements c, c + THREADS, ... of a row, minus shift; zeros in place of elements after its end. All
 * loads are in flight together. */
GA_DEV void prefetch_row(const ga_kargs_norm *a, int64_t at, int64_t c, float shift, float *x) {
  GA_UNROLL for (int e = 0; e < AHEAD; e++) x[e] =
      c + e * GA_P_THREADS < a->width ? GET(a->x, at + c + e * GA_P_THREADS) - shift : 0.0f;
}

GA_DEV float mean_of_row(const ga_kargs_norm *a, row_shared *s, int64_t at) {
  float sum = 0, x[AHEAD];
  for (int64_t c = thread_index(); c < a->width; c += AHEAD * GA_P_THREADS) {
    prefetch_row(a, at, c, 0, x);
    GA_UNROLL for (int e = 0; e < AHEAD; e++) sum += x[e];
  }
  return row_sum(s, 0, GA_P_THREADS, sum) / (float)a->width;
}

/* Returns the factor by which a row is multiplied after `shift` has been subtracted. */
GA_DEV float factor_of(const ga_kargs_norm *a, row_shared *s, int64_t at, float shift) {
  float sum = 0, x[AHEAD];
  for (int64_t c = thread_index(); c < a->width; c += AHEAD * GA_P_THREADS) {
    prefetch_row(a, at, c, shift, x);
    GA_UNROLL for (int e = 0; e < AHEAD; e++) sum += x[e] * x[e];
  }
  sum = row_sum(s, 1, GA_P_THREADS, sum);
  if (a->kind == NORM_L2) return 1.0f / fmaxf(sqrtf(sum), a->eps);
  return 1.0f / sqrtf(sum / (float)a->width + a->eps);
}

GA_DEV float get_residual(const ga_kargs_norm *a, int64_t row, int64_t i) {
  return a->residual && i < a->width ? GET_Y(a->residual, row * a->residual_stride + i) : 0.0f;
}

/* y of element i from x less the shift, times the factor. */
GA_DEV void put_y(const ga_kargs_norm *a, int64_t row, int64_t i, float x, float weight, float residual) {
  float y = x * weight;
  if (a->bias) y += a->bias[i];
  if (a->residual) y += residual;
  PUT(a->y, row * a->y_stride + i, y);
}

GA_KERNEL(GA_P_THREADS, 2) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_norm a) {
  GA_SHARED row_shared shared;
  float weight[AHEAD], x[AHEAD],
      residual[EARLY]; /* of this lane's first elements: weights do not depend on the kernel ahead */
  GA_UNROLL for (int e = 0; e < AHEAD; e++) {
    const int64_t i = thread_index() + e * GA_P_THREADS;
    weight[e] = a.weight && i < a.width ? a.weight[i] : 1.0f;
  }
  grid_launch_dependents();
  grid_dependency_wait();
  for (int64_t row = block_index(); row < a.rows; row += block_count()) {
    const int64_t at = row * a.x_stride;
    GA_UNROLL for (int e = 0; e < EARLY; e++) residual[e] = get_residual(&a, row, thread_index() + e * GA_P_THREADS);
    const float shift = a.kind == NORM_LAYER ? mean_of_row(&a, &shared, at) : 0.0f;
    const float factor = factor_of(&a, &shared, at, shift);
    prefetch_row(&a, at, thread_index(), shift, x);
    GA_UNROLL for (int e = 0; e < AHEAD; e++) {
      const int64_t i = thread_index() + e * GA_P_THREADS;
      if (i < a.width)
        put_y(&a, row, i, x[e] * factor, weight[e], e < EARLY ? residual[e % EARLY] : get_residual(&a, row, i));
    }
    for (int64_t i = thread_index() + AHEAD * GA_P_THREADS; i < a.width; i += GA_P_THREADS)
      put_y(&a, row, i, (GET(a.x, at + i) - shift) * factor, a.weight ? a.weight[i] : 1.0f, get_residual(&a, row, i));
    block_sync(); /* slots of this row are read before the next row's are written */
  }
}
