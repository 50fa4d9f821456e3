/* What comes before and after the products: rounding activations to 15 bits, and the epilogue. */
#include "cpu/arm_neon/x16_load_neon.h"
#include "cpu/arm_neon/x16_neon.h"

/* Stores the two digits of 8 numbers and returns the sum of 128 * high + low. What an infinity has been converted to is
 * kept within two digits. */
GA_INLINE uint32_t split_15bit(int32x4_t q0, int32x4_t q1, int8_t *high, int8_t *low) {
  const int16x8_t most = vdupq_n_s16(16256);
  const int16x8_t q = vmaxq_s16(vnegq_s16(most), vminq_s16(most, vcombine_s16(vqmovn_s32(q0), vqmovn_s32(q1))));
  const int16x8_t h = vshrq_n_s16(vaddq_s16(q, vdupq_n_s16(64)), 7);
  vst1_s8(high, vmovn_s16(h));
  vst1_s8(low, vmovn_s16(vsubq_s16(q, vshlq_n_s16(h, 7))));
  return (uint32_t)vaddlvq_s16(q);
}

void ga_x16_quantise_neon(const ga_x16_format *format, const float *x, int64_t n_blocks, ga_x16_act *out,
                          int64_t step) {
  for (int64_t b = 0; b < n_blocks; b++, x += 32, out += step) {
    uint32x4_t most_bits = vdupq_n_u32(0);
    for (int i = 0; i < 8; i++)
      most_bits = vmaxq_u32(most_bits, vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x + 4 * i)), vdupq_n_u32(0x7fffffff)));
    const uint32_t bits = vmaxvq_u32(most_bits); /* as integers magnitudes compare as floats do and NaN is above all */
    float most;
    memcpy(&most, &bits, sizeof most);
    const bool tiny = bits < 0x0d800000u; /* 2^-100 */
    const float inverse = tiny ? 0.0f : GA_X16_STEPS / most;
    uint32_t sum[2] = {0, 0};
    for (int i = 0; i < 4; i++) {
      const int32x4_t q0 = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 8 * i), inverse));
      const int32x4_t q1 = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 8 * i + 4), inverse));
      sum[i / 2] += split_15bit(q0, q1, out->high + 8 * i, out->low + 8 * i);
    }
    out->d = tiny ? 0.0f : most / GA_X16_STEPS;
    const uint32_t first = format->runs == 2 ? sum[0] : sum[0] + sum[1]; /* of a block with an infinity it may wrap */
    if (format->has_min) {
      out->sum[0].f = out->d * (float)(int32_t)first;
      out->sum[1].f = out->d * (float)(int32_t)sum[1];
    } else {
      out->sum[0].i = (int32_t)(-(uint32_t)format->offset * first);
      out->sum[1].i = (int32_t)(-(uint32_t)format->offset * sum[1]);
    }
  }
}

/* Plain elements go through registers; activation functions are left to the scalar epilogue. */
void ga_x16_epilogue_neon(const ga_gemm_desc *d, const ga_gemm_io *io, int64_t row, int64_t rows, int64_t col,
                          int64_t n, const float *t, int64_t t_step) {
  for (int64_t r = 0; r < rows; r++, t += t_step) {
    if (d->act || n < GA_X16_ROWS || d->flags & ~(uint32_t)GA_GEMM_RESIDUAL) {
      ga_cpu_gemm_epilogue(d, io, row + r, col, n, t);
      continue;
    }
    const int64_t at = (row + r) * d->y_stride + col;
    for (int i = 0; i < GA_X16_ROWS; i += 4) {
      float32x4_t v = vmulq_n_f32(vld1q_f32(t + i), d->scale);
      if (d->flags & GA_GEMM_RESIDUAL) v = vaddq_f32(v, vld1q_f32((const float *)io->residual + at + i));
      vst1q_f32((float *)io->y + at + i, v);
    }
  }
}
