/* KERNEL    attn_bwd_sink, sm_80 and newer: one block of threads per query head
 * COMPUTES  dsink = - sum over batch and rows of e^(sink - lse) delta, from the stat that attn_bwd_pre wrote
 * CONTRACT  see cuda/kern/attn_bwd/attn_bwd_args.h. The order of the sum is fixed
 * BUDGET    256 threads
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/tile/block_row.h"
#include "cuda/kern/attn_bwd/attn_bwd_args.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

enum { THREADS = 256 };
#define LOG2E 1.442695041f

GA_KERNEL(THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_bwd_sink a) {
  GA_SHARED row_shared shared;
  const int head = block_index(), padded = a.blocks_q * GA_KBWD_ROWS;
  const float sink = ldg_f32(a.sink + head) * LOG2E;
  float sum = 0;
  grid_launch_dependents();
  grid_dependency_wait();
  for (int b = 0; b < a.batch; b++) {
    const float *stat = a.stat + ((int64_t)b * a.heads_q + head) * 2 * padded;
    const int rows = a.q_len ? ldg_i32(a.q_len + b) : a.cu_q ? ldg_i32(a.cu_q + b + 1) - ldg_i32(a.cu_q + b) : a.rows_q;
    for (int i = thread_index(); i < rows; i += THREADS)
      sum -= ex2(sink - ldg_f32(stat + i)) * ldg_f32(stat + padded + i);
  }
  sum = row_sum(&shared, 0, THREADS, sum);
  if (thread_index()) return;
  stg_f32(a.dsink + head, a.add ? sum + ldg_f32(a.dsink + head) : sum);
}
