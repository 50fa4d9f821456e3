/* Loads and stores of elements in global memory as floats: one element, or 16 bytes, the most that a thread moves at
 * once. Stores round to nearest even. */
#pragma once
#ifdef GA_EMU
#include "cuda/dev/ptx/emu/elem.h"
#else
#include "cuda/dev/ptx/base.h"

GA_DEV float elem_f32_of_bf16(uint16_t h) { return __uint_as_float((uint32_t)h << 16); }
GA_DEV float elem_f32_of_f16(uint16_t h) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
  return x;
}
GA_DEV uint16_t elem_bf16_of_f32(float x) {
  uint16_t h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}
GA_DEV uint16_t elem_f16_of_f32(float x) {
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}

GA_DEV float elem_get_f32(const void *p, int64_t i) { return ((const float *)p)[i]; }
GA_DEV float elem_get_bf16(const void *p, int64_t i) { return elem_f32_of_bf16(((const uint16_t *)p)[i]); }
GA_DEV float elem_get_f16(const void *p, int64_t i) { return elem_f32_of_f16(((const uint16_t *)p)[i]); }
GA_DEV void elem_put_f32(void *p, int64_t i, float x) { ((float *)p)[i] = x; }
GA_DEV void elem_put_bf16(void *p, int64_t i, float x) { ((uint16_t *)p)[i] = elem_bf16_of_f32(x); }
GA_DEV void elem_put_f16(void *p, int64_t i, float x) { ((uint16_t *)p)[i] = elem_f16_of_f32(x); }

GA_DEV uint32_t float_bits(float x) { return __float_as_uint(x); }

/* Returns a * b with its own rounding: the product is never fused with a following addition. */
GA_DEV float elem_mul(float a, float b) { return __fmul_rn(a, b); }

/* 16 bytes as 4 floats, or as 8 elements of 16 bits. */
typedef union {
  uint4 all;
  float f[4];
  uint16_t h[8];
} elem_16;
/* elem_get16_* load and elem_put16_* store 16 bytes from element i on: 4 floats, or 8 elements of 16 bits. The address
 * must be a multiple of 16. */
GA_DEV void elem_get16_f32(float *x, const void *p, int64_t i) {
  elem_16 v;
  v.all = *(const uint4 *)((const float *)p + i);
  GA_UNROLL for (int e = 0; e < 4; e++) x[e] = v.f[e];
}
GA_DEV void elem_get16_bf16(float *x, const void *p, int64_t i) {
  elem_16 v;
  v.all = *(const uint4 *)((const uint16_t *)p + i);
  GA_UNROLL for (int e = 0; e < 8; e++) x[e] = elem_f32_of_bf16(v.h[e]);
}
GA_DEV void elem_get16_f16(float *x, const void *p, int64_t i) {
  elem_16 v;
  v.all = *(const uint4 *)((const uint16_t *)p + i);
  GA_UNROLL for (int e = 0; e < 8; e++) x[e] = elem_f32_of_f16(v.h[e]);
}
GA_DEV void elem_put16_f32(void *p, int64_t i, const float *x) {
  elem_16 v;
  GA_UNROLL for (int e = 0; e < 4; e++) v.f[e] = x[e];
  *(uint4 *)((float *)p + i) = v.all;
}
GA_DEV void elem_put16_bf16(void *p, int64_t i, const float *x) {
  elem_16 v;
  GA_UNROLL for (int e = 0; e < 8; e++) v.h[e] = elem_bf16_of_f32(x[e]);
  *(uint4 *)((uint16_t *)p + i) = v.all;
}
GA_DEV void elem_put16_f16(void *p, int64_t i, const float *x) {
  elem_16 v;
  GA_UNROLL for (int e = 0; e < 8; e++) v.h[e] = elem_f16_of_f32(x[e]);
  *(uint4 *)((uint16_t *)p + i) = v.all;
}
/* Number of elements in 16 bytes. */
#define ELEM_PER_16_f32  4
#define ELEM_PER_16_bf16 8
#define ELEM_PER_16_f16  8
#endif
