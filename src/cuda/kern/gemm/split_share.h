/* Sizes of units and items of packed weights of a type T, and the share of the work of a block. An item is the data of
 * one stage of a ring. */
#pragma once
#include "cuda/kern/gemm/split_int8.h"

enum { WORDS = PACKED_WORDS(T), GROUPS = PACKED_GROUPS(T), UNIT_K = PACKED_K(T), UNIT_BYTES = PACKED_BYTES(T) };
enum { HALVES = PACKED_HALVES(T) ? 2 : 1, RUNS = GROUPS * HALVES };
/* X_UNITS is the number of units of a row of X that a warp converts at once: one unit, or two units of 64. X_ELEM is
 * the number of bytes of a part of an element in shared memory. */
enum { X_UNITS = UNIT_K < 128 ? 2 : 1, X_K = X_UNITS * UNIT_K, X_ELEM = SPLITS_X == 2 ? 2 : 1 };
/* PER is the number of units of an item, the data of one stage: one unit of 256 elements, or two of 128. With an odd
 * number of units the last item has one. */
enum { PER = GA_RING_ITEM(UNIT_K, UNIT_BYTES), ITEM_BYTES = PER * UNIT_BYTES };

#define X(name, number, k, bytes) static_assert(number != T || (k == UNIT_K && bytes == UNIT_BYTES), "unit of " #name);
GA_PACKED_TYPES(X)
#undef X

/* Returns the share of a block, where block is its number within the product. From shared address x on are X, the data
 * after it, and the table at the end. */
GA_DEV share share_of(const ga_kargs_gemm_split_int8 *ring, int block, uint32_t x) {
  const ga_kargs_gemm *a = &ring->gemm;
  share s;
  s.group = a->splits == 1 ? block : block / a->splits;
  s.part = a->splits == 1 ? 0 : block - s.group * a->splits;
  s.k0 = cut_at(ring->units_each, ring->units_longer, s.part);
  s.nb = ring->units_each + (s.part < ring->units_longer);
  s.tile = cut_at(ring->tiles_each, ring->tiles_longer, s.group);
  s.tiles = ring->tiles_each + (s.group < ring->tiles_longer);
  s.ni = (s.nb + PER - 1) / PER;
  s.n = (ring->gated ? 2 * s.tiles : s.tiles) * s.ni;
  s.rows = a->copies / SPLITS_X;
  s.width = WIDTH(s.rows);
  s.x = x;
  s.scales = s.x + (uint32_t)(a->x_units * UNIT_K * a->copies * X_ELEM);
  s.sums = s.scales;
  if (SPLITS_X == 3) s.sums += (uint32_t)((a->x_units * s.width * 4 + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN);
  s.parts = s.sums + (PACKED_MIN(T) ? (uint32_t)(a->x_units * RUNS * s.rows * 4) : 0);
  s.table = s.parts + (uint32_t)(WARPS * a->slots * GA_PACKED_ROWS * s.rows * 4);
  return s;
}

GA_DEV void fill_table(const ga_kargs_gemm_split_int8 *ring, const share *s) {
  const int tiles = ring->gated ? 2 * s->tiles : s->tiles;
  const packed_constants k = packed_constants_of(T);
  if (thread_index() == 0) {
    sts_u2(s->table, k.low, k.high);
    sts_u1(s->table + 8, k.top);
  }
  GA_ROLL for (int t = GA_P_THREADS - 1 - thread_index(); t < tiles;
               t += GA_P_THREADS) /* the last threads begin, because later warps have less of X to convert */
      sts_u1(s->table + (uint32_t)(CONSTANTS_BYTES + 4 * t), sums_of_tile(s, t));
}

/* Returns the global address of unit k0 of a tile. Tiles of further matrices are numbered after the tiles of the first
 * matrix. */
GA_DEV uint64_t x_unit_at(const ga_kargs_gemm_split_int8 *ring, int tile, int k0) {
  const void *w = ring->gemm.w;
  int first = 0;
  GA_UNROLL for (int j = 0; j < 2; j++) if (tile >= ring->begin[j]) w = ring->w_more[j], first = ring->begin[j];
  return (uint64_t)w + (uint64_t)(((int64_t)(tile - first) * ring->gemm.units + k0) * UNIT_BYTES);
}

/* Returns true if the elements that lane `lane` converts, from unit X_UNITS * i on, are in the block's part of k. */
GA_DEV bool has_x(const share *s, int i, int lane) { return X_UNITS == 1 || X_UNITS * i + 4 * lane / UNIT_K < s->nb; }

/* Returns true if the item at index `at` along k has one unit where others have two. nb is the number of units. */
GA_DEV bool is_short(int nb, int at) { return PER == 2 && 2 * at + 1 == nb; }
