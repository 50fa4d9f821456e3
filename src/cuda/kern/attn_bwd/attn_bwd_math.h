/* Computation of P from S and of dS from dP in the backward kernels of sm_90a. Tiles are transposed: a row of a tile is
 * a key, a column is a query. */
#pragma once
#include "cuda/dev/ptx/num.h"
#include "cuda/dev/ptx/words.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/kern/attn_bwd/attn_bwd_tiles.h"

/* Returns the ALiBi slope, in log2 units, of a query head. left is the number of query heads from it to the end of its
 * group, itself included. */
GA_DEV float slope_of(const warpgroup *c, int left) {
  args a = c->a;
  return ldg_f32(a->slope + (lds_i4(tile_record(c)).y + 1) * a->group - left) * LOG2E;
}
/* Returns the byte offset, in the tile's stat, of the queries from 8 j on. A box of stat holds 64 log-sum-exps, then 64
 * values of delta. */
GA_DEV uint32_t stat_row(int j) { return j / 8 * (2 * GA_KBWD_ROWS * 4) + j % 8 * 32; }
/* Sets S to -infinity where a query of block m does not see a key of this lane, or the key does not exist. rows_q is
 * the number of queries. */
GA_DEV void apply_mask(const warpgroup *c, float *s, int m, int rows_q) {
  const int kv = kv_of(c), rel = kv - m * BM - c->q2, right = right_of(c->a), left = WINDOW ? c->a->window_left : 0;
  const int rows = rows_q - kv; /* kv is a key minus rows_k - rows_q; the key exists if it is below rows_k */
  GA_UNROLL for (int i = 0; i < NS; i++) {
    const int down = i / 2 % 2 * 8, across = 8 * (i / 4) + i % 2;
    int hidden = down >= rows;
    if (MASKED) hidden |= rel + down - across > right;
    if (WINDOW) hidden |= rel + down - across < -left;
    if (hidden) s[i] = GA_NEG_INF;
  }
}
/* Scales S to log2 units and applies soft-cap and ALiBi. The soft-cap is cap (1 - 2 / (1 + e^(2 x / cap))), whose error
 * for small x is 2^-24 of the cap. m is the block of queries. left is the number of query heads from this head to the
 * end of its group, itself included. */
GA_DEV void apply_features(const warpgroup *c, float *s, int m, int left) {
  args a = c->a;
  if (a->features & GA_KATTN_SOFTCAP) {
    const float in = a->softcap_in, out = a->softcap_out;
    GA_UNROLL for (int i = 0; i < NS; i++) s[i] = out - 2.f * out * rcp(1.f + ex2(s[i] * in));
  } else {
    const float f = a->scale_log2;
    GA_UNROLL for (int i = 0; i < NS; i++) s[i] *= f;
  }
  pin_f32(s, NS);
  if (a->features & GA_KATTN_ALIBI) {
    const float x0 = (float)(kv_of(c) - m * BM - c->q2), slope = slope_of(c, left);
    GA_UNROLL for (int i = 0; i < NS; i++) s[i] += slope * (x0 + (float)(i / 2 % 2 * 8 - 8 * (i / 4) - i % 2));
  }
  pin_f32(s, NS);
}
/* Returns 1 if some query in block m does not see all keys of the tile. */
GA_DEV int is_partial(const warpgroup *c, int m) {
  const ga_i4 limits = lds_i4(tile_record(c) + 16);
  return warp_uniform(m < limits.y || (WINDOW && m >= limits.z));
}
/* Computes P = 2^(S - lse) in place of S, and writes it to p as 16-bit pairs, ready as operand A of wgmma. On entry S
 * is the product Q K^T with block m of Q. lse is read from shared memory.
 *
 * left is the number of query heads from this head to the end of its group, itself included. partial 1: the mask is
 * applied. */
