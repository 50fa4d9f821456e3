/* Products with packed weights of a type T: the conversion of X, and the loop over a warp's items (stages of its
 * ring). */
#pragma once
#include "cuda/kern/gemm/split_asker.h"
#include "cuda/kern/gemm/split_type.h"

/* Converts X to digits, or to sums of two bf16, in shared memory. Warps process units of rows of X in rotation, with
 * AHEAD loads of a lane in flight.
 *
 * Copies of W to the ring, except the first ones, are issued after these loads, because X would otherwise wait for
 * them. whole: all accesses are of 16 bytes and inside X.
 *
 * With a norm, returns the lane's sum of squares. A warp's units belong to one row. */
GA_DEV float convert_x(const bool whole, const int rows, const ga_kargs_gemm_split_int8 *ring, const share *s,
                       asker *next, int warp, int lane) {
  enum { QUADS = X_K / 128, MOST = QUADS == 2 ? 4 : 8 };
  const ga_kargs_gemm *a = &ring->gemm;
  const int AHEAD = whole ? MOST : 1, all = (s->nb + X_UNITS - 1) / X_UNITS * rows,
            shift = rows == 1   ? 0
                    : rows == 2 ? 1
                    : rows == 4 ? 2
                                : 3;
  float square = 0;
  GA_ROLL for (int base = warp; base == warp || base < all; base += AHEAD * WARPS) {
    float x[MOST][QUADS][4], weight[MOST][QUADS][4];
    GA_UNROLL for (int b = 0; b < AHEAD; b++) {
      const int i = base + b * WARPS, unit = i >> shift, row = i - (unit << shift);
      const int64_t k = (int64_t)(s->k0 + X_UNITS * unit) * UNIT_K + 4 * lane;
      GA_UNROLL for (int v = 0; v < QUADS; v++) {
        if (whole || X_UNITS > 1) GA_UNROLL
          for (int e = 0; e < 4; e++) x[b][v][e] = weight[b][v][e] = 0;
        if (i >= all || (whole && row >= a->m) || !has_x(s, unit, lane)) continue;
        if (whole)
          elem_get16_f32(x[b][v], (const float *)a->x + row * a->x_stride + k + 128 * v, 0);
        else
          get_x(a, row, k + 128 * v, x[b][v]);
        if (ring->norm) get_row(whole, ring->norm, a->k, k + 128 * v, weight[b][v]);
      }
    }
    if (base == warp) ask_behind_x(next);
    GA_UNROLL for (int b = 0; b < AHEAD; b++) {
      const int i = base + b * WARPS, unit = i >> shift;
      if (ring->norm && i < all) square += apply_norm(QUADS, x[b], weight[b]);
      if (i < all) put_x(rows, s, unit, i - (unit << shift), lane, x[b]);
    }
  }
  return square;
}

/* Converts X = add + norm(x), one row. All blocks compute the row and keep it in registers. The first block of a
 * product also writes it to global memory. Shared memory at s->parts first holds the warps' sums of squares of x. */
GA_DEV float convert_sum(const ga_kargs_gemm_split_int8 *ring, const share *s, asker *next, int warp, int lane) {
  enum { QUADS = X_K / 128, MOST = GA_RING_SUM_K / X_K / WARPS };
  const int n = (int)ring->gemm.k;
  float x[MOST][QUADS][4], add[MOST][QUADS][4], weight[MOST][QUADS][4], square = 0, squares = 0;
  GA_UNROLL for (int b = 0; b < MOST; b++) GA_UNROLL for (int v = 0; v < QUADS; v++) {
    const int k = (warp + b * WARPS) * X_K + 4 * lane + 128 * v;
    GA_UNROLL for (int e = 0; e < 4; e++) x[b][v][e] = add[b][v][e] = weight[b][v][e] = 0;
    if (k >= n) continue;
    elem_get16_f32(x[b][v], (const float *)ring->gemm.x + k, 0);
    elem_get16_f32(add[b][v], ring->add + k, 0);
    elem_get16_f32(weight[b][v], ring->add_norm + k, 0);
  }
  ask_behind_x(next);
  GA_UNROLL for (int b = 0; b < MOST; b++) square += apply_norm(QUADS, x[b], weight[b]);
  square = row_sum_warp(square);
  if (lane == 0) sts_f1(s->parts + 4 * (uint32_t)warp, square);
  GA_UNROLL for (int b = 0; b < MOST; b++) GA_UNROLL for (int v = 0; v < QUADS; v++) {
    const int k = (warp + b * WARPS) * X_K + 4 * lane + 128 * v;
    if (k < n) elem_get16_f32(weight[b][v], ring->norm + k, 0);
  }
  block_sync();
  GA_UNROLL for (int w = 0; w < WARPS; w++) squares += lds_f1(s->parts + 4 * (uint32_t)w);
  const float factor = norm_factor(ring, squares);
  const bool writes = ring->sum && s->group == 0;
  square = 0;
  GA_UNROLL for (int b = 0; b < MOST; b++) {
    const int unit = warp + b * WARPS;
    GA_UNROLL for (int v = 0; v < QUADS; v++) {
      const int k = unit * X_K + 4 * lane + 128 * v;
      GA_UNROLL for (int e = 0; e < 4; e++) x[b][v][e] = fmaf(x[b][v][e], factor, add[b][v][e]);
      if (writes && k < n) stg_f4(ring->sum + k, x[b][v]);
    }
    square += apply_norm(QUADS, x[b], weight[b]);
    if (X_UNITS * unit < s->nb) put_x(1, s, unit, 0, lane, x[b]);
  }
  return square;
}

