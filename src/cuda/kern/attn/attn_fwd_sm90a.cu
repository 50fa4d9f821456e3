/* KERNEL    attn_fwd, sm90a, warp-specialised: 1 producer warp + BM/64 consumer warpgroups of 64 rows
 * COMPUTES  per (batch, head, BM rows of Q):  S = Q K^T * scale (+ soft-cap, alibi, mask);  O = softmax(S) V;
 *           lse = log sum exp S. Q head h reads kv head h / group. Masks are aligned to the bottom right: row i sees
 *           columns up to i + rows_k - rows_q.
 * CONTRACT  16-bit inputs, columns contiguous, 16-byte aligned, row/head/batch strides multiples of 8; head dim <= D,
 *           value dim <= DV (zero padded by the tensor maps); o aliases nothing; scale > 0. Writes o, lse, and leaves
 *           counter zeroed. A row that sees no column, or only logits of -inf: o = 0, lse = -inf. Columns that are
 *           masked inside a block have weight 0, and V is multiplied by it: an infinity or NaN in V turns its column
 *           of o into NaN (GA_ATTN_ROW_V_FINITE). Values past the end of a sequence never reach a product.
 * DATA      gmem -TMA-> smem (Q; K, V rings) -ldmatrix-> Q regs; Q regs x K smem -wgmma-> S regs -exp2-> P regs;
 *           P regs x V smem -wgmma-> O regs; O regs -stmatrix-> smem -TMA-> gmem, or O regs -> gmem
 * SOFTMAX   The reference of a row is the maximum of its tile's first block (and of masked blocks). After a block's
 *           exponentials each warp votes whether no partial row sum is far above the mean of earlier ones
 *           (move_limits). If one is, the block's largest weights give the new references, and the weights are rescaled
 *           to them. A key that dominates its row then has weight 1 and is not rounded, as with a running maximum. From
 *           2^100 on (NaN and inf included) the warp recomputes its 16 rows of S from K, which is still in shared
 *           memory. Both ways are exact.
 * PACKING   (PACKS) Few queries, many heads in a group: a row is a (query, head) pair, row = query * pack + head.
 *           Tiles are then full, and K and V are read once for the group. Q is copied by boxes of pack heads and
 *           64 / pack queries.
 * SPLITS    (PACKS and CARRY) Few tiles: their blocks of K and V are split over several work items. Each writes O, m
 *           and l of its rows to the workspace. The last warp to finish its 16 rows of the tile adds them, in the order
 *           of the items.
 * STRETCHES Q, K and V are lists of stretches (ga/attn.h). Each stretch of keys begins a block, so that a block is one
 *           box; the last block of a stretch may be short. The other rows of such a block, which may belong to any
 *           stretch, are masked in S and zeroed in V. A tile of Q belongs to one stretch. Masks are applied by
 *           position, with the call's window_left and window_right: one variant serves all masks. Before its first
 *           box the producer waits for a stretch's ready word, which other devices store. The load acquires at system
 *           scope, and a fence between the proxies follows. A wait ends after ready_polls polls and is then reported in
 *           ready_error. With page_size rows are slots of pages: a block consists of boxes of page_box rows, which
 *           divides page_size, BN and the first rows of stretches.
 * BARRIERS  name        arrivals      waiter       orders
 *           q_full[w]   1+tx          warpgroup w  TMA write of its 64 rows of Q, and the tile record -> ldmatrix,
 *                                                  wgmma, ld.shared
 *           q_empty[w]  4 (warps)     producer     reads of Q, returned (loads_done) -> next TMA write of Q
 *           k_full[s]   1+tx          consumers    TMA write of K[s] -> wgmma read
 *           k_empty[s]  4/wg (warps)  producer     wgmma (and recomputing) reads of K[s] -> next TMA write
 *           v_full[s]   1+tx          consumers    TMA write of V[s] -> wgmma read
 *           v_empty[s]  1/wg          producer     wgmma reads of V[s] -> next TMA write
 *           turn w      named 1+w     warpgroup w  its turn to issue products (PINGPONG 1) or to take exponentials
 *                                                  (PINGPONG 2)
 *           clean       named 5       consumers    zeros over rows of V[s] past the sequence -> all warps' wgmma reads
 *           pass w      named 6+w     warpgroup w  its warps' waits for a skipped V[s] -> the arrival that releases it
 * BUDGET    what       how much
 *           threads    128 + 2 BM: a warpgroup with the producer, and one per 64 rows of Q
 *           registers  of producer and consumers: 32 and 160 (BM 192); else 24 and 240, 40 and 232, or 56 and 224, by
 *                      mask, D and features
 *           blocks     1 per multiprocessor
 *           smem       SMEM_BYTES: Q, rings of K and V, O unless it is stored from registers, barriers, tile records
 * MEASURED  docs/log/attention.md
 * REF       Dao et al. 2022, 2023; Shah et al. 2024 (warp specialisation, overlap of softmax and products)
 */
