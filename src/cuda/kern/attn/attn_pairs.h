/* Which query and head a row of a tile is. PACKS: rows are (query, head) pairs, row = query * pack + head. */
#pragma once
#include "cuda/kern/attn/attn_shape.h"

/* This lane has rows g and g + 8 (h = 0, 1) of its warp's: their queries, from the warpgroup's first, from the tile's
 * `first`, and their heads; head: the tile's. */
GA_DEV int wg_query(const attn_place *c, int h) { return (c->wl * 16 + c->g + 8 * h) * c->a->pack_inverse >> 16; }
GA_DEV int row_query(const attn_place *c, int first, int h) {
  return PACKS ? first + c->w * c->a->wg_queries + wg_query(c, h) : first + c->w * 64 + c->wl * 16 + c->g + 8 * h;
}
GA_DEV int row_head(const attn_place *c, int head, int h) {
  if (!PACKS) return head;
  const int pack = c->a->pack;
  return head * pack + c->wl * 16 + c->g + 8 * h - wg_query(c, h) * pack;
}
