/* Emulator bodies of the functions in ../elem.h. Memory is accessed by emu_ldg and emu_stg, so that the emulator checks
 * each access. */
#pragma once
#include "cuda/dev/ptx/emu/num.h"

GA_DEV float elem_f32_of_bf16(uint16_t h) { return emu_float((uint32_t)h << 16); }
GA_DEV float elem_f32_of_f16(uint16_t h) { return emu_f32_of_f16(h); }
GA_DEV uint16_t elem_bf16_of_f32(float x) { return (uint16_t)emu_bf16(x); }
GA_DEV uint16_t elem_f16_of_f32(float x) { return (uint16_t)emu_f16(x); }

GA_DEV float elem_get_f32(const void *p, int64_t i, EMU_AT) {
  float x;
  emu_ldg(&x, (const float *)p + i, 4, file, line);
  return x;
}
GA_DEV uint16_t emu_get_16(const void *p, int64_t i, EMU_AT) {
  uint16_t h;
  emu_ldg(&h, (const uint16_t *)p + i, 2, file, line);
  return h;
}
GA_DEV void emu_put_16(void *p, int64_t i, uint16_t h, EMU_AT) { emu_stg((uint16_t *)p + i, &h, 2, file, line); }
GA_DEV float elem_get_bf16(const void *p, int64_t i, EMU_AT) { return elem_f32_of_bf16(emu_get_16(p, i, file, line)); }
GA_DEV float elem_get_f16(const void *p, int64_t i, EMU_AT) { return elem_f32_of_f16(emu_get_16(p, i, file, line)); }
GA_DEV void elem_put_f32(void *p, int64_t i, float x, EMU_AT) { emu_stg((float *)p + i, &x, 4, file, line); }
GA_DEV void elem_put_bf16(void *p, int64_t i, float x, EMU_AT) { emu_put_16(p, i, elem_bf16_of_f32(x), file, line); }
GA_DEV void elem_put_f16(void *p, int64_t i, float x, EMU_AT) { emu_put_16(p, i, elem_f16_of_f32(x), file, line); }

GA_DEV uint32_t float_bits(float x) { return emu_bits(x); }
/* Returns a * b with its own rounding: with -ffp-contract=off the product is never fused with a following addition. */
GA_DEV float elem_mul(float a, float b) { return a * b; }

GA_DEV void elem_get16_f32(float *x, const void *p, int64_t i, EMU_AT) {
  emu_ldg(x, (const float *)p + i, 16, file, line);
}
GA_DEV void elem_get16_bf16(float *x, const void *p, int64_t i, EMU_AT) {
  uint16_t h[8];
  emu_ldg(h, (const uint16_t *)p + i, 16, file, line);
  for (int e = 0; e < 8; e++) x[e] = elem_f32_of_bf16(h[e]);
}
GA_DEV void elem_get16_f16(float *x, const void *p, int64_t i, EMU_AT) {
  uint16_t h[8];
  emu_ldg(h, (const uint16_t *)p + i, 16, file, line);
  for (int e = 0; e < 8; e++) x[e] = elem_f32_of_f16(h[e]);
}
GA_DEV void elem_put16_f32(void *p, int64_t i, const float *x, EMU_AT) { emu_stg((float *)p + i, x, 16, file, line); }
GA_DEV void elem_put16_bf16(void *p, int64_t i, const float *x, EMU_AT) {
  uint16_t h[8];
  for (int e = 0; e < 8; e++) h[e] = elem_bf16_of_f32(x[e]);
  emu_stg((uint16_t *)p + i, h, 16, file, line);
}
GA_DEV void elem_put16_f16(void *p, int64_t i, const float *x, EMU_AT) {
  uint16_t h[8];
  for (int e = 0; e < 8; e++) h[e] = elem_f16_of_f32(x[e]);
  emu_stg((uint16_t *)p + i, h, 16, file, line);
}
#define ELEM_PER_16_f32  4
#define ELEM_PER_16_bf16 8
#define ELEM_PER_16_f16  8
