/* KERNEL    attn_bwd_pre, sm_80 and newer: a warp a query row of a pair
 * COMPUTES  stat: lse log2(e), +inf where a row has seen no key or does not exist; delta = rowsum(dO O)
 * CONTRACT  f32 or 16-bit O and dO, any strides; see cuda/kern/attn_bwd/attn_bwd_args.h. The fields for other
 *           kernels (acc, turn, dq) are ignored
 * DATA      O and dO are read once, an element a lane; memory-bound
 * BUDGET    256 threads
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/tile/block_row.h"
#include "cuda/kern/attn_bwd/attn_bwd_args.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: f32, bf16 or f16"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

enum { THREADS = 256, ROWS = GA_KBWD_ROWS };
#define GET   GA_CAT(elem_get_, GA_P_DTYPE)
#define LOG2E 1.442695041f
#define INF   __uint_as_float(0x7f800000u)

GA_KERNEL(THREADS, 4) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_bwd_pre a) {
  const int lane = thread_index() % 32, block = block_index(), pair = block / a.blocks_q;
  const int batch = pair / a.heads_q, head = pair - batch * a.heads_q, first = (block - pair * a.blocks_q) * ROWS;
  const int start = a.cu_q ? ldg_i32(a.cu_q + batch) : 0;
  const int rows = a.q_len ? ldg_i32(a.q_len + batch) : a.cu_q ? ldg_i32(a.cu_q + batch + 1) - start : a.rows_q;
  float *stat = a.stat + (int64_t)pair * 2 * ROWS * a.blocks_q + first;
  const float *lse0 = a.lse + (a.lse_stride ? head * a.lse_stride + start : (int64_t)pair * a.rows_q);
  grid_launch_dependents();
  for (int r = thread_index() / 32; r < ROWS; r += THREADS / 32) {
    const int in = first + r < rows;
    const int64_t row = start + first + r, b = a.cu_q ? 0 : batch;
    const int64_t o = b * a.o.batch + head * a.o.head + row * a.o.row,
                  g = b * a.dout.batch + head * a.dout.head + row * a.dout.row;
    float delta = 0.f;
    if (in)
      for (int c = lane; c < a.cols_v; c += 32) delta += GET(a.o.base, o + c) * GET(a.dout.base, g + c);
    delta = row_sum_warp(delta);
    if (lane) continue;
    const float lse = in ? ldg_f32(lse0 + first + r) : -INF;
    stg_f32(stat + r, lse == -INF ? INF : lse * LOG2E);
    stg_f32(stat + ROWS * a.blocks_q + r, delta);
  }
}
