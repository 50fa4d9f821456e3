/* State of a consumer warpgroup of attn_fwd_sm90a.cu: its position in its tile and in the rings of K and V. */
#pragma once
#include "cuda/kern/attn/attn_fwd_shape.h"

typedef struct {
  attn_place at;
  uint32_t desc_q, desc_k, desc_v; /* wgmma descriptors (low words) of Q and of stage 0 */
  uint32_t stage_k, parity_k;      /* stage and parity of the current K block; V's is one block earlier */
  /* SKIP: counts of blocks before the current one of K and of V, which give stage and parity. */
  uint32_t block_k, block_v;
  int tiles;                     /* records read */
  int n, n_lo, mask_hi, mask_lo; /* block whose S is computed next; limits of the current tile */
  int n_v;                       /* block whose PV is next */
  int joins;                     /* segments: the current record continues the tile of the record before */
  int keep_k, keep_v;            /* resident: blocks up to this one stay for the next tile */
  uint32_t used_k, used_v;       /* resident: parity bits of the stages */
} warpgroup;

GA_DEV uint32_t tile_slot(const warpgroup *c, int back) {
  return c->at.sb + OFF_TILE + ((c->tiles - back) % TILE_SLOTS) * TILE_BYTES;
}
