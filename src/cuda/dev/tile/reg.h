/* Register tiles in the accumulator layout of wgmma. A tile has 16 rows per warp and n columns, where n is a constant
 * after inlining. g is lane / 4 and q is lane % 4.
 *
 * A lane holds rows g and g+8. Row g has columns 8j + 2q and 8j + 2q + 1 in x[4j] and x[4j+1]. Row g+8 has the same
 * columns in x[4j+2] and x[4j+3].
 *
 * An array v of values per row has v[0] for row g and v[1] for row g+8. */
#pragma once
#include "cuda/dev/ptx/num.h"

#define GA_NEG_INF __uint_as_float(0xff800000u)

GA_DEV float quad_max(float x) {
  x = fmaxf(x, shfl_xor_f32(x, 1));
  return fmaxf(x, shfl_xor_f32(x, 2));
}
GA_DEV float quad_sum(float x) {
  x += shfl_xor_f32(x, 1);
  return x + shfl_xor_f32(x, 2);
}

/* Sets v to the maxima of rows g and g+8 over all n columns. A NaN is skipped, as fmaxf does. */
GA_DEV void tile_row_max(const float *x, int n, float *v) {
  float a0 = x[0], a1 = x[1], b0 = x[2], b1 = x[3];
  GA_UNROLL for (int j = 1; j < n / 8; j++) {
    a0 = fmaxf(a0, x[4 * j]);
    a1 = fmaxf(a1, x[4 * j + 1]);
    b0 = fmaxf(b0, x[4 * j + 2]);
    b1 = fmaxf(b1, x[4 * j + 3]);
  }
  v[0] = quad_max(fmaxf(a0, a1));
  v[1] = quad_max(fmaxf(b0, b1));
}
/* Multiplies row g of x by v[0] and row g+8 by v[1]. */
GA_DEV void tile_scale_rows(float *x, int n, const float *v) {
  GA_UNROLL for (int j = 0; j < n / 8; j++) {
    x[4 * j] *= v[0];
    x[4 * j + 1] *= v[0];
    x[4 * j + 2] *= v[1];
    x[4 * j + 3] *= v[1];
  }
}
/* Replaces each element x by 2^(x c - ref), with ref[0] for row g and ref[1] for row g+8. sum[0] and sum[1] become the
 * sums of this lane's results in the two rows. */
GA_DEV void tile_exp2(float *x, int n, float c, const float *ref, float *sum) {
  float a0 = 0, a1 = 0, b0 = 0, b1 = 0;
  GA_UNROLL for (int j = 0; j < n / 8; j++) {
    x[4 * j] = ex2(fmaf(x[4 * j], c, -ref[0]));
    x[4 * j + 1] = ex2(fmaf(x[4 * j + 1], c, -ref[0]));
    x[4 * j + 2] = ex2(fmaf(x[4 * j + 2], c, -ref[1]));
    x[4 * j + 3] = ex2(fmaf(x[4 * j + 3], c, -ref[1]));
    a0 += x[4 * j];
    a1 += x[4 * j + 1];
    b0 += x[4 * j + 2];
    b1 += x[4 * j + 3];
  }
  sum[0] = a0 + a1;
  sum[1] = b0 + b1;
}
/* tile_mask_above sets the columns above hi, and tile_mask_below the columns below lo, to -infinity: hi0, lo0 for row g
 * and hi1, lo1 for row g+8. q2 is 2q. */
GA_DEV void tile_mask_above(float *x, int n, int hi0, int hi1, int q2) {
  GA_UNROLL for (int j = 0; j < n / 8; j++) GA_UNROLL for (int e = 0; e < 2; e++) {
    if (8 * j + e + q2 > hi0) x[4 * j + e] = GA_NEG_INF;
    if (8 * j + e + q2 > hi1) x[4 * j + 2 + e] = GA_NEG_INF;
  }
}
GA_DEV void tile_mask_below(float *x, int n, int lo0, int lo1, int q2) {
  GA_UNROLL for (int j = 0; j < n / 8; j++) GA_UNROLL for (int e = 0; e < 2; e++) {
    if (8 * j + e + q2 < lo0) x[4 * j + e] = GA_NEG_INF;
    if (8 * j + e + q2 < lo1) x[4 * j + 2 + e] = GA_NEG_INF;
  }
}

/* Sets all elements of x to v. */
GA_DEV void tile_fill(float *x, int n, float v) { GA_UNROLL for (int i = 0; i < n / 2; i++) x[i] = v; }
/* Sets v to the sums of rows g and g+8 over all n columns. */
GA_DEV void tile_row_sum(const float *x, int n, float *v) {
  float a = 0, b = 0;
  GA_UNROLL for (int j = 0; j < n / 8; j++) {
    a += x[4 * j] + x[4 * j + 1];
    b += x[4 * j + 2] + x[4 * j + 3];
  }
  v[0] = quad_sum(a);
  v[1] = quad_sum(b);
}
/* Adds v[0] to row g of x, and v[1] to row g+8. */
GA_DEV void tile_add_rows(float *x, int n, const float *v) {
  GA_UNROLL for (int j = 0; j < n / 8; j++) {
    x[4 * j] += v[0];
    x[4 * j + 1] += v[0];
    x[4 * j + 2] += v[1];
    x[4 * j + 3] += v[1];
  }
}
/* Round the tile to 16 bits, as operand A of a product whose k are the tile's columns: 4 registers for every 16
 * columns. tile_store (smem.h) stores the same registers. */
GA_DEV void tile_pack_bf16(const float *x, int n, uint32_t *a) {
  GA_UNROLL for (int i = 0; i < n / 4; i++) a[i] = pack_bf16(x[2 * i], x[2 * i + 1]);
}
GA_DEV void tile_pack_f16(const float *x, int n, uint32_t *a) {
  GA_UNROLL for (int i = 0; i < n / 4; i++) a[i] = pack_f16(x[2 * i], x[2 * i + 1]);
}