#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: bf16 or f16"
#endif
#ifndef GA_P_D
#error "GA_P_D: head dim of q and k, padded: 64, 96, 128, 192, 256"
#endif
#ifndef GA_P_DV
#error "GA_P_DV: head dim of v and o, padded"
#endif
#ifndef GA_P_MASK
#error "GA_P_MASK: GA_P_MASK_FULL, GA_P_MASK_CAUSAL or GA_P_MASK_WINDOW"
#endif
#ifndef GA_P_BM
#error "GA_P_BM: rows of Q per tile: 64 per consumer warpgroup"
#endif
#ifndef GA_P_BN
#error "GA_P_BN: rows of K and V per block"
#endif
#ifndef GA_P_STAGES
#error "GA_P_STAGES: stages of the K ring and of the V ring"
#endif
#ifndef GA_P_PINGPONG
#error "GA_P_PINGPONG: warpgroups take turns at: 0 nothing, 1 issuing products, 2 exponentials"
#endif
#ifndef GA_P_QREG
#error \
    "GA_P_QREG: how many 16-column steps of Q are held in registers: D / 16 is all; the rest is read from shared memory"
#endif
#ifndef GA_P_STORE
#error "GA_P_STORE: O leaves through shared memory and TMA (0) or straight from registers (1)"
#endif
#ifndef GA_P_RESIDENT
#error "GA_P_RESIDENT: K and V of a whole head stay in shared memory (1); needs ceil(rows_k / BN) <= STAGES"
#endif
#ifndef GA_P_BLOCKS
#error "GA_P_BLOCKS: blocks per multiprocessor: 1 here"
#endif
#ifndef GA_P_EXTRAS
#error "GA_P_EXTRAS: 1: soft-cap, alibi, sinks, packed sequences; CARRY, PAGES and PACKS need it"
#endif
#ifndef GA_P_CARRY
#error "GA_P_CARRY: 1: carried state, KV segments"
#endif
#ifndef GA_P_PAGES
#error "GA_P_PAGES: 1: K and V in pages"
#endif
#ifndef GA_P_PACKS
#error "GA_P_PACKS: 1: the heads of a group are rows of a tile"
#endif
#ifndef GA_P_STRETCHES
#error "GA_P_STRETCHES: 1: Q, K and V are lists of stretches"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/dev/tile/reg_max.h"
#include "cuda/dev/tile/smem.h"
#include "cuda/kern/attn/attn_fwd_load.h"
#include "cuda/kern/attn/attn_fwd_shape.h"
#include "cuda/kern/attn/attn_fwd_warpgroup.h"
#include "cuda/kern/attn/attn_kv_stages.h"
#include "cuda/kern/attn/attn_lse.h"
#include "cuda/kern/attn/attn_results.h"
#include "cuda/kern/attn/attn_scores.h"
#include "cuda/kern/attn/attn_stretch_mask.h"
#include "cuda/kern/attn/attn_tiles.h"

/* ------------------------------------------------------------------ producer: one thread */
/* K runs ahead of V also into the next tile. Where tiles differ in length the next one is taken late, so that the
 * longest left goes to the block that is free first; its Q still arrives in time. Else after this tile's first block.
 * */
