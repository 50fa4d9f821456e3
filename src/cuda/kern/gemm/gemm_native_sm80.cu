/* KERNEL    gemm_native, sm80: every weight type in the file's own blocks, any shape, any layout, scales; correct,
 *           not fast
 * COMPUTES  Y = epilogue(X W^T) in f32
 * CONTRACT  w in its native layout; any m, n, k and strides
 * DATA      a warp takes one row of W and TOKENS rows of X, lanes along k: element by element, or 16 bytes at a time if
 *           both are f32, contiguous and aligned, as the routers of experts are
 * BUDGET    THREADS lanes; units of THREADS / 32 rows of W by TOKENS rows of X, round-robin
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/tile/block_row.h"
#include "cuda/kern/gemm/gemm_plain.h"

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

enum { TOKENS = 8, WARPS = GA_P_THREADS / 32 };

/* Element i of row `row` of X, and of row `col` of W, with the scale of its block. */
GA_DEV float x_at(const ga_kargs_gemm_plain *p, int64_t row, int64_t i) {
  const ga_kargs_gemm *g = &p->g;
  const int64_t at = p->layout & GEMM_XT ? i * g->x_stride + row : row * g->x_stride + i;
  const float x = g->x_dtype == T_E4M3 ? quant_at(T_E4M3, g->x, at) : plain_get(g->x_dtype, g->x, at);
  return p->scales == GEMM_SCALES_BLOCK ? x * *gemm_x_scale(p, row, i / GEMM_SCALE_BLOCK) : x;
}
GA_DEV float w_at(const ga_kargs_gemm_plain *p, int64_t col, int64_t i) {
  const float w = quant_at(p->g.w_dtype, p->g.w, p->layout & GEMM_WT ? i * p->w_stride + col : col * p->w_stride + i);
  return p->scales == GEMM_SCALES_BLOCK ? w * *gemm_w_scale(p, col, i / GEMM_SCALE_BLOCK) : w;
}

/* Returns whether rows of W and X can be read 16 bytes at a time. */
GA_DEV bool is_f32(const ga_kargs_gemm_plain *p) {
  const ga_kargs_gemm *g = &p->g;
  return g->w_dtype == T_F32 && g->x_dtype == T_F32 && !p->layout && !p->scales &&
         ((uint64_t)g->w | (uint64_t)g->x | (uint64_t)p->w_stride * 4 | (uint64_t)g->x_stride * 4) % 16 == 0 &&
         g->k % 4 == 0;
}

/* Adds the lane's products of row `col` of W with up to TOKENS rows of X to sum. AHEAD loads of W are under way. */
GA_DEV void add_products_f32(const ga_kargs_gemm_plain *p, int64_t row, int64_t col, float *sum) {
  enum { AHEAD = 4, STEP = 32 * 4 };
  const ga_kargs_gemm *g = &p->g;
  const float *w = (const float *)g->w + col * p->w_stride, *x = (const float *)g->x + row * g->x_stride;
  for (int64_t i = 4 * (thread_index() % 32); i < g->k; i += AHEAD * STEP) {
    float a[AHEAD][4], b[AHEAD][4];
    GA_UNROLL for (int j = 0; j < AHEAD; j++) {
      GA_UNROLL for (int e = 0; e < 4; e++) a[j][e] = b[j][e] = 0;
      if (i + j * STEP < g->k) elem_get16_f32(a[j], w, i + j * STEP);
    }
    GA_UNROLL for (int t = 0; t < TOKENS; t++) {
      if (row + t >= g->m) break;
      GA_UNROLL for (int j = 0; j < AHEAD; j++) if (i + j * STEP < g->k)
          elem_get16_f32(b[j], x + t * g->x_stride, i + j * STEP);
      GA_UNROLL for (int j = 0; j < AHEAD; j++) GA_UNROLL for (int e = 0; e < 4; e++) sum[t] =
          fmaf(a[j][e], b[j][e], sum[t]);
    }
  }
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm_plain a) {
  const ga_kargs_gemm *g = &a.g;
  const int64_t n_units = (g->n + WARPS - 1) / WARPS, units = n_units * ((g->m + TOKENS - 1) / TOKENS);
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  grid_dependency_wait();
  grid_launch_dependents();
  const bool wide = is_f32(&a);
  for (int64_t u = block_index(); u < units; u += block_count()) {
    const int64_t col = u % n_units * WARPS + warp, row = u / n_units * TOKENS;
    if (col >= g->n) continue;
    float sum[TOKENS] = {0};
    if (wide) add_products_f32(&a, row, col, sum);
    for (int64_t i = wide ? g->k : lane; i < g->k; i += 32) {
      const float w = w_at(&a, col, i);
      GA_UNROLL for (int t = 0; t < TOKENS; t++) if (row + t < g->m) sum[t] = fmaf(w, x_at(&a, row + t, i), sum[t]);
    }
    GA_UNROLL for (int t = 0; t < TOKENS; t++) {
      const float all = row_sum_warp(sum[t]) * gemm_tensor_scale(&a);
      if (lane == t && row + t < g->m) gemm_finish(g, row + t, col, all);
    }
  }
}
