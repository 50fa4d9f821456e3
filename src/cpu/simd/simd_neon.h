/* Vectors of VN floats for Armv8 NEON. simd_generic.h says what each function computes. */
#ifndef GA_CPU_SIMD_SIMD_NEON_H
#define GA_CPU_SIMD_SIMD_NEON_H

#include <arm_neon.h>
#include <math.h>

#include "base/half.h"

#define VN 4
typedef float32x4_t vf;
typedef uint32x4_t vm;

GA_INLINE vf vf_set(float x) { return vdupq_n_f32(x); }
GA_INLINE vf vf_load(const float *p) { return vld1q_f32(p); }
GA_INLINE void vf_store(float *p, vf v) { vst1q_f32(p, v); }
GA_INLINE vf vf_load_n(const float *p, int n) {
  float t[4] = {0, 0, 0, 0};
  for (int i = 0; i < n; i++) t[i] = p[i];
  return vld1q_f32(t);
}
GA_INLINE void vf_store_n(float *p, vf v, int n) {
  float t[4];
  vst1q_f32(t, v);
  for (int i = 0; i < n; i++) p[i] = t[i];
}

GA_INLINE vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
GA_INLINE vf vf_sub(vf a, vf b) { return vsubq_f32(a, b); }
GA_INLINE vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
GA_INLINE vf vf_div(vf a, vf b) { return vdivq_f32(a, b); }
GA_INLINE vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
GA_INLINE float vf_fma_one(float a, float b, float c) { return fmaf(a, b, c); } /* rounded like an element of vf_fma */
GA_INLINE vf vf_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }
GA_INLINE vm vf_lt(vf a, vf b) { return vcltq_f32(a, b); }
GA_INLINE vf vf_pick(vm m, vf a, vf b) { return vbslq_f32(m, a, b); }
GA_INLINE unsigned vm_bits(vm m) {
  static const uint32_t weights[4] = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32(m, vld1q_u32(weights)));
}
/* Compares and selects, so that NaN is treated as simd_generic.h says: vmaxq_f32 would return NaN where only a is
 * NaN. */
GA_INLINE vf vf_max(vf a, vf b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
GA_INLINE vf vf_min(vf a, vf b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
GA_INLINE vf vf_round(vf x) { return vrndnq_f32(x); }
GA_INLINE vf vf_abs(vf x) { return vabsq_f32(x); }
GA_INLINE vf vf_sign_of(vf x, vf s) {
  uint32x4_t sign = vandq_u32(vreinterpretq_u32_f32(s), vdupq_n_u32(0x80000000u));
  return vreinterpretq_f32_u32(vorrq_u32(vreinterpretq_u32_f32(x), sign));
}

GA_INLINE vf pow2_of(int32x4_t n) { return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23)); }
GA_INLINE vf vf_scale(vf x, vf n) {
  int32x4_t i = vcvtnq_s32_f32(n), half = vshrq_n_s32(i, 1);
  return vmulq_f32(vmulq_f32(x, pow2_of(half)), pow2_of(vsubq_s32(i, half)));
}

GA_INLINE float vf_sum(vf v) { return vaddvq_f32(v); }
GA_INLINE float vf_hmax(vf v) { return vmaxvq_f32(v); }
GA_INLINE vf vf_swap_pairs(vf v) { return vrev64q_f32(v); }

GA_INLINE vf vf_from_f16(const void *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16((const uint16_t *)p))); }
GA_INLINE vf vf_from_bf16(const void *p) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16((const uint16_t *)p), 16));
}
GA_INLINE vf vf_set_f16(const void *p) {
  uint16_t h;
  memcpy(&h, p, sizeof h);
  return vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h)));
}
GA_INLINE vf vf_from_i8(const void *p) {
  uint32_t word;
  memcpy(&word, p, sizeof word);
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vcreate_s8(word)))));
}
/* Returns VN e4m3 bytes as floats. Sign, exponent and mantissa are moved to their places in an f16, which is then 2^8
 * times too small. The code whose value would be 480 is NaN. */
GA_INLINE vf vf_from_e4m3(const void *p) {
  uint32_t word;
  memcpy(&word, p, sizeof word);
  uint16x4_t w = vget_low_u16(vreinterpretq_u16_s16(vshll_n_s8(vcreate_s8(word), 7)));
  vf x = vf_mul(vf_set(256), vcvt_f32_f16(vreinterpret_f16_u16(vand_u16(w, vdup_n_u16(0xbf80)))));
  return vf_pick(vf_lt(vf_set(448), vf_abs(x)), vf_set(NAN), x);
}
GA_INLINE vf vf_from_nibbles(const uint8_t *p, int shift) {
  uint32_t word;
  memcpy(&word, p, sizeof word);
  int8x8_t q = vsub_s8(vcreate_s8(word >> shift & 0x0f0f0f0fu), vdup_n_s8(8));
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(q))));
}
GA_INLINE void vf_to_f16(ga_f16 *p, vf v) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(v))); }

GA_INLINE vf vf_sum_each(const vf *a) { return vpaddq_f32(vpaddq_f32(a[0], a[1]), vpaddq_f32(a[2], a[3])); }

GA_INLINE void vf_transpose(vf *a) {
  vf x = vtrn1q_f32(a[0], a[1]), y = vtrn2q_f32(a[0], a[1]), z = vtrn1q_f32(a[2], a[3]), w = vtrn2q_f32(a[2], a[3]);
  a[0] = vcombine_f32(vget_low_f32(x), vget_low_f32(z));
  a[1] = vcombine_f32(vget_low_f32(y), vget_low_f32(w));
  a[2] = vcombine_f32(vget_high_f32(x), vget_high_f32(z));
  a[3] = vcombine_f32(vget_high_f32(y), vget_high_f32(w));
}

#endif
