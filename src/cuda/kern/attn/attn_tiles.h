/* Tiles of the attention kernels: their rows, their blocks of K and V, and the order in which they are processed. */
#pragma once
#include "cuda/dev/ptx/mem.h"
#include "cuda/kern/attn/attn_shape.h"
#include "cuda/kern/attn/attn_stretch.h"

/* A tile: its rows and its blocks of K and V. The producer writes it to a ring of TILE_SLOTS records, and the consumers
 * read a record between tiles. With K and V in several segments a tile has one record per segment. */
typedef struct {
  int row0, head, batch,
      /* row0 is the first query. head is the query head, or the group of packed query heads. Blocks n_hi down to n_lo
       * are processed; n_hi below 0 means that there are no more tiles. */
      n_hi;
  /* Blocks from mask_hi on and blocks below mask_lo need the mask. */
  int n_lo, mask_hi, mask_lo;
  /* KV_RESIDENT: blocks up to `keep` are used by the next tile too. With stretches the field holds
   * ga_kattn_q_stretch.documents. */
  int keep;
  /* split is the index of this split of the tile; pieces is the number of splits that have blocks. The record stores
   * both in one word with joins. */
  int split, pieces;
  /* rows_q and rows_k are the numbers of queries and keys of the sequence. start_q is its first row in q. column is the
   * key at the position of query row0. */
  int rows_q, rows_k, start_q, column;
  /* start_k is the sequence's first row in k. part is the index of the segment, and joins is 1 for all segments but the
   * first. Of these three the record stores only joins. */
  int start_k, joins, part;
} tile;

/* Return the number of queries of a warpgroup, and of a tile. A warpgroup has 64 rows. Rows from pack * wg_queries on
 * are unused: zeros in shared memory that are not stored. */
GA_DEV int wg_queries(args a) { return PACKS ? a->wg_queries : 64; }
GA_DEV int tile_queries(args a) { return WGS * wg_queries(a); }
GA_DEV void tile_put(uint32_t a, const tile *t) {
  sts_i4(a, t->row0, t->head, t->batch, t->n_hi);
  sts_i4(a + 16, t->n_lo, t->mask_hi, t->mask_lo, CARRY ? t->joins | t->split << 1 | t->pieces << 16 : t->keep);
  sts_i4(a + 32, t->rows_q, t->rows_k, t->start_q, t->column);
}

/* Computes the range of blocks for the tile's queries, from row0 on. Returns 1 if any key is seen. The range has at
 * least one block, so that rows that see nothing are written too.
 *
 * The block with the last key that the first row sees counts as masked, even if this key is the block's last. Before
 * this block the row has no maximum, and blocks without masks need one. */
GA_DEV int tile_blocks(args a, tile *t) {
  const int rows = imin(tile_queries(a), t->rows_q - t->row0);
  const int right = WINDOW ? a->window_right : 0;
  const int end = MASKED ? imin(t->rows_k, t->column + rows + right) : t->rows_k;
  const int first = WINDOW ? imax(0, t->column - a->window_left) : 0;
  const int begin =
      CARRY ? imin(first, imax(t->rows_k - 1, 0)) / BN : first / BN; /* a segment may lie before every window */
  t->n_hi = imax((end + BN - 1) / BN - 1, begin);
  t->n_lo = begin;
  t->mask_hi = MASKED ? imax(0, t->column + right) / BN : t->n_hi + 1;
  if (CARRY) t->mask_hi = imin(t->mask_hi, t->n_hi); /* the last block of a segment may be partly filled */
  t->mask_lo = WINDOW ? imax(0, t->column + rows - 1 - a->window_left + BN - 1) / BN : 0;
  return first < end;
}
/* Reads the numbers of queries and keys of the tile's sequence, and its first rows in q and k. Only kernels with
 * features have such sequences. */
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
/* Restricts the tile to the blocks of its split; split 0 has the highest blocks. Returns 0 if the split has no block. A
 * split without masked blocks takes its first maximum from its first block. */
