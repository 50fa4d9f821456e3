/* Products with packed quantised weights of a type T: X as 8-bit digits, and the products of a unit. */
#pragma once
#include "cuda/kern/gemm/split_share.h"

/* Converts a unit of row `row` of X to digits and stores them, with their scales, to shared memory. For types with a
 * minimum, also stores sums of X over runs.
 *
 * x[v] holds this lane's elements 128 v + 4 lane to 128 v + 4 lane + 3. */
GA_DEV void put_x(const int rows, const share *s, int unit, int row, int lane, float (*x)[4]) {
  const uint32_t pair = s->x + (uint32_t)((unit * (GROUPS / 2) + lane / 16) * SPLITS_X * rows * 64);
  const uint32_t at = pair + (uint32_t)(row * 64 + lane % 4 * 16 + lane / 8 % 2 * 8 + lane / 4 % 2 * 4);
  float most = 0;
  GA_UNROLL for (int v = 0; v < UNIT_K / 128; v++) GA_UNROLL for (int e = 0; e < 4; e++) most = max_size(most, x[v][e]);
  const int exponent = redux_max_i32((int)(float_bits(most) & 0x7fffffffu)) >>
                       23; /* exponent of the largest element, which is below 2^(exponent - 126) */
  if (PACKED_MIN(T)) GA_UNROLL
    for (int v = 0; v < UNIT_K / 128; v++) {
      const int group = 4 * v + lane / 8, run = HALVES == 2 ? 2 * group + lane / 4 % 2 : group;
      float sum = x[v][0] + x[v][1] + x[v][2] + x[v][3];
      GA_UNROLL for (int b = 1; b < 8 / HALVES; b *= 2) sum += shfl_xor_f32(sum, b);
      if (lane % (8 / HALVES) == 0) sts_f1(s->sums + (uint32_t)((unit * RUNS + run) * rows + row) * 4, sum);
    }
  if (exponent < 21) GA_UNROLL
    for (int v = 0; v < UNIT_K / 128; v++)
      GA_UNROLL for (int e = 0; e < 4; e++) x[v][e] *= 18446744073709551616.0f; /* 2^64 */
  const float up = __uint_as_float((uint32_t)((exponent < 21 ? 210 : 274) - exponent) << 23);
  GA_UNROLL for (int v = 0; v < UNIT_K / 128; v++) {
    uint32_t words[SPLITS_X];
    split_int8(x[v], up, words);
    GA_UNROLL for (int p = 0; p < SPLITS_X; p++) sts_u1(at + (uint32_t)((2 * v * SPLITS_X + p) * rows * 64), words[p]);
  }
  const int width = WIDTH(rows);
  const uint32_t scales = s->scales + (uint32_t)(unit * width) * 4;
  const float scale =
      exponent == 255 ? __uint_as_float(0x7fc00000u) : pow2_any(exponent - 131 - 8 * (lane < SPLITS_X ? lane : 0));
  if (lane < SPLITS_X) sts_f1(scales + (uint32_t)(lane * rows + row) * 4, scale);
  if (lane == SPLITS_X && row == rows - 1 && width > SPLITS_X * rows)
    sts_f1(scales + (uint32_t)(SPLITS_X * rows) * 4, 0);
}

GA_DEV void take_mins(const int rows, const lane_view *v, const uint32_t *scales, int at, int q, float *acc) {
  const uint32_t sums = v->sums + (uint32_t)(at * RUNS * rows) * 4;
  uint32_t mins[4];
  /* the first half of the product's k has the high parts of the sums of X, the second half their low parts */
  if (PACKED_FLOAT_MIN(T)) {
    const float sum = v->has_sum ? lds_nv_f1(sums) : 0.0f;
    const uint32_t high = float_bits(sum) & 0xffffe000u;
    GA_UNROLL for (int i = 0; i < 4; i++) mins[i] = float_bits(packed_f16(scales[4], i % 2));
    mma_nv_tf32(acc, mins, high, float_bits(sum - __uint_as_float(high)));
    return;
  }
  float cm[4] = {0, 0, 0, 0};
  GA_UNROLL for (int j = 0; j < RUNS / 8; j++) {
    const uint32_t low = sums + (uint32_t)(8 * j * rows) * 4;
    packed_mins(T, scales, j, q, mins);
    add_sums(cm, mins, v->has_sum ? lds_nv_f1(low) : 0.0f,
             v->has_sum ? lds_nv_f1(low + (uint32_t)(4 * rows) * 4) : 0.0f);
  }
  GA_UNROLL for (int e = 0; e < 4; e++) acc[e] = fmaf(packed_shared_min(T, scales, e / 2), cm[e], acc[e]);
}

