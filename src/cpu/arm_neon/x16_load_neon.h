/* Reading packed weights (cpu_pack.h) with NEON: one record of 4 of the 16 rows (part 0 to 3) x 32 elements as signed
 * codes, with the scales and minimums of its one or two runs. element = d * (code - offset) + m; the types with codes
 * of 8 bits (offset 128) come as code - 128. */
#ifndef GA_CPU_ARM_NEON_X16_LOAD_NEON_H
#define GA_CPU_ARM_NEON_X16_LOAD_NEON_H

#include <arm_neon.h>
#include <string.h>

#include "base/compiler.h"
#include "cpu/cpu_gemm_x16.h"

typedef struct n4_block {
  int8x16_t q[8];         /* step t: bytes 4r..4r+3 = elements 4t..4t+3 of row 4 part + r */
  float32x4_t d[2], m[2]; /* of run 0 (steps 0-3, or all) and run 1 */
} n4_block;

typedef void (*n4_loader)(const uint8_t *head, const uint8_t *record, int64_t at, int part, n4_block *w);

/* Vector i of a record, the part's quarter of it. */
GA_INLINE uint8x16_t n4_vector(const uint8_t *p, int i, int part) { return vld1q_u8(p + 64 * i + 16 * part); }
/* The part's 4 of 16 f16, u8 or i8. */
GA_INLINE float32x4_t n4_halves(const uint8_t *p, int part) {
  return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p + 8 * part)));
}
GA_INLINE uint8x8_t n4_bytes(const uint8_t *p, int part) {
  uint32_t x;
  memcpy(&x, p + 4 * part, sizeof x);
  return vreinterpret_u8_u32(vdup_n_u32(x));
}
GA_INLINE uint32x4_t n4_wide(const uint8_t *p, int part) {
  return vmovl_u16(vget_low_u16(vmovl_u8(n4_bytes(p, part))));
}
GA_INLINE float32x4_t n4_unsigned(const uint8_t *p, int part) { return vcvtq_f32_u32(n4_wide(p, part)); }
GA_INLINE float32x4_t n4_signed(const uint8_t *p, int part) {
  return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(n4_bytes(p, part))))));
}

/* --- codes --- */

GA_INLINE void n4_codes_4(const uint8_t *v, int part, n4_block *w) {
  GA_UNROLL for (int t = 0; t < 4; t++) {
    const uint8x16_t x = n4_vector(v, t, part);
    w->q[t] = vreinterpretq_s8_u8(vandq_u8(x, vdupq_n_u8(15)));
    w->q[t + 4] = vreinterpretq_s8_u8(vshrq_n_u8(x, 4));
  }
}

GA_INLINE void n4_codes_table(const uint8_t *v, int part, int8x16_t table, n4_block *w) {
  n4_codes_4(v, part, w);
  GA_UNROLL for (int t = 0; t < 8; t++) w->q[t] = vqtbl1q_s8(table, vreinterpretq_u8_s8(w->q[t]));
}

/* Bit field `from` of bytes at bit `to`, under mask. A negative count shifts down. */
GA_INLINE int8x16_t n4_field(uint8x16_t h, int from, int to, uint8_t mask) {
  return vreinterpretq_s8_u8(vandq_u8(vshlq_u8(h, vdupq_n_s8((int8_t)(to - from))), vdupq_n_u8(mask)));
}

GA_INLINE void n4_codes_5(const uint8_t *v, int part, n4_block *w) {
  const uint8x16_t h = n4_vector(v, 0, part);
  n4_codes_4(v + 64, part, w);
  GA_UNROLL for (int t = 0; t < 8; t++) w->q[t] = vorrq_s8(w->q[t], n4_field(h, t, 4, 16));
}

GA_INLINE void n4_codes_6(const uint8_t *v, int part, n4_block *w) {
  const uint8x16_t h0 = n4_vector(v, 0, part), h1 = n4_vector(v, 1, part);
  n4_codes_4(v + 128, part, w);
  GA_UNROLL for (int t = 0; t < 4; t++) {
    w->q[t] = vorrq_s8(w->q[t], n4_field(h0, 2 * t, 4, 48));
    w->q[t + 4] = vorrq_s8(w->q[t + 4], n4_field(h1, 2 * t, 4, 48));
  }
}

GA_INLINE void n4_codes_2(const uint8_t *v, int part, n4_block *w) {
  const uint8x16_t h0 = n4_vector(v, 0, part), h1 = n4_vector(v, 1, part);
  GA_UNROLL for (int t = 0; t < 4; t++) {
    w->q[t] = n4_field(h0, 2 * t, 0, 3);
    w->q[t + 4] = n4_field(h1, 2 * t, 0, 3);
  }
}

GA_INLINE void n4_codes_3(const uint8_t *v, int part, n4_block *w) {
  const uint8x16_t h = n4_vector(v, 2, part);
  n4_codes_2(v, part, w);
  GA_UNROLL for (int t = 0; t < 8; t++) w->q[t] = vorrq_s8(w->q[t], n4_field(h, t, 2, 4));
}

