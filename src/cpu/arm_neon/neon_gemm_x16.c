/* KERNEL    gemm_<type>_any_neon_16x4: packed weights times activations of 15 bits
 * COMPUTES  out[c][r] = sum over blocks of 32: d_x[c] * (d_w[r] * (codes[r] - offset) . q[c]) + m_w[r] * sum_x[c],
 *           q = 128 high + low
 * CONTRACT  one panel of 16 rows, 1 to 4 columns, k a multiple of 32; integer part exact, f32 sums in order of blocks
 * DATA      16-byte loads of codes -> bytes -> sdot by element: a lane of x holds 4 activations, lane of the sum = row
 *           */
#include "cpu/arm_neon/x16_load_neon.h"
#include "cpu/arm_neon/x16_neon.h"

/* Four steps with the 16 activations of x. */
GA_INLINE int32x4_t dot_four(int32x4_t sum, const int8x16_t *q, int8x16_t x) {
  sum = vdotq_laneq_s32(sum, q[0], x, 0);
  sum = vdotq_laneq_s32(sum, q[1], x, 1);
  sum = vdotq_laneq_s32(sum, q[2], x, 2);
  return vdotq_laneq_s32(sum, q[3], x, 3);
}

/* sum + d * (128 * high + low) */
GA_INLINE float32x4_t add_dot(float32x4_t sum, int32x4_t high, int32x4_t low, float32x4_t d) {
  return vfmaq_f32(sum, vcvtq_f32_s32(vaddq_s32(vshlq_n_s32(high, 7), low)), d);
}

/* Constant after inlining: everything from `load` to `cols`. */
GA_INLINE void dot_quantised(x16_loader load, const int group, const int head_bytes, const int record_bytes,
                             const int runs, const int has_min, const int most, const int cols, const uint8_t *panel,
                             const ga_x16_act *x, int64_t k, float *out) {
  const int64_t blocks = k / 32;
  const int wide = most == 255; /* codes come without their offset */
  const uint8_t *record = panel + ((((blocks + group - 1) / group * head_bytes) + 63) & ~(int64_t)63);
  float32x4_t sum[4][4]; /* column, part */
  GA_UNROLL for (int i = 0; i < 4 * cols; i++) sum[i / 4][i % 4] = vdupq_n_f32(0);
  for (int64_t b = 0; b < blocks; b++, record += record_bytes, x += cols) {
    GA_UNROLL for (int part = 0; part < 4; part++) {
      x16_block w;
      load(panel + b / group * head_bytes, record, b % group, part, &w);
      GA_UNROLL for (int c = 0; c < cols; c++) {
        const int8x16_t h0 = vld1q_s8(x[c].high), h1 = vld1q_s8(x[c].high + 16), l0 = vld1q_s8(x[c].low),
                        l1 = vld1q_s8(x[c].low + 16);
        int32x4_t high = dot_four(vdupq_n_s32(0), w.q, h0),
                  low = dot_four(vdupq_n_s32(has_min || wide ? 0 : x[c].sum[0].i), w.q, l0);
        if (runs == 1) {
          high = dot_four(high, w.q + 4, h1);
          low = dot_four(low, w.q + 4, l1);
        }
        sum[c][part] = add_dot(sum[c][part], high, low, vmulq_n_f32(w.d[0], x[c].d));
        if (has_min) sum[c][part] = vfmaq_n_f32(sum[c][part], w.m[0], x[c].sum[0].f);
        if (runs == 1) continue;
        high = dot_four(vdupq_n_s32(0), w.q + 4, h1);
        low = dot_four(vdupq_n_s32(has_min || wide ? 0 : x[c].sum[1].i), w.q + 4, l1);
        sum[c][part] = add_dot(sum[c][part], high, low, vmulq_n_f32(w.d[1], x[c].d));
        if (has_min) sum[c][part] = vfmaq_n_f32(sum[c][part], w.m[1], x[c].sum[1].f);
      }
    }
  }
  GA_UNROLL for (int i = 0; i < 4 * cols; i++) vst1q_f32(out + 16 * (i / 4) + 4 * (i % 4), sum[i / 4][i % 4]);
}

#define IMPL(name, group, head, record, runs, offset, has_min, most) \
  X16_MICRO(name, 1, group, head, record, runs, has_min, most)       \
  X16_MICRO(name, 2, group, head, record, runs, has_min, most)       \
  X16_MICRO(name, 4, group, head, record, runs, has_min, most)       \
  const ga_x16_impl ga_x16_##name##_neon = {                         \
      .quantise = ga_x16_quantise_neon,                              \
      .epilogue = ga_x16_epilogue_neon,                              \
      .micro = {[1] = dot_##name##_1, [2] = dot_##name##_2, [4] = dot_##name##_4}};
GA_X16_QUANTS(IMPL)
