/* KERNEL    attn_fp8 and attn_i8, sm90a, warp-specialised: 1 producer warp + BM/64 consumer warpgroups of 64 rows
 * COMPUTES  per (batch, head, BM rows of Q):  S = sq Q (sk K)^T * scale, masked;  O = softmax(S) (sv V);  lse = log sum
 *                                             exp S.
 *           Q head h reads kv head h / group. The causal mask is aligned to the bottom right.
 * CONTRACT  e4m3 Q, K (QK fp8) or int8 ones (QK i8), columns contiguous, strides multiples of 16 bytes; head dim = D. V
 *           transposed and permuted by attn_quant (ga/attn_quant.h): rows of keys, padded to whole blocks of 128; what
 *           lies behind the last key is
 *           finite; v_mean, where it is given, is added to rows that see a key.  Scales are positive and finite.
 *           i8: Q may have one a row. o aliases nothing; scale > 0. Writes o, lse; leaves counter zeroed.
 *           A row that sees no column: o = 0, lse = -inf. An e4m3 NaN in V makes NaN of its column
 *           (GA_ATTN_ROW_V_FINITE).
 * DATA      gmem -TMA-> smem (2 x Q; K, V rings); Q x K smem -wgmma-> S regs -exp2, e4m3-> P regs;
 *           P regs x V smem -wgmma-> part regs -f32-> O regs -> gmem
 * SCHEDULE  pipelined  S of the next block is asked for before P V of the current one, which runs, in parts of 64
 *                      columns, under the softmax of the next. One block after the other at a tile's edges, where a
 *                      mask reaches, and where a V has two scales.
 *           dv64       P V of the current block in parts of 64 columns, two at a time in the registers of S, and S of
 *                      the next by halves of 64 keys, each as soon as a part has been added; nothing is under way
 *                      during the exponentials. One block after the other where pipelined does so, too.
 *           overlap    P V of the current block and S of the next are asked for together
 *           dv128      P V first, in the registers of S, 128 columns at a time
 *           fast_sum   the same, and P V goes on in the accumulators over all keys: attn_fp8_fast_sum.h. BN may be 64
 *                      or 192 there
 * SOFTMAX   pipelined, dv64: a row's reference puts its largest weight so far at 2^OFFSET, and stays until an exponent
 *           goes beyond what too_large allows (one vote of a warp). O is divided by the sums of the rounded weights,
 *           which the tensor cores make of columns of ones behind V, so that roundings cancel; lse has those of
 *           unrounded ones.
 *           overlap, dv128: running maximum: the largest weight is 2^OFFSET, which e4m3 has exactly. Sums are of
 *           unrounded weights.
 *           fast_sum: as pipelined, with V's scale in the weights; sums are of unrounded weights, without it.
 * S         e4m3: f32 of the tensor cores; i8: exact integers, made floats in place by one conversion each (I2FP, half
 *           of an FMA's rate)
 * SUMS      wgmma adds e4m3 products with 13 fraction bits (docs/log/sums.md): a block's P V starts from zero and is
 *           added to O in f32, with the block's scale of V; where its halves have scales of their own, each half.
 *           fast_sum: all keys, GA_ATTN_FAST_SUM.
 * BARRIERS  name     arrivals    waiter       orders
 *           q_full   1+tx        consumers    TMA write of Q[b] (fast_sum: and of V's means), and the tile record ->
 *                                             wgmma, ld.shared
 *           q_empty  4/wg        producer     wgmma reads of Q[b], reads of the records before its own -> their next
 *                                             writes
 *           k_full   1+tx        consumers    TMA write of K[s], and the block's scales -> wgmma read, ld.shared
 *           k_empty  4/wg        producer     reads of K[s] and of the scales -> next TMA write
 *           v_full   1+tx        consumers    TMA write of V[s] -> wgmma read
 *           v_empty  1/wg        producer     wgmma reads of V[s] -> next TMA write
 *           turn w   named 1+w   warpgroup w  its turn to issue products (PINGPONG 1) or to take exponentials (2)
 * BUDGET    threads 128 + 2 BM, registers 40 + 232 (2 warpgroups; fast_sum at D = 256: 24 + 240), 32 + 160 (3), 1
 *           block per SM; smem: OFF_*
 * MEASURED  docs/log/attention-fp8.md
 * REF       Shah et al. 2024 (fp8, block scales, incoherent processing); Micikevicius et al. 2022 (e4m3)
 */