GA_DEV void producer(args a, uint32_t sb) {
  loader p = {a, sb, 0, 0, 0};
  int i = block_index() - block_count(), sub = 0;
  grid_dependency_wait(); /* the inputs may be the previous kernel's outputs; everything the consumers do follows from
                             here */
  work t = tile_next(a, &i, &sub, next_slot(&p), 1);
  load_q(&p, &t);
  if (t.n_hi >= 0) load_k(&p, &t, t.n_hi);
  while (t.n_hi >= 0) {
    int n = t.n_hi;
    if (t.loads) n = load_blocks(&p, &t, n, LATE ? t.n_lo + 2 : n);
    const work next = tile_next(a, &i, &sub, next_slot(&p), 0);
    if (Q_SMEM)
      prefetch_q(&p, &next);
    else
      load_q(&p, &next);
    if (t.loads) load_blocks(&p, &t, n, t.n_lo);
    if (next.n_hi >= 0 && next.loads) load_k(&p, &next, next.n_hi);
    if (Q_SMEM) load_q(&p, &next);
    t = next;
  }
  if (MASKED && !KV_RESIDENT &&
      atomic_add_i32(a->counter + 1, 1) == block_count() - 1) { /* the last block out resets the order */
    stg_i32(a->counter, 0); /* the grid's end brings these to the next one's grid_dependency_wait */
    stg_i32(a->counter + 1, 0);
  }
}

/* ------------------------------------------------------------------ consumers */
/* Warpgroups issue their products in turn (PINGPONG 1): every begin is matched by one end of the previous warpgroup,
 * never two. */
GA_DEV void issue_begin(const warpgroup *c) {
  if (PINGPONG == 1) bar_sync(1 + c->at.w, 256);
}
GA_DEV void issue_end(const warpgroup *c) {
  if (PINGPONG == 1) bar_arrive(1 + (c->at.w + 1) % WGS, 256);
}

/* Blocks to the right of all this warpgroup's rows: their turns pass, K goes back unread, V when PV gets there. */
GA_DEV void skip_blocks(warpgroup *c) {
  if (!SKIP || c->n < 0) return;
  const int first = lds_i4(tile_slot(c, 1) + 32).w + c->at.w * 64; /* what the first row sees last */
  const int seen = warp_uniform(imax(0, first + 63) / BN);
  c->mask_hi = warp_uniform(imax(0, first) / BN); /* as in tile_blocks */
  GA_ROLL for (; c->n > seen; c->n--, c->block_k++) {
    wait_k(c);
    warp_sync();
    release_k(c);
    issue_begin(c);
    issue_end(c);
  }
}
/* Takes the next tile: its limits, and Q to registers. */
GA_DEV void next_tile(warpgroup *c, uint32_t *q) {
  mbar_wait(c->at.sb + OFF_QF + 8 * c->at.w, c->tiles & 1);
  const uint32_t slot = tile_slot(c, 0);
  const ga_i4 x = lds_i4(slot), y = lds_i4(slot + 16);
  c->tiles++;
  c->n = warp_uniform(x.w);
  c->n_lo = WINDOW ? warp_uniform(y.x) : 0;
  c->mask_hi = SKIP ? 0 : MASKED ? warp_uniform(y.y) : 0;
  c->mask_lo = WINDOW ? warp_uniform(y.z) : 0;
  if (KV_RESIDENT) c->keep_k = warp_uniform(y.w);
  if (CARRY) c->joins = warp_uniform(y.w) & 1;
  if (STRETCH && c->n >= 0) c->mask_lo = warp_uniform(imax(c->mask_lo, short_block(c, c->n) + 1));
  skip_blocks(c);
  if (!EXTRAS || c->n >= 0) /* else there is nothing, perhaps not even an old Q */
    load_a(q, c->at.sb + OFF_Q + c->at.w * Q_BYTES, Q_PANEL, c->at.wl * 16, QREG, c->at.lane);
  if (!QREG) return;
  const uint32_t done = loads_done(q, NQ, 4);
  if (Q_SMEM) return; /* the buffer goes back behind products that take these registers */
  warp_sync();
  if (c->at.lane == 0) mbar_arrive(c->at.sb + OFF_QE + 8 * c->at.w + done);
}
/* Zeros over the rows of V from `keep` on, in the block that PV comes to next: they are the next sequence's, or
 * anything that is left in a page, and 0 times NaN is NaN. All consumers share the work, and meet. */
