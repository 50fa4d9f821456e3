/* Parts of a step of a consumer warpgroup in attn_bwd_sm90a.cu and attn_bwd_kv_resident_sm90a.cu. A step processes one
 * block of queries. */
#pragma once
#include "cuda/kern/attn_bwd/attn_bwd_clean.h"
#include "cuda/kern/attn_bwd/attn_bwd_products.h"

/* Zeroes rows past the end of a packed sequence, in K at shared address `k` and in V. First waits for V, by its
 * mbarrier v_full and parity. */
GA_DEV void clean_kv(const warpgroup *c, uint32_t k, uint32_t v_full, uint32_t parity) {
  const int keep = keys_kept(c->a, tile_record(c));
  if (keep >= BN) return;
  mbar_wait(v_full, parity);
  clear_rows(k, PANELS, BN, keep);
  clear_rows(c->sb + OFF_V, PANELS, BN, keep);
  meet_cleared();
}
/* Zeroes rows past the end of a packed sequence in a stage of Q and of dO. Q has arrived; the function waits for dO. */
GA_DEV void clean_q(const warpgroup *c, int m, uint32_t stage, uint32_t parity) {
  const int keep = queries_kept(c->a, tile_record(c), m);
  if (keep >= BM) return;
  mbar_wait(c->sb + OFF_OF + 8 * stage, parity);
  clear_rows(c->sb + OFF_Q + stage * Q_BYTES, PANELS, BM, keep);
  clear_rows(c->sb + OFF_O + stage * Q_BYTES, PANELS, BM, keep);
  meet_cleared();
}

/* Issues x += P B for operand P in registers (P or dS). b is the low word of the wgmma descriptor (desc_n_major) of B,
 * which has BM rows and D columns. */
GA_DEV void issue_kv(float *x, uint32_t *p, uint32_t b) {
  const uint64_t db = desc(b);
  pin_u32(p, NP);
  pin_f32(x, ND);
  wgmma_fence();
  GA_UNROLL for (int k = 0; k < BM / 16; k++) KV_ADD(x, p + 4 * k, db + (uint64_t)(k * 128), 1);
  wgmma_commit();
}
/* Issues this warpgroup's part of the product dQ = dS K, with K in buffer `tile` and dS in buffer `ds`. */
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
/* Returns the index of this warp's part of a block of dQ. Parts are numbered by rows and then by columns. */
GA_DEV int warp_number(const warpgroup *c) { return BM == 128 ? c->w * 4 + warp_of(c) : warp_of(c) * 2 + c->w; }
/* Zeroes the buffer of dS that step 0 multiplies by K although the product is not needed. A branch around a product
 * would serialise all products. */
GA_DEV void clear_ds(const warpgroup *c) {
  const uint32_t to = c->sb + OFF_DS + (DS_BUFFERS - 1) * DS_BYTES + (c->w * 128 + warp_of(c) * 32 + lane_of(c)) * 16;
  GA_UNROLL for (int i = 0; i < DS_BYTES / 4096; i++) sts_i4(to + i * 4096, 0, 0, 0, 0);
  fence_async_smem();
  bar_sync(1, 256);
}
