/* The producer of attn_fp8_sm90a.cu: one thread, which issues all copies to shared memory. */
#pragma once
#include "cuda/dev/pipe/ring.h"
#include "cuda/dev/ptx/barrier.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/kern/attn/attn_tiles.h"
#include "cuda/kern/attn_fp8/attn_fp8_shape.h"

typedef struct {
  args a;
  uint32_t sb;
  /* Number of blocks of K that have been loaded. The number of loaded blocks of V follows from it. */
  uint32_t k;
  /* Number of tile records (attn_tiles.h) written to the ring at OFF_TILE. */
  int tiles;
} loader;

GA_DEV void load_k(loader *p, const work *t, int n) {
  const uint32_t stage = ring_stage(p->k, ST), bar = p->sb + OFF_KF + 8 * stage, dst = p->sb + OFF_K + stage * K_BYTES;
  const uint32_t slot = p->sb + OFF_SCALE + p->k % (2 * ST) * SCALE_BYTES;
  const ga_kargs_attn_fp8 *a = fp8_args(p->a);
  float scale[4]; /* scales of K and V for each half of 64 keys, loaded during the wait */
  GA_UNROLL for (int h = 0; h < 2 && !FAST_SUM; h++) {
    scale[h] = scale_of(&a->scale_k, t->batch, t->head_k, 2 * n + h);
    scale[2 + h] = scale_of(&a->scale_v, t->batch, t->head_k, 2 * n + h);
  }
  GA_ROLL for (int h = 0; h < SUBS && FAST_SUM;
               /* The slot of the scales is free: a load of K, ST blocks ago, waited until the K of the slot's earlier
                * block was released. */
               h++) {
    const float v = lg2(scale_of(&a->scale_v, t->batch, t->head_k, SUBS * n + h));
    sts_f1(slot + 4 * h, scale_of(&a->scale_k, t->batch, t->head_k, SUBS * n + h));
    sts_f1(slot + 4 * (SUBS + h), v);
    sts_f1(slot + 4 * (2 * SUBS + h), ex2(-v));
  }
  mbar_wait(p->sb + OFF_KE + 8 * stage, ring_empty_parity(p->k, ST));
  if (!FAST_SUM) sts_f4(slot, scale);
  mbar_arrive_expect(bar, K_BYTES);
  GA_UNROLL for (int i = 0; i < PANELS_K; i++)
      bulk_load_4d(dst + i * K_PANEL, &p->a->k, bar, i * ROW_BYTES, n * BN, t->head_k, t->batch, L2_EVICT_LAST);
  p->k++;
}
/* Loads V of block n. Blocks are loaded from the last to the first, and K of block n - 1 is loaded before V of block n.
 * The number of loads of K therefore gives the stage of V. */
GA_DEV void load_v(loader *p, const work *t, int n) {
  const uint32_t r = p->k - 1 - (n > t->n_lo), stage = ring_stage(r, ST), bar = p->sb + OFF_VF + 8 * stage;
  mbar_wait(p->sb + OFF_VE + 8 * stage, ring_empty_parity(r, ST));
  mbar_arrive_expect(bar, V_BYTES);
  GA_UNROLL for (int i = 0; i < BN / V_KEYS; i++)
      bulk_load_4d(p->sb + OFF_V + stage * V_STAGE + i * DV * V_KEYS, &p->a->v, bar, n * BN + i * V_KEYS, 0, t->head_k,
                   t->batch, L2_EVICT_LAST);
}
/* Returns the shared address for the next tile's record, in a ring of TILE_SLOTS. The record may be written before the
 * wait for the tile's Q buffer, because consumers are at most two tiles late. */
GA_DEV uint32_t next_slot(const loader *p) { return p->sb + OFF_TILE + (p->tiles % TILE_SLOTS) * TILE_BYTES; }
/* Loads the tile's Q into one of two buffers, once the tile before the previous tile has released it. Coordinates are
 * read from the tile's record, because keeping them would cost registers. */