GA_DEV void zero_v(const warpgroup *c, int keep) {
  const uint32_t v = c->at.sb + OFF_V + stage_v(c) * V_BYTES + (uint32_t)keep * PANEL_ROW_BYTES;
  wait_v(c);
  GA_ROLL for (int j = 0; j < PANELS_V; j++) GA_ROLL for (int i = c->at.w * 128 + c->at.wl * 32 + c->at.lane;
                                                          i < (BN - keep) * (PANEL_ROW_BYTES / 16); i += WGS * 128)
      sts_i4(v + (uint32_t)(j * BLOCK_PANEL + i * 16), 0, 0, 0, 0);
  fence_async_smem();
  bar_sync(5, WGS * 128);
}
/* Behind the sequence's end, in the block that PV comes to first. */
GA_DEV void clean_v(const warpgroup *c) {
  if (!(c->at.a->features & (GA_KATTN_VARLEN | GA_KATTN_PAGED))) return;
  const int n_hi = lds_i4(tile_slot(c, 1)).w, rows_k = lds_i4(tile_slot(c, 1) + 32).y;
  const int keep = warp_uniform(imax(rows_k - n_hi * BN, 0));
  if (keep >= BN) return;
  zero_v(c, keep);
}
/* Behind a stretch's end, where the block that PV comes to next has one; the mask then reaches to the next end. */
GA_DEV void clean_stretch(warpgroup *c) {
  if (c->n < c->mask_hi && c->n >= c->mask_lo) return;
  const int keep = warp_uniform(stretch_keys(c, c->n));
  if (keep >= BN) return;
  zero_v(c, keep);
  c->mask_lo = warp_uniform(imax(lds_i4(tile_slot(c, 1) + 16).z, short_block(c, c->n - 1) + 1));
}
/* S = Q K^T of the current K stage. */
GA_DEV void issue_qk(warpgroup *c, float *s, const uint32_t *q) {
  const uint64_t dk = desc(c->desc_k + stage_k(c) * (K_BYTES >> 4)), dq = desc(c->desc_q);
  pin_f32(s, NS);
  wgmma_fence();
  GA_UNROLL for (int k = 0; k < D / 16; k++) {
    const uint64_t b = dk + (uint64_t)((k / 4) * (BLOCK_PANEL >> 4) + 2 * (k % 4));
    if (k < QREG)
      QK_RS(s, q + 4 * (k < QREG ? k : 0), b, k != 0);
    else
      QK_SS(s, dq + (uint64_t)((k / 4) * (Q_PANEL >> 4) + 2 * (k % 4)), b, k != 0);
  }
  wgmma_commit();
}
/* O (+)= P V of the current V stage. */
GA_DEV void issue_pv(warpgroup *c, float *o, uint32_t *p, int accumulate) {
  const uint64_t dv = desc(c->desc_v + stage_v(c) * (V_BYTES >> 4));
  pin_u32(p, NP);
  pin_f32(o, NO);
  wgmma_fence();
  GA_UNROLL for (int k = 0; k < BN / 16; k++) PV_RST(o, p + 4 * k, dv + (uint64_t)(k * 128), k ? 1 : accumulate);
  wgmma_commit();
}
/* Everything issued is complete: O may be touched, P overwritten, V reused. */
GA_DEV void finish_pv(const warpgroup *c, float *o, uint32_t *p) {
  wgmma_wait(0);
  pin_f32(o, NO);
  pin_u32(p, NP);
  release_v(c);
}

