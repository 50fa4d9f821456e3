/* Emulator bodies of the functions in ../num.h. src/emu/num.c emulates the approximate instructions. */
#pragma once
#include "cuda/dev/ptx/emu/base.h"

GA_DEV float ex2(float x) { return emu_ex2(x); }
GA_DEV float lg2(float x) { return emu_lg2(x); }
GA_DEV float rcp(float x) { return emu_rcp(x); }
GA_DEV float tanh_approx(float x) { return emu_tanh(x); }
GA_DEV void sincos_pi(float x, float *s, float *c) {
  *s = (float)sin(3.14159265358979323846 * x), *c = (float)cos(3.14159265358979323846 * x);
}
/* Returns x as bf16, rounded to nearest even. A NaN becomes the canonical NaN. */
GA_DEV uint32_t emu_bf16(float x) {
  const uint32_t u = emu_bits(x);
  return x != x ? 0x7fffu : (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
}
GA_DEV uint32_t emu_f16(float x) {
  const _Float16 h = (_Float16)x;
  uint16_t u;
  memcpy(&u, &h, 2);
  return x != x ? 0x7fffu : u;
}
GA_DEV float emu_f32_of_f16(uint16_t u) {
  _Float16 h;
  memcpy(&h, &u, 2);
  return (float)h;
}
GA_DEV uint32_t pack_bf16(float lo, float hi) { return emu_bf16(lo) | emu_bf16(hi) << 16; }
GA_DEV uint32_t pack_f16(float lo, float hi) { return emu_f16(lo) | emu_f16(hi) << 16; }
GA_DEV uint32_t pack_e4m3(float lo, float hi) { return emu_f8(0, lo) | emu_f8(0, hi) << 8; }
GA_DEV uint32_t pack_e5m2(float lo, float hi) { return emu_f8(1, lo) | emu_f8(1, hi) << 8; }
GA_DEV uint32_t f16x2_of_e4m3(uint32_t two) {
  return emu_f16(emu_f32_of_f8(0, two & 255)) | emu_f16(emu_f32_of_f8(0, two >> 8 & 255)) << 16;
}
GA_DEV uint32_t f16x2_of_e5m2(uint32_t two) {
  return emu_f16(emu_f32_of_f8(1, two & 255)) | emu_f16(emu_f32_of_f8(1, two >> 8 & 255)) << 16;
}
