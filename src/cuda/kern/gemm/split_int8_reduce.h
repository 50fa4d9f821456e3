/* The sum over a cluster, for several rows of X, where each block of the cluster has a part of k
 * (gemm_split_int8_sm90a.cu).
 *
 * All blocks have summed the same tiles, and each owns some of them. The other blocks send it their sums of these tiles
 * and, with a norm, sums of squares of X. They send by st.async, which an mbarrier counts. */
#pragma once
#include "cuda/kern/gemm/split_int8.h"

GA_DEV bool blocks_meet(const ga_kargs_gemm *a) { return a->splits > 1 && !a->partial; }

/* Shared addresses of the data that a block receives, and the tiles that it owns. Sums of tiles and squares of rows of
 * X are stored in the order of the senders' ranks. */
typedef struct {
  uint32_t sums, squares, bar;
  /* mats is the number of matrices that have a tile under each tile number: 2 with `gated`, else 1. each is the largest
   * number of tile numbers that a block owns. */
  int mats, each;
  int first, own; /* first is the first tile number that this block owns, own the number of its tile numbers. */
  /* Bytes of the sums that one block sends. */
  uint32_t part;
} cluster_reduction;

GA_DEV uint32_t tile_bytes(const share *s) { return (uint32_t)(GA_PACKED_ROWS * s->rows) * 4; }

