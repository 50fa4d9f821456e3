/* Weights for tests of the matrix product: random blocks of any type, and blocks whose products are exact in f32. */
#ifndef GA_TESTS_GEMM_DATA_H
#define GA_TESTS_GEMM_DATA_H

#include <string.h>

#include "base/half.h"
#include "base/rng.h"
#include "ga/tensor.h"

/* Offsets of the f16 fields of a block, -1 for none. */
static inline void gemm_data_halves(ga_dtype t, int *first, int *second) {
  *first = *second = -1;
  switch (t) {
  case GA_Q4_1:
  case GA_Q5_1:
  case GA_Q4_K:
  case GA_Q5_K:
    *second = 2;
    *first = 0;
    break;
  case GA_Q4_0:
  case GA_Q5_0:
  case GA_Q8_0:
  case GA_IQ4_NL:
  case GA_IQ4_XS: *first = 0; break;
  case GA_Q2_K:
    *first = 80;
    *second = 82;
    break;
  case GA_Q3_K: *first = 108; break;
  case GA_Q6_K: *first = 208; break;
  default: break;
  }
}

static inline void gemm_data_put_float(uint8_t *p, float x) { memcpy(p, &x, sizeof x); }

static inline void gemm_data_put_half(uint8_t *p, float x) {
  ga_f16 h = ga_f32_to_f16(x);
  memcpy(p, &h, sizeof h);
}

/* x as an element of a plain type, or random bytes as a block of a quantised one, which is when it returns true. */
static inline bool gemm_data_codes(ga_rng *rng, ga_dtype t, uint8_t *block, float x) {
  const ga_dtype_traits *info = ga_dtype_info(t);
  const ga_bf16 b = ga_f32_to_bf16(x);
  if (t == GA_F32)
    memcpy(block, &x, sizeof x);
  else if (t == GA_F16)
    gemm_data_put_half(block, x);
  else if (t == GA_BF16)
    memcpy(block, &b, sizeof b);
  else if (t == GA_E4M3)
    *block = ga_f32_to_e4m3(x);
  for (int i = 0; info->is_quant && i < info->block_bytes; i++) block[i] = (uint8_t)ga_rng_u64(rng);
  return info->is_quant;
}

/* One block of random codes and scales (a plain type: one normal number). */
static inline void gemm_data_random(ga_rng *rng, ga_dtype t, uint8_t *block) {
  const float x = (float)ga_rng_normal(rng);
  int first, second;
  if (!gemm_data_codes(rng, t, block, x)) return;
  gemm_data_halves(t, &first, &second);
  if (first >= 0) gemm_data_put_half(block + first, 0.02f * (float)ga_rng_normal(rng));
  if (second >= 0) gemm_data_put_half(block + second, 0.02f * (float)ga_rng_normal(rng));
  if (t == GA_E4M3_128) gemm_data_put_float(block, 0.02f * (float)ga_rng_normal(rng));
  for (int i = 4; t == GA_E4M3_128 && i < 132; i++) /* no NaN, which 0x7f is to GA_GEMM_X_E4M3 */
    if ((block[i] & 0x7f) == 0x7f) block[i] ^= 1;
  if (t == GA_MXFP4) block[0] = (uint8_t)(120 + ga_rng_below(rng, 8));
  if (t == GA_NVFP4)
    for (int i = 0; i < 4; i++) block[i] = (uint8_t)(0x10 + ga_rng_below(rng, 0x30));
}

/* Sets the 6-bit pairs of q4_k and q5_k to scales of 1 or 2 and minimums of 0 to 3. */
static inline void gemm_data_six_bits(ga_rng *rng, uint8_t *s) {
  for (int i = 0; i < 4; i++) {
    s[i] = (uint8_t)(1 + ga_rng_below(rng, 2));
    s[i + 4] = (uint8_t)ga_rng_below(rng, 4);
    s[i + 8] = (uint8_t)((1 + ga_rng_below(rng, 2)) | ga_rng_below(rng, 4) << 4);
  }
}

/* One block whose elements are integers of at most 8 significant bits. */
static inline void gemm_data_exact(ga_rng *rng, ga_dtype t, uint8_t *block) {
  const float x = (float)ga_rng_below(rng, 17) - 8;
  int first, second;
  if (!gemm_data_codes(rng, t, block, x)) return;
  gemm_data_halves(t, &first, &second);
  if (first >= 0) gemm_data_put_half(block + first, 1);
  if (second >= 0) gemm_data_put_half(block + second, t == GA_Q4_1 || t == GA_Q5_1 ? x : 1);
  switch (t) {
  case GA_Q4_K:
  case GA_Q5_K: gemm_data_six_bits(rng, block + 4); break;
  case GA_Q6_K:
    for (int i = 0; i < 16; i++) block[192 + i] = (uint8_t)(ga_rng_below(rng, 5) - 2);
    break;
  case GA_Q3_K: /* low nibbles 0..3, high bits 2: scales 0..3 after the 32 is taken off */
    for (int i = 0; i < 8; i++) block[96 + i] = (uint8_t)(block[96 + i] & 0x33);
    for (int i = 8; i < 12; i++) block[96 + i] = 0xaa;
    break;
  case GA_Q2_K:
    for (int i = 0; i < 16; i++) block[i] &= 0x33;
    break;
  case GA_IQ4_XS: /* scale codes 31 to 34: scales -1 to 2 */
    block[2] = block[3] = 0;
    for (int i = 0; i < 8; i++) {
      unsigned s = 31 + (unsigned)ga_rng_below(rng, 4), high = (unsigned)(block[2] | block[3] << 8) | (s >> 4) << 2 * i;
      block[4 + i / 2] = (uint8_t)((block[4 + i / 2] & (i & 1 ? 0x0f : 0xf0)) | (s & 15) << 4 * (i & 1));
      block[2] = (uint8_t)high;
      block[3] = (uint8_t)(high >> 8);
    }
    break;
  case GA_MXFP4: block[0] = 128; break;
  case GA_NVFP4: memset(block, 0x40, 4); break; /* 2, halved */
  case GA_E4M3_128:                             /* eighths from 1 to 15 */
    gemm_data_put_float(block, 8);
    for (int i = 4; i < 132; i++) block[i] = (uint8_t)((block[i] & 0x87) | (7 + (block[i] >> 3 & 3)) << 3);
    break;
  default: break;
  }
}

#endif
