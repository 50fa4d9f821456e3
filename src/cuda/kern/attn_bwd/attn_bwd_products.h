/* Products for S and dP in the backward kernels of sm_90a, and the store of dS to shared memory. */
#pragma once
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/dev/tile/smem.h"
#include "cuda/kern/attn_bwd/attn_bwd_warpgroup.h"

/* Issues s = A B^T, or with `add` s += A B^T. a and b are the low words of the wgmma descriptors (desc_k_major) of A,
 * which has 64 rows, and of B, which has BM rows. Both have `cols` columns, contiguous along a row. */
GA_DEV void issue_s(float *s, uint32_t a, uint32_t b, int cols, int add) {
  const uint64_t da = desc(a), db = desc(b);
  if (add) pin_f32(s, NS);
  wgmma_fence();
  if (add)
    S_ADD(s, da, db, 1);
  else
    S_NEW(s, da, db);
  GA_UNROLL for (int k = 1; k < cols / 16; k++) S_ADD(s, da + (uint64_t)((k / 4) * (K_PANEL >> 4) + 2 * (k % 4)),
                                                      db + (uint64_t)((k / 4) * (Q_PANEL >> 4) + 2 * (k % 4)), 1);
  wgmma_commit();
}
/* Returns the shared address at which a lane stores its part of dS. The warp has dS^T of 16 keys; the store transposes
 * it, so that rows are queries. */
GA_DEV uint32_t ds_chunk(uint32_t panel, int warp, int lane) {
  return panel_chunk(panel, (uint32_t)((lane >> 4) * 8 + (lane & 7)), (uint32_t)(warp * 2 + (lane >> 3 & 1)));
}
GA_DEV void store_ds(uint32_t to, const uint32_t *p) {
  GA_UNROLL for (int k = 0; k < BM / 16; k++)
      stmatrix_x4_trans(to + k * (16 * PANEL_ROW_BYTES), p[4 * k], p[4 * k + 1], p[4 * k + 2], p[4 * k + 3]);
  fence_async_smem();
  warp_sync();
}