GA_DEV cluster_reduction cluster_reduction_of(const ga_kargs_gemm_split_int8 *ring, const share *s, uint32_t squares,
                                              uint32_t bar) {
  const int most = ring->tiles_each + (ring->tiles_longer > 0), splits = ring->gemm.splits;
  cluster_reduction m;
  m.mats = ring->gated ? 2 : 1;
  m.sums = s->table + (uint32_t)((CONSTANTS_BYTES + 4 * m.mats * most + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN);
  m.squares = squares;
  m.bar = bar;
  m.each = (int)((uint32_t)(most + splits - 1) / (uint32_t)splits);
  m.first = s->part * m.each;
  m.own = s->tiles - m.first < m.each ? s->tiles - m.first : m.each;
  m.own = m.own > 0 ? m.own : 0;
  m.part = (uint32_t)(m.each * m.mats) * tile_bytes(s);
  return m;
}

/* Initialises the mbarrier that counts received bytes. This is done before the products, so that no block waits for it
 * after them. */
GA_DEV void cluster_reduce_begin(const ga_kargs_gemm_split_int8 *ring, const share *s, uint32_t squares, uint32_t bar) {
  if (thread_index() == 0) {
    const cluster_reduction m = cluster_reduction_of(ring, s, squares, bar);
    mbar_init(bar, 1);
    mbar_init_fence();
    mbar_arrive_expect(bar, (uint32_t)ring->gemm.splits *
                                ((uint32_t)(m.own * m.mats) * tile_bytes(s) + (ring->norm ? 4 * MOST_ROWS : 0)));
  }
  warp_sync();
  cluster_arrive();
}

/* Adds, over all warps, four sums of the block's tile t at byte offset `at`. */
GA_DEV void add_parts4(int slots, const share *s, int t, uint32_t at, float *sum) {
  const tile_parts p = parts_of(slots, s, t);
  lds_f4(sum, p.first + at);
  GA_ROLL for (int w = 0; w < p.more; w++) {
    float more[4];
    lds_f4(more, p.next + (uint32_t)w * p.step + at);
    GA_UNROLL for (int e = 0; e < 4; e++) sum[e] += more[e];
  }
}

/* Sends four numbers to shared address `to` in block `rank` of the cluster. */
GA_DEV void send4(const cluster_reduction *m, uint32_t to, const float *x, int rank) {
  sts_async_i4(cluster_address(to, (uint32_t)rank), (int)float_bits(x[0]), (int)float_bits(x[1]), (int)float_bits(x[2]),
               (int)float_bits(x[3]), cluster_address(m->bar, (uint32_t)rank));
}

/* Sends the block's sums of each tile to the block that owns the tile. */
GA_DEV void send_sums(const ga_kargs_gemm_split_int8 *ring, const share *s, const cluster_reduction *m) {
  const int quads = GA_PACKED_ROWS / 4 * s->rows;
  GA_ROLL for (int i = thread_index(); i < s->tiles * m->mats * quads; i += GA_P_THREADS) {
    float sum[4];
    const int t = (int)((uint32_t)i / (uint32_t)quads), rank = (int)((uint32_t)t / (uint32_t)(m->each * m->mats));
    const uint32_t at = (uint32_t)(i - t * quads) * 16;
    add_parts4(ring->gemm.slots, s, t, at, sum);
    send4(m, m->sums + (uint32_t)s->part * m->part + (uint32_t)(t - rank * m->each * m->mats) * tile_bytes(s) + at, sum,
          rank);
  }
}

/* Sends the block's sums of squares of rows of X to all blocks. squares is the shared address of the warps' sums. A
 * warp's units belong to one row. */
GA_DEV void send_squares(const ga_kargs_gemm_split_int8 *ring, const share *s, const cluster_reduction *m,
                         uint32_t squares) {
  const int i = GA_P_THREADS - 1 - thread_index(), quad = i % (MOST_ROWS / 4), rank = i / (MOST_ROWS / 4);
  if (!ring->norm || rank >= ring->gemm.splits) return;
  float sum[4] = {0, 0, 0, 0};
  GA_UNROLL for (int e = 0; e < 4; e++) GA_ROLL for (int w = 4 * quad + e; 4 * quad + e < s->rows && w < WARPS;
                                                     w += s->rows) sum[e] += lds_f1(squares + 4 * (uint32_t)w);
  send4(m, m->squares + (uint32_t)(s->part * MOST_ROWS + 4 * quad) * 4, sum, rank);
}

/* Returns the sum of the numbers that `splits` blocks have sent, added in the order of k. The first is at shared
 * address `at`; they are `step` bytes apart. */
GA_DEV float add_sent(uint32_t at, uint32_t step, int splits) {
  float sum = lds_f1(at);
  GA_ROLL for (int r = 1; r < splits; r++) sum += lds_f1(at + (uint32_t)r * step);
  return sum;
}

/* Returns the norm's factor for row `col` of X. */
GA_DEV float cluster_reduce_factor(const ga_kargs_gemm_split_int8 *ring, const cluster_reduction *m, int col) {
  return ring->norm ? norm_factor(ring, add_sent(m->squares + 4 * (uint32_t)col, 4 * MOST_ROWS, ring->gemm.splits)) : 1;
}

/* Writes the elements of Y for the tiles that this block owns. Up to four neighbouring lanes process the rows of X for
 * one row of W, which avoids bank conflicts and fills sectors of global memory. */
GA_DEV void finish_own(const ga_kargs_gemm_split_int8 *ring, const share *s, const cluster_reduction *m) {
  const int splits = ring->gemm.splits, near = s->rows < 4 ? s->rows : 4, own = m->own * GA_PACKED_ROWS;
  GA_ROLL for (int i = thread_index(); i < own * s->rows; i += GA_P_THREADS) {
    const int rest = (int)((uint32_t)i / (uint32_t)near), far = rest >= own, row = far ? rest - own : rest,
              col = i - rest * near + far * near;
    if (col >= ring->gemm.m) continue;
    const float factor = cluster_reduce_factor(ring, m, col);
    const uint32_t in = (uint32_t)(row % GA_PACKED_ROWS * s->rows + col) * 4;
    const uint32_t at = m->sums + (uint32_t)(row / GA_PACKED_ROWS * m->mats) * tile_bytes(s) + in;
    const float sum = add_sent(at, m->part, splits) * factor;
    put_result(ring, s, sum, ring->gated ? add_sent(at + tile_bytes(s), m->part, splits) * factor : 0,
               m->first * GA_PACKED_ROWS + row, col);
  }
}

/* Completes the sum over the cluster, once the block's sums are in shared memory. own is the shared address of this
 * block's sums of squares, by warp. squares is the shared address of the sums of squares that other blocks send, bar of
 * the mbarrier that counts received bytes. */
GA_DEV void cluster_reduce_end(const ga_kargs_gemm_split_int8 *ring, const share *s, uint32_t own, uint32_t squares,
                               uint32_t bar) {
  const cluster_reduction m = cluster_reduction_of(ring, s, squares, bar);
  cluster_wait(); /* all blocks have started, and their barriers are initialised */
  send_squares(ring, s, &m, own);
  send_sums(ring, s, &m);
  mbar_wait(bar, 0);
  finish_own(ring, s, &m);
}