#include "cuda/dev/pipe/ring.h"
#include "cuda/dev/ptx/bulk.h"
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/ptx/order.h"
#include "cuda/dev/ptx/pack8.h"
#include "cuda/dev/ptx/wgmma.h"
#include "cuda/dev/ptx/wgmma8.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/dev/tile/quad.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/dev/tile/smem.h"
#include "cuda/kern/attn/attn_lse.h"
#include "cuda/kern/attn_fp8/attn_fp8_args.h"

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
#error "GA_P_MASK: full or causal"
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
#error "GA_P_SCHED: pipelined, overlap, dv128, dv64 or fast_sum, see SCHEDULE"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif

#include "cuda/kern/attn_fp8/attn_fp8_shape.h"

typedef const ga_kargs_attn_fwd *args;

#include "cuda/kern/attn/attn_tiles.h"

GA_DEV const ga_kargs_attn_fp8 *fp8_args(args a) { return (const ga_kargs_attn_fp8 *)a; /* fwd is its first member */ }
/* wgmma descriptors: see desc of smem.h; 64-byte rows have the 64-byte swizzle, eight of them 512 bytes. */
GA_DEV uint64_t desc_64(uint32_t low) { return (uint64_t)low | (uint64_t)(2u << 30 | 512 >> 4) << 32; }
/* Of a tile of rows of ROW_BYTES. */
GA_DEV uint64_t desc_rows(uint32_t low) { return ROW_BYTES == 128 ? desc(low) : desc_64(low); }

#include "cuda/kern/attn_fp8/attn_fp8_load.h"

/* ------------------------------------------------------------------ consumers */
typedef struct {
  args a;
  uint32_t sb;
  int w, wl, lane, g, q2;          /* warpgroup, warp in it, lane, lane / 4, 2 (lane % 4) */
  uint32_t desc_q, desc_k, desc_v; /* wgmma descriptors (low words) of Q's buffer and stage 0 */
  uint32_t stage_k, parity_k;      /* the current K block's place in its ring; V's is one behind */
  int tiles;                       /* records read */
  int n, mask_hi;                  /* block whose S is next, and the current tile's limit */
  int two;                         /* the block whose P is made has two scales of V */
  float factor[2]; /* of this lane's rows, from Q K to log2 units, but for K's scale; e4m3: of all rows, in [0] */
} warpgroup;

GA_DEV uint32_t tile_slot(const warpgroup *c, int back) {
  return c->sb + OFF_TILE + ((c->tiles - back) % TILE_SLOTS) * TILE_BYTES;
}
/* Takes the next tile: its limits and scales. */
GA_DEV void next_tile(warpgroup *c) {
  const uint32_t buffer = (uint32_t)c->tiles & 1;
  mbar_wait(c->sb + OFF_QF + 8 * buffer, c->tiles >> 1 & 1);
  const uint32_t slot = tile_slot(c, 0);
  const ga_i4 x = lds_i4(slot), y = lds_i4(slot + 16);
  c->tiles++;
  c->n = warp_uniform(x.w);
  c->mask_hi = STAYS || MASKED ? warp_uniform(y.y) : 0;
  c->desc_q = desc_k_major(c->sb + OFF_Q + (buffer * WGS + (uint32_t)c->w) * Q_BYTES);
  if (c->n < 0) return;
  if (I8) {
    const int row = x.x + c->w * 64 + c->wl * 16 + c->g;
    GA_UNROLL for (int i = 0; i < 2; i++) c->factor[i] =
        c->a->scale_log2 * scale_of(&fp8_args(c->a)->scale_q, x.z, x.y, row + 8 * i);
    return;
  }
  float scale[4];
  lds_f4(scale, slot + 48);
  c->factor[0] = c->a->scale_log2 * (c->w == 0 ? scale[0] : c->w == 1 ? scale[1] : scale[2]);
}
GA_DEV uint32_t stage_v(const warpgroup *c) { return c->stage_k ? c->stage_k - 1 : ST - 1; }
GA_DEV void wait_k(const warpgroup *c) { mbar_wait(c->sb + OFF_KF + 8 * c->stage_k, c->parity_k); }
GA_DEV void wait_v(const warpgroup *c) { mbar_wait(c->sb + OFF_VF + 8 * stage_v(c), c->parity_k ^ (c->stage_k == 0)); }
/* S is complete and the scales are read: K may go, and after the tile's last block its Q. */
GA_DEV void release_k(const warpgroup *c) {
  warp_sync();
  if (c->lane) return;
  mbar_arrive(c->sb + OFF_KE + 8 * c->stage_k);
  if (c->n == 0) mbar_arrive(c->sb + OFF_QE + 8 * ((c->tiles - 1) & 1));
}
GA_DEV void release_v(const warpgroup *c) {
  if (c->lane == 0 && c->wl == 0) mbar_arrive(c->sb + OFF_VE + 8 * stage_v(c));
}
/* The block whose S was computed becomes the one whose PV is next. */
GA_DEV void advance(warpgroup *c) {
  c->stage_k = c->stage_k + 1 == ST ? 0 : c->stage_k + 1;
  c->parity_k ^= c->stage_k == 0;
}
/* Every begin is matched by one end of the previous warpgroup, never two. */
GA_DEV void pingpong_wait(const warpgroup *c, int what) {
  if (PINGPONG == what) bar_sync(1 + c->w, 256);
}
GA_DEV void pingpong_signal(const warpgroup *c, int what) {
  if (PINGPONG == what) bar_arrive(1 + (c->w + 1) % WGS, 256);
}

