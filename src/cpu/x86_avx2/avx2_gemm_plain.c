/* KERNEL    gemm_{f32,f16,bf16}_any_avx2_16x2: packed plain weights times f32 activations
 * COMPUTES  out[c][r] = sum over k of w[r][k] * x[c][k], weights widened to f32
 * CONTRACT  one panel of 16 rows, 1 or 2 columns, any k; even and odd k are summed apart and added at the end */
#include "cpu/x86_avx2/x16_avx2.h"
#include "cpu/x86_avx2/x16_load_avx2.h"

#define CHAINS 2
#include "cpu/body/gemm_plain_tmpl.h"

#define IMPL(name)                                                            \
  PLAIN_MICRO(name, 1)                                                        \
  PLAIN_MICRO(name, 2)                                                        \
  const ga_x16_impl ga_x16_##name##_avx2 = {.epilogue = ga_x16_epilogue_avx2, \
                                            .micro = {[1] = plain_##name##_1, [2] = plain_##name##_2}};
IMPL(f32)
IMPL(f16)
IMPL(bf16)
