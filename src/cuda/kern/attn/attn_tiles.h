/* Tiles: which rows and blocks of K and V a tile takes, and in what order tiles come. */
#pragma once
#include "cuda/dev/ptx/mem.h"
#include "cuda/kern/attn/attn_shape.h"
#include "cuda/kern/attn/attn_stretch.h"

/* One tile's work, written by the producer to a ring of TILE_SLOTS records and read by the consumers at tile edges.
 * With K and V in several parts, a tile is one record a part: `joins` = this record goes on with the tile of the one
 * before. */
typedef struct {
  int row0, head, batch,
      n_hi; /* first query; head, or kv head of packed ones; blocks n_hi .. n_lo, downwards; n_hi < 0: no more tiles */
  int n_lo, mask_hi, mask_lo; /* blocks >= mask_hi or < mask_lo need the mask */
  int keep;                   /* resident: blocks <= keep are used by the next tile too; stretches: documents */
  int split, pieces;          /* of the tile's blocks: which, of how many that have any; in the record with joins */
  int rows_q, rows_k, start_q, column; /* column: where row0 stands */
  int start_k, joins, part;            /* not in the record, but for joins, in the place of keep */
} tile;

/* Queries of a warpgroup, and of a tile. Rows behind pack * wg_queries are dead: zeros in shared memory, not stored. */
GA_DEV int wg_queries(args a) { return PACKS ? a->wg_queries : 64; }
GA_DEV int tile_queries(args a) { return WGS * wg_queries(a); }
GA_DEV void tile_put(uint32_t a, const tile *t) {
  sts_i4(a, t->row0, t->head, t->batch, t->n_hi);
  sts_i4(a + 16, t->n_lo, t->mask_hi, t->mask_lo, CARRY ? t->joins | t->split << 1 | t->pieces << 16 : t->keep);
  sts_i4(a + 32, t->rows_q, t->rows_k, t->start_q, t->column);
}

/* The block range of the tile of queries from row0 on; returns whether it has a column that is seen. At least one
 * block, so that a row that sees nothing is written too. The block of the first row's last column counts as masked even
 * if it ends there: before that one the row has no maximum, and blocks that all see start from one. */
GA_DEV int tile_blocks(args a, tile *t) {
  const int rows = imin(tile_queries(a), t->rows_q - t->row0);
  const int right = WINDOW ? a->window_right : 0;
  const int end = MASKED ? imin(t->rows_k, t->column + rows + right) : t->rows_k;
  const int first = WINDOW ? imax(0, t->column - a->window_left) : 0;
  const int begin =
      CARRY ? imin(first, imax(t->rows_k - 1, 0)) / BN : first / BN; /* a part may lie left of every window */
  t->n_hi = imax((end + BN - 1) / BN - 1, begin);
  t->n_lo = begin;
  t->mask_hi = MASKED ? imax(0, t->column + right) / BN : t->n_hi + 1;
  if (CARRY) t->mask_hi = imin(t->mask_hi, t->n_hi); /* the ragged end of a part that joins */
  t->mask_lo = WINDOW ? imax(0, t->column + rows - 1 - a->window_left + BN - 1) / BN : 0;
  return first < end;
}
/* Rows and first rows of the tile's sequence, with features. */
GA_DEV void tile_sequence(args a, tile *t) {
  const int paged = PAGES && (a->features & GA_KATTN_PAGED);
  if (a->features & GA_KATTN_VARLEN) {
    t->start_q = ldg_i32(a->cu_q + t->batch);
    t->rows_q = !paged && a->q_len ? ldg_i32(a->q_len + t->batch) : ldg_i32(a->cu_q + t->batch + 1) - t->start_q;
  }
  if (paged) {
    t->rows_k = ldg_i32(a->kv_len + t->batch);
  } else if (a->features & GA_KATTN_VARLEN) {
    t->start_k = ldg_i32(a->cu_k + t->batch);
    t->rows_k = a->kv_len ? ldg_i32(a->kv_len + t->batch) : ldg_i32(a->cu_k + t->batch + 1) - t->start_k;
  }
}
/* Blocks of the split alone, upper ones first; returns whether it has any. A split whose first block lies below those
 * of the mask starts from a maximum there, as a tile does. */
GA_DEV int tile_cut(args a, tile *t) {
  const int blocks = t->n_hi - t->n_lo + 1, per = (blocks + a->splits - 1) / a->splits,
            first = t->n_hi - t->split * per;
  t->pieces = (blocks + per - 1) / per;
  t->n_hi = first;
  t->n_lo = imax(t->n_lo, first - per + 1);
  return first >= t->n_lo;
}
/* Tile m of a head, counted from the last tile of the first stretch of Q on: those that see the most come first. Blocks
 * and masks as in tile_blocks. */
