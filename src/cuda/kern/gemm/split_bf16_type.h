/* Products in bf16 with packed weights of a type T: the conversion of X to sums of two bf16, and the products of a
 * unit. */
#pragma once
#include "cuda/kern/gemm/split_share.h"

/* Stores 128 columns of row `row` of X to shared memory, each number as the sum of two bf16. The columns are two units
 * of 64, or one unit of 128. x[0] has this lane's 4 numbers, columns 4 lane to 4 lane + 3.
 *
 * Within 32 columns the order is given by packed_x_at. The low part of an infinity is 0. */
GA_DEV void put_x(const int rows, const share *s, int pair, int row, int lane, float (*x)[4]) {
  const uint32_t at =
      s->x + (uint32_t)((pair * 4 + lane / 8) * SPLITS_X * rows * 64 + row * 64 + packed_x_at(lane % 8 * 4) * X_ELEM);
  uint32_t high[2], low[2];
  if (!has_x(s, pair, lane)) return;
  GA_UNROLL for (int p = 0; p < 2; p++) {
    const float first = x[0][2 * p], second = x[0][2 * p + 1];
    high[p] = pack_bf16(first, second);
    const float l0 = first - __uint_as_float(high[p] << 16), l1 = second - __uint_as_float(high[p] & 0xffff0000u);
    low[p] = pack_bf16(l0 != l0 ? 0.0f : l0, l1 != l1 ? 0.0f : l1);
  }
  sts_u2(at, high[0], high[1]);
  sts_u2(at + (uint32_t)(rows * 64), low[0], low[1]);
}

/* Adds the products of X and one unit, whose words are in w, to acc. `at` is the index of the unit in this block's part
 * of k.
 *
 * f16 weights are also sums of two bf16, which takes twice the products. Sums of e4m3 codes are multiplied by the row's
 * scale for the unit. */
GA_DEV void take_unit(const int rows, const lane_view *v, const packed_constants *, const uint32_t *w, int at, int,
                      float (*acc)[4]) {
  const int nt = PRODUCTS(rows), step = SPLITS_X * rows * 64; /* bytes of X of a group */
  float of_unit[SPLITS_X][4], (*sum)[4] = PACKED_ONE_RUN(T) ? of_unit : acc;
  GA_UNROLL for (int n = 0; n < nt; n++) GA_UNROLL for (int e = 0; e < 4; e++) of_unit[n][e] = 0;
  GA_UNROLL for (int group = 0; group < GROUPS; group++) {
    uint32_t b[SPLITS_X][4];
    GA_UNROLL for (int n = 0; n < nt; n++) {
      const int last = n == nt - 1;
      lds_nv_u4(b[n], v->x[last] + (uint32_t)((last ? 0 : 64 * COLS * n) + (at * GROUPS + group) * step));
    }
    GA_UNROLL for (int i = 0; i < 2; i++) {
      uint32_t f[4], rest[4];
      packed_step(T, w, group, i, f);
      GA_UNROLL for (int n = 0; n < nt; n++) mma_nv_bf16(sum[n], f, b[n][2 * i], b[n][2 * i + 1]);
      if (T != T_F16) continue;
      packed_rest(w, group, i, f, rest);
      GA_UNROLL for (int n = 0; n < nt; n++) mma_nv_bf16(sum[n], rest, b[n][2 * i], b[n][2 * i + 1]);
    }
  }
  if (!PACKED_ONE_RUN(T)) return;
  GA_UNROLL for (int n = 0; n < nt; n++) GA_UNROLL for (int e = 0; e < 4; e++) acc[n][e] =
      fmaf(packed_scale(T, w + PACKED_CODES(T), 0, 0, e / 2), of_unit[n][e], acc[n][e]);
}
