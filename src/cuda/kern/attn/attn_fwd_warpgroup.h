/* State of a consumer warpgroup of attn_fwd_sm90a.cu: its position in its tile and in the rings of K and V. */
#pragma once
#include "cuda/kern/attn/attn_fwd_shape.h"

typedef struct {
  attn_place at;
  /* Low words of the wgmma descriptors of Q and of stage 0 of K and of V. */
  uint32_t desc_q, desc_k, desc_v;
  /* Stage and mbarrier parity of the current block of K. The current block of V is the one before it. */
  uint32_t stage_k, parity_k;
  /* SKIP: numbers of blocks of K and of V before the current block, from which its stage and parity follow. */
  uint32_t block_k, block_v;
  /* Number of tile records (attn_tiles.h) read from the ring at OFF_TILE. */
  int tiles;
  /* n is the block whose S is computed next, and n_lo the lowest block of the tile. Blocks from mask_hi on and blocks
   * below mask_lo need the mask. */
  int n, n_lo, mask_hi, mask_lo;
  /* Block whose product P V is computed next. */
  int n_v;
  /* K and V in segments: 1 if the current record and the record before it are of the same tile. */
  int joins;
  /* KV_RESIDENT: blocks of K and of V up to this index stay in shared memory for the next tile. */
  int keep_k, keep_v;
  /* KV_RESIDENT: parity bits of the stages of K and of V. */
  uint32_t used_k, used_v;
} warpgroup;

GA_DEV uint32_t tile_slot(const warpgroup *c, int back) {
  return c->at.sb + OFF_TILE + ((c->tiles - back) % TILE_SLOTS) * TILE_BYTES;
}
