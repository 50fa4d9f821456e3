/* KERNEL    gemm_f32_few, sm80: up to 8 rows of X by f32 weights as the file has them: a router's logits
 * COMPUTES  Y = epilogue(X W^T), in f32
 * CONTRACT  x, w and y f32; m at most 8
 * WORK      a block has a column of Y. Its threads take four elements of k each, in turns; sums of warps meet in shared
 *           memory
 * DATA      W: gmem -> registers, the first AHEAD turns before the previous kernel has ended (dependent launch). X from
 *           L2
 * BARRIERS  name   arrivals  waiter  orders
 *           block  all       all     sums of warps in shared memory -> their sum
 * BUDGET    THREADS lanes
 * MEASURED  one H200, 1 x 128 x 2048 in a chain of launches: 1.6 us (docs/log/experts.md)
 */
#include "cuda/dev/ptx/elem.h"
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

enum { ROWS = 8, WARPS = GA_P_THREADS / 32, AHEAD = 4, TURN = 4 * GA_P_THREADS /* elements of k */ };

/* Loads the thread's elements of a row of n for AHEAD turns, from element k on. Elements outside of it become zeros.
 * wide: the row begins at a multiple of 16 bytes. */
GA_DEV void load_turns(bool wide, const float *row, int64_t n, int64_t k, float (*x)[4]) {
  GA_UNROLL for (int j = 0; j < AHEAD; j++) {
    const int64_t at = k + j * TURN;
    GA_UNROLL for (int e = 0; e < 4; e++) x[j][e] = 0;
    if (wide && at + 4 <= n)
      elem_get16_f32(x[j], row, at);
    else GA_UNROLL
      for (int e = 0; e < 4; e++)
        if (at + e < n) x[j][e] = row[at + e];
  }
}
GA_DEV bool begins_wide(const float *row, int64_t stride) { return ((uint64_t)row | (uint64_t)stride * 4) % 16 == 0; }

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_gemm_plain p) {
  const ga_kargs_gemm *a = &p.g;
  GA_SHARED float sums[ROWS][WARPS];
  const int lane = thread_index() % 32, warp = thread_index() / 32;
  const int64_t col = block_index();
  const float *w = (const float *)a->w + col * p.w_stride;
  const bool wide_w = begins_wide((const float *)a->w, p.w_stride),
             wide_x = begins_wide((const float *)a->x, a->x_stride);
  float x[AHEAD][4], sum[ROWS];
  grid_launch_dependents();
  load_turns(wide_w, w, a->k, 4 * thread_index(), x);
  GA_UNROLL for (int t = 0; t < ROWS; t++) sum[t] = 0;
  grid_dependency_wait();
  for (int64_t k = 4 * thread_index(); k < a->k; k += AHEAD * TURN) {
    if (k >= AHEAD * TURN) load_turns(wide_w, w, a->k, k, x);
    GA_UNROLL for (int t = 0; t < ROWS; t++) {
      if (t >= a->m) break;
      float y[AHEAD][4];
      load_turns(wide_x, (const float *)a->x + t * a->x_stride, a->k, k, y);
      GA_UNROLL for (int j = 0; j < AHEAD; j++) GA_UNROLL for (int e = 0; e < 4; e++) sum[t] =
          fmaf(x[j][e], y[j][e], sum[t]);
    }
  }
  GA_UNROLL for (int t = 0; t < ROWS; t++) {
    if (t >= a->m) break;
    const float all = row_sum_warp(sum[t]);
    if (lane == 0) sums[t][warp] = all;
  }
  block_sync();
  if (thread_index() >= a->m) return;
  float all = 0;
  for (int i = 0; i < WARPS; i++) all += sums[thread_index()][i];
  gemm_finish(a, thread_index(), col, all);
}
