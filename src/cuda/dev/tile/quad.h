/* Exchanges among the four lanes that share a row of a register tile. */
#pragma once
#include "cuda/dev/ptx/base.h"

/* Transposes registers over the four lanes of a quad: r[i] of lane q becomes the r[q] that lane i had. A lane that had
 * two columns of each of four groups of 8 then has all 8 columns of group q. Elements have 16 bits, two in a
 * register. */
GA_DEV void quad_transpose(uint32_t *r, int q) {
  const uint32_t a = shfl_xor_u32(q & 1 ? r[0] : r[1], 1), b = shfl_xor_u32(q & 1 ? r[2] : r[3], 1);
  r[0] = q & 1 ? a : r[0];
  r[1] = q & 1 ? r[1] : a;
  r[2] = q & 1 ? b : r[2];
  r[3] = q & 1 ? r[3] : b;
  const uint32_t x = shfl_xor_u32(q & 2 ? r[0] : r[2], 2), y = shfl_xor_u32(q & 2 ? r[1] : r[3], 2);
  r[0] = q & 2 ? x : r[0];
  r[1] = q & 2 ? y : r[1];
  r[2] = q & 2 ? r[2] : x;
  r[3] = q & 2 ? r[3] : y;
}
