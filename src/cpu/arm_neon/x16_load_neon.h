/* NEON functions that load packed weights, for x16_load_tmpl.h. A part is 4 of the 16 rows of a record. Codes of 8 bits
 * are stored as code + 128 and loaded as signed numbers. */
#ifndef GA_CPU_ARM_NEON_X16_LOAD_NEON_H
#define GA_CPU_ARM_NEON_X16_LOAD_NEON_H

#include <string.h>

#include "base/compiler.h"
#include "cpu/cpu_gemm_x16.h"
#include "cpu/simd/simd_neon.h"

typedef int8x16_t xq;

GA_INLINE uint8x16_t x16_vector(const uint8_t *p, int i, int part) { return vld1q_u8(p + 64 * i + 16 * part); }
GA_INLINE xq x16_codes(const uint8_t *p, int i, int part) { return vreinterpretq_s8_u8(x16_vector(p, i, part)); }
GA_INLINE vf x16_floats(const uint8_t *p, int part) { return vreinterpretq_f32_u8(x16_vector(p, 0, part)); }
GA_INLINE vf x16_halves(const uint8_t *p, int part) { return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + 8 * part))); }
/* Returns element k of the 4 rows of a part as floats, from a panel of bf16 weights. In each row a 32-bit word holds
 * the elements of an even k (low half) and of k + 1. */
GA_INLINE vf x16_bf16(const uint8_t *panel, int64_t k, int part) {
  const uint32x4_t pair = vreinterpretq_u32_u8(x16_vector(panel + 64 * (k / 2), 0, part));
  return vreinterpretq_f32_u32(k & 1 ? vandq_u32(pair, vdupq_n_u32(0xffff0000u)) : vshlq_n_u32(pair, 16));
}
GA_INLINE uint8x8_t x16_load_bytes(const uint8_t *p, int part) {
  uint32_t x;
  memcpy(&x, p + 4 * part, sizeof x);
  return vreinterpret_u8_u32(vdup_n_u32(x));
}
GA_INLINE uint32x4_t x16_wide(const uint8_t *p, int part) {
  return vmovl_u16(vget_low_u16(vmovl_u8(x16_load_bytes(p, part))));
}
GA_INLINE vf x16_unsigned(const uint8_t *p, int part) { return vcvtq_f32_u32(x16_wide(p, part)); }
GA_INLINE vf x16_signed(const uint8_t *p, int part) {
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(x16_load_bytes(p, part))))));
}
GA_INLINE vf x16_nibble_low(const uint8_t *p, int part) {
  return vcvtq_f32_u32(vandq_u32(x16_wide(p, part), vdupq_n_u32(15)));
}
GA_INLINE vf x16_nibble_high(const uint8_t *p, int part) { return vcvtq_f32_u32(vshrq_n_u32(x16_wide(p, part), 4)); }
GA_INLINE vf x16_negate(vf x) { return vnegq_f32(x); }

GA_INLINE xq x16_low(xq x) { return vandq_s8(x, vdupq_n_s8(15)); }
GA_INLINE xq x16_high(xq x) { return vreinterpretq_s8_u8(vshrq_n_u8(vreinterpretq_u8_s8(x), 4)); }
GA_INLINE xq x16_bytes(xq x) { return veorq_s8(x, vdupq_n_s8(-128)); }
GA_INLINE xq x16_lookup(xq table, xq q) { return vqtbl1q_s8(table, vreinterpretq_u8_s8(q)); }
/* Shifts each byte of h so that bit `from` comes to bit `to`, and clears the bits that are not in mask. A negative
 * shift count shifts to the right. */
GA_INLINE xq x16_field(xq h, int from, int to, int mask) {
  const uint8x16_t moved = vshlq_u8(vreinterpretq_u8_s8(h), vdupq_n_s8((int8_t)(to - from)));
  return vreinterpretq_s8_u8(vandq_u8(moved, vdupq_n_u8((uint8_t)mask)));
}
GA_INLINE xq x16_insert(xq q, xq h, int from, int to, int mask) { return vorrq_s8(q, x16_field(h, from, to, mask)); }

GA_INLINE xq x16_iq4_table(void) {
  static const int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  return vld1q_s8(values);
}
/* Returns a table of the 16 values of e2m1. Each entry is twice the value plus 12, so that all are integers from 0 to
 * 24. */
GA_INLINE xq x16_fp4_table(void) {
  static const int8_t values[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
  return vld1q_s8(values);
}

/* Returns 2^(e - 128) for exponent bytes e at p: half of the e8m0 scale, because x16_fp4_table has doubled values. The
 * result has bits (e - 1) << 23, and is subnormal for e < 2. */
GA_INLINE vf x16_e8m0(const uint8_t *p, int part) {
  const uint32x4_t e = x16_wide(p, part), d = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
  const uint32x4_t tiny = vshlq_u32(vdupq_n_u32(0x00200000), vreinterpretq_s32_u32(e));
  return vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), tiny, d));
}
/* Returns half the values of unsigned e4m3 bytes at p, because x16_fp4_table has doubled values. A byte shifted left by
 * 7 bits is an f16 that is 2^8 times too small, so the factor is 2^7. */
GA_INLINE vf x16_ue4m3(const uint8_t *p, int part) {
  const uint16x4_t bits = vshl_n_u16(vget_low_u16(vmovl_u8(x16_load_bytes(p, part))), 7);
  return vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(bits)), 128.0f);
}

#include "cpu/body/x16_load_tmpl.h"

#endif
