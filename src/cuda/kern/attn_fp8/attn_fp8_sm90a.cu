/* KERNEL    attn_fp8 and attn_i8, sm90a, warp-specialised: 1 producer warp + BM/64 consumer warpgroups of 64 rows
 * COMPUTES  per (batch, head, BM rows of Q): S = sq Q (sk K)^T * scale, masked; O = softmax(S) (sv V); lse = log sum
 *           exp S. Q head h reads kv head h / group. The causal mask is aligned to the bottom right.
 * CONTRACT  e4m3 Q, K (QK fp8) or int8 ones (QK i8), columns contiguous, strides multiples of 16 bytes; head dim = D. V
 *           transposed and permuted by attn_quant (ga/attn_quant.h): rows of keys, padded to whole blocks of 128; the
 *           padding is finite. v_mean, where it is given, is added to rows that see a key. Scales are positive and
 *           finite. i8: Q may have one scale a row. o aliases nothing; scale > 0. Writes o, lse; leaves counter zeroed.
 *           A row that sees no column: o = 0, lse = -inf. An e4m3 NaN in V turns its column into NaN
 *           (GA_ATTN_ROW_V_FINITE).
 * DATA      gmem -TMA-> smem (2 x Q; K, V rings); Q x K smem -wgmma-> S regs -exp2, e4m3-> P regs;
 *           P regs x V smem -wgmma-> part regs -f32-> O regs -> gmem
 * SCHEDULE  dv64       P V of the current block in parts of 64 columns, two at a time in the registers of S, and S of
 *                      the next by halves of 64 keys, each as soon as a part has been added; no product is in flight
 *                      during the exponentials. Blocks run one after the other at a tile's edges, in masked blocks,
 *                      and where a V has two scales.
 *           overlap    P V of the current block and S of the next are issued together
 *           dv128      P V first, in the registers of S, 128 columns at a time
 *           fast_sum   as overlap, and P V accumulates over all keys: attn_fp8_fast_sum.h. BN may be 64 or 192 there
 * SOFTMAX   dv64: a row's reference puts its largest weight so far at 2^OFFSET, and stays until an exponent exceeds a
 *           limit (one vote of a warp). O is divided by the sums of the rounded weights, so that roundings cancel. The
 *           tensor cores compute these sums from columns of ones after V. lse uses the sums of the unrounded weights.
 *           overlap, dv128: running maximum: the largest weight is 2^OFFSET, which e4m3 has exactly. Sums are of
 *           unrounded weights.
 *           fast_sum: as dv64, with V's scale in the weights; sums are of unrounded weights, without it.
 * S         e4m3: f32 of the tensor cores; i8: exact integers, converted to floats in place, one conversion each (I2FP,
 *           half the rate of an FMA)
 * SUMS      wgmma adds e4m3 products with 13 fraction bits (docs/log/sums.md): a block's P V starts from zero and is
 *           added to O in f32, with the block's scale of V, or each half of it where the halves have separate scales.
 *           fast_sum: such sums run over all keys, GA_ATTN_FAST_SUM.
 * BARRIERS  name        arrivals      waiter       orders
 *           q_full[b]   1+tx          consumers    TMA write of Q[b] (fast_sum: and of V's means), and the tile record
 *                                                  -> wgmma, ld.shared
 *           q_empty[b]  4/wg (warps)  producer     wgmma reads of Q[b], reads of the records before its own -> their
 *                                                  next writes
 *           k_full[s]   1+tx          consumers    TMA write of K[s], and the block's scales -> wgmma read, ld.shared
 *           k_empty[s]  4/wg (warps)  producer     reads of K[s] and of the scales -> next TMA write
 *           v_full[s]   1+tx          consumers    TMA write of V[s] -> wgmma read
 *           v_empty[s]  1/wg          producer     wgmma reads of V[s] -> next TMA write
 *           turn w      named 1+w     warpgroup w  its turn to issue products (PINGPONG 1) or to take exponentials
 *                                                  (PINGPONG 2)
 * BUDGET    what       how much
 *           threads    128 + 2 BM: a warpgroup with the producer, and one per 64 rows of Q
 *           registers  of producer and consumers: 40 and 232 (2 warpgroups; fast_sum at D = 256: 24 and 240), 32 and
 *                      160 (3)
 *           blocks     1 per multiprocessor
 *           smem       OFF_*
 * MEASURED  docs/log/attention-fp8.md
 * REF       Shah et al. 2024 (fp8, block scales, incoherent processing); Micikevicius et al. 2022 (e4m3)
 */
