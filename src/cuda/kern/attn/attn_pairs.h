/* Which query and head a row of a tile stands for. PACKS: rows are (query, head) pairs, row = query * pack + head. */
#pragma once
#include "cuda/kern/attn/attn_shape.h"

/* Map this lane's rows g and g + 8 of its warp (h = 0, 1) to queries and heads. wg_query counts queries from the
 * warpgroup's first, row_query from the tile's `first`; `head` is the tile's. */
GA_DEV int wg_query(const attn_place *c, int h) { return (c->wl * 16 + c->g + 8 * h) * c->a->pack_inverse >> 16; }
GA_DEV int row_query(const attn_place *c, int first, int h) {
  return PACKS ? first + c->w * c->a->wg_queries + wg_query(c, h) : first + c->w * 64 + c->wl * 16 + c->g + 8 * h;
}
GA_DEV int row_head(const attn_place *c, int head, int h) {
  if (!PACKS) return head;
  const int pack = c->a->pack;
  return head * pack + c->wl * 16 + c->g + 8 * h - wg_query(c, h) * pack;
}