/* When the weights of p[0..3] are made: no weight is negative, which the compiler does not know. */
GA_DEV void pingpong_signal_after(const warpgroup *c, const uint32_t *p) {
  if (PINGPONG == 2) bar_arrive(1 + (c->w + 1) % WGS + (int)((p[0] | p[1] | p[2] | p[3]) >> 31), 256);
}

/* S = Q K^T of the current K stage. */
GA_DEV void issue_qk(const warpgroup *c, float *s) {
  const uint64_t dk = desc_rows(c->desc_k + c->stage_k * (K_BYTES >> 4)), dq = desc_rows(c->desc_q);
  enum { STEPS = ROW_BYTES / 32 }; /* of k in a panel */
  if (!PIPELINED) pin_f32(s, NS);
  wgmma_fence();
  QK0(s, dq, dk);
  GA_UNROLL for (int k = 1; k < D / 32; k++) QK(s, dq + (uint64_t)((k / STEPS) * (Q_PANEL >> 4) + 2 * (k % STEPS)),
                                                dk + (uint64_t)((k / STEPS) * (K_PANEL >> 4) + 2 * (k % STEPS)), 1);
  wgmma_commit();
}
/* S of keys 64 h and up of the current K stage, in that half of s. */
GA_DEV void issue_half(const warpgroup *c, float *s, int h) {
  const uint64_t dk = desc_rows(c->desc_k + c->stage_k * (K_BYTES >> 4) + (uint32_t)h * (64 * ROW_BYTES >> 4)),
                 dq = desc_rows(c->desc_q);
  enum { STEPS = ROW_BYTES / 32 }; /* of k in a panel */
  float *d = s + h * (NS / 2);
  wgmma_fence();
  QK_HALF_NEW(d, dq, dk);
  GA_UNROLL for (int k = 1; k < D / 32; k++) QK_HALF(d, dq + (uint64_t)((k / STEPS) * (Q_PANEL >> 4) + 2 * (k % STEPS)),
                                                     dk + (uint64_t)((k / STEPS) * (K_PANEL >> 4) + 2 * (k % STEPS)));
  wgmma_commit();
}
GA_DEV int part_regs(int i) { return i == PARTS - 1 ? LAST_REGS : NPART; }
/* Part i of P V of steps from .. to (of 32 keys) of the current V stage, from zero; the last part goes on over the rows
 * of ones. */
GA_DEV void issue_pv(const warpgroup *c, float *part, uint32_t *p, int i, int from, int to) {
  const uint64_t dv = desc(c->desc_v + stage_v(c) * (V_STAGE >> 4) + (uint32_t)(i * PART) * (BN >> 4));
  pin_u32(p, NP);
  if (!PIPELINED) pin_f32(part, part_regs(i));
  wgmma_fence();
  GA_UNROLL for (int k = from; k < to; k++) {
    const uint64_t d = dv + (uint64_t)(2 * k);
    if (STAYS && i == PARTS - 1) {
      if (k == from)
        PV_ONES0(part, p + 4 * k, d);
      else
        PV_ONES(part, p + 4 * k, d, 1);
    } else {
      if (k == from)
        PV0(part, p + 4 * k, d);
      else
        PV(part, p + 4 * k, d, 1);
    }
  }
  wgmma_commit();
}