#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_QK
#error "GA_P_QK: of q and k: fp8 (e4m3) or i8"
#endif
#ifndef GA_P_DTYPE
#error "GA_P_DTYPE: of o: bf16 or f16"
#endif
#ifndef GA_P_D
#error "GA_P_D: head dim of q, k, v, o: 64, 128, 256"
#endif
#ifndef GA_P_MASK
#error "GA_P_MASK: GA_P_MASK_FULL or GA_P_MASK_CAUSAL"
#endif
#ifndef GA_P_BM
#error "GA_P_BM: rows of Q per tile: 64 per consumer warpgroup"
#endif
#ifndef GA_P_BN
#error "GA_P_BN: keys of a block: 128; with fast_sum 64 or 192, too"
#endif
#ifndef GA_P_STAGES
#error "GA_P_STAGES: stages of the K ring and of the V ring"
#endif
#ifndef GA_P_PINGPONG
#error "GA_P_PINGPONG: warpgroups take turns at: 0 nothing, 1 issuing products, 2 exponentials"
#endif
#ifndef GA_P_SCHED
#error "GA_P_SCHED: overlap, dv128, dv64 or fast_sum, see SCHEDULE"
#endif
#ifndef GA_P_DV
#error "GA_P_DV: of v and o: that of q and k"
#endif
#ifndef GA_P_RESIDENT
#error "GA_P_RESIDENT: 0, see attn_shape.h"
#endif
#ifndef GA_P_EXTRAS
#error "GA_P_EXTRAS: 0, see attn_shape.h"
#endif
#ifndef GA_P_CARRY
#error "GA_P_CARRY: 0, see attn_shape.h"
#endif
#ifndef GA_P_PAGES
#error "GA_P_PAGES: 0, see attn_shape.h"
#endif
#ifndef GA_P_PACKS
#error "GA_P_PACKS: 0, see attn_shape.h"
#endif
#ifndef GA_P_STRETCHES
#error "GA_P_STRETCHES: 0, see attn_shape.h"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/order.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/kern/attn_fp8/attn_fp8_fast_sum.h"
#include "cuda/kern/attn_fp8/attn_fp8_load.h"
#include "cuda/kern/attn_fp8/attn_fp8_products.h"
#include "cuda/kern/attn_fp8/attn_fp8_results.h"
#include "cuda/kern/attn_fp8/attn_fp8_shape.h"
#include "cuda/kern/attn_fp8/attn_fp8_softmax.h"
#include "cuda/kern/attn_fp8/attn_fp8_warpgroup.h"

