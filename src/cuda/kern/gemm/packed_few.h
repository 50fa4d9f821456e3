/* Products of a few rows of X with units of packed weights, on mma.sync. Weights are exact integers in bf16, and X is
 * the sum of two bf16 (17 bits). Scales and minima are applied to the sums of 16 or 32 products in f32.
 *
 * X lies in shared memory as [group of 32][copy][32] in the order of packed_x_at. `copies` is 2, 4, 8 or 16: the first
 * half are the high parts of rows of X, the second half their low parts. Types with minima have sums of X beside it, as
 * [group][half][packed_sum_cols(copies)]; columns of high parts have them, columns of low parts have 0.
 *
 * t is the type of the weights; t and every index are constants after unrolling. */
#pragma once
#include "cuda/dev/ptx/mem.h"
#include "cuda/kern/gemm/packed.h"

enum { PACKED_FEW_COLS = 8 /* columns of an accumulator */ };

GA_DEV int packed_sum_cols(int copies) { return copies < PACKED_FEW_COLS ? copies : PACKED_FEW_COLS; }

/* Splits four elements of X into two bf16 each, in pairs, and returns their sum. An infinity has no low part. */
GA_DEV float packed_split_x(const float *x, uint32_t *hi, uint32_t *lo) {
  GA_UNROLL for (int p = 0; p < 2; p++) {
    hi[p] = pack_bf16(x[2 * p], x[2 * p + 1]);
    const float l0 = x[2 * p] - __uint_as_float(hi[p] << 16), l1 = x[2 * p + 1] - __uint_as_float(hi[p] & 0xffff0000u);
    lo[p] = pack_bf16(l0 != l0 ? 0.0f : l0, l1 != l1 ? 0.0f : l1);
  }
  return x[0] + x[1] + x[2] + x[3];
}

GA_DEV void packed_scale_add(int t, const uint32_t *scales, int group, int half, const float *c, float *acc) {
  GA_UNROLL for (int r = 0; r < 2; r++) {
    const float scale = packed_scale(t, scales, group, half, r);
    acc[2 * r] = fmaf(scale, c[2 * r], acc[2 * r]);
    acc[2 * r + 1] = fmaf(scale, c[2 * r + 1], acc[2 * r + 1]);
  }
}

GA_DEV void packed_min_add(int t, const uint32_t *scales, int group, int half, uint32_t sums, float *acc) {
  float sum[2];
  lds_nv_f2(sum, sums);
  GA_UNROLL for (int r = 0; r < 2; r++) {
    const float min = packed_min(t, scales, group, half, r);
    acc[2 * r] = fmaf(min, sum[0], acc[2 * r]);
    acc[2 * r + 1] = fmaf(min, sum[1], acc[2 * r + 1]);
  }
}

/* Adds the products of a unit, whose words are in w, with X from unit `at` on to acc. x_base and sums_base are the
 * shared addresses of X and of its sums. two: copies is above PACKED_FEW_COLS. acc[2r + e] belongs to row g + 8r of the
 * tile and column 2q + e. */
GA_DEV void packed_take_unit(int t, uint32_t x_base, uint32_t sums_base, int copies, bool two, const uint32_t *w,
                             int at, int lane, float *acc) {
  const int groups = PACKED_GROUPS(t), halves = PACKED_HALVES(t) ? 2 : 1;
  const int g = lane / 4, q = lane % 4, cols = packed_sum_cols(copies);
  const uint32_t step = (uint32_t)copies * 64,
                 x = x_base + (uint32_t)at * groups * step + (uint32_t)((g & (copies - 1)) * 64 + q * 16);
  const uint32_t sums = sums_base + (uint32_t)((at * groups * halves) * cols + (2 * q & (cols - 1))) * 4;
  GA_UNROLL for (int i = 0; i < groups; i++) {
    uint32_t b[4], b2[4] = {0, 0, 0, 0};
    float c[4] = {0, 0, 0, 0};
    lds_nv_u4(b, x + (uint32_t)i * step);
    if (two) lds_nv_u4(b2, x + (uint32_t)i * step + 512);
    GA_UNROLL for (int s = 0; s < 2; s++) {
      uint32_t f[4], rest[4];
      packed_step(t, w, i, s, f);
      float *sum = PACKED_PLAIN(t) ? acc : c;
      mma_nv_bf16(sum, f, b[2 * s], b[2 * s + 1]);
      if (two) mma_nv_bf16(sum, f, b2[2 * s], b2[2 * s + 1]);
      if (t == T_F16) {
        packed_rest(w, i, s, f, rest);
        mma_nv_bf16(sum, rest, b[2 * s], b[2 * s + 1]);
        if (two) mma_nv_bf16(sum, rest, b2[2 * s], b2[2 * s + 1]);
      }
      if (PACKED_PLAIN(t) || (halves == 1 && s == 0)) continue;
      const int half = halves == 2 ? s : 0;
      packed_scale_add(t, w + PACKED_CODES(t), i, half, c, acc);
      if (PACKED_MIN(t))
        packed_min_add(t, w + PACKED_CODES(t), i, half, sums + (uint32_t)((i * halves + half) * cols) * 4, acc);
      GA_UNROLL for (int e = 0; e < 4; e++) c[e] = 0;
    }
  }
}
