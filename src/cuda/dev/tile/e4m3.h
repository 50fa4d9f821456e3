/* Conversion of floats to e4m3 on any GPU; pack_e4m3 of ptx/num.h needs sm_89. */
#pragma once
#include "cuda/dev/ptx/elem.h"

/* Returns the scale of a block of elements whose largest magnitude is `most`. An element x is stored as x / scale. */
GA_DEV float e4m3_scale(float most) {
  const float scale = most / 448.0f;
  return scale > 0 ? scale : 1;
}

/* Returns x as e4m3, rounded to nearest even; magnitudes above 448 become 448. Results below 2^-6 are subnormal:
 * multiples of 2^-9. */
GA_DEV uint8_t e4m3_of(float x) {
  const float a = fminf(fabsf(x), 448.0f);
  int e = (int)(float_bits(a) >> 23) - 127;
  if (e < -6) e = -6;
  const float q = rintf(a * __uint_as_float((uint32_t)(127 + 3 - e) << 23));
  if (x != x) return 0x7f;
  return (uint8_t)((float_bits(x) >> 31 << 7) | ((uint32_t)(int)q + ((uint32_t)(e + 6) << 3)));
}
