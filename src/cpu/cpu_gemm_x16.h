/* Matrix products with packed weights (cpu_pack.h): the functions of each instruction set, and their common
 * scheduling. */
#ifndef GA_CPU_CPU_GEMM_X16_H
#define GA_CPU_CPU_GEMM_X16_H

#include "cpu/cpu_gemm.h"
#include "cpu/cpu_pack.h"

/* A block of 32 activations of one column, rounded to 15 bits in two digits: x = d * (128 * high + low), |high| <= 127,
 * |low| <= 64. Two 8-bit products cost no time where weights come from memory. One digit is not enough: a few very
 * large activations, which real models have, leave too few steps for the rest of their block. With one digit
 * SmolLM2-135M diverges by 4e-3 nats from the exact next-token distribution. With q = 128 high + low, `sum` has a term
 * for each run. It is -offset * (q0 + ...) as i32, or d * (q0 + ...) as f32 for types with a minimum. AVX2 kernels of
 * 8-bit codes store q itself there, 32 x i16, each 4 elements in the order 0 2 1 3. */
typedef struct ga_x16_act {
  int8_t high[32], low[32];
  float d;
  union {
    int32_t i;
    float f;
  } sum[2];
  int32_t pad;
} ga_x16_act;

#define GA_X16_STEPS    16256.0f /* 127 * 128, the largest rounded activation. */
#define GA_X16_MAX_COLS 8

/* Rounds n_blocks blocks of 32 elements of x; block b is written to out[b * step]. d is the largest |x| of a block /
 * GA_X16_STEPS. A block whose largest |x| is below 2^-100 becomes 0. A block with an infinity or NaN gets it as d, so
 * that its products are not finite. */
typedef void (*ga_x16_quantise)(const ga_x16_format *format, const float *x, int64_t n_blocks, ga_x16_act *out,
                                int64_t step);

/* Computes out[c][16], the products of the panel's 16 rows with column c of X. Quantised types: x is ga_x16_act [k /
 * 32][cols]. Plain types: x is f32, and column c begins at x + c * x_stride. */
typedef void (*ga_x16_micro)(const uint8_t *panel, const void *x, int64_t x_stride, int64_t k, float *out);

/* Applies the epilogue of gemm to n <= 16 columns of `rows` rows, and writes them to y. The products of row `row` + r
 * are at t[r * t_step]. */
typedef void (*ga_x16_epilogue)(const ga_gemm_desc *desc, const ga_gemm_io *io, int64_t row, int64_t rows, int64_t col,
                                int64_t n, const float *t, int64_t t_step);

typedef struct ga_x16_impl {
  /* Rounds activations. NULL for plain types. */
  ga_x16_quantise quantise;
  ga_x16_epilogue epilogue;
  ga_x16_micro micro[GA_X16_MAX_COLS + 1]; /* Products by number of columns of X. micro[1] is never NULL. */
} ga_x16_impl;

#endif
