/* Four floats to a register of 8-bit ones, rounded as pack_e4m3 of num.h; a in the low byte (sm_89). */
#pragma once
#include "cuda/dev/ptx/num.h"

#ifdef GA_EMU
GA_DEV uint32_t pack4_e4m3(float a, float b, float c, float d) { return pack_e4m3(a, b) | pack_e4m3(c, d) << 16; }
#else
/* One asm: apart, the halves are joined by an instruction more. */
GA_DEV uint32_t pack4_e4m3(float a, float b, float c, float d) {
  uint32_t r;
  asm("{.reg .b16 l, h; cvt.rn.satfinite.e4m3x2.f32 l, %2, %1; cvt.rn.satfinite.e4m3x2.f32 h, %4, %3; mov.b32 %0, {l, h};}"
      : "=r"(r)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return r;
}
#endif
