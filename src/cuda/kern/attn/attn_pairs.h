/* The query and the head of a row of a tile. With PACKS a row is a pair of a query and one of `pack` heads: row = query
 * * pack + head. */
#pragma once
#include "cuda/kern/attn/attn_shape.h"

/* Return the query or the head of this lane's row g (h = 0) or g + 8 (h = 1) of its warp. wg_query counts queries from
 * the warpgroup's first. row_query adds `first`, the tile's first query. `head` is the tile's head. */
GA_DEV int wg_query(const attn_place *c, int h) { return (c->wl * 16 + c->g + 8 * h) * c->a->pack_inverse >> 16; }
GA_DEV int row_query(const attn_place *c, int first, int h) {
  return PACKS ? first + c->w * c->a->wg_queries + wg_query(c, h) : first + c->w * 64 + c->wl * 16 + c->g + 8 * h;
}
GA_DEV int row_head(const attn_place *c, int head, int h) {
  if (!PACKS) return head;
  const int pack = c->a->pack;
  return head * pack + c->wl * 16 + c->g + 8 * h - wg_query(c, h) * pack;
}
