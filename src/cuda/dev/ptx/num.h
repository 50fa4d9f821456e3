/* Arithmetic that C has no operator for. Subnormal inputs and results of instructions with .ftz become zero. */
#pragma once
#ifdef GA_EMU
#include "cuda/dev/ptx/emu/num.h"
#else
#include "cuda/dev/ptx/base.h"

/* Returns 2^x with an error of 2 ulp; ex2(-inf) is 0. */
GA_DEV float ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/* Returns log2 x; lg2(0) is -inf. */
GA_DEV float lg2(float x) {
  float y;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/* Returns 1 / x with an error of 1 ulp. */
GA_DEV float rcp(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/* Returns tanh x with a relative error of 2^-11. */
GA_DEV float tanh_approx(float x) {
  float y;
  asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/* Computes sin and cos of pi x for |x| <= 1. */
GA_DEV void sincos_pi(float x, float *s, float *c) { sincospif(x, s, c); }
/* Return two floats, rounded to nearest even to 16 bits, in one register. lo is in the low half. */
GA_DEV uint32_t pack_bf16(float lo, float hi) {
  uint32_t r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}
GA_DEV uint32_t pack_f16(float lo, float hi) {
  uint32_t r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
}
/* Return two floats as 8-bit floats in the low half of a register. Numbers beyond the largest become the largest; NaN
 * stays NaN (sm_89). */
GA_DEV uint32_t pack_e4m3(float lo, float hi) {
  uint16_t r;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(r) : "f"(hi), "f"(lo));
  return r;
}
GA_DEV uint32_t pack_e5m2(float lo, float hi) {
  uint16_t r;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(r) : "f"(hi), "f"(lo));
  return r;
}
/* Return the 8-bit floats in the two low bytes of `two` as two f16 numbers. The conversion is exact. */
GA_DEV uint32_t f16x2_of_e4m3(uint32_t two) {
  uint32_t r;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"((uint16_t)two));
  return r;
}
GA_DEV uint32_t f16x2_of_e5m2(uint32_t two) {
  uint32_t r;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(r) : "h"((uint16_t)two));
  return r;
}
#endif
