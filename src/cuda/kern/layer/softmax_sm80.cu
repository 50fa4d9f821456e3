/* KERNEL    softmax, sm80
 * COMPUTES  per row: Y = e^(s x - m) / sum e^(s x - m), or its logarithm; m is the row's maximum. A row of
 *           -infinity gives zeros, its logarithm -infinity
 * CONTRACT  f32, strides in elements; y may be x
 * DATA      a row is read three times: from gmem once, then from L1 or L2
 * BUDGET    THREADS lanes, one block a row, rows round-robin; 256 B of shared memory
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/tile/block_row.h"
#include "cuda/kern/layer/layer_args.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

GA_DEV float largest_of_row(const ga_kargs_softmax *a, row_shared *s, const float *x) {
  float m = GA_NEG_INFINITY;
  for (int64_t c = thread_index(); c < a->width; c += GA_P_THREADS) m = row_larger(m, elem_mul(a->scale, x[c]));
  return row_max(s, 0, GA_P_THREADS, m);
}

GA_DEV float sum_of(const ga_kargs_softmax *a, row_shared *s, const float *x, float m) {
  float sum = 0;
  for (int64_t c = thread_index(); c < a->width; c += GA_P_THREADS) sum += expf(elem_mul(a->scale, x[c]) - m);
  return row_sum(s, 1, GA_P_THREADS, sum);
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_softmax a) {
  GA_SHARED row_shared shared;
  grid_dependency_wait();
  grid_launch_dependents();
  for (int64_t row = block_index(); row < a.rows; row += block_count()) {
    const float *x = a.x + row * a.x_stride;
    float *y = a.y + row * a.y_stride;
    const float m = largest_of_row(&a, &shared, x), sum = sum_of(&a, &shared, x, m);
    const float log_sum = logf(sum), none = a.log ? GA_NEG_INFINITY : 0.0f;
    for (int64_t c = thread_index(); c < a.width; c += GA_P_THREADS) {
      const float e = elem_mul(a.scale, x[c]) - m;
      y[c] = m == GA_NEG_INFINITY ? none : a.log ? e - log_sum : expf(e) / sum;
    }
    block_sync(); /* slots of this row are read before the next row's are written */
  }
}
