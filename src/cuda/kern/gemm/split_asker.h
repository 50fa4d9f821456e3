/* Copies of packed weights into the ring of a warp: the warp's sequence of items, and its stages. An item is the data
 * of one stage. */
#pragma once
#include "cuda/kern/gemm/split_share.h"

enum { SLOT_BYTES = ITEM_BYTES };
#define RING_BYTES(depth) (BARS_BYTES + (depth)*SLOT_BYTES)

/* State of a warp's copies. The items are in memory order, except for jumps from tile to tile. */
typedef struct {
  /* Address of the item to be copied next. The type is no pointer, because the compiler would keep a pointer in two
   * forms. */
  uint64_t w;
  /* Index of the next item among the ni items of its tile, along k. */
  int at;
  /* Shared address of the stages. The barriers of up to 8 stages precede it. */
  uint32_t ring;
  const ga_kargs_gemm_split_int8 *args;
  /* nb and ni are the numbers of units and of items of a tile; items is the number of items that are left for the
   * warp. */
  int nb, ni, items;
} asker;

/* Moves to the block's next tile. The address skips the rest of this tile, and the part of the next tile that other
 * blocks of the cluster process. Where parts are added in global memory there are no further matrices, so the start of
 * a tile does not matter. */
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

/* Issues copies of the warp's items for stages `from` to `to` - 1. */
GA_DEV void ask_first(asker *s, int from, int to) { GA_ROLL for (int d = from; d < to && d < s->items; d++) ask(s, d); }
GA_DEV void ask_behind_x(asker *s) { ask_first(s, s->args->early, s->args->depth); }
GA_DEV void ask_again(asker *s, int stage, int left) {
  if (left > s->args->depth) ask(s, stage);
}
