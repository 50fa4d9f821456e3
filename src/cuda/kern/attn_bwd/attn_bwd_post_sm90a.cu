/* KERNEL    attn_bwd_post, sm90a: one block of threads per block of 64 query rows of a pair
 * COMPUTES  dQ = scale * accumulator, converted from register order to rows
 * CONTRACT  see cuda/kern/attn_bwd/attn_bwd_args.h; dq 16-byte aligned, strides multiples of 8
 * DATA      each warp reads half of the columns of a consumer warp's rows, 16 bytes a lane, and writes them;
 *           memory-bound
 * BUDGET    256 threads, 4 blocks per SM
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/kern/attn_bwd/attn_bwd_out.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: bf16 or f16"
#endif
#ifndef GA_P_D
#error "GA_P_D: head dim of the main kernel"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

enum { THREADS = 256, D = GA_P_D, HALF = D / 2, PART = 32 /* columns at a time: registers */ };

GA_KERNEL(THREADS, 4) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_bwd_post a) {
  const int warp = thread_index() / 32, lane = thread_index() % 32;
  const int block = block_index(), pair = block / a.blocks_q, m = block - pair * a.blocks_q;
  const int batch = pair / a.heads_q, head = pair - batch * a.heads_q;
  grid_dependency_wait();
  const int start = a.cu_q ? ldg_i32(a.cu_q + batch) : 0;
  const int rows = a.q_len ? ldg_i32(a.q_len + batch) : a.cu_q ? ldg_i32(a.cu_q + batch + 1) - start : a.rows_q;
  const int row = m * GA_KBWD_ROWS + warp % 4 * 16 + lane / 4;
  if (m * GA_KBWD_ROWS >= rows) return;
  const int keys = a.kv_len ? ldg_i32(a.kv_len + batch)
                   : a.cu_k ? ldg_i32(a.cu_k + batch + 1) - ldg_i32(a.cu_k + batch)
                            : 0; /* of a packed sequence */
  const float scale = keys == 1 ? a.scale_alone : a.scale;
  const float *from = a.acc + ((int64_t)block * 4 + warp % 4) * (16 * D) + warp / 4 * (8 * D) + 4 * lane;
  bwd_out o = bwd_out_of(&a.dq, start + row, head, a.cu_q ? 0 : batch, warp / 4 * HALF, a.cols_k, a.out_f32, a.add_dq);
  o.in0 = row < rows;
  o.in1 = row + 8 < rows;
  GA_UNROLL for (int part = 0; part < HALF / PART; part++, o.col += PART) {
    float x[PART / 2];
    GA_UNROLL for (int j = 0; j < PART / 8; j++) ldg_f4(x + 4 * j, from + 128 * (part * (PART / 8) + j));
    bwd_store(&o, x, PART, scale, lane & 3);
  }
}
