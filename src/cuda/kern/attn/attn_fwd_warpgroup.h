/* A consumer's warpgroup of attn_fwd_sm90a.cu: where it stands in its tile and in the rings of K and V. */
#pragma once
#include "cuda/kern/attn/attn_fwd_shape.h"

typedef struct {
  attn_place at;
  uint32_t desc_q, desc_k, desc_v; /* wgmma descriptors (low words) of Q and of stage 0 */
  uint32_t stage_k, parity_k;      /* the current K block's place in its ring; V's is one behind */
  uint32_t block_k, block_v;       /* SKIP: blocks before that of K, before that of V, which say the same */
  int tiles;                       /* records read */
  int n, n_lo, mask_hi, mask_lo;   /* block whose S is next, and the current tile's limits */
  int n_v;                         /* block whose PV is next */
  int joins;                       /* parts: the current record goes on with the tile of the one before */
  int keep_k, keep_v;              /* resident: blocks up to this one stay for the next tile */
  uint32_t used_k, used_v;         /* resident: parity bits of the stages */
} warpgroup;

GA_DEV uint32_t tile_slot(const warpgroup *c, int back) {
  return c->at.sb + OFF_TILE + ((c->tiles - back) % TILE_SLOTS) * TILE_BYTES;
}
