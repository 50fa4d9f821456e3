/* The producer of attn_fwd_sm90a.cu: one thread, which issues the copies of Q and of blocks of K and V to shared
 * memory. */
#pragma once
#include "cuda/dev/pipe/ring.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/peer.h"
#include "cuda/kern/attn/attn_fwd_shape.h"
#include "cuda/kern/attn/attn_stretch.h"
#include "cuda/kern/attn/attn_tiles.h"

typedef struct {
  args a;
  uint32_t sb;
  /* k is the number of blocks of K that have been loaded, and v is not used. Kernels that keep K and V in shared memory
   * (KV_RESIDENT) store parity bits of the stages of K in k, and of V in v. */
  uint32_t k, v;
  int tiles; /* Number of tile records (attn_tiles.h) written to the ring at OFF_TILE. */
} loader;

/* Loads block n of K or V from pages, in boxes of page_box rows. With pages t->start_k is the number of keys of the
 * sequence. Boxes past the end of the sequence get coordinates outside their page, so that they are filled with
 * zeros. */
GA_DEV void load_pages(loader *p, const ga_tmap *map, const work *t, int n, uint32_t dst, uint32_t bar, int panels) {
  args a = p->a;
  const int32_t *table = a->page_table + t->batch * a->page_table_stride;
  GA_ROLL for (int r = 0; r < BN; r += a->page_box) {
    const int row = n * BN + r, inside = row < t->start_k, page = row / a->page_size;
    const int at = inside ? row - page * a->page_size : a->page_size, id = inside ? ldg_i32(table + page) : 0;
    GA_ROLL for (int i = 0; i < panels; i++) bulk_load_4d(dst + i * BLOCK_PANEL + r * PANEL_ROW_BYTES, map, bar,
                                                          i * PANEL_COLS, at, t->head_k, id, L2_EVICT_LAST);
  }
}
/* Waits until stretch i of the keys is ready, or writes an error after x->ready_polls polls. A thread block waits once
 * for each stretch: OFF_READY has a bit for each stretch whose wait has ended. */
GA_DEV void wait_ready(const loader *p, const ga_kargs_attn_stretch *x, int i) {
  const uint32_t value = x->kv[i].ready;
  if (value == 0) return;
  ga_i4 seen = lds_i4(p->sb + OFF_READY);
  const int bit = 1 << i % 32;
  if ((i < 32 ? seen.x : seen.y) & bit) return;
  const uint32_t *word = x->ready + (x->kv[i].ready_word & 0xffff);
  int left = x->ready_polls;
  GA_ROLL while (ldg_peer_acquire_u32(word) < value) {
    if (--left <= 0) {
      stg_peer_i32(x->ready_error, 1 + (x->kv[i].ready_word >> 16));
      break;
    }
    peer_pause();
  }
  fence_async_global(); /* orders the data announced by the ready word before the copy engine's reads */
  if (i < 32)
    seen.x |= bit;
  else
    seen.y |= bit;
  sts_i4(p->sb + OFF_READY, seen.x, seen.y, 0, 0);
}
/* Returns the row of the tensor where block n begins. With key = 1 (a block of K), first waits until the block's
 * stretch is ready. */
GA_DEV int block_row(loader *p, const work *t, int n, int key) {
  if (!STRETCH) return t->start_k + n * BN;
  const ga_kargs_attn_stretch *x = stretch_args(p->a);
  const int i = stretch_of_block(x, t->start_k, n);
  if (key) wait_ready(p, x, i);
  return x->kv[i].first + (n - x->kv[i].block) * BN;
}
/* Loads block n of K or V from pages, for kernels with stretches. A block begins at the start of a box. Coordinates are
 * computed anew for each box, because keeping them would spill registers. */
GA_DEV void load_stretch_pages(loader *p, const ga_tmap *map, const work *t, int n, uint32_t dst, uint32_t bar,
                               int panels) {
  const ga_kargs_attn_stretch *x = stretch_args(p->a);
  const int i = stretch_of_block(x, t->start_k, n);
  int row = x->kv[i].first + (n - x->kv[i].block) * BN;
  const uint32_t end = dst + BLOCK_PANEL;
  GA_ROLL for (; dst != end; dst += p->a->page_box * PANEL_ROW_BYTES, row += p->a->page_box) {
    const int page = row / p->a->page_size;
    int at = row - page * p->a->page_size, id = 0;
    if (row < x->kv[i].first + x->kv[i].rows)
      id = ldg_i32(p->a->page_table + t->batch * p->a->page_table_stride + page);
    else
      at = p->a->page_size;
    GA_UNROLL for (int c = 0; c < panels; c++)
        bulk_load_4d(dst + c * BLOCK_PANEL, map, bar, c * PANEL_COLS, at, t->head_k, id, L2_EVICT_LAST);
  }
}
/* Loads block n of the tile's K or V into its stage, once the stage is free. r is the number of blocks loaded before
 * this block; with KV_RESIDENT r has a parity bit for each stage. */
