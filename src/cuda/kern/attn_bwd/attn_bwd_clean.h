/* Functions of the backward kernels of sm_90a that zero the rows of a tile past the end of a packed sequence. These
 * rows belong to the next sequence or hold arbitrary values. Their weights are 0, but 0 times NaN is NaN.
 *
 * All consumer warps of a block divide the rows among themselves and then wait at a barrier (meet_cleared). */
#pragma once
#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/kern/attn_bwd/attn_bwd_warpgroup.h"

/* Zeroes rows `keep` to `rows` - 1 of each of `panels` panels in shared memory from `at` on. The loop is unrolled,
 * because products may be in flight. */
GA_DEV void clear_rows(uint32_t at, int panels, int rows, int keep) {
  const int thread = thread_index_anew() & 255, row = thread / 8;
  GA_UNROLL for (int i = 0; i < panels * rows / 32; i++) if (i % (rows / 32) * 32 + row >= keep)
      sts_i4(at + (uint32_t)((i * 256 + thread) * 16), 0, 0, 0, 0);
}
GA_DEV void meet_cleared(void) {
  fence_async_smem();
  bar_sync(1, 256);
}
/* Return the number of rows that belong to the sequence: keys_kept for the tile's K and V, queries_kept for block m of
 * Q.
 *
 * Unpacked sequences keep all rows: the copy engine fills those past their end with zeros. */
GA_DEV int keys_kept(args a, uint32_t record) {
  return is_packed(a) ? warp_uniform(lds_i4(record + 32).x - lds_i4(record).x * BN) : BN;
}
GA_DEV int queries_kept(args a, uint32_t record, int m) {
  return is_packed(a) ? warp_uniform(lds_i4(record + 16).w - m * BM) : BM;
}
