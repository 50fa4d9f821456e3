/* Functions that pack four floats a, b, c and d into a register of 8-bit numbers, a in the low byte. Results are
 * rounded to nearest even. e4m3 (sm_89): numbers beyond the largest become the largest, and NaN stays NaN. s8: numbers
 * are clamped to -128..127, and NaN becomes 0. */
#pragma once
#include "cuda/dev/ptx/num.h"

#ifdef GA_EMU
GA_DEV uint32_t emu_s8(float x) {
  return x != x ? 0 : (uint32_t)(int)(x < -128 ? -128 : x > 127 ? 127 : rintf(x)) & 255u;
}
GA_DEV uint32_t pack4_s8(float a, float b, float c, float d) {
  return emu_s8(a) | emu_s8(b) << 8 | emu_s8(c) << 16 | emu_s8(d) << 24;
}
GA_DEV uint32_t pack4_e4m3(float a, float b, float c, float d) { return pack_e4m3(a, b) | pack_e4m3(c, d) << 16; }
#else
/* One asm statement makes both halves: two statements would need another instruction to join them. */
GA_DEV uint32_t pack4_e4m3(float a, float b, float c, float d) {
  uint32_t r;
  asm("{.reg .b16 l, h; cvt.rn.satfinite.e4m3x2.f32 l, %2, %1; cvt.rn.satfinite.e4m3x2.f32 h, %4, %3; mov.b32 %0, {l, "
      "h};}"
      : "=r"(r)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return r;
}
GA_DEV uint32_t pack4_s8(float a, float b, float c, float d) {
  uint32_t r;
  asm("{.reg .b32 w, x, y, z; cvt.rni.s32.f32 w, %1; cvt.rni.s32.f32 x, %2; cvt.rni.s32.f32 y, %3; cvt.rni.s32.f32 z, "
      "%4; "
      "cvt.pack.sat.s8.s32.b32 z, z, y, 0; cvt.pack.sat.s8.s32.b32 %0, x, w, z;}"
      : "=r"(r)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return r;
}
#endif
