/* State of a consumer warpgroup of attn_fp8_sm90a.cu: its position in its tile and in the rings of stages. Functions by
 * which warpgroups take turns. */
#pragma once
#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/kern/attn_fp8/attn_fp8_shape.h"

typedef struct {
  attn_place at;
  /* Low words of the wgmma descriptors of Q's buffer and of stage 0 of K and of V. */
  uint32_t desc_q, desc_k, desc_v;
  /* Stage and mbarrier parity of the current block of K. The current block of V is the one before it. */
  uint32_t stage_k, parity_k;
  /* Number of tile records (attn_tiles.h) that have been read. */
  int tiles;
  /* n is the block whose S is computed next. Blocks of the current tile from mask_hi on need the mask. */
  int n, mask_hi;
  /* Factors from Q K^T to log2 units for this lane's two rows, without K's scale. With e4m3 both rows use factor[0]. */
  float factor[2];
} warpgroup;

GA_DEV uint32_t tile_slot(const warpgroup *c, int back) {
  return c->at.sb + OFF_TILE + ((c->tiles - back) % TILE_SLOTS) * TILE_BYTES;
}
/* Moves to the next tile and loads its limits and scales. */
GA_DEV void next_tile(warpgroup *c) {
  const uint32_t buffer = (uint32_t)c->tiles & 1;
  mbar_wait(c->at.sb + OFF_QF + 8 * buffer, c->tiles >> 1 & 1);
  const uint32_t slot = tile_slot(c, 0);
  const ga_i4 x = lds_i4(slot), y = lds_i4(slot + 16);
  c->tiles++;
  c->n = warp_uniform(x.w);
  c->mask_hi = DV64 || MASKED ? warp_uniform(y.y) : 0;
  c->desc_q = desc_k_major(c->at.sb + OFF_Q + (buffer * WGS + (uint32_t)c->at.w) * Q_BYTES);
  if (c->n < 0) return;
  if (I8) {
    const int row = x.x + c->at.w * 64 + c->at.wl * 16 + c->at.g;
    GA_UNROLL for (int i = 0; i < 2; i++) c->factor[i] =
        c->at.a->scale_log2 * scale_of(&fp8_args(c->at.a)->scale_q, x.z, x.y, row + 8 * i);
    return;
  }
  float scale[4];
  lds_f4(scale, slot + 48);
  c->factor[0] = c->at.a->scale_log2 * (c->at.w == 0 ? scale[0] : c->at.w == 1 ? scale[1] : scale[2]);
}
GA_DEV uint32_t stage_v(const warpgroup *c) { return c->stage_k ? c->stage_k - 1 : ST - 1; }
GA_DEV void wait_k(const warpgroup *c) { mbar_wait(c->at.sb + OFF_KF + 8 * c->stage_k, c->parity_k); }
GA_DEV void wait_v(const warpgroup *c) {
  mbar_wait(c->at.sb + OFF_VF + 8 * stage_v(c), c->parity_k ^ (c->stage_k == 0));
}
/* Releases K's stage, once S is complete and the scales are read. After the tile's last block it also releases Q. */
GA_DEV void release_k(const warpgroup *c) {
  warp_sync();
  if (c->at.lane) return;
  mbar_arrive(c->at.sb + OFF_KE + 8 * c->stage_k);
  if (c->n == 0) mbar_arrive(c->at.sb + OFF_QE + 8 * ((c->tiles - 1) & 1));
}
GA_DEV void release_v(const warpgroup *c) {
  if (c->at.lane == 0 && c->at.wl == 0) mbar_arrive(c->at.sb + OFF_VE + 8 * stage_v(c));
}
/* Moves to the next block: the block whose S was just computed becomes the block whose P V is computed next. */
GA_DEV void advance(warpgroup *c) {
  c->stage_k = c->stage_k + 1 == ST ? 0 : c->stage_k + 1;
  c->parity_k ^= c->stage_k == 0;
}
/* Waits for this warpgroup's turn if warpgroups alternate at `what`: 1 is issuing products, 2 is exponentials. Each
 * wait is matched by exactly one signal of the previous warpgroup. */
GA_DEV void pingpong_wait(const warpgroup *c, int what) {
  if (PINGPONG == what) bar_sync(1 + c->at.w, 256);
}
GA_DEV void pingpong_signal(const warpgroup *c, int what) {
  if (PINGPONG == what) bar_arrive(1 + (c->at.w + 1) % WGS, 256);
}

/* Signals the next warpgroup after the weights in p[0..3] are computed. Their sign bit, which is 0, is added to the
 * barrier's number. The compiler therefore cannot move the signal before them. */
GA_DEV void pingpong_signal_after(const warpgroup *c, const uint32_t *p) {
  if (PINGPONG == 2) bar_arrive(1 + (c->at.w + 1) % WGS + (int)((p[0] | p[1] | p[2] | p[3]) >> 31), 256);
}
