/* Tiles of K and V in the backward kernels of sm_90a: the blocks of queries that see a tile, and the order of tiles. */
#pragma once
#include "cuda/dev/ptx/mem.h"
#include "cuda/kern/attn_bwd/attn_bwd_warpgroup.h"

typedef struct {
  /* The tile has rows n * BN to n * BN + BN - 1 of K and V. head is the KV head. Blocks m_lo to m_hi - 1 of Q see
   * it. */
  int n, head, batch, m_lo;
  /* Blocks of Q below `above` and from `below` on need the mask. rows_q is the number of queries. */
  int m_hi, above, below, rows_q;
  int rows_k, start_q, start_k;
} tile;

/* Writes a tile's record to shared memory, so that rarely used fields take no registers. */
GA_DEV void tile_put(uint32_t at, const tile *t) {
  sts_i4(at, t->n, t->head, t->batch, t->m_lo);
  sts_i4(at + 16, t->m_hi, t->above, t->below, t->rows_q);
  sts_i4(at + 32, t->rows_k, t->start_q, t->start_k, t->n * BN - t->rows_k + t->rows_q);
}
GA_DEV tile tile_get(uint32_t at) {
  const ga_i4 x = lds_i4(at), y = lds_i4(at + 16), z = lds_i4(at + 32);
  const tile t = {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w, z.x, z.y, z.z};
  return t;
}

/* Returns the factor of dQ and dK of the tile's sequence. */
GA_DEV float scale_of(args a, const tile *t) { return EXTRAS && t->rows_k == 1 ? a->scale_alone : a->scale; }

GA_DEV int right_of(args a) { return WINDOW ? a->window_right : 0; }

/* Computes the blocks of Q that see the tile's rows of K, from n * BN on, and the blocks that need the mask. Query i
 * sees keys i + rows_k - rows_q - window_left to i + rows_k - rows_q + window_right. */
GA_DEV void tile_blocks(args a, tile *t) {
  const int off = t->rows_k - t->rows_q, first = t->n * BN - off, last = imin(t->n * BN + BN, t->rows_k) - 1 - off;
  t->m_lo = MASKED ? imax(0, first - right_of(a)) / BM : 0;
  t->m_hi = (t->rows_q + BM - 1) / BM;
  if (WINDOW) t->m_hi = imin(t->m_hi, imax(-1, last + a->window_left) / BM + 1);
  if (WINDOW && last + a->window_left < 0) t->m_hi = 0;
  t->above = MASKED ? (imax(0, first + BN - 1 - right_of(a)) + BM - 1) / BM : 0;
  t->below = WINDOW ? imax(0, first + a->window_left + 1) / BM : t->m_hi;
  if (t->n * BN + BN > t->rows_k) t->above = t->m_hi; /* some rows of K do not exist */
}
/* Returns the tile of work item i. With masks, the longest tiles come first within a section of heads whose Q and dO
 * fit in L2. The number of heads of the last section is such that its tiles end together.
 *
 * In ordered kernels (attn_bwd_args.h) the shortest tiles come first. Then the first tile that adds to a block of dQ is
 * the tile on its diagonal, and no tile waits. */
GA_DEV tile tile_of(args a, int i) {
  tile t;
  int pair;
  if (MASKED && !KV_RESIDENT) {
    const int before_last = a->heads_total - a->heads_last, last = i >= before_last * a->tiles_k;
    const int heads = last ? a->heads_last : a->heads_per_section;
    const int head0 = last ? before_last : i / (heads * a->tiles_k) * heads, r = i - head0 * a->tiles_k;
    t.n = r / heads;
    pair = head0 + (r - t.n * heads);
  } else {
    pair = i / a->tiles_k;
    t.n = i - pair * a->tiles_k;
  }
  if (DETERMINISTIC || KV_RESIDENT) t.n = a->tiles_k - 1 - t.n;
  t.batch = pair / a->heads_k;
  t.head = pair - t.batch * a->heads_k;
  t.rows_q = a->rows_q;
  t.rows_k = a->rows_k;
  t.start_q = t.start_k = 0;
  if (EXTRAS && (a->features & GA_KATTN_VARLEN)) {
    t.start_q = ldg_i32(a->cu_q + t.batch);
    t.rows_q = a->q_len ? ldg_i32(a->q_len + t.batch) : ldg_i32(a->cu_q + t.batch + 1) - t.start_q;
    t.start_k = ldg_i32(a->cu_k + t.batch);
    t.rows_k = a->kv_len ? ldg_i32(a->kv_len + t.batch) : ldg_i32(a->cu_k + t.batch + 1) - t.start_k;
  }
  tile_blocks(a, &t);
  return t;
}
/* Numbers of the tiles of keys that add to a block of dQ before and after the current tile. Ordered kernels, and
 * kernels with all keys of a head in one thread block, take the tiles in descending order. */
typedef struct {
  int before, after;
} visits;
GA_DEV visits visits_of(args a, uint32_t record, int m) {
  const tile t = tile_get(record);
  const int off = t.rows_k - t.rows_q, all = (t.rows_k + BN - 1) / BN;
  const int last = MASKED ? imin(all - 1, (m * BM + BM - 1 + off + right_of(a)) / BN) : all - 1;
  const int first = WINDOW ? imax(0, m * BM + off - a->window_left) / BN : 0;
  const visits v = {last - t.n, t.n - first};
  return v;
}
