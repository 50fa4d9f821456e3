/* Computation of P from S in attn_fp8_sm90a.cu: masks, scales, references and weights. */
#pragma once
#include "cuda/dev/ptx/order.h"
#include "cuda/dev/ptx/pack8.h"
#include "cuda/dev/tile/reg.h"
#include "cuda/kern/attn/attn_lse.h"
#include "cuda/kern/attn_fp8/attn_fp8_warpgroup.h"

GA_DEV void apply_mask(const warpgroup *c, float *s) {
  /* t.x, t.y, t.z, t.w: rows_q, rows_k, start_q and column of the tile's record */
  const ga_i4 t = lds_i4(tile_slot(c, 1) + 32);
  const int base = c->n * BN, row = t.w + c->at.w * 64 + c->at.wl * 16 + c->at.g - base, last = t.y - 1 - base;
  int hi0 = last, hi1 = last;
  if (MASKED) {
    hi0 = imin(hi0, row);
    hi1 = imin(hi1, row + 8);
  }
  tile_mask_above(s, BN, hi0, hi1, c->at.q2);
}
/* Converts n integers of S to floats, in place. The conversion is exact, because |s| <= 2^22. */
GA_DEV void numbers(float *s, int n) { GA_UNROLL for (int i = 0; I8 && i < n; i++) s[i] = (float)bits_of(s[i]); }
/* Loads four scales: of the two halves of 64 keys of the current block of K, then of the same halves of V. */
GA_DEV void block_scales(const warpgroup *c, float *x) {
  lds_f4(x, c->at.sb + OFF_SCALE + (c->parity_k * ST + c->stage_k) * SCALE_BYTES);
}
/* Computes the factors from S to log2 units, for this lane's two rows and keys with the given scale. */
GA_DEV void row_factors(const warpgroup *c, float scale, float *f) {
  GA_UNROLL for (int i = 0; i < 2; i++) f[i] = c->factor[I8 ? i : 0] * scale;
}
/* Computes the factors from S to log2 units of the current block of K, for each half and row. */
GA_DEV void block_factors(const warpgroup *c, float *f) {
  float x[4];
  block_scales(c, x);
  row_factors(c, x[0], f);
  row_factors(c, x[1], f + 2);
}
/* Loads the scales of both halves of the current block of V. */
GA_DEV void value_scales(const warpgroup *c, float *v) {
  lds_f2(v, c->at.sb + OFF_SCALE + ((c->parity_k ^ (c->stage_k == 0)) * ST + stage_v(c)) * SCALE_BYTES + 8);
}
GA_DEV int two_scales(const warpgroup *c) {
  float v[2];
  value_scales(c, v);
  return warp_any(v[0] != v[1]);
}
/* Replaces S of 64 keys, from key 64 h on, by exponents: log2 of the weights. */
GA_DEV void exponents(float *s, int h, const float *f, const float *ref) {
  s += h * SUB;
  GA_UNROLL for (int j = 0; j < SUB / 4; j++) {
    s[4 * j] = fmaf(s[4 * j], f[0], -ref[0]);
    s[4 * j + 1] = fmaf(s[4 * j + 1], f[0], -ref[0]);
    s[4 * j + 2] = fmaf(s[4 * j + 2], f[1], -ref[1]);
    s[4 * j + 3] = fmaf(s[4 * j + 3], f[1], -ref[1]);
  }
}
/* Computes the largest exponents for which the rows' references need not be raised. Weights above 2^OFFSET are rounded
 * more coarsely.
 *
 * That is acceptable if this lane's part of the row's sum is at least four such weights, but not for a row without
 * other weights. */
GA_DEV void limits(const float *l, float *limit) {
  GA_UNROLL for (int i = 0; i < 2; i++) limit[i] = fminf(fmaxf(lg2(l[i]) - 2.f, OFFSET), LIMIT);
}
/* Updates `most` with the largest exponents of this lane's two rows over 64 keys from key 64 h on. `most` has the bits
 * of floats of at least 0. Floats are compared as integers, so that exponents below 0 change nothing. */
GA_DEV void largest_logits(const float *t, int h, int *most) {
  t += h * SUB;
  GA_UNROLL for (int i = 0; i < SUB; i += 4) {
    most[0] = max3_i32(most[0], bits_of(t[i]), bits_of(t[i + 1]));
    most[1] = max3_i32(most[1], bits_of(t[i + 2]), bits_of(t[i + 3]));
  }
}
/* Raises the reference (the number subtracted before 2^x) of each row whose largest weight exceeds 2^OFFSET, so that
 * this weight becomes 2^OFFSET. t, l, w and O are rescaled to match; with fast_sum, w and O are not.
 *
 * factor becomes the rows' factors, for sums that are added to O later. */
GA_DEV void raise_reference(float *t, float *m, float *l, float *w, float *o, float *factor) {
  float most[2], by[2];
  tile_row_max(t, BN, most);
  GA_UNROLL for (int i = 0; i < 2; i++) {
    const int seen = m[i] != GA_NEG_INF;
    by[i] = seen ? fmaxf(most[i] - OFFSET, 0.f) : most[i] - OFFSET;
    if (by[i] == GA_NEG_INF)
      by[i] = 0.f; /* the row has not seen a key yet */
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
/* Sets every row's reference m from S, so that the row's largest weight becomes 2^OFFSET, which e4m3 represents
 * exactly. Rescales l and O to it. */
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
/* Computes the weights of 32 keys from their exponents, and packs them as operand A of the product P V. Adds the
 * unrounded weights to l.
 *
 * Keys have V's order: byte 4 q + 2 b + e of 16-byte group h is key 16 h + 8 b + 2 q + e. */
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
/* Computes P from S and updates m, l and O, while no other block is in flight. first: the first block of a tile.
 * masked: the block may be masked. */
GA_DEV void softmax(const warpgroup *c, float *s, uint32_t *p, float *m, float *l, float *o, int first, int masked) {
  float f[4], ref[2];
  block_factors(c, f);
  if (first) {
    m[0] = m[1] = GA_NEG_INF;
    l[0] = l[1] = 0.f;
  }
  if (masked) apply_mask(c, s);
  running_maximum(s, f, m, l, o);
  reference(m, ref);
  exponents(s, 0, f, ref);
  exponents(s, 1, f + 2, ref);
  GA_UNROLL for (int i = 0; i < 4; i++) weights(s + 16 * i, p + 4 * i, l);
}