/* Every warpgroup's exponentials follow the previous one's (PINGPONG 2). */
GA_DEV void pingpong_wait(const warpgroup *c) {
  if (PINGPONG == 2) bar_sync(1 + c->at.w, 256);
}
GA_DEV void pingpong_signal(const warpgroup *c) {
  if (PINGPONG == 2) bar_arrive(1 + (c->at.w + 1) % WGS, 256);
}
/* A tile's first block: mask, row maxima m in log2 units, exponentials, partial sums l. */
GA_DEV void softmax_first(const warpgroup *c, float *s, float *m, float *l, int n, int pingpong) {
  const float f = log2_factor(c->at.a);
  float ref[2];
  apply_features(c, s, n);
  apply_mask(c, s, n);
  tile_row_max(s, BN, m);
  m[0] *= f;
  m[1] *= f;
  reference(m, ref);
  if (pingpong)
    tile_exp2(s, BN, f, ref, l);
  else
    tile_exp2(s, BN, f, ref, l);
}
/* A block with the running maximum: new m, l and O factors (1 for rows that had seen nothing), exponentials, partial
 * sums. */
GA_DEV void softmax_running(const warpgroup *c, float *s, float *m, float *l, float *factor, float *sum) {
  const float f = log2_factor(c->at.a);
  float x[2], ref[2];
  tile_row_max(s, BN, x);
  GA_UNROLL for (int i = 0; i < 2; i++) {
    const float now = fmaxf(m[i], x[i] * f);
    factor[i] = m[i] == GA_NEG_INF ? 1.f : ex2(m[i] - now);
    m[i] = now;
    l[i] *= factor[i];
  }
  reference(m, ref);
  tile_exp2(s, BN, f, ref, sum);
}
/* Computes the limits of the lane's sums of block n, above which a row's reference moves. A limit is MOVES times the
 * mean of such sums so far, so that a key that dominates the row has the weight 1, which P holds without rounding.
 * It is at least 1.004, which is rounded to 1 as well. With carried sums, whose number of keys is unknown, it is at
 * most the sum so far. All this runs during the products. The inverse is accurate to 12 %, since a division would
 * use the unit that computes exponentials. */
GA_DEV void move_limits(const warpgroup *c, const float *l, float *limit) {
  const int keys = MASKED ? (c->mask_hi - c->n) * BN : c->at.a->rows_k - (c->n + 1) * BN; /* before block n */
  const float n = __uint_as_float(0x4b000000u + (uint32_t)keys) - 8388608.f;              /* as a float, up to 2^23 */
  const float inverse = __uint_as_float(0x7ef311c7u - float_bits(n)) * (MOVES(c->at.a->rows_k) * BN);
  GA_UNROLL for (int i = 0; i < 2; i++) {
    float mean = l[i] * inverse;
    if (CARRY && (c->joins || c->at.a->features & GA_KATTN_STATE_IN)) mean = fminf(mean, l[i]);
    limit[i] = fminf(fmaxf(mean, 1.004f), SUM_LIMIT);
  }
  pin_f32(limit, 2);
}
/* Weights that have grown, but lost nothing: their maximum becomes the reference, to which they are brought. New m, O
 * factors, partial sums. */
GA_DEV void move_reference(float *s, float *m, float *l, float *factor, float *sum) {
  float x[2];
  tile_row_max_positive(s, BN, x);
  GA_UNROLL for (int i = 0; i < 2; i++) {
    const float now = m[i] + fmaxf(lg2(x[i]), 0.f);
    factor[i] = ex2(m[i] - now);
    m[i] = now;
    l[i] *= factor[i];
    sum[i] *= factor[i];
  }
  tile_scale_rows(s, BN, factor);
}
/* This warp's 16 rows of S again, by warp-level products from the K stage still held: the same layout, so the caller
 * goes on as before. */