/* ------------------------------------------------------------------ consumers */
/* Registers of part i of P V. halves: the last one has those of the upper half of S, and four more. */
GA_DEV float *part_regs_at(float *part, int i) { return DV64 && (PARTS - 1 - i) % 2 == 0 ? part + NPART : part; }
/* O += part of part i, by rows; w += its column of ones. */
GA_DEV void add_part(float *o, float *part, float *w, int i, float scale, const float *factor) {
  const float f0 = scale * factor[0], f1 = scale * factor[1];
  const int n = part_regs(i);
  pin_f32(part, n);
  if (DV64 && i == PARTS - 1) {
    w[0] = fmaf(part[NPART], factor[0], w[0]);
    w[1] = fmaf(part[NPART + 2], factor[1], w[1]);
  }
  o += i * NPART;
  GA_UNROLL for (int j = 0; j < NPART / 4; j++) {
    o[4 * j] = fmaf(part[4 * j], f0, o[4 * j]);
    o[4 * j + 1] = fmaf(part[4 * j + 1], f0, o[4 * j + 1]);
    o[4 * j + 2] = fmaf(part[4 * j + 2], f1, o[4 * j + 2]);
    o[4 * j + 3] = fmaf(part[4 * j + 3], f1, o[4 * j + 3]);
  }
}
/* O += P V of the current V stage, to its end, in so many runs of keys. */
GA_DEV void issue_values(const warpgroup *c, float *o, float *part, uint32_t *p, float *w, int runs) {
  const float one[2] = {1.f, 1.f};
  float v[2];
  value_scales(c, v);
  GA_UNROLL for (int r = 0; r < runs; r++) GA_UNROLL for (int i = 0; i < PARTS; i++) {
    float *d = part_regs_at(part, i);
    issue_pv(c, d, p, i, r * (BN / 32) / runs, (r + 1) * (BN / 32) / runs);
    wgmma_wait(0);
    pin_u32(p, NP);
    add_part(o, d, w, i, v[r], one);
  }
  release_v(c);
}

/* O += P V of the current V stage while S of the next block is made. */
GA_DEV void together(const warpgroup *c, float *s, float *part, uint32_t *p, float *o) {
  const float one[2] = {1.f, 1.f};
  float v[2];
  wait_v(c);
  wait_k(c);
  issue_pv(c, part, p, 0, 0, BN / 32);
  issue_qk(c, s);
  value_scales(c, v);
  wgmma_wait(1);
  pin_u32(p, NP);
  add_part(o, part, 0, 0, v[0], one);
  release_v(c);
}
/* Processes the blocks of all tiles as one stream. With OVERLAP, S of the next block is issued beside P V of the
 * current one, unless the current one has two scales of V. */
GA_DEV void consume_tiles(warpgroup *c) {
  float s[NS], other[LAST_REGS], o[NO], m[2], l[2];
  float *part = DV128 ? s : other;
  uint32_t p[NP];
  GA_ROLL for (;; advance(c)) {
    const int edge = c->n == 0;
    if (edge)
      next_tile(c);
    else
      c->n--;
    const int have = !edge || c->tiles > 1; /* P of a block */
    pingpong_wait(c, 1);
    if (OVERLAP && have && c->n >= 0 && !two_scales(c)) {
      together(c, s, part, p, o);
      if (edge) finish_tile(c, o, m, l, l, 2);
    } else {
      if (have) {
        wait_v(c);
        if (two_scales(c)) /* else in one run, as together has it: sums do not depend on what follows a tile */
          issue_values(c, o, part, p, l, 2);
        else
          issue_values(c, o, part, p, l, 1);
        if (edge) finish_tile(c, o, m, l, l, 2);
      }
      if (c->n < 0) break;
      wait_k(c);
      issue_qk(c, s);
    }
    if (edge) tile_fill(o, DV, 0.f);
    pingpong_signal(c, 1);
    wgmma_wait(0);
    pin_f32(s, NS);
    numbers(s, NS);
    release_k(c);
    softmax(c, s, p, m, l, o, edge, edge || (MASKED && c->n >= c->mask_hi));
  }
  pingpong_signal(c, 1);
}
/* O += P V of the current V stage, and S of the next block asked for, each half once a part has been added. */
GA_DEV void issue_products(const warpgroup *c, float *s, uint32_t *p, float *o, float *w, float v) {
  const float one[2] = {1.f, 1.f};
  GA_UNROLL for (int i = 0; i < PARTS && i < 2; i++) issue_pv(c, part_regs_at(s, i), p, i, 0, BN / 32);
  if (PARTS == 1) issue_half(c, s, 0);
  GA_UNROLL for (int i = 0; i < PARTS; i++) {
    wgmma_wait(1);
    if (i == PARTS - 1) pin_u32(p, NP);
    add_part(o, part_regs_at(s, i), w, i, v, one);
    if (i + 2 < PARTS)
      issue_pv(c, part_regs_at(s, i + 2), p, i + 2, 0, BN / 32);
    else
      issue_half(c, s, PARTS == 1 ? 1 : i + 2 - PARTS);
  }
  release_v(c);
}
/* Computes the weights of the first half of a block's keys. */
GA_DEV void first_weights(const float *s, uint32_t *p, float *l) {
  weights(s, p, l);
  weights(s + 16, p + 4, l);
}
/* P V of the block before, S, references that are large enough, and the first half of the weights; the block has
 * neither a mask nor two scales of V. x: the scales of the block before, then of this one. */
