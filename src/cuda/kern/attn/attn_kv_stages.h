/* Stages of K and V in shared memory (attn_fwd_sm90a.cu): their addresses, waits and release. */
#pragma once
#include "cuda/dev/pipe/ring.h"
#include "cuda/kern/attn/attn_fwd_warpgroup.h"

/* stage_k and stage_v return the stage of the current block of K or V. parity_k and parity_v return the mbarrier parity
 * with which a warp waits until this block is loaded.
 *
 * With KV_RESIDENT the stage is the block's number, and the parity changes each time the stage is loaded. */
GA_DEV uint32_t stage_k(const warpgroup *c) {
  return KV_RESIDENT ? (uint32_t)c->n : SKIP ? ring_stage(c->block_k, ST) : c->stage_k;
}
GA_DEV uint32_t parity_k(const warpgroup *c) {
  return KV_RESIDENT ? c->used_k >> c->n & 1u : SKIP ? ring_full_parity(c->block_k, ST) : c->parity_k;
}
GA_DEV uint32_t stage_v(const warpgroup *c) {
  return KV_RESIDENT ? (uint32_t)c->n_v : SKIP ? ring_stage(c->block_v, ST) : c->stage_k ? c->stage_k - 1 : ST - 1;
}
GA_DEV uint32_t parity_v(const warpgroup *c) {
  return KV_RESIDENT ? c->used_v >> c->n_v & 1u
         : SKIP      ? ring_full_parity(c->block_v, ST)
                     : c->parity_k ^ (c->stage_k == 0);
}
GA_DEV void wait_k(const warpgroup *c) { mbar_wait(c->at.sb + OFF_KF + 8 * stage_k(c), parity_k(c)); }
GA_DEV void wait_v(const warpgroup *c) { mbar_wait(c->at.sb + OFF_VF + 8 * stage_v(c), parity_v(c)); }

/* Releases the stage of K after this warp's last read of it. With Q in shared memory, the tile's last block also
 * releases Q. loads is the result of loads_done for the reads, or 0. */
GA_DEV void release_k_after(const warpgroup *c, uint32_t loads) {
  if (c->at.lane) return;
  if (!KV_RESIDENT || c->n > c->keep_k) mbar_arrive(c->at.sb + OFF_KE + 8 * stage_k(c) + loads);
  if (Q_SMEM && c->n == c->n_lo) mbar_arrive(c->at.sb + OFF_QE + 8 * c->at.w + loads);
}
GA_DEV void release_k(const warpgroup *c) { /* to be called when the products that read K are complete */
  release_k_after(c, 0);
}
GA_DEV void release_v(const warpgroup *c) {
  if (c->at.lane == 0 && c->at.wl == 0 && (!KV_RESIDENT || c->n_v > c->keep_v))
    mbar_arrive(c->at.sb + OFF_VE + 8 * stage_v(c));
}
/* Releases V of skipped blocks, which are not read, once all warps have waited for it. Otherwise a late warp could wait
 * for the stage's next use. */
GA_DEV void pass_v(warpgroup *c) {
  GA_ROLL for (c->block_v++; c->block_v != c->block_k; c->block_v++) {
    wait_v(c);
    bar_sync(6 + c->at.w, 128);
    release_v(c);
  }
}
/* Moves to the next block: the block whose S was just computed becomes the block whose P V is computed next. */
GA_DEV void advance(warpgroup *c) {
  if (KV_RESIDENT) {
    if (c->n > c->keep_k) c->used_k ^= 1u << c->n;
    if (c->n_v > c->keep_v) c->used_v ^= 1u << c->n_v;
    c->keep_v = c->keep_k;
    c->n_v = c->n;
    return;
  }
  c->stage_k = c->stage_k + 1 == ST ? 0 : c->stage_k + 1;
  c->parity_k ^= c->stage_k == 0;
  if (SKIP) pass_v(c);
  c->block_k++;
}
