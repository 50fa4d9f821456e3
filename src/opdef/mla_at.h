/* Rows of a latent cache (ga/mla.h), for ops, oracles, CPU kernels and hosts of GPU kernels.
 *
 * A row of GA_E4M3 has v_dim codes, then a scale of f32 for each GA_MLA_BLOCK of them, then the rotated key in bf16:
 * 656 bytes for 512 + 64. Scales are powers of two. */
#ifndef GA_OPDEF_MLA_AT_H
#define GA_OPDEF_MLA_AT_H

#include <string.h>

#include "ga/tensor.h"

#define GA_MLA_BLOCK 128

/* Returns the bytes of a row with v_dim latent and rot_dim rotated elements. */
static inline int64_t ga_mla_row_bytes(ga_dtype dtype, int64_t v_dim, int64_t rot_dim) {
  if (dtype == GA_E4M3) return v_dim + v_dim / GA_MLA_BLOCK * (int64_t)sizeof(float) + 2 * rot_dim;
  return (v_dim + rot_dim) * ga_dtype_info(dtype)->block_bytes;
}

/* Returns the scale of a block whose largest magnitude is `most`: the least power of two of at least most / 448, within
 * 2^-110 and 2^119, so that codes times scales are numbers of bf16; 1 for a block of zeros. */
static inline float ga_mla_scale(float most) {
  enum { LEAST = 17, MOST = 246, MANTISSA = 0x7fffff }; /* exponents as f32 has them */
  const float least = most / 448.0f;
  uint32_t bits;
  float scale;
  if (!(least > 0)) return 1;
  memcpy(&bits, &least, sizeof bits);
  uint32_t e = (bits >> 23) + ((bits & MANTISSA) != 0);
  e = e < LEAST ? LEAST : e > MOST ? MOST : e;
  bits = e << 23;
  memcpy(&scale, &bits, sizeof scale);
  return scale;
}

/* Return the offsets in a row of e4m3 of the scale of latent element i, and of rotated element i. */
static inline int64_t ga_mla_scale_at(int64_t v_dim, int64_t i) {
  return v_dim + i / GA_MLA_BLOCK * (int64_t)sizeof(float);
}
static inline int64_t ga_mla_rotated_at(int64_t v_dim, int64_t i) {
  return v_dim + v_dim / GA_MLA_BLOCK * (int64_t)sizeof(float) + 2 * i;
}

#endif
