/* KERNEL    gemm_native, sm80: every weight type in the file's own blocks, any shape; right, not fast
 * COMPUTES  Y = epilogue(X W^T) in f32
 * DATA      a warp takes one row of W and TOKENS rows of X, element by element: lanes along k
 * BUDGET    THREADS lanes; units of THREADS / 32 rows of W by TOKENS rows of X, round-robin
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/tile/block_row.h"
#include "cuda/dev/tile/epilogue.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, pasted from its table row"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif

enum { TOKENS = 8, WARPS = GA_P_THREADS / 32 };

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm a) {
  const int64_t n_units = (a.n + WARPS - 1) / WARPS, units = n_units * ((a.m + TOKENS - 1) / TOKENS);
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  grid_dependency_wait();
  grid_launch_dependents();
  for (int64_t u = block_index(); u < units; u += block_count()) {
    const int64_t col = u % n_units * WARPS + warp, row = u / n_units * TOKENS;
    if (col >= a.n) continue;
    float sum[TOKENS] = {0};
    for (int64_t i = lane; i < a.k; i += 32) {
      const float w = quant_at(a.w_dtype, a.w, col * a.k + i);
      GA_UNROLL for (int t = 0; t < TOKENS; t++)
        if (row + t < a.m) sum[t] = fmaf(w, plain_get(a.x_dtype, a.x, (row + t) * a.x_stride + i), sum[t]);
    }
    GA_UNROLL for (int t = 0; t < TOKENS; t++) {
      const float all = row_sum_warp(sum[t]);
      if (lane == t && row + t < a.m) gemm_finish(&a, row + t, col, all);
    }
  }
}