GA_DEV void apply_mask(const warpgroup *c, float *s) {
  const ga_i4 t = lds_i4(tile_slot(c, 1) + 32); /* rows_q, rows_k, start_q, column */
  const int base = c->n * BN, row = t.w + c->w * 64 + c->wl * 16 + c->g - base, last = t.y - 1 - base;
  int hi0 = last, hi1 = last;
  if (MASKED) {
    hi0 = imin(hi0, row);
    hi1 = imin(hi1, row + 8);
  }
  tile_mask_above(s, BN, hi0, hi1, c->q2);
}
/* Reference of the exponent from m (log2 units); a row that has seen nothing yet gets 0, so that 2^(-inf - 0) = 0. */
GA_DEV void reference(const float *m, float *ref) {
  ref[0] = m[0] == GA_NEG_INF ? 0.f : m[0];
  ref[1] = m[1] == GA_NEG_INF ? 0.f : m[1];
}
/* S as floats, exactly: |s| <= 2^22. */
GA_DEV void numbers(float *s, int n) { GA_UNROLL for (int i = 0; I8 && i < n; i++) s[i] = (float)bits_of(s[i]); }
/* Of the current K block and its V, by halves. */
GA_DEV void block_scales(const warpgroup *c, float *x) {
  lds_f4(x, c->sb + OFF_SCALE + (c->parity_k * ST + c->stage_k) * SCALE_BYTES);
}
/* From S of keys with that scale to log2 units, by rows. */
GA_DEV void row_factors(const warpgroup *c, float scale, float *f) {
  GA_UNROLL for (int i = 0; i < 2; i++) f[i] = c->factor[I8 ? i : 0] * scale;
}
/* The same of the current K block, by halves and rows. Takes note whether its V has two scales. */
GA_DEV void block_factors(warpgroup *c, float *f) {
  float x[4];
  block_scales(c, x);
  row_factors(c, x[0], f);
  row_factors(c, x[1], f + 2);
  if (PIPELINED) c->two = warp_any(x[2] != x[3]);
}
/* Of the halves of the current V block. */
GA_DEV void value_scales(const warpgroup *c, float *v) {
  lds_f2(v, c->sb + OFF_SCALE + ((c->parity_k ^ (c->stage_k == 0)) * ST + stage_v(c)) * SCALE_BYTES + 8);
}
GA_DEV int two_scales(const warpgroup *c) {
  float v[2];
  value_scales(c, v);
  return warp_any(v[0] != v[1]);
}
/* S of keys 64 h and up to the exponents of the weights, in place. */
GA_DEV void exponents(float *s, int h, const float *f, const float *ref) {
  s += h * SUB;
  GA_UNROLL for (int j = 0; j < SUB / 4; j++) {
    s[4 * j] = fmaf(s[4 * j], f[0], -ref[0]);
    s[4 * j + 1] = fmaf(s[4 * j + 1], f[0], -ref[0]);
    s[4 * j + 2] = fmaf(s[4 * j + 2], f[1], -ref[1]);
    s[4 * j + 3] = fmaf(s[4 * j + 3], f[1], -ref[1]);
  }
}
/* The largest exponents that the references may stay for: weights above 2^OFFSET are rounded, which is nothing to a row
 * whose sum (this lane's part of it) is four of them, and much to one that has no other. */
GA_DEV void limits(const float *l, float *limit) {
  GA_UNROLL for (int i = 0; i < 2; i++) limit[i] = fminf(fmaxf(lg2(l[i]) - 2.f, OFFSET), LIMIT);
}
/* Is an exponent of this warp beyond its row's limit? Bits of floats are in the order of integers, but for two negative
 * ones, which are below it. */
