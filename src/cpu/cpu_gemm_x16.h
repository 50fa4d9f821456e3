/* Matrix products over packed weights (cpu_pack.h): what the instruction sets plug in, and the scheduling they share.
 * */
#ifndef GA_CPU_CPU_GEMM_X16_H
#define GA_CPU_CPU_GEMM_X16_H

#include "cpu/cpu_gemm.h"
#include "cpu/cpu_pack.h"

/* 32 activations of one column rounded to 15 bits, in two digits: x = d * (128 * high + low), |high| <= 127, |low| <=
 * 64. Two products of 8 bits cost no time where weights come from memory, and one digit alone is not enough: a few very
 *     large
 * activations, which real models have, leave too little for the rest of their block (SmolLM2-135M: divergence from the
 * exact next-token distribution 4e-3 nats with one digit). `sum` is what the offset or the minimum of the weights
 * needs, one for each run: -offset * (q0 + ...) as i32, or d * (q0 + ...) as f32 for types with a minimum, q = 128 high
 * + low. AVX2 rows of codes of 8 bits have q itself there, 32 x i16: of each 4 elements 0 2 1 3. */
typedef struct ga_x16_act {
  int8_t high[32], low[32];
  float d;
  union {
    int32_t i;
    float f;
  } sum[2];
  int32_t pad;
} ga_x16_act;

#define GA_X16_STEPS    16256.0f /* 127 * 128: the largest rounded activation */
#define GA_X16_MAX_COLS 8

/* Rounds n_blocks blocks of 32 of x; block b goes to out[b * step].
 * d = largest |x| / 16256 (127 * 128). Blocks whose largest |x| is below 2^-100 become 0; a block with an infinity or
 * NaN gets that as d, which makes every product with it not finite. */
typedef void (*ga_x16_quantise)(const ga_x16_format *format, const float *x, int64_t n_blocks, ga_x16_act *out,
                                int64_t step);

/* out[c][16] = products of the panel's rows with columns c.
 * Quantised types: x is ga_x16_act [k / 32][cols]. Plain types: x is f32, column c from x + c * x_stride on. */
typedef void (*ga_x16_micro)(const uint8_t *panel, const void *x, int64_t x_stride, int64_t k, float *out);

/* Applies the epilogue of gemm to n <= 16 columns of `rows` rows; t[r * t_step ..] are the products of row `row` + r.
 * */
typedef void (*ga_x16_epilogue)(const ga_gemm_desc *desc, const ga_gemm_io *io, int64_t row, int64_t rows, int64_t col,
                                int64_t n, const float *t, int64_t t_step);

typedef struct ga_x16_impl {
  ga_x16_quantise quantise; /* NULL for plain types */
  ga_x16_epilogue epilogue;
  ga_x16_micro micro[GA_X16_MAX_COLS + 1]; /* by columns; [1] is never NULL */
} ga_x16_impl;

GA_DECLARE_CPU(ga_cpu_gemm_x16);
uint64_t ga_cpu_gemm_x16_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);

#endif
