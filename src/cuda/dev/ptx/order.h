/* Functions to compare floats as integers: conversions between a float and its bits, and the maximum of three
 * integers. */
#pragma once
#ifdef GA_EMU
#include "cuda/dev/ptx/emu/base.h"

GA_DEV int bits_of(float x) { return (int)emu_bits(x); }
GA_DEV float float_of(int x) {
  float y;
  memcpy(&y, &x, 4);
  return y;
}
GA_DEV int max3_i32(int a, int b, int c) { return a > b ? a > c ? a : c : b > c ? b : c; }
#else
#include "cuda/dev/ptx/base.h"

GA_DEV int bits_of(float x) { return __float_as_int(x); }
GA_DEV float float_of(int x) { return __int_as_float(x); }
/* Returns the maximum of three integers, by one instruction on sm_90. */
GA_DEV int max3_i32(int a, int b, int c) { return __vimax3_s32(a, b, c); }
#endif