GA_DEV int too_large(const float *t, const float *limit) {
  int a = max3_i32(bits_of(t[0]), bits_of(t[1]), 0), b = max3_i32(bits_of(t[2]), bits_of(t[3]), 0);
  GA_UNROLL for (int i = 4; i < NS; i += 4) {
    a = max3_i32(a, bits_of(t[i]), bits_of(t[i + 1]));
    b = max3_i32(b, bits_of(t[i + 2]), bits_of(t[i + 3]));
  }
  return a > bits_of(limit[0]) || b > bits_of(limit[1]);
}
/* The rows' largest exponents of keys 64 h and up, and what `most` was. Bits of floats: see too_large. */
GA_DEV void largest_logits(const float *t, int h, int *most) {
  t += h * SUB;
  GA_UNROLL for (int i = 0; i < SUB; i += 4) {
    most[0] = max3_i32(most[0], bits_of(t[i]), bits_of(t[i + 1]));
    most[1] = max3_i32(most[1], bits_of(t[i + 2]), bits_of(t[i + 3]));
  }
}
/* References that put the largest weight so far at 2^OFFSET, where it is above; t, l, w and O follow, and factor, which
 * what is still to be added to O takes. flow: neither w nor O. */
GA_DEV void raise_reference(float *t, float *m, float *l, float *w, float *o, float *factor) {
  float most[2], by[2];
  tile_row_max(t, BN, most);
  GA_UNROLL for (int i = 0; i < 2; i++) {
    const int seen = m[i] != GA_NEG_INF;
    by[i] = seen ? fmaxf(most[i] - OFFSET, 0.f) : most[i] - OFFSET;
    if (by[i] == GA_NEG_INF)
      by[i] = 0.f; /* still nothing seen */
    else
      m[i] = (seen ? m[i] : 0.f) + by[i];
    factor[i] = seen ? ex2(-by[i]) : 1.f;
    l[i] *= factor[i];
    if (!FAST_SUM) w[i] *= factor[i];
  }
  if (!FAST_SUM) tile_scale_rows(o, DV, factor);
  GA_UNROLL for (int j = 0; j < NS / 4; j++) {
    t[4 * j] -= by[0];
    t[4 * j + 1] -= by[0];
    t[4 * j + 2] -= by[1];
    t[4 * j + 3] -= by[1];
  }
}
/* The same without asking, from S: a row's largest weight is 2^OFFSET, which e4m3 has exactly. */
GA_DEV void running_maximum(const float *s, const float *f, float *m, float *l, float *o) {
  float most[2][2], factor[2];
  GA_UNROLL for (int h = 0; h < 2; h++) tile_row_max(s + h * (NS / 2), BN / 2, most[h]);
  GA_UNROLL for (int i = 0; i < 2; i++) {
    const float now = fmaxf(m[i], fmaxf(most[0][i] * f[i], most[1][i] * f[2 + i]) - OFFSET);
    factor[i] = now == GA_NEG_INF ? 1.f : ex2(m[i] - now);
    m[i] = now;
    l[i] *= factor[i];
  }
  tile_scale_rows(o, DV, factor);
}
/* Weights of 32 keys from their exponents, in the order of operand A: byte 4 q + 2 b + e of 16-byte group h of a row is
 * the weight of key 16 h + 8 b + 2 q + e, as V has them. l: this lane's part of the row sums, of weights that are not
 * rounded. */
GA_DEV void weights(const float *t, uint32_t *p, float *l) {
  GA_UNROLL for (int j = 0; j < 2; j++) {
    float e[8];
    GA_UNROLL for (int i = 0; i < 8; i++) e[i] = ex2(t[8 * j + i]);
    p[2 * j] = pack4_e4m3(e[0], e[1], e[4], e[5]);
    p[2 * j + 1] = pack4_e4m3(e[2], e[3], e[6], e[7]);
    l[0] += (e[0] + e[1]) + (e[4] + e[5]);
    l[1] += (e[2] + e[3]) + (e[6] + e[7]);
  }
}
/* S to P, m, l, w and O; nothing of another block is under way. fresh: the block may be masked, or be the first that a
 * row sees. */
GA_DEV void softmax(warpgroup *c, float *s, uint32_t *p, float *m, float *l, float *w, float *o, int first, int fresh) {
  float f[4], ref[2], limit[2], factor[2];
  block_factors(c, f);
  if (first) {
    m[0] = m[1] = GA_NEG_INF;
    l[0] = l[1] = w[0] = w[1] = 0.f;
  }
  if (MASKED ? fresh : first) apply_mask(c, s);
  if (!PIPELINED) running_maximum(s, f, m, l, o);
  reference(m, ref);
  exponents(s, 0, f, ref);
  exponents(s, 1, f + 2, ref);
  limits(l, limit);
  if (PIPELINED && (fresh || warp_any(too_large(s, limit)))) raise_reference(s, m, l, w, o, factor);
  GA_UNROLL for (int i = 0; i < 4; i++) weights(s + 16 * i, p + 4 * i, l);
}