GA_DEV void recompute_s(const warpgroup *c, float *s, const uint32_t *q) {
  const uint32_t k0 = c->at.sb + OFF_K + stage_k(c) * K_BYTES;
  GA_UNROLL for (int i = 0; i < NS; i++) s[i] = 0.f;
  RECOMPUTE_LOOP for (int k = 0; k < D / 16; k++) {
    uint32_t a[4], b[4];
    if (k >= QREG)
      ldmatrix_x4(a, panel_chunk(c->at.sb + OFF_Q + c->at.w * Q_BYTES + (k / 4) * Q_PANEL,
                                 (uint32_t)(c->at.wl * 16 + (c->at.lane & 15)),
                                 (uint32_t)((k % 4) * 2 + (c->at.lane >> 4))));
    GA_UNROLL for (int j = 0; j < BN / 16; j++) { /* 16 rows of K: two 8-column groups of S */
      ldmatrix_x4(b, panel_chunk(k0 + (k / 4) * BLOCK_PANEL,
                                 (uint32_t)(j * 16 + (c->at.lane & 7) + ((c->at.lane >> 4) << 3)),
                                 (uint32_t)((k % 4) * 2 + ((c->at.lane >> 3) & 1))));
      MMA_WARP(s + 8 * j, k < QREG ? q + 4 * (k < QREG ? k : 0) : a, b[0], b[1]);
      MMA_WARP(s + 8 * j + 4, k < QREG ? q + 4 * (k < QREG ? k : 0) : a, b[2], b[3]);
    }
  }
}
GA_DEV void to_p(const float *s, uint32_t *p) {
  GA_UNROLL for (int i = 0; i < NP; i++) p[i] = PACK(s[2 * i], s[2 * i + 1]);
}

/* ------------------------------------------------------------------ one block of the stream */
/* Tiles go on from a state in memory. */
GA_DEV int resumes(const warpgroup *c) { return CARRY && c->at.a->features & GA_KATTN_STATE_IN; }
/* A masked block: running maximum. turns: to a tile that goes on from a state; the old one's results leave. */
GA_DEV void step_masked(warpgroup *c, float *s, float *o, uint32_t *p, float *m, float *l, int turns) {
  float factor[2], sum[2];
  release_k(c);
  if (!Q_SMEM) finish_pv(c, o, p); /* early: P's registers are needed here, and such blocks are few */
  if (CARRY && !Q_SMEM && turns) {
    epilogue(c, o, m, l, 2);
    load_state(c, o, m, l);
  }
  apply_features(c, s, c->n);
  apply_mask(c, s, c->n);
  softmax_running(c, s, m, l, factor, sum);
  pingpong_signal(c);
  tile_scale_rows(o, DV, factor);
  l[0] += sum[0];
  l[1] += sum[1];
}
/* A block that every row of the tile sees in full: the reference stays, the vote guards it. The vote also keeps the
 * exponentials above the wait for PV. */
GA_DEV void step_free(warpgroup *c, float *s, float *o, uint32_t *p, const uint32_t *q, float *m, float *l,
                      const float *limit) {
  const float f = log2_factor(c->at.a);
  float sum[2];
  apply_features(c, s, c->n);
  tile_exp2(s, BN, f, m, sum);
  const int grown = warp_any(!(sum[0] < limit[0] && sum[1] < limit[1]));
  if (!grown) release_k(c);
  pingpong_signal(c);
  if (!Q_SMEM) finish_pv(c, o, p);
  if (grown) {
    float factor[2];
    if (warp_any(!(sum[0] < SUM_LOST && sum[1] < SUM_LOST))) {
      recompute_s(c, s, q);
      const uint32_t done = loads_done_f32(s, NS, 4);
      warp_sync();
      release_k_after(c, done);
      apply_features(c, s, c->n);
      softmax_running(c, s, m, l, factor, sum);
    } else {
      release_k(c);
      move_reference(s, m, l, factor, sum);
    }
    tile_scale_rows(o, DV, factor);
  }
  l[0] += sum[0];
  l[1] += sum[1];
}
/* First block of a new tile, last PV of the old one, whose results leave here. */
GA_DEV void step_edge(warpgroup *c, float *s, float *o, uint32_t *p, float *m, float *l) {
  float m2[2], l2[2];
  release_k(c);
  softmax_first(c, s, m2, l2, c->n, 1);
  pin_f32(s, NS);
  pingpong_signal(c);
  finish_pv(c, o, p);
  epilogue(c, o, m, l, 2);
  to_p(s, p);
  m[0] = m2[0];
  m[1] = m2[1];
  l[0] = l2[0];
  l[1] = l2[1];
}