GA_DEV void load_q(loader *p, const work *t) {
  const ga_i4 x = lds_i4(next_slot(p));
  const uint32_t buffer = (uint32_t)p->tiles & 1, bar = p->sb + OFF_QF + 8 * buffer;
  mbar_wait(p->sb + OFF_QE + 8 * buffer, ~(p->tiles >> 1) & 1);
  if (t->n_hi < 0) {
    mbar_arrive(bar);
  } else {
    float scale[4] = {}; /* int8: each lane reads the scales of its own rows */
    GA_UNROLL for (int w = 0; w < WGS && !I8; w++) scale[w] =
        scale_of(&fp8_args(p->a)->scale_q, t->batch, x.y, x.x / 64 + w);
    if (!I8) sts_f4(next_slot(p) + 48, scale);
    const float *mean = FAST_SUM ? fp8_args(p->a)->v_mean : 0;
    mbar_arrive_expect(bar, WGS * Q_BYTES + (mean ? 4 * DV : 0));
    if (mean) {
      const int64_t head = (t->batch * p->a->heads_q + x.y) / p->a->group; /* head index over all batches */
      bulk_load_bytes(p->sb + OFF_MEAN + (p->tiles % TILE_SLOTS) * 4 * DV, mean + head * DV, 4 * DV, bar,
                      L2_EVICT_LAST);
    }
    GA_ROLL for (int w = 0; w < WGS; w++) {
      const uint32_t dst = p->sb + OFF_Q + (buffer * WGS + (uint32_t)w) * Q_BYTES;
      GA_UNROLL for (int i = 0; i < PANELS_K; i++)
          bulk_load_4d(dst + i * Q_PANEL, &p->a->q, bar, i * ROW_BYTES, x.x + w * 64, x.y, t->batch, L2_EVICT_FIRST);
    }
  }
  p->tiles++;
}
/* Returns the work of a tile again, from the record that was written `back` tiles ago. The producer of fast_sum has 24
 * registers, and tile_next needs them all. */
GA_DEV work work_again(const loader *p, int back) {
  const uint32_t slot = p->sb + OFF_TILE + ((p->tiles - back) % TILE_SLOTS) * TILE_BYTES;
  const ga_i4 x = lds_i4(slot), y = lds_i4(slot + 16);
  const work t = {x.y / p->a->group, x.z, x.w, y.x, 0, 0, 0};
  return t;
}
/* Issues all loads of this thread block in the order of use. Blocks of keys are loaded from the last to the first: K of
 * a block before V of the previous one, also across tiles. Q is loaded one tile before its use. */
GA_DEV void producer(args a, uint32_t sb) {
  loader p = {a, sb, 0, 0};
  int i = block_index() - block_count(), sub = 0;
  /* The inputs may be the previous kernel's outputs. Consumers need no wait of their own, because all their data comes
   * from loads after this wait. */
  grid_dependency_wait();
  work t = tile_next(a, &i, &sub, next_slot(&p), 1);
  load_q(&p, &t);
  if (t.n_hi >= 0) load_k(&p, &t, t.n_hi);
  while (t.n_hi >= 0) {
    int n = t.n_hi;
    if (n > t.n_lo) load_k(&p, &t, n - 1);
    load_v(&p, &t, n);
    work next = tile_next(a, &i, &sub, next_slot(&p), 0);
    load_q(&p, &next);
    if (FAST_SUM) t = work_again(&p, 2);
    GA_ROLL for (n--; n >= t.n_lo; n--) {
      if (n > t.n_lo) load_k(&p, &t, n - 1);
      load_v(&p, &t, n);
    }
    if (FAST_SUM) next = work_again(&p, 1);
    if (next.n_hi >= 0) load_k(&p, &next, next.n_hi);
    t = next;
  }
  /* the last block to finish resets the counters */
  if (MASKED && atomic_add_i32(a->counter + 1, 1) == block_count() - 1) {
    stg_i32(a->counter, 0);
    stg_i32(a->counter + 1, 0);
    fence_device();
  }
}
