/* Row maxima of register tiles (reg.h) of non-negative numbers. The bits of such numbers, read as integers, have the
 * same order, and sm_90 has an instruction for the maximum of three integers. */
#pragma once
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/tile/reg.h"

GA_DEV int larger_bits(int a, int b) { return a > b ? a : b; }
GA_DEV void tile_row_max_positive(const float *x, int n, float *v) {
  int a = 0, b = 0;
  GA_UNROLL for (int j = 0; j < n / 8; j++) {
    a = larger_bits(larger_bits(a, (int)float_bits(x[4 * j])), (int)float_bits(x[4 * j + 1]));
    b = larger_bits(larger_bits(b, (int)float_bits(x[4 * j + 2])), (int)float_bits(x[4 * j + 3]));
  }
  v[0] = quad_max(__uint_as_float((uint32_t)a));
  v[1] = quad_max(__uint_as_float((uint32_t)b));
}