/* A block of the tile that is not its first, or goes on from a state or a part before it: those count as masked. */
GA_DEV void step_block(warpgroup *c, float *s, float *o, uint32_t *p, const uint32_t *q, float *m, float *l,
                       const float *limit, int turns) {
  if (MASKED && (c->n >= c->mask_hi || (WINDOW && c->n < c->mask_lo)))
    step_masked(c, s, o, p, m, l, turns);
  else
    step_free(c, s, o, p, q, m, l, limit);
  to_p(s, p);
}
/* The first block of the stream: S, softmax, P. */
GA_DEV void start_pipeline(warpgroup *c, float *s, float *o, uint32_t *p, const uint32_t *q, float *m, float *l) {
  float factor[2], sum[2];
  if (resumes(c)) load_state(c, o, m, l);
  wait_k(c);
  issue_qk(c, s, q);
  wgmma_wait(0);
  pin_f32(s, NS);
  release_k(c);
  if (resumes(c)) {
    apply_features(c, s, c->n);
    apply_mask(c, s, c->n);
    softmax_running(c, s, m, l, factor, sum);
    tile_scale_rows(o, DV, factor);
    l[0] += sum[0];
    l[1] += sum[1];
  } else {
    softmax_first(c, s, m, l, c->n, 0);
  }
  to_p(s, p);
  c->n_v = -1;
  advance(c);
}
/* Q in registers. One flat stream of blocks across tiles: each turn issues S of the next block (of this tile or of the
 * next one) and then O += P V of the current one, which runs under the softmax of the next. */
GA_DEV void consume_flat(warpgroup *c) {
  float s[NS], o[NO], m[2], l[2], limit[2];
  uint32_t p[NP], q[NQ];
  int accumulate = resumes(c), first = 1; /* first: the next PV is of a record's first block */
  next_tile(c, q);
  if (c->n < 0) return;
  start_pipeline(c, s, o, p, q, m, l);
  GA_ROLL for (;;) {
    const int edge = c->n == c->n_lo;
    if (EXTRAS && (CARRY ? first : !accumulate)) clean_v(c);
    if (STRETCH) clean_stretch(c);
    if (edge)
      next_tile(c, q);
    else
      c->n--;
    if (c->n < 0) break;
    wait_k(c);
    issue_begin(c);
    issue_qk(c, s, q);
    wait_v(c);
    issue_pv(c, o, p, accumulate);
    issue_end(c);
    move_limits(c, l, limit);
    wgmma_wait(1);
    pin_f32(s, NS);
    pingpong_wait(c);
    const int turns = edge && !(CARRY && c->joins), fresh = turns && !resumes(c);
    if (fresh)
      step_edge(c, s, o, p, m, l);
    else
      step_block(c, s, o, p, q, m, l, limit, turns);
    accumulate = !fresh;
    first = edge;
    advance(c);
  }
  wait_v(c);
  issue_pv(c, o, p, accumulate);
  finish_pv(c, o, p);
  epilogue(c, o, m, l, 2);
}
/* Q in shared memory, whose next tile can only arrive after this tile's last S. PV goes first; at an edge the results
 * leave while Q arrives. A warpgroup's softmax is covered by the other one's products alone. */