#include "cuda/kern/attn/attn_pairs.h"
#include "cuda/kern/attn/attn_results.h"

/* O v + the means of V's columns; v is then 1, or 0 for rows that have seen nothing, as it was. */
GA_DEV void add_means(const warpgroup *c, float *o, float *v, const tile_coord *t, int back) {
  args a = c->a;
  const float *mean = fp8_args(a)->v_mean + (int64_t)((t->batch * a->heads_q + t->head) / a->group) * DV + c->q2;
  const uint32_t here = c->sb + OFF_MEAN + ((c->tiles - back) % TILE_SLOTS) * 4 * DV + 4 * c->q2;
  float first[DV / 8]; /* of each load */
  GA_UNROLL for (int j = 0; j < DV / 8; j++) {
    float x[2];
    if (FAST_SUM)
      lds_f2(x, here + 32 * j);
    else
      x[0] = ldg_f32(mean + 8 * j), x[1] = ldg_f32(mean + 8 * j + 1);
    GA_UNROLL for (int e = 0; e < 4; e++) o[4 * j + e] = fmaf(o[4 * j + e], v[e / 2], x[e % 2]);
    first[j] = x[0];
  }
  const float one = FAST_SUM ? 1.f + (float)loads_done_f32(first, DV / 8, 1)
                             : 1.f; /* before the next Q is given back, and this record with it */
  GA_UNROLL for (int i = 0; i < 2; i++) v[i] = v[i] == 0.f ? 0.f : one;
}
/* Divides O by the row sums and writes O and lse of the tile `back` records ago. */
GA_DEV void finish_tile(const warpgroup *c, float *o, float *m, float *l, float *w, int back) {
  args a = c->a;
  const tile_coord t = tile_coord_of(tile_slot(c, back));
  const int row = t.row0 + c->w * 64 + c->wl * 16 + c->g;
  float v[2], ref[2];
  GA_UNROLL for (int i = 0; i < 2; i++) {
    l[i] = quad_sum(l[i]);
    const float all = STAYS ? w[i] : l[i];
    v[i] = all == 0.f ? 0.f : rcp(all);
  }
  reference(m, ref);
  if (a->lse && (c->lane & 3) == 0) {
    float *lse = a->lse + t.batch * a->lse_stride_batch + t.head * a->lse_stride_head;
    if (row < t.rows_q) stg_f32(lse + row, log_sum(a, ref[0], l[0]));
    if (row + 8 < t.rows_q) stg_f32(lse + row + 8, log_sum(a, ref[1], l[1]));
  }
  if (fp8_args(a)->v_mean) add_means(c, o, v, &t, back);
  store_direct(c, o, v, &t);
}

