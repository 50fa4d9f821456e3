/* Copies of packed weights into the ring of a warp, whose stages hold one item each: one or two units of packed
 * weights. An `asker` has the state of a warp's copies. */
#pragma once
#include "cuda/kern/gemm/split_share.h"

enum { SLOT_BYTES = ITEM_BYTES };
#define RING_BYTES(depth) (BARS_BYTES + (depth)*SLOT_BYTES)

/* State of a warp's copies. A warp's items follow each other in memory, except where it goes on to another tile. */
typedef struct {
  /* Address of the item that is copied next. Its type is not a pointer, because the compiler would keep a pointer in
   * two forms. */
  uint64_t w;
  /* Index, along k, of the next item among the ni items of its tile. */
  int at;
  /* Shared address of the stages. The stages' mbarriers are before it. */
  uint32_t ring;
  const ga_kargs_gemm_split_int8 *args;
  /* nb and ni are the numbers of units and of items that the block has of a tile. items is the number of items of this
   * warp. */
  int nb, ni, items;
} asker;

/* Moves to the block's next tile. The address skips the rest of this tile, and the start of the next tile, which other
 * blocks process.
 *
 * k0 is the unit at which the block's part of k begins. With GA_P_ROWS = 1 a block with a part of k has only one
 * matrix. The address is then the same for any k0, and 0 is used. */
GA_DEV void turn(asker *s) {
  const ga_kargs_gemm_split_int8 *ring = s->args;
  const int k0 = GA_P_ROWS == 1 ? 0 : cut_at(ring->units_each, ring->units_longer, (int)cluster_rank());
  s->at = 0;
  s->w = next_tile(ring, s->w + (uint64_t)((int64_t)(ring->gemm.units - k0 - s->nb) * UNIT_BYTES)) +
         (uint64_t)((int64_t)k0 * UNIT_BYTES);
}

GA_DEV void ask(asker *s, int stage) {
  const uint32_t bar = s->ring - BARS_BYTES + (uint32_t)(stage * 8),
                 bytes = UNIT_BYTES * (is_short(s->nb, s->at) ? 1 : PER);
  if (warp_elect()) {
    mbar_arrive_expect(bar, bytes);
    bulk_load_bytes(s->ring + (uint32_t)(stage * SLOT_BYTES), (const void *)s->w, bytes, bar, L2_EVICT_FIRST);
  }
  s->w += bytes;
  if (++s->at == s->ni) turn(s);
}

/* Issues the copies of the warp's first items to stages `from` to `to` - 1 of its ring. */
GA_DEV void ask_first(asker *s, int from, int to) { GA_ROLL for (int d = from; d < to && d < s->items; d++) ask(s, d); }
GA_DEV void ask_behind_x(asker *s) { ask_first(s, s->args->early, s->args->depth); }
GA_DEV void ask_again(asker *s, int stage, int left) {
  if (left > s->args->depth) ask(s, stage);
}