GA_DEV void consume_qsmem(warpgroup *c) {
  float s[NS], o[NO], m[2], l[2], limit[2];
  uint32_t p[NP], q[NQ];
  int accumulate = resumes(c), first = 1; /* first: the next PV is of a record's first block */
  next_tile(c, q);
  if (c->n < 0) return;
  start_pipeline(c, s, o, p, q, m, l);
  GA_ROLL for (;;) {
    const int edge = c->n == c->n_lo;
    if (EXTRAS && (CARRY ? first : !accumulate)) clean_v(c);
    if (STRETCH) clean_stretch(c);
    wait_v(c);
    issue_begin(c);
    issue_pv(c, o, p, accumulate);
    if (edge) {
      issue_end(c);
      finish_pv(c, o, p);
      if (!CARRY) epilogue(c, o, m, l, 1);
      next_tile(c, q);
      if (CARRY && !c->joins) epilogue(c, o, m, l, 2);
      if (c->n < 0) break;
      if (resumes(c) && !c->joins) load_state(c, o, m, l);
      wait_k(c);
      issue_begin(c);
    } else {
      c->n--;
      wait_k(c);
    }
    issue_qk(c, s, q);
    issue_end(c);
    move_limits(c, l, limit);
    wgmma_wait(0);
    pin_f32(s, NS);
    pin_f32(o, NO);
    pin_u32(p, NP);
    if (!edge) release_v(c);
    pingpong_wait(c);
    const int fresh = edge && !(CARRY && c->joins) && !resumes(c);
    if (fresh) {
      release_k(c);
      softmax_first(c, s, m, l, c->n, 1);
      pingpong_signal(c);
      to_p(s, p);
    } else {
      step_block(c, s, o, p, q, m, l, limit, 0);
    }
    accumulate = !fresh;
    first = edge;
    advance(c);
  }
}
GA_DEV void consumer(args a, uint32_t sb, int wg, int warp, int lane) {
  warpgroup c = {};
  c.at.a = a, c.at.sb = sb, c.at.w = wg, c.at.wl = warp & 3, c.at.lane = lane, c.at.g = lane >> 2;
  c.at.q2 = (lane & 3) * 2;
  c.desc_q = desc_k_major(sb + OFF_Q + wg * Q_BYTES);
  c.desc_k = desc_k_major(sb + OFF_K);
  c.desc_v = desc_n_major(sb + OFF_V, BLOCK_PANEL);
  c.keep_k = c.keep_v = -1;
  c.block_v = ~0u;
  if (PINGPONG && c.at.w == WGS - 1) bar_arrive(1, 256); /* warpgroup 0 starts */
  if (Q_SMEM)
    consume_qsmem(&c);
  else
    consume_flat(&c);
  if (!STORE_REG && lane == 0) bulk_wait_read(); /* shared memory must outlive the last store's reads */
}

/* ------------------------------------------------------------------ the kernel */
/* Zeros over the rows of Q that no load reaches: what they give is not stored, but it is voted on. */
GA_DEV void clear_dead_rows(args a, uint32_t sb) {
  const int live = PACKS ? a->wg_queries * a->pack : 64, chunks = (64 - live) * (PANEL_ROW_BYTES / 16);
  if (!PACKS || chunks == 0) return;
  GA_ROLL for (int panel = 0; panel < WGS * PANELS_K; panel++)
      GA_ROLL for (int i = thread_index(); i < chunks; i += THREADS)
          sts_i4(sb + OFF_Q + (uint32_t)(panel * Q_PANEL + live * PANEL_ROW_BYTES + 16 * i), 0, 0, 0, 0);
  fence_async_smem();
}
GA_KERNEL(THREADS, GA_P_BLOCKS) GA_KERNEL_ID(GA_GRID_CONST KARGS all) {
  const ga_kargs_attn_fwd &a = *(args)&all;
  const uint32_t sb = smem_base();
  const int warp = warp_uniform(thread_index() >> 5), lane = thread_index() & 31, wg = warp >> 2;
  if (thread_index() == 0) {
    tmap_prefetch(&a.q);
    tmap_prefetch(&a.k);
    tmap_prefetch(&a.v);
    if (!STORE_REG) tmap_prefetch(&a.o);
    for (int i = 0; i < WGS; i++) {
      mbar_init(sb + OFF_QF + 8 * i, 1);
      mbar_init(sb + OFF_QE + 8 * i, 4);
    }
    for (int i = 0; i < ST; i++) {
      mbar_init(sb + OFF_KF + 8 * i, 1);
      mbar_init(sb + OFF_KE + 8 * i, 4 * WGS);
      mbar_init(sb + OFF_VF + 8 * i, 1);
      mbar_init(sb + OFF_VE + 8 * i, WGS);
    }
    if (STRETCH) sts_i4(sb + OFF_READY, 0, 0, 0, 0);
    mbar_init_fence();
  }
  clear_dead_rows(&a, sb);
  block_sync();
  grid_launch_dependents();
  if (wg < WGS) {
    setmaxnreg_inc(REGS_CONSUMER);
    consumer(&a, sb, wg, warp, lane);
  } else {
    setmaxnreg_dec(REGS_PRODUCER);
    if (warp == 4 * WGS && lane == 0) producer(&a, sb);
  }
}