/* Registers of part i of P V. halves: the last one has those of the upper half of S, and four more. */
GA_DEV float *part_regs_at(float *part, int i) { return DV64 && (PARTS - 1 - i) % 2 == 0 ? part + NPART : part; }
/* O += part of part i, by rows; w += its column of ones. */
GA_DEV void add_part(float *o, float *part, float *w, int i, float scale, const float *factor) {
  const float f0 = scale * factor[0], f1 = scale * factor[1];
  const int n = part_regs(i);
  pin_f32(part, n);
  if (STAYS && i == PARTS - 1) {
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
#include "cuda/kern/attn_fp8/attn_fp8_fast_sum.h"

/* O += P V of the current V stage while S of the next block is made. */
GA_DEV void together(const warpgroup *c, float *s, float *part, uint32_t *p, float *o, float *w) {
  const float one[2] = {1.f, 1.f};
  float v[2];
  wait_v(c);
  wait_k(c);
  issue_pv(c, part, p, 0, 0, BN / 32);
  issue_qk(c, s);
  value_scales(c, v);
  wgmma_wait(1);
  pin_u32(p, NP);
  add_part(o, part, w, 0, v[0], one);
  release_v(c);
}
/* S of the next block has been asked for. P V of the current one runs under its softmax. */
GA_DEV void overlap_products(warpgroup *c, float *s, float *part, uint32_t *p, float *o, float *m, float *l, float *w) {
  float f[4], v[2], limit[2], factor[2] = {1.f, 1.f};
  uint32_t q[4 * PARTS];
  wait_v(c);
  issue_pv(c, part, p, 0, 0, BN / 32);
  pingpong_signal(c, 1);
  limits(l, limit);
  wgmma_wait(1);
  pin_f32(s, NS);
  numbers(s, NS);
  release_k(c);
  block_factors(c, f);
  exponents(s, 0, f, m); /* every row has seen something: tile_blocks */
  exponents(s, 1, f + 2, m);
  const int raise = too_large(s, limit);
  pingpong_wait(c, 2);
  if (warp_any(raise)) raise_reference(s, m, l, w, o, factor);
  GA_UNROLL for (int i = 0; i < PARTS; i++) {
    weights(s + 16 * i, q + 4 * i, l);
    wgmma_wait(0);
    value_scales(c, v);
    pin_u32(p, NP);
    if (i == PARTS - 1) release_v(c);
    add_part(o, part, w, i, v[0], factor);
    if (i < PARTS - 1) issue_pv(c, part, p, i + 1, 0, BN / 32);
  }
  GA_UNROLL for (int i = 0; i < 4 * PARTS; i++) p[i] = q[i];
  GA_UNROLL for (int i = PARTS; i < 4; i++) weights(s + 16 * i, p + 4 * i, l);
  pingpong_signal_after(c, p + NP - 4);
}
/* One flat stream of blocks across tiles. S of the next block is asked for before P V of the current one; not where the
 * next block may be masked, or the current one has two scales of V: there one thing is done after the other. */
GA_DEV void consume_tiles(warpgroup *c) {
  float s[NS], other[LAST_REGS], o[NO], m[2], l[2], w[2];
  float *part = DV128 ? s : other;
  uint32_t p[NP];
  GA_ROLL for (;; advance(c)) {
    const int edge = c->n == 0;
    if (edge)
      next_tile(c);
    else
      c->n--;
    const int fresh = edge || ((PIPELINED || MASKED) && c->n >= c->mask_hi);
    if (PIPELINED && !fresh && !c->two) {
      wait_k(c);
      pingpong_wait(c, 1);
      issue_qk(c, s);
      overlap_products(c, s, part, p, o, m, l, w);
      continue;
    }
    const int have = !edge || c->tiles > 1; /* P of a block */
    pingpong_wait(c, 1);
    if (OVERLAP && have && c->n >= 0 && !two_scales(c)) {
      together(c, s, part, p, o, w);
      if (edge) finish_tile(c, o, m, l, w, 2);
    } else {
      if (have) {
        wait_v(c);
        if (!DV128 || two_scales(c))
          issue_values(c, o, part, p, w, 2);
        else
          issue_values(c, o, part, p, w, 1);
        if (edge) finish_tile(c, o, m, l, w, 2);
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
    pingpong_wait(c, 2);
    softmax(c, s, p, m, l, w, o, edge, fresh);
    pingpong_signal_after(c, p + NP - 4);
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
/* Those of half of the keys. */
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
      k_there = mbar_try_wait(c->sb + OFF_KF + 8 * next, parity);
      v_there = mbar_try_wait(c->sb + OFF_VF + 8 * c->stage_k, c->parity_k);
    }
    pingpong_signal_after(c, p + 4);
    weights(s + 32, p + 8, l);
    limits(l, limit);
    weights(s + 48, p + 12, l);
    if (!k_there) mbar_wait(c->sb + OFF_KF + 8 * next, parity);
    if (!v_there) mbar_wait(c->sb + OFF_VF + 8 * c->stage_k, c->parity_k);
  }
  pingpong_signal(c, 1);
}
GA_DEV void consumer(args a, uint32_t sb, int wg, int warp, int lane) {
  warpgroup c = {};
  if (DV64) { /* through shuffles: else they are worked out again wherever they are needed */
    sb = (uint32_t)warp_uniform((int)sb);
    lane = (int)shfl_idx_u32((uint32_t)lane, lane);
  }
  c.a = a, c.sb = sb, c.w = wg, c.wl = warp & 3, c.lane = lane, c.g = lane >> 2, c.q2 = (lane & 3) * 2;
  c.desc_k = desc_k_major(sb + OFF_K);
  c.desc_v = desc_k_major(sb + OFF_V);
  if (PINGPONG && c.w == WGS - 1) bar_arrive(1, 256); /* warpgroup 0 starts */
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
  if (STAYS) {
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