GA_DEV void probabilities(const warpgroup *c, float *s, uint32_t *p, int m, int left, int partial) {
  const uint32_t stat = stat_of(c);
  const float f = EXTRAS ? 1.f : c->a->scale_log2;
  if (EXTRAS) apply_features(c, s, m, left);
  if (partial) apply_mask(c, s, m, lds_i4(tile_record(c) + 16).w);
  GA_UNROLL for (int j = 0; j < BM / 8; j++) {
    float lse[2];
    lds_f2(lse, stat + stat_row(j));
    GA_UNROLL for (int e = 0; e < 4; e++) s[4 * j + e] = ex2(fmaf(s[4 * j + e], f, -lse[e % 2]));
    p[2 * j] = PACK(s[4 * j], s[4 * j + 1]);
    p[2 * j + 1] = PACK(s[4 * j + 2], s[4 * j + 3]);
  }
}
/* Returns the derivative of the soft-cap, 1 - tanh^2, computed from the weight p. The logit is log2 p + lse; `bias` is
 * ALiBi's part of it. inverse is 1 / cap. */
GA_DEV float cap_slope(float p, float lse, float bias, float inverse) {
  const float y = fminf(fmaxf((lg2(p) + lse - bias) * inverse, -1.f), 1.f);
  return 1.f - y * y;
}
/* Multiplies dp, which holds dP - delta, by the derivative of the soft-cap. p holds P as 16-bit pairs; m is the block
 * of queries. left is the number of query heads from this head to the end of its group, itself included. */
GA_DEV void bend(const warpgroup *c, float *dp, const uint32_t *p, int m, int left) {
  args a = c->a;
  if (!(a->features & GA_KATTN_SOFTCAP)) return;
  const uint32_t stat = stat_of(c);
  const float inverse = rcp(a->softcap_out), alibi = a->features & GA_KATTN_ALIBI ? slope_of(c, left) : 0.f;
  const float x0 = (float)(kv_of(c) - m * BM - c->q2);
  GA_UNROLL for (int j = 0; j < BM / 8; j++) {
    float lse[2];
    lds_f2(lse, stat + stat_row(j));
    GA_UNROLL for (int e = 0; e < 4; e++) {
      const uint32_t two = p[2 * j + e / 2];
      const float bias = alibi * (x0 + (float)(e / 2 * 8 - 8 * j - e % 2));
      dp[4 * j + e] *= cap_slope(TO_F32((uint16_t)(e % 2 ? two >> 16 : two)), lse[e % 2], bias, inverse);
    }
    pin_f32(dp + 4 * j, 4); /* processes one group after the other: all groups at once would spill registers */
  }
}
/* Reads delta of this lane's queries in n groups of 8 queries, from group `first` on. */
GA_DEV void read_delta(const warpgroup *c, float *delta, int first, int n) {
  const uint32_t stat = stat_of(c) + GA_KBWD_ROWS * 4;
  GA_UNROLL for (int j = 0; j < n; j++) lds_f2(delta + 2 * j, stat + stat_row(first + j));
}
/* Subtracts delta from dP in the first n groups of 8 queries. */
GA_DEV void less_delta(float *dp, const float *delta, int n) {
  GA_UNROLL for (int i = 0; i < 4 * n; i++) dp[i] -= delta[i / 4 * 2 + i % 2];
}
/* Subtracts delta from dP in the groups of 8 queries from group `first` on. */
GA_DEV void less_rest(const warpgroup *c, float *dp, int first) {
  GA_UNROLL for (int j = first; j < BM / 8; j++) {
    float delta[2];
    read_delta(c, delta, j, 1);
    less_delta(dp + 4 * j, delta, 1);
  }
}
/* Sets dp to -delta, so that the product adds dP to it. This needs fewer registers than a subtraction after the
 * product. */
GA_DEV void start_dp(const warpgroup *c, float *dp) {
  GA_UNROLL for (int i = 0; i < NS; i++) dp[i] = 0;
  less_rest(c, dp, 0);
}
/* Computes dS = P (dP - delta) in place of P. On entry dp holds dP - delta. */
GA_DEV void gradients(const warpgroup *c, float *dp, uint32_t *p, int m, int left) {
  if (EXTRAS) bend(c, dp, p, m, left);
  GA_UNROLL for (int i = 0; i < NP; i++) p[i] =
      PACK(TO_F32((uint16_t)p[i]) * dp[2 * i], TO_F32((uint16_t)(p[i] >> 16)) * dp[2 * i + 1]);
}
