/* KERNEL    gemm_{f32,f16,bf16}_any_avx512_16x4: packed plain weights times f32 activations
 * COMPUTES  out[c][r] = sum over k of w[r][k] * x[c][k], weights widened to f32
 * CONTRACT  one panel of 16 rows, 1 to 4 columns, any k; four partial sums by k modulo 4, added in pairs
 * DATA      16 rows of one k are a vector; x[c][k] is broadcast: lane = row */
#include "cpu/x86_avx512/x16_avx512.h"
#include "cpu/x86_avx512/x16_load.h"

#define CHAINS 4
#include "cpu/body/gemm_plain_tmpl.h"

#define IMPL(name)                             \
  PLAIN_MICRO(name, 1)                         \
  PLAIN_MICRO(name, 2)                         \
  PLAIN_MICRO(name, 3)                         \
  PLAIN_MICRO(name, 4)                         \
  const ga_x16_impl ga_x16_##name##_avx512 = { \
      .epilogue = ga_x16_epilogue_avx512,      \
      .micro = {[1] = plain_##name##_1, [2] = plain_##name##_2, [3] = plain_##name##_3, [4] = plain_##name##_4}};
IMPL(f32)
IMPL(f16)
IMPL(bf16)
