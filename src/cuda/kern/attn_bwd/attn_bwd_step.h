/* Pieces of a consumer's step in attn_bwd_sm90a.cu and attn_bwd_kv_resident_sm90a.cu. */
#pragma once
#include "cuda/kern/attn_bwd/attn_bwd_clean.h"
#include "cuda/kern/attn_bwd/attn_bwd_products.h"

/* Zeroes rows past the sequence's end in K at `k` and in V, after waiting for V. */
GA_DEV void clean_kv(const warpgroup *c, uint32_t k, uint32_t v_full, uint32_t parity) {
  const int keep = keys_kept(c->a, tile_record(c));
  if (keep >= BN) return;
  mbar_wait(v_full, parity);
  clear_rows(k, PANELS, BN, keep);
  clear_rows(c->sb + OFF_V, PANELS, BN, keep);
  meet_cleared();
}
/* Zeroes rows past the sequence's end in a stage of Q, which has arrived, and dO, which is waited for. */
GA_DEV void clean_q(const warpgroup *c, int m, uint32_t stage, uint32_t parity) {
  const int keep = queries_kept(c->a, tile_record(c), m);
  if (keep >= BM) return;
  mbar_wait(c->sb + OFF_OF + 8 * stage, parity);
  clear_rows(c->sb + OFF_Q + stage * Q_BYTES, PANELS, BM, keep);
  clear_rows(c->sb + OFF_O + stage * Q_BYTES, PANELS, BM, keep);
  meet_cleared();
}

/* Issues C += P B, P in registers, B [64 rows, D]. */
GA_DEV void issue_kv(float *x, uint32_t *p, uint32_t b) {
  const uint64_t db = desc(b);
  pin_u32(p, NP);
  pin_f32(x, ND);
  wgmma_fence();
  GA_UNROLL for (int k = 0; k < BM / 16; k++) KV_ADD(x, p + 4 * k, db + (uint64_t)(k * 128), 1);
  wgmma_commit();
}
/* Issues this warpgroup's part of dS K, with K of buffer `tile` and dS of buffer `ds`. */
GA_DEV void issue_dq(const warpgroup *c, float *x, uint32_t tile, uint32_t ds) {
  const uint64_t da = desc(desc_k_major(c->sb + OFF_DS + ds * DS_BYTES + (BM == 128 ? c->w * BOX_BYTES : 0)));
  const uint32_t keys = c->sb + OFF_K + tile * K_BYTES + (BM == 128 ? 0 : c->w * (D == 128 ? K_PANEL : DQ_COLS * 2));
  const uint64_t db = desc(desc_n_major(keys, K_PANEL));
  wgmma_fence();
  DQ_NEW(x, da, db);
  GA_UNROLL for (int k = 1; k < BN / 16; k++)
      DQ_ADD(x, da + (uint64_t)((k / 4) * (Q_PANEL >> 4) + 2 * (k % 4)), db + (uint64_t)(k * 128), 1);
  wgmma_commit();
}
/* Returns the number of this warp's piece in a block of dQ: by rows, then by columns. */
GA_DEV int warp_number(const warpgroup *c) { return BM == 128 ? c->w * 4 + warp_of(c) : warp_of(c) * 2 + c->w; }
/* Zeroes the buffer of dS that step 0 multiplies without need. A branch around a product would serialise all
 * products. */
GA_DEV void clear_ds(const warpgroup *c) {
  const uint32_t to = c->sb + OFF_DS + (DS_BUFFERS - 1) * DS_BYTES + (c->w * 128 + warp_of(c) * 32 + lane_of(c)) * 16;
  GA_UNROLL for (int i = 0; i < DS_BYTES / 4096; i++) sts_i4(to + i * 4096, 0, 0, 0, 0);
  fence_async_smem();
  bar_sync(1, 256);
}
