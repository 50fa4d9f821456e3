/* KERNEL    attn_bwd_pre, sm90a: one block of threads per block of 64 query rows of a pair
 * COMPUTES  stat: lse log2(e), +inf where a row has seen no key or does not exist; delta = rowsum(dO O). Zeroes the
 *           turns, the ticket, and dQ's accumulator or, for kernels that write dQ, dQ of blocks that no tile of keys
 *           will write
 * CONTRACT  16-bit O and dO, 16-byte aligned, strides multiples of 8; see cuda/kern/attn_bwd/attn_bwd_args.h
 * DATA      O and dO are read once, 16 bytes a lane, 8 lanes a row; memory-bound
 * BUDGET    256 threads, 6 blocks per SM. With 94 registers, and thus 2 blocks, latency limited the kernel to a third
 *           of the bandwidth
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/kern/attn_bwd/attn_bwd_args.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: bf16 or f16"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

enum { THREADS = 256, LANES = 8, ROWS = GA_KBWD_ROWS };
#define GET16 GA_CAT(elem_get16_, GA_P_DTYPE)
#define LOG2E 1.442695041f
#define INF   __uint_as_float(0x7f800000u)

typedef const ga_kargs_attn_bwd_pre *args;

/* This lane's part of rowsum(dO O). */
GA_DEV float part_of_delta(args a, int batch, int head, int64_t row, int lane) {
  const int64_t o = batch * a->o.batch + head * a->o.head + row * a->o.row;
  const int64_t g = batch * a->dout.batch + head * a->dout.head + row * a->dout.row;
  float sum = 0;
  for (int c = 8 * lane; c < a->cols_v; c += 8 * LANES) {
    float x[8], y[8];
    GET16(x, a->o.base, o + c);
    GET16(y, a->dout.base, g + c);
    GA_UNROLL for (int e = 0; e < 8; e++) sum += x[e] * y[e];
  }
  return sum;
}

GA_DEV void zero_block(args a, int64_t block, int thread) {
  if (a->dq_semaphore && thread < a->dq_semaphores) stg_i32(a->dq_semaphore + block * a->dq_semaphores + thread, 0);
  if (a->ticket && block == 0 && thread == 0) stg_i32(a->ticket, 0);
  if (!a->acc) return;
  float *to = a->acc + block * (ROWS * a->acc_cols);
  for (int i = 4 * thread; i < ROWS * a->acc_cols; i += 4 * THREADS) stg_u4(to + i, 0, 0, 0, 0);
}
/* Kernels that write dQ themselves do not where no row of the block sees a key. */
GA_DEV void write_unseen(args a, int batch, int head, int start, int m, int rows) {
  const int rows_k = a->kv_len ? ldg_i32(a->kv_len + batch)
                     : a->cu_k ? ldg_i32(a->cu_k + batch + 1) - ldg_i32(a->cu_k + batch)
                               : a->rows_k;
  const int seen = rows_k > 0 && m * ROWS + ROWS - 1 + rows_k - rows + a->window_right >= 0;
  if (seen || a->add_dq) return;
  const int each = a->out_f32 ? 4 : 2, pieces = a->cols_k * each / 16;
  const int64_t base = (a->cu_q ? 0 : batch) * a->dq.batch + head * a->dq.head;
  for (int i = thread_index(); i < ROWS * pieces; i += THREADS) {
    const int row = m * ROWS + i / pieces;
    if (row < rows)
      stg_u4((char *)a->dq.base + each * (base + (start + row) * a->dq.row) + i % pieces * 16, 0, 0, 0, 0);
  }
}

GA_KERNEL(THREADS, 6) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_bwd_pre a) {
  const int thread = thread_index(), lane = thread % LANES;
  const int block = block_index(), pair = block / a.blocks_q, m = block - pair * a.blocks_q;
  const int batch = pair / a.heads_q, head = pair - batch * a.heads_q;
  const int start = a.cu_q ? ldg_i32(a.cu_q + batch) : 0;
  const int rows = a.q_len ? ldg_i32(a.q_len + batch) : a.cu_q ? ldg_i32(a.cu_q + batch + 1) - start : a.rows_q;
  float *stat = a.stat + (int64_t)pair * 2 * ROWS * a.blocks_q + m * ROWS;
  grid_launch_dependents();
  zero_block(&a, block, thread);
  if (!a.acc) write_unseen(&a, batch, head, start, m, rows);
  GA_UNROLL for (int r = thread / LANES; r < ROWS; r += THREADS / LANES) {
    const int row = m * ROWS + r, in = row < rows;
    float delta = in ? part_of_delta(&a, a.cu_q ? 0 : batch, head, start + row, lane) : 0.f;
    GA_UNROLL for (int k = LANES / 2; k > 0; k /= 2) delta += shfl_xor_f32(delta, k);
    if (lane) continue;
    const float lse =
        in ? ldg_f32(a.lse + (a.lse_stride ? head * a.lse_stride + start : (int64_t)pair * a.rows_q) + row) : -INF;
    stg_f32(stat + r, lse == -INF ? INF : lse * LOG2E);
    stg_f32(stat + ROWS * a.blocks_q + r, delta);
  }
}