GA_DEV void block_fast(warpgroup *c, float *s, uint32_t *p, float *o, float *m, float *l, float *w, float *x,
                       const float *limit) {
  float f[4], factor[2];
  int most[2] = {0, 0};
  pingpong_wait(c, 1);
  issue_products(c, s, p, o, w, x[2]);
  pingpong_signal(c, 1);
  block_scales(c, x);
  row_factors(c, x[0], f);
  row_factors(c, x[1], f + 2);
  wgmma_wait(1);
  pin_f32(s, NS / 2);
  numbers(s, NS / 2);
  exponents(s, 0, f, m);
  largest_logits(s, 0, most);
  wgmma_wait(0);
  pin_f32(s + NS / 2, NS / 2);
  numbers(s + NS / 2, NS / 2);
  release_k(c);
  exponents(s, 1, f + 2, m);
  largest_logits(s, 1, most);
  pingpong_wait(c, 2);
  if (warp_any(most[0] > bits_of(limit[0]) || most[1] > bits_of(limit[1]))) raise_reference(s, m, l, w, o, factor);
  first_weights(s, p, l);
}
/* The same, one thing after the other; at a tile's edge the results of the one before. Returns 0 when there is no block
 * left. */
GA_DEV int block_slow(warpgroup *c, float *s, uint32_t *p, float *o, float *m, float *l, float *w, float *x, int edge,
                      int have) {
  float f[4], ref[2], factor[2];
  pingpong_wait(c, 1);
  if (have) {
    wait_v(c);
    issue_values(c, o, s, p, w, 2);
  }
  if (edge) {
    if (have) finish_tile(c, o, m, l, w, 2);
    if (c->n < 0) return 0;
    tile_fill(o, DV, 0.f);
    m[0] = m[1] = GA_NEG_INF;
    l[0] = l[1] = w[0] = w[1] = 0.f;
  }
  wait_k(c);
  block_scales(c, x);
  reference(m, ref);
  issue_half(c, s, 0);
  issue_half(c, s, 1);
  pingpong_signal(c, 1);
  wgmma_wait(0);
  pin_f32(s, NS);
  numbers(s, NS);
  if (MASKED || edge) apply_mask(c, s);
  row_factors(c, x[0], f);
  row_factors(c, x[1], f + 2);
  exponents(s, 0, f, ref);
  exponents(s, 1, f + 2, ref);
  release_k(c);
  pingpong_wait(c, 2);
  raise_reference(s, m, l, w, o, factor);
  first_weights(s, p, l);
  return 1;
}
/* consume of `halves`. What the next block needs is asked about under the exponentials. */
GA_DEV void consume_dv64(warpgroup *c) {
  float s[FAST_SUM ? 68 : NS + 4], o[NO], m[2], l[2], w[2], x[4] = {}, limit[2]; /* flow: nobody calls this */
  uint32_t p[FAST_SUM ? 16 : NP];
  int fast = 0; /* the next block is, and its K and this one's V are there */
  GA_ROLL for (;; advance(c)) {
    if (fast) {
      c->n--;
      block_fast(c, s, p, o, m, l, w, x, limit);
    } else {
      const int edge = c->n == 0, have = !edge || c->tiles > 0; /* P of a block */
      if (edge)
        next_tile(c);
      else
        c->n--;
      if (!block_slow(c, s, p, o, m, l, w, x, edge, have)) break;
    }
    fast = c->n > 0 && c->n - 1 < c->mask_hi && !warp_any(x[2] != x[3]);
    const uint32_t next = c->stage_k + 1 == ST ? 0 : c->stage_k + 1, parity = c->parity_k ^ (next == 0);
    uint32_t k_there = 1, v_there = 1;
    if (fast) {
      k_there = mbar_try_wait(c->at.sb + OFF_KF + 8 * next, parity);
      v_there = mbar_try_wait(c->at.sb + OFF_VF + 8 * c->stage_k, c->parity_k);
    }
    pingpong_signal_after(c, p + 4);
    weights(s + 32, p + 8, l);
    limits(l, limit);
    weights(s + 48, p + 12, l);
    if (!k_there) mbar_wait(c->at.sb + OFF_KF + 8 * next, parity);
    if (!v_there) mbar_wait(c->at.sb + OFF_VF + 8 * c->stage_k, c->parity_k);
  }
  pingpong_signal(c, 1);
}
GA_DEV void consumer(args a, uint32_t sb, int wg, int warp, int lane) {
  warpgroup c = {};
  if (DV64) { /* through shuffles: else they are worked out again wherever they are needed */
    sb = (uint32_t)warp_uniform((int)sb);
    lane = (int)shfl_idx_u32((uint32_t)lane, lane);
  }
  c.at.a = a, c.at.sb = sb, c.at.w = wg, c.at.wl = warp & 3, c.at.lane = lane, c.at.g = lane >> 2;
  c.at.q2 = (lane & 3) * 2;
  c.desc_k = desc_k_major(sb + OFF_K);
  c.desc_v = desc_k_major(sb + OFF_V);
  if (PINGPONG && c.at.w == WGS - 1) bar_arrive(1, 256); /* warpgroup 0 starts */
  if (FAST_SUM)
    consume_fast_sum(&c);
  else if (DV64)
    consume_dv64(&c);
  else
    consume_tiles(&c);
}

