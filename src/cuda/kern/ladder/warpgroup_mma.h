/* Common parts of kernels 06 to 08 of the ladder: a warpgroup's products on 64 rows with wgmma. Both operands come from
 * shared memory, or A from registers. Tiles have 128 keys. Functions only issue products; the caller calls
 * wgmma_wait. */
#pragma once
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/kern/ladder/ladder.h"

enum { BM = 128, BN = 128, TILE = BN * D * 2, Q_PANEL = 64 * PANEL_ROW_BYTES, KV_PANEL = BN * PANEL_ROW_BYTES };

/* Issues s (64 x 128) = q (64 x 128) k^T; q_tile holds this warpgroup's 64 rows. */
GA_DEV void issue_qk(float *s, uint32_t q_tile, uint32_t k_tile) {
  const uint64_t q = desc(desc_k_major(q_tile)), k = desc(desc_k_major(k_tile));
  pin_f32(s, BN / 2);
  wgmma_fence();
  GA_UNROLL for (int i = 0; i < D / 16; i++) /* 16 columns: 32 bytes of a panel's rows */
      wgmma_m64n128k16_bf16_ss(s, q + (uint64_t)(i / 4 * (Q_PANEL >> 4) + 2 * (i % 4)),
                               k + (uint64_t)(i / 4 * (KV_PANEL >> 4) + 2 * (i % 4)), i != 0);
  wgmma_commit();
}
/* Issues o (64 x 128) += p v, for p (64 x 128) in registers and v (128 x 128) in shared memory. */
GA_DEV void issue_pv(float *o, uint32_t *p, uint32_t v_tile) {
  const uint64_t v = desc(desc_n_major(v_tile, KV_PANEL));
  pin_u32(p, BN / 4);
  pin_f32(o, D / 2);
  wgmma_fence();
  GA_UNROLL for (int i = 0; i < BN / 16; i++) /* 16 keys: 2048 bytes of a panel */
      wgmma_m64n128k16_bf16_rst(o, p + 4 * i, v + (uint64_t)(i * 128), 1);
  wgmma_commit();
}