GA_DEV void load_block(loader *p, uint32_t r, const ga_tmap *map, const work *t, int n, uint32_t off, uint32_t full,
                       uint32_t empty, int panels) {
  const uint32_t stage = KV_RESIDENT ? (uint32_t)n : ring_stage(r, ST);
  const uint32_t bar = p->sb + full + 8 * stage, dst = p->sb + off + stage * (panels * BLOCK_PANEL);
  mbar_wait(p->sb + empty + 8 * stage, KV_RESIDENT ? ~(r >> n) & 1u : ring_empty_parity(r, ST));
  mbar_arrive_expect(bar, panels * BLOCK_PANEL);
  if (PAGES && (p->a->features & GA_KATTN_PAGED)) {
    load_pages(p, map, t, n, dst, bar, panels);
    return;
  }
  const int row = block_row(p, t, n, off == OFF_K);
  if (STRETCH && p->a->page_size) {
    load_stretch_pages(p, map, t, n, dst, bar, panels);
    return;
  }
  GA_UNROLL for (int i = 0; i < panels; i++)
      bulk_load_4d(dst + i * BLOCK_PANEL, map, bar, i * PANEL_COLS, row, t->head_k, t->batch, L2_EVICT_LAST);
}
GA_DEV void load_k(loader *p, const work *t, int n) {
  const ga_tmap *map = CARRY && t->part > 0 ? &p->a->more[t->part - 1].k : &p->a->k;
  load_block(p, p->k, map, t, n, OFF_K, OFF_KF, OFF_KE, PANELS_K);
  p->k = KV_RESIDENT ? p->k ^ 1u << n : p->k + 1;
}
/* Loads V of block n. Blocks are loaded from the last to the first, and K of block n - 1 is loaded before V of block n.
 * The number of loads of K therefore gives the stage of V. */
GA_DEV void load_v(loader *p, const work *t, int n) {
  const ga_tmap *map = CARRY && t->part > 0 ? &p->a->more[t->part - 1].v : &p->a->v;
  load_block(p, KV_RESIDENT ? p->v : p->k - 1 - (n > t->n_lo), map, t, n, OFF_V, OFF_VF, OFF_VE, PANELS_V);
  if (KV_RESIDENT) p->v ^= 1u << n;
}

/* Returns the shared address for the next tile's record, in a ring of TILE_SLOTS. The record may be written before the
 * wait for Q's buffer, because consumers are at most two tiles late. */
GA_DEV uint32_t next_slot(const loader *p) { return p->sb + OFF_TILE + (p->tiles % TILE_SLOTS) * TILE_BYTES; }
/* Returns the batch index of the tile's Q. All packed sequences are one batch, even if K and V are in pages. */
GA_DEV int batch_q(const loader *p, const work *t) {
  return PAGES && (p->a->features & GA_KATTN_VARLEN) ? 0 : t->batch;
}
/* Loads a box of Q, rows from `query` on and columns from `column` on, to shared address dst. mbarrier bar counts the
 * bytes. */
GA_DEV void load_rows(const loader *p, uint32_t dst, uint32_t bar, int column, int query, int head, int batch) {
  if (PACKS)
    bulk_load_5d(dst, &p->a->q, bar, column, 0, query, head, batch, L2_EVICT_FIRST);
  else
    bulk_load_4d(dst, &p->a->q, bar, column, query, head, batch, L2_EVICT_FIRST);
}
/* Loads the tile's Q for each warpgroup, once the warpgroup has read the Q of the previous tile. Coordinates are read
 * from the tile's record, because keeping them would cost registers. */
GA_DEV void load_q(loader *p, const work *t) {
  const ga_i4 x = lds_i4(next_slot(p)), z = lds_i4(next_slot(p) + 32);
  GA_ROLL for (int w = 0; w < WGS; w++) {
    const uint32_t bar = p->sb + OFF_QF + 8 * w;
    mbar_wait(p->sb + OFF_QE + 8 * w, ~p->tiles & 1);
    if (t->n_hi < 0) {
      mbar_arrive(bar);
      continue;
    }
    mbar_arrive_expect(bar, wg_queries(p->a) * (PACKS ? p->a->pack : 1) * (PANELS_K * PANEL_ROW_BYTES));
    GA_UNROLL for (int i = 0; i < PANELS_K; i++)
        load_rows(p, p->sb + OFF_Q + w * Q_BYTES + i * Q_PANEL, bar, i * PANEL_COLS, z.z + x.x + w * wg_queries(p->a),
                  x.y, batch_q(p, t));
  }
  p->tiles++;
}
/* Prefetches the Q of the next tile into L2, because products that read Q from shared memory release its buffer
 * late. */
GA_DEV void prefetch_q(loader *p, const work *t) {
  const ga_i4 x = lds_i4(next_slot(p)), z = lds_i4(next_slot(p) + 32);
  if (t->n_hi < 0) return;
  GA_ROLL for (int i = 0; i < PANELS_K * WGS; i++) {
    const int column = i / WGS * PANEL_COLS, query = z.z + x.x + i % WGS * wg_queries(p->a);
    if (PACKS)
      bulk_prefetch_5d(&p->a->q, column, 0, query, x.y, batch_q(p, t));
    else
      bulk_prefetch_4d(&p->a->q, column, query, x.y, batch_q(p, t));
  }
}
/* Loads V of blocks n down to `to`, and before each of them K of the next lower block. Returns the highest block whose
 * V is not loaded yet. */
GA_DEV int load_blocks(loader *p, const work *t, int n, int to) {
  GA_ROLL for (; n >= to; n--) {
    if (n > t->n_lo) load_k(p, t, n - 1);
    load_v(p, t, n);
  }
  return n;
}
