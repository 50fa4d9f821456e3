/* Matrix products with packed weights (cpu_pack.h): the functions that each instruction set implements. cpu_gemm_x16.c
 * calls them. */
#ifndef GA_CPU_CPU_GEMM_X16_H
#define GA_CPU_CPU_GEMM_X16_H

#include "cpu/cpu_gemm.h"
#include "cpu/cpu_pack.h"

/* A block of 32 consecutive activations of a row of X, rounded to 15 bits in two digits: x = d * q.
 *   q = 128 * high + low,   |high| <= 127,   |low| <= 64
 *
 * Two products of 8 bits cost no time where weights come from memory. One digit would not be enough: a few very large
 * activations of real models leave too few steps for the rest of their block. With one digit SmolLM2-135M diverges by
 * 4e-3 nats from the exact next-token distribution.
 *
 * AVX2 kernels of 8-bit codes store q itself in the memory of high and low: 32 x i16, each 4 in the order 0 2 1 3. */
typedef struct ga_x16_act {
  int8_t high[32], low[32];
  float d;
  /* For each run of the weights (cpu_pack.h): -offset * (sum of the run's q), as i. For types with a minimum: d * (sum
   * of the run's q), as f. */
  union {
    int32_t i;
    float f;
  } sum[2];
  int32_t pad;
} ga_x16_act;

#define GA_X16_STEPS    16256.0f /* 127 * 128, the largest |q| of a ga_x16_act. */
#define GA_X16_MAX_COLS 8

/* Rounds n_blocks blocks of 32 elements of x; block b is written to out[b * step]. d of a block is its largest |x| /
 * GA_X16_STEPS.
 *
 * A block whose largest |x| is below 2^-100 becomes 0. A block with an infinity or NaN has d infinite or NaN, so that
 * its products are not finite. */
typedef void (*ga_x16_quantise)(const ga_x16_format *format, const float *x, int64_t n_blocks, ga_x16_act *out,
                                int64_t step);

/* Computes out[c][16], the products of the 16 rows of a panel with row c of X, for a fixed number `cols` of rows.
 *
 * Quantised weights: x is ga_x16_act [k / 32][cols]. Plain weights: x is f32, and row c begins at x + c * x_stride. */
typedef void (*ga_x16_micro)(const uint8_t *panel, const void *x, int64_t x_stride, int64_t k, float *out);

/* Applies the epilogue of gemm to n <= 16 columns of `rows` rows of Y, and writes them to Y. t[r * t_step] is the first
 * product of row `row` + r. */
typedef void (*ga_x16_epilogue)(const ga_gemm_desc *desc, const ga_gemm_io *io, int64_t row, int64_t rows, int64_t col,
                                int64_t n, const float *t, int64_t t_step);

typedef struct ga_x16_impl {
  /* Rounds activations. NULL for plain weights (f32, f16, bf16). */
  ga_x16_quantise quantise;
  ga_x16_epilogue epilogue;
  ga_x16_micro micro[GA_X16_MAX_COLS + 1]; /* micro[c] computes products with c rows of X, and may be NULL for c > 1. */
} ga_x16_impl;

#endif
