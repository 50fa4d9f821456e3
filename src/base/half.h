/* Conversions between small floating-point formats and f32. They round to nearest, ties to even; NaN stays NaN. f16 is
 * IEEE 754 binary16, bf16 the upper half of f32. e4m3, e5m2, e2m1 and e8m0 are the formats of the OCP specifications
 * for 8-bit floating point and for microscaling, version 1.0. */
#ifndef GA_BASE_HALF_H
#define GA_BASE_HALF_H

#include <string.h>

#include "base/compiler.h"
#include "ga/base.h"

typedef uint16_t ga_f16;
typedef uint16_t ga_bf16;

GA_INLINE uint32_t ga_f32_bits(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

GA_INLINE float ga_bits_f32(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

GA_INLINE float ga_f16_to_f32(ga_f16 h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = (h >> 10) & 31, man = h & 0x3ff;
  if (exp == 31) return ga_bits_f32(sign | 0x7f800000 | man << 13);
  if (exp == 0) {
    float x = (float)man * 0x1p-24f; /* subnormal: exact in f32 */
    return sign ? -x : x;
  }
  return ga_bits_f32(sign | (exp + 112) << 23 | man << 13);
}

GA_INLINE ga_f16 ga_f32_to_f16(float x) {
  uint32_t u = ga_f32_bits(x), sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
  if (a > 0x7f800000) return (ga_f16)(sign | 0x7e00);
  if (a >= 0x477ff000) return (ga_f16)(sign | 0x7c00); /* 65520 and above round to infinity */
  /* below 2^-14: the addition of 1/2 makes the FPU round to the spacing of f16's subnormals */
  if (a < 0x38800000) {
    float r = ga_bits_f32(a) + 0.5f;
    return (ga_f16)(sign | (ga_f32_bits(r) - 0x3f000000));
  }
  /* subtracts 112 from the exponent, as f16's bias is smaller, and rounds half to even at bit 13 */
  uint32_t r = a + 0xc8000fff + ((a >> 13) & 1);
  return (ga_f16)(sign | r >> 13);
}

GA_INLINE float ga_bf16_to_f32(ga_bf16 h) { return ga_bits_f32((uint32_t)h << 16); }

GA_INLINE ga_bf16 ga_f32_to_bf16(float x) {
  uint32_t u = ga_f32_bits(x);
  if ((u & 0x7fffffff) > 0x7f800000) return (ga_bf16)(u >> 16 | 0x40);
  return (ga_bf16)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

/* Returns the value of an e8m0 number, a bare exponent: 2^(e - 127). 255 is NaN. */
GA_INLINE float ga_e8m0_to_f32(uint8_t e) {
  if (e == 255) return ga_bits_f32(0x7fc00000);
  return ga_bits_f32(e ? (uint32_t)e << 23 : 0x00400000);
}

/* Convert e4m3fn numbers: the bias is 7, there is no infinity, 0x7f and 0xff are NaN, and the largest number is 448. */
float ga_e4m3_to_f32(uint8_t x);
uint8_t ga_f32_to_e4m3(float x); /* values of larger magnitude become +-448 */
/* Convert e5m2 numbers, the upper bytes of f16: the bias is 15, there are infinities and NaN, and the largest finite
 * number is 57344. */
float ga_e5m2_to_f32(uint8_t x);
uint8_t ga_f32_to_e5m2(float x); /* values of larger magnitude become +-57344 */
/* Convert e2m1 (fp4) numbers, the low 4 bits of x: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives. */
float ga_e2m1_to_f32(uint8_t x);
/* values of larger magnitude become +-6; NaN becomes +6, since OCP MX does not define it */
uint8_t ga_f32_to_e2m1(float x);

#endif