/* Multiplies X by the warp's items, `items` in number. The first is at index `at` along k of its tile. Copies of as
 * many items as the ring holds have been issued. */
GA_DEV void take_items(const int rows, const ga_kargs_gemm_split_int8 *ring, const share *sh, asker *next, int warp,
                       int lane, int items, int at) {
  const int nt = PRODUCTS(rows);
  const bool early = nt == 1 || SPLITS_X == 2; /* true: registers hold all words of an item */
  lane_view v = view_of(rows, sh, lane);
  uint32_t table = sh->table;
  float acc[SPLITS_X][4];
  int stage = 0;
  uint32_t turns = 0; /* bit 0: parity of the ring's round; higher bits: number of tiles begun, which is the slot */
  GA_UNROLL for (int n = 0; n < nt; n++) GA_UNROLL for (int e = 0; e < 4; e++) acc[n][e] = 0;
  pin_u32(v.x, 2); /* later loads stay after the barrier */
  pin_u32(v.scales, 2);
  pin_u32(&v.sums, 1);
  pin_u32(&table, 1);
  /* true: no registers are left for constants */
  const bool tight = nt == SPLITS_X && PACKED_256(T) && PACKED_LOOKED_UP(T);
  const packed_constants k = tight ? packed_constants_of(T) : get_constants(table);
  GA_ROLL for (; items > 0; items--) {
    const bool both = PER == 2 && !is_short(sh->nb, at);
    uint32_t w[PER][WORDS], item = next->ring + (uint32_t)(stage * SLOT_BYTES);
    mbar_wait(next->ring - BARS_BYTES + (uint32_t)(stage * 8), turns & 1);
    pin_u32(&item, 1);
    packed_fetch(T, w[0], item, lane);
    if (both) packed_fetch(T, w[PER - 1], item + UNIT_BYTES, lane);
    /* Loads the whole item into registers, so that its stage is free at once. */
    if (early) {
      GA_UNROLL for (int i = 0; i < PER; i++) pin_u32(w[i], WORDS);
      int done = 0;
      GA_UNROLL for (int i = 0; i < PER; i++) done += (int)packed_fetched(T, w[i], WORDS);
      warp_sync();
      ask_again(next, stage + done, items);
    }
    take_unit(rows, &v, &k, w[0], PER * at, lane, acc);
    if (both) take_unit(rows, &v, &k, w[PER - 1], 2 * at + 1, lane, acc);
    if (!early) { /* too many sums to load the whole item first */
      GA_UNROLL for (int n = 0; n < nt; n++) pin_f32(acc[n], 4);
      const int done = (int)loads_done_f32(acc[0], 3, 2); /* 0, once the loads of all words of the item have returned */
      warp_sync();
      ask_again(next, stage + done, items);
    }
    if (++at == sh->ni || items == 1)
      put_split(rows, ring->gemm.slots, sh, warp, (int)(turns >> 1), lane, acc), turns += 2;
    at = at == sh->ni ? 0 : at;
    if (++stage == next->args->depth) stage = 0, turns ^= 1;
  }
}