GA_DEV int tile_cut(args a, tile *t) {
  const int blocks = t->n_hi - t->n_lo + 1, per = (blocks + a->splits - 1) / a->splits,
            first = t->n_hi - t->split * per;
  t->pieces = (blocks + per - 1) / per;
  t->n_hi = first;
  t->n_lo = imax(t->n_lo, first - per + 1);
  return first >= t->n_lo;
}
/* Computes tile m of a head, in kernels with stretches. Tiles are counted from the last tile of the stretches of Q, so
 * that tiles with the most keys come first. Also computes the tile's range of blocks, and the blocks that need the
 * mask. */
GA_DEV void tile_of_stretch(args a, tile *t, int m) {
  const ga_kargs_attn_stretch *x = stretch_args(a);
  int i = 0, tiles = (x->q[0].rows + BM - 1) / BM;
  m = a->tiles_per_head - 1 - m;
  GA_ROLL for (; m >= tiles; tiles = (x->q[i].rows + BM - 1) / BM) {
    m -= tiles;
    i++;
  }
  const int documents = x->q[i].documents, row = (tiles - 1 - m) * BM, rows = imin(BM, x->q[i].rows - row);
  t->row0 = x->q[i].first + row; /* row0 and rows_q count rows of the whole tensor */
  t->rows_q = x->q[i].first + x->q[i].rows;
  t->column = x->q[i].position + row;
  t->keep = t->start_k = documents;
  const int last = t->column + rows - 1;
  t->n_lo = stretch_keys_before(a, documents, t->column - a->window_left) / BN;
  t->n_hi = imax((stretch_keys_before(a, documents, last + 1 + a->window_right) + BN - 1) / BN - 1, t->n_lo);
  t->mask_hi = imax(0, stretch_keys_before(a, documents, t->column + 1 + a->window_right) - 1) / BN;
  t->mask_lo = (stretch_keys_before(a, documents, last - a->window_left) + BN - 1) / BN;
}
/* Computes the tile of work item i. With masks, the longest tiles come first within a section of heads whose K and V
 * fit in L2.
 *
 * sub is the index of the tile among the unit_tiles tiles of an item (KV_RESIDENT), or the index of the segment of K
 * and V. Returns 0 if a split has no block, or if the tile sees no key of a segment after the first. */
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
      /* Without keys, the copy starts at row 1, outside the tensor map, and fills V with zeros. A NaN there would reach
       * O even by a weight of 0. */
      CARRY && a->rows_k == 0;
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
/* The fields of a tile that the producer, which has few registers, keeps in registers. */
typedef struct {
  /* head_k is the KV head; batch is the batch index in K and V, 0 for packed sequences. */
  int head_k, batch;
  /* K and V are loaded from block n_hi down to n_lo. n_hi < 0: there are no more tiles. */
  int n_hi, n_lo;
  /* First row of K. With pages, the number of keys. With stretches, ga_kattn_q_stretch.documents. */
  int start_k;
  /* KV_RESIDENT: 1 for the first and longest of unit_tiles tiles, which loads K and V for all of them. */
  int loads;
  int part; /* Index of the segment of K and V. */
} work;

/* Finds the next tile that has rows, writes its record to `slot` and returns its work. If there is no such
 * tile, the n_hi of the work is below 0.
 *
 * *i is the current work item. *sub is the index of the item's next tile (KV_RESIDENT), or of its next segment of K and
 * V; 0 starts the next item. first is 1 in a block's first call.
 *
 * A block first takes the item of its own index. Later it steps by the grid size or, with causal masks and windows,
 * takes the next item from a counter. */
GA_DEV work tile_next(args a, int *i, int *sub, uint32_t slot, int first) {
  const int subs = KV_RESIDENT ? a->unit_tiles : CARRY ? a->chunks : 1;
  GA_ROLL for (;; first = 0) {
    tile t;
    t.n_hi = -1;
    t.joins = t.part = 0;
    int takes = 1;
    if ((KV_RESIDENT || CARRY) && *sub > 0)
      ; /* the work item continues */
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