enum { START = PACKED_INT_SCALE(T) ? 0 : 0x4b400000 };
/* Adds the products c of one run, times the run's scale, to *sum. With float scales, integer products start at START,
 * the bits of 1.5 * 2^23, so that the bits of the result are a float. ready holds MXFP4's scales. */
GA_DEV void add_run(const uint32_t *scales, float (*ready)[2], int group, int half, const int *c, unit_sum *sum) {
  GA_UNROLL for (int e = 0; e < 4; e++) {
    if (PACKED_INT_SCALE(T)) {
      sum[e].i += packed_pick_scale(T, scales, group, half, e / 2) * c[e];
    } else {
      const float down = packed_pow2(-PACKED_LIFT(T, e / 2)),
                  f = fmaf(__uint_as_float((uint32_t)c[e]), down, -12582912.0f * down);
      sum[e].f =
          fmaf(T == T_MXFP4 ? ready[group][e / 2] : packed_float_scale(T, scales, group, half, e / 2), f, sum[e].f);
    }
  }
}

/* Adds the products of X and one unit, whose words are in w, to acc. `at` is the index of the unit in this block's part
 * of k. */
GA_DEV void take_unit(const int rows, const lane_view *v, const packed_constants *k, const uint32_t *w, int at,
                      int lane, float (*acc)[4]) {
  const int nt = PRODUCTS(rows), step = SPLITS_X * rows * 64; /* bytes of X of two groups */
  const uint32_t *scales = w + PACKED_CODES(T);
  unit_sum sum[SPLITS_X][4];
  float ready[GROUPS][2];
  if (T == T_MXFP4) packed_e8m0_scales(scales, ready);
  GA_UNROLL for (int n = 0; n < nt; n++) GA_UNROLL for (int e = 0; e < 4; e++) sum[n][e].i = 0;
  GA_UNROLL for (int pair = 0; pair < GROUPS / 2; pair++) {
    uint32_t b[SPLITS_X][4];
    GA_UNROLL for (int n = 0; n < nt; n++) {
      const int last = n == nt - 1;
      lds_nv_u4(b[n], v->x[last] + (uint32_t)((last ? 0 : 64 * COLS * n) + (at * (GROUPS / 2) + pair) * step));
    }
    GA_UNROLL for (int i = 0; i < 2; i++) {
      const int group = 2 * pair + i;
      uint32_t a[4], more[4];
      if (PACKED_LOOKED_UP(T))
        packed_fragments(T, k, w, group, a, more);
      else
        packed_fragment(T, k, w, group, a);
      GA_UNROLL for (int n = 0; n < nt; n++) {
        int c[4];
        if (HALVES == 1) {
          if (PACKED_NIBBLES(T))
            mma_nv_u8_s8(c, a, b[n][2 * i], b[n][2 * i + 1], START);
          else
            mma_nv_s8(c, a, b[n][2 * i], b[n][2 * i + 1], START);
          if (PACKED_LOOKED_UP(T)) mma_nv_add_s8(c, more, b[n][2 * i], b[n][2 * i + 1]);
          add_run(scales, ready, group, 0, c, sum[n]);
        }
        if (HALVES == 2) GA_UNROLL
          for (int s = 0; s < 2; s++) {
            mma_nv_s8_k16(c, a + 2 * s, b[n][2 * i + s], START);
            if (PACKED_LOOKED_UP(T)) mma_nv_add_s8_k16(c, more + 2 * s, b[n][2 * i + s]);
            add_run(scales, ready, group, s, c, sum[n]);
          }
      }
    }
  }
  if (PACKED_MIN(T)) take_mins(rows, v, scales, at, lane % 4, acc[0]);
  GA_UNROLL for (int n = 0; n < nt; n++) {
    float scale[2];
    lds_nv_f2(scale, v->scales[n == nt - 1] + (uint32_t)((n == nt - 1 ? 0 : COLS * n) + at * WIDTH(rows)) * 4);
    GA_UNROLL for (int e = 0; e < 4; e++) {
      const float f = PACKED_INT_SCALE(T) ? (float)sum[n][e].i * packed_shared_scale(T, scales, e / 2) : sum[n][e].f;
      acc[n][e] = fmaf(f, scale[e % 2], acc[n][e]);
    }
  }
}