GA_DEV void tile_of_stretch(args a, tile *t, int m) {
  const ga_kargs_attn_stretch *x = stretch_args(a);
  int i = 0, tiles = (x->q[0].rows + BM - 1) / BM;
  m = a->tiles_per_head - 1 - m;
  GA_ROLL for (; m >= tiles; tiles = (x->q[i].rows + BM - 1) / BM) {
    m -= tiles;
    i++;
  }
  const int documents = x->q[i].documents, row = (tiles - 1 - m) * BM, rows = imin(BM, x->q[i].rows - row);
  t->row0 = x->q[i].first + row; /* rows of the tensor, all of them */
  t->rows_q = x->q[i].first + x->q[i].rows;
  t->column = x->q[i].position + row;
  t->keep = t->start_k = documents;
  const int last = t->column + rows - 1;
  t->n_lo = stretch_keys_before(a, documents, t->column - a->window_left) / BN;
  t->n_hi = imax((stretch_keys_before(a, documents, last + 1 + a->window_right) + BN - 1) / BN - 1, t->n_lo);
  t->mask_hi = imax(0, stretch_keys_before(a, documents, t->column + 1 + a->window_right) - 1) / BN;
  t->mask_lo = (stretch_keys_before(a, documents, last - a->window_left) + BN - 1) / BN;
}
/* Work item i -> (head, batch, row0). Causal order: longest first inside a section of heads whose K and V share L2.
 * sub: tile of a resident unit, or part of K and V. Returns 0 for a part of which the tile sees nothing. */
GA_DEV int tile_decode(args a, int i, int sub, tile *t) {
  int pair, m;
  t->split = 0;
  t->pieces = 1;
  if (SPLITS && a->splits > 1) {
    const int whole = i / a->splits;
    t->split = i - whole * a->splits;
    i = whole;
  }
  if (KV_RESIDENT) {
    pair = i / a->tiles_per_head;
    m = (i - pair * a->tiles_per_head) * a->unit_tiles + a->unit_tiles - 1 - sub;
  } else if (MASKED) {
    const int per = a->heads_per_section * a->tiles_per_head, sec = i / per, r = i - sec * per;
    const int heads = imin(a->heads_per_section, a->heads_total - sec * a->heads_per_section), mi = r / heads;
    pair = sec * a->heads_per_section + (r - mi * heads);
    m = a->tiles_per_head - 1 - mi;
  } else {
    pair = i / a->tiles_per_head;
    m = i - pair * a->tiles_per_head;
  }
  t->batch = pair / a->heads_q;
  t->head = pair - t->batch * a->heads_q;
  t->row0 = m * tile_queries(a);
  t->rows_q = a->rows_q;
  t->rows_k = a->rows_k;
  t->start_q = 0;
  t->start_k =
      CARRY && a->rows_k == 0; /* a box outside of the map: no keys, and what it holds would be weighed by 0 in O */
  t->part = t->joins = 0;
  if (EXTRAS) tile_sequence(a, t);
  if (STRETCH) {
    tile_of_stretch(a, t, m);
    return 1;
  }
  t->column = t->row0 + t->rows_k - t->rows_q + (CARRY ? a->shift : 0);
  if (CARRY && sub > 0) {
    t->part = sub;
    t->joins = 1;
    t->rows_k = a->more[sub - 1].rows;
    t->column = t->row0 + a->more[sub - 1].diagonal;
  }
  const int seen = tile_blocks(a, t);
  t->keep = -1;
  if (KV_RESIDENT && sub + 1 < a->unit_tiles) {
    tile u = *t;
    u.row0 -= BM;
    u.column -= BM;
    tile_blocks(a, &u);
    t->keep = u.n_hi;
  }
  if (SPLITS && a->splits > 1) return tile_cut(a, t);
  return seen || !t->joins;
}
/* What the producer itself keeps of a tile (it has few registers). Resident: the unit's first tile, the longest, loads
 * K and V for all. */
typedef struct {
  int head_k, batch, n_hi, n_lo, start_k, loads, part; /* paged: start_k is rows_k; stretches: documents */
} work;

/* The next tile with rows in it: its record goes to `slot`; n_hi < 0 when there is none. Blocks take their own index
 * first, then step by the grid, or (causal, window) take whatever is next in the common order. *i: the item; *sub: tile
 * of the unit, or part. */
GA_DEV work tile_next(args a, int *i, int *sub, uint32_t slot, int first) {
  const int subs = KV_RESIDENT ? a->unit_tiles : CARRY ? a->chunks : 1;
  GA_ROLL for (;; first = 0) {
    tile t;
    t.n_hi = -1;
    t.joins = t.part = 0;
    int takes = 1;
    if ((KV_RESIDENT || CARRY) && *sub > 0)
      ; /* goes on with the item */
    else if (MASKED && !KV_RESIDENT)
      *i = first ? block_index() : block_count() + atomic_add_i32(a->counter, 1);
    else
      *i += block_count();
    if (*i < a->tiles) takes = tile_decode(a, *i, *sub, &t);
    if (takes) tile_put(slot, &t);
    const work k = {t.head / a->group,
                    EXTRAS && (a->features & GA_KATTN_VARLEN) && !(PAGES && (a->features & GA_KATTN_PAGED)) ? 0
                                                                                                            : t.batch,
                    t.n_hi,
                    t.n_lo,
                    PAGES && (a->features & GA_KATTN_PAGED) ? t.rows_k : t.start_k,
                    !KV_RESIDENT || *sub == 0,
                    t.part};
    if (KV_RESIDENT || CARRY) *sub = *sub + 1 < subs ? *sub + 1 : 0;
    if (takes && (!EXTRAS || t.n_hi < 0 || t.row0 < t.rows_q)) return k;
  }
}