/* ------------------------------------------------------------------ the kernel */
/* Behind the columns of V of each stage come eight of ones. */
GA_DEV void write_ones(uint32_t sb) {
  enum { ONE = 0x38383838 }; /* e4m3 */
  GA_ROLL for (int i = thread_index(); i < ST * 8 * BN / 16; i += THREADS) {
    const uint32_t at = sb + OFF_V + (uint32_t)(i / 64 * V_STAGE + V_BYTES + i % 64 * 16);
    sts_i4(at, ONE, ONE, ONE, ONE);
  }
}
GA_KERNEL(THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_attn_fp8 k) {
  const uint32_t sb = smem_base();
  const int warp = warp_uniform(thread_index() >> 5), lane = thread_index() & 31, wg = warp >> 2;
  args a = &k.fwd;
  if (thread_index() == 0) {
    tmap_prefetch(&a->q);
    tmap_prefetch(&a->k);
    tmap_prefetch(&a->v);
    for (int i = 0; i < 2; i++) {
      mbar_init(sb + OFF_QF + 8 * i, 1);
      mbar_init(sb + OFF_QE + 8 * i, 4 * WGS);
    }
    for (int i = 0; i < ST; i++) {
      mbar_init(sb + OFF_KF + 8 * i, 1);
      mbar_init(sb + OFF_KE + 8 * i, 4 * WGS);
      mbar_init(sb + OFF_VF + 8 * i, 1);
      mbar_init(sb + OFF_VE + 8 * i, WGS);
    }
    mbar_init_fence();
  }
  if (DV64) {
    write_ones(sb);
    fence_async_smem();
  }
  block_sync();
  grid_launch_dependents();
  if (wg < WGS) {
    setmaxnreg_inc(REGS_CONSUMER);
    consumer(a, sb, wg, warp, lane);
  } else {
    setmaxnreg_dec(REGS_PRODUCER);
    if (warp == 4 * WGS && lane == 0) producer(a, sb);
  }
}
