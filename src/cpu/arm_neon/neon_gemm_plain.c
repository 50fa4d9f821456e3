/* KERNEL    gemm_{f32,f16,bf16}_any_neon_16x2: packed plain weights times f32 activations
 * COMPUTES  out[c][r] = sum over k of w[r][k] * x[c][k], weights widened to f32
 * CONTRACT  one panel of 16 rows, 1 or 2 columns, any k; even and odd k are summed apart and added at the end */
#include "cpu/arm_neon/x16_load_neon.h"
#include "cpu/arm_neon/x16_neon.h"

/* Rows 4 part .. of element k. */
typedef float32x4_t (*plain_loader)(const uint8_t *panel, int64_t k, int part);

GA_INLINE float32x4_t at_f32(const uint8_t *panel, int64_t k, int part) {
  return vreinterpretq_f32_u8(n4_vector(panel + 64 * k, 0, part));
}
GA_INLINE float32x4_t at_f16(const uint8_t *panel, int64_t k, int part) { return n4_halves(panel + 32 * k, part); }
/* A dword holds elements k (low) and k + 1 of a row, k even. */
GA_INLINE float32x4_t at_bf16(const uint8_t *panel, int64_t k, int part) {
  const uint32x4_t pair = vreinterpretq_u32_u8(n4_vector(panel + 64 * (k / 2), 0, part));
  return vreinterpretq_f32_u32(k & 1 ? vandq_u32(pair, vdupq_n_u32(0xffff0000u)) : vshlq_n_u32(pair, 16));
}

GA_INLINE void dot_plain(plain_loader at, const int cols, const uint8_t *panel, const float *x, int64_t x_stride,
                         int64_t k, float *out) {
  float32x4_t sum[2][4][2]; /* column, part, parity of k */
  GA_UNROLL for (int i = 0; i < 16; i++) sum[i >> 3][i >> 1 & 3][i & 1] = vdupq_n_f32(0);
  int64_t i = 0;
  for (; i + 2 <= k; i += 2) {
    GA_UNROLL for (int odd = 0; odd < 2; odd++) {
      GA_UNROLL for (int part = 0; part < 4; part++) {
        const float32x4_t w = at(panel, i + odd, part);
        GA_UNROLL for (int c = 0; c < cols; c++) sum[c][part][odd] =
            vfmaq_n_f32(sum[c][part][odd], w, x[c * x_stride + i + odd]);
      }
    }
  }
  for (; i < k; i++) {
    GA_UNROLL for (int part = 0; part < 4; part++) {
      const float32x4_t w = at(panel, i, part);
      GA_UNROLL for (int c = 0; c < cols; c++) sum[c][part][0] = vfmaq_n_f32(sum[c][part][0], w, x[c * x_stride + i]);
    }
  }
  GA_UNROLL for (int c = 0; c < cols; c++) {
    GA_UNROLL for (int part = 0; part < 4; part++)
        vst1q_f32(out + 16 * c + 4 * part, vaddq_f32(sum[c][part][0], sum[c][part][1]));
  }
}

#define STAMP(name, cols)                                                                                           \
  static void plain_##name##_##cols(const uint8_t *panel, const void *x, int64_t x_stride, int64_t k, float *out) { \
    dot_plain(at_##name, cols, panel, x, x_stride, k, out);                                                         \
  }
#define IMPL(name)                                                            \
  STAMP(name, 1)                                                              \
  STAMP(name, 2)                                                              \
  const ga_x16_impl ga_x16_##name##_neon = {.epilogue = ga_x16_epilogue_neon, \
                                            .micro = {[1] = plain_##name##_1, [2] = plain_##name##_2}};
IMPL(f32)
IMPL(f16)
IMPL(bf16)