GA_INLINE int8x16_t n4_iq4_table(void) {
  static const int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  return vld1q_s8(values);
}
/* e2m1 doubled, + 12 */
GA_INLINE int8x16_t n4_fp4_table(void) {
  static const int8_t values[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
  return vld1q_s8(values);
}

/* --- types: the same steps as x16_load.h of AVX-512 --- */

#define N4_LOADER(name) \
  GA_INLINE void n4_load_##name(const uint8_t *head, const uint8_t *record, int64_t at, int part, n4_block *w)

N4_LOADER(q4_0) {
  (void)at;
  w->d[0] = n4_halves(head, part);
  n4_codes_4(record, part, w);
}

N4_LOADER(q4_1) {
  (void)at;
  w->d[0] = n4_halves(head, part);
  w->m[0] = n4_halves(head + 32, part);
  n4_codes_4(record, part, w);
}

N4_LOADER(q5_0) {
  (void)at;
  w->d[0] = n4_halves(head, part);
  n4_codes_5(record, part, w);
}

N4_LOADER(q5_1) {
  (void)at;
  w->d[0] = n4_halves(head, part);
  w->m[0] = n4_halves(head + 32, part);
  n4_codes_5(record, part, w);
}

N4_LOADER(q8_0) {
  (void)at;
  w->d[0] = n4_halves(head, part);
  GA_UNROLL for (int t = 0; t < 8; t++) w->q[t] =
      vreinterpretq_s8_u8(veorq_u8(n4_vector(record, t, part), vdupq_n_u8(128)));
}

N4_LOADER(iq4_nl) {
  (void)at;
  w->d[0] = n4_halves(head, part);
  n4_codes_table(record, part, n4_iq4_table(), w);
}

/* 2^(e - 128): (e - 1) << 23 as a float's bits, but subnormal below e = 2. */
N4_LOADER(mxfp4) {
  (void)at;
  const uint32x4_t e = n4_wide(head, part), d = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
  const uint32x4_t tiny = vshlq_u32(vdupq_n_u32(0x00200000), vreinterpretq_s32_u32(e));
  w->d[0] = vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), tiny, d));
  n4_codes_table(record, part, n4_fp4_table(), w);
}

/* e4m3 without sign: its bits moved up by 7 are an f16 that is 2^8 times smaller; the halving of e2m1 makes it 2^7. */
GA_INLINE float32x4_t n4_ue4m3(const uint8_t *p, int part) {
  const uint16x4_t bits = vshl_n_u16(vget_low_u16(vmovl_u8(n4_bytes(p, part))), 7);
  return vmulq_n_f32(vcvt_f32_f16(vreinterpret_f16_u16(bits)), 128.0f);
}

N4_LOADER(nvfp4) {
  (void)at;
  w->d[0] = n4_ue4m3(head, part);
  w->d[1] = n4_ue4m3(head + 16, part);
  n4_codes_table(record, part, n4_fp4_table(), w);
}

GA_INLINE void n4_scales_k(const uint8_t *head, int64_t at, int part, n4_block *w) {
  w->d[0] = vmulq_f32(n4_halves(head, part), n4_unsigned(head + 64 + 16 * at, part));
  w->m[0] = vmulq_f32(vnegq_f32(n4_halves(head + 32, part)), n4_unsigned(head + 192 + 16 * at, part));
}

N4_LOADER(q4_k) {
  n4_scales_k(head, at, part, w);
  n4_codes_4(record, part, w);
}

N4_LOADER(q5_k) {
  n4_scales_k(head, at, part, w);
  n4_codes_5(record, part, w);
}

N4_LOADER(q6_k) {
  const float32x4_t d = n4_halves(head, part);
  w->d[0] = vmulq_f32(d, n4_signed(head + 32 + 32 * at, part));
  w->d[1] = vmulq_f32(d, n4_signed(head + 48 + 32 * at, part));
  n4_codes_6(record, part, w);
}

N4_LOADER(q2_k) {
  const float32x4_t d = n4_halves(head, part), dmin = vnegq_f32(n4_halves(head + 32, part));
  GA_UNROLL for (int run = 0; run < 2; run++) {
    const uint32x4_t both = n4_wide(head + 64 + 32 * at + 16 * run, part);
    w->d[run] = vmulq_f32(d, vcvtq_f32_u32(vandq_u32(both, vdupq_n_u32(15))));
    w->m[run] = vmulq_f32(dmin, vcvtq_f32_u32(vshrq_n_u32(both, 4)));
  }
  n4_codes_2(record, part, w);
}

N4_LOADER(q3_k) {
  const float32x4_t d = n4_halves(head, part);
  w->d[0] = vmulq_f32(d, n4_signed(head + 32 + 32 * at, part));
  w->d[1] = vmulq_f32(d, n4_signed(head + 48 + 32 * at, part));
  n4_codes_3(record, part, w);
}

N4_LOADER(iq4_xs) {
  w->d[0] = vmulq_f32(n4_halves(head, part), n4_signed(head + 32 + 16 * at, part));
  n4_codes_table(record, part, n4_iq4_table(), w);
}

#endif
