/* The backward kernels of sm_90a: zeros over the rows of packed sequences' tiles that lie behind a sequence's end. They
 * are the next sequence's, or nobody's and may be anything; their weights are 0, and 0 times NaN is NaN. All consumers
 * of a block share the work, and meet. */
#pragma once
#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/kern/attn_bwd/attn_bwd_warpgroup.h"

/* Rows `keep` .. `rows` - 1 of each panel. No loop: products may be under way. */
GA_DEV void clear_rows(uint32_t at, int panels, int rows, int keep) {
  const int thread = thread_index_anew() & 255, row = thread / 8;
  GA_UNROLL for (int i = 0; i < panels * rows / 32; i++) if (i % (rows / 32) * 32 + row >= keep)
      sts_i4(at + (uint32_t)((i * 256 + thread) * 16), 0, 0, 0, 0);
}
GA_DEV void meet_cleared(void) {
  fence_async_smem();
  bar_sync(1, 256);
}
/* Rows of K and V in the tile of `record`, and of Q in its block m, that are the sequence's: whole ones where sequences
 * are not packed, for what lies behind those is filled with zeros. */
GA_DEV int keys_kept(args a, uint32_t record) {
  return is_packed(a) ? warp_uniform(lds_i4(record + 32).x - lds_i4(record).x * BN) : BN;
}
GA_DEV int queries_kept(args a, uint32_t record, int m) {
  return is_packed(a) ? warp_uniform(lds_i4(record + 16).w - m * BM) : BM;
}
