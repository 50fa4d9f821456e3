/* Matrix products with many rows of X on AVX2: the functions that each weight type adds to the scheduling, which all
 * types share. */
#ifndef GA_CPU_X86_AVX2_AVX2_GEMM_WIDE_H
#define GA_CPU_X86_AVX2_AVX2_GEMM_WIDE_H

#include "cpu/cpu_gemm_x16.h"

/* Number of blocks of 32 elements that are converted to 16 bits together. Up to 8 blocks share a head (cpu_pack.h). */
#define GA_WIDE_BLOCKS 8

/* A block of 16 rows x 32 weights, converted to 16-bit integers. w[s][2r] is element e of row r, and w[s][2r + 1] is
 * element e + 2. e is 2s for even s and 2s - 1 for odd s. */
typedef struct ga_wide_block {
  int16_t w[16][2 * GA_X16_ROWS];
  /* Scales and minimums of the rows. A type with one run in a block uses d[0] and m[0]. Otherwise d[0] and m[0] belong
   * to w[0] to w[7], d[1] and m[1] to w[8] to w[15]. */
  float d[2][GA_X16_ROWS], m[2][GA_X16_ROWS];
} ga_wide_block;

/* Converts blocks [first, first + n) of a panel of 16 rows to 16 bits. k: elements of a row; n <= GA_WIDE_BLOCKS;
 * first: a multiple of GA_WIDE_BLOCKS. */
typedef void (*ga_wide_unpack)(const uint8_t *panel, int64_t k, int64_t first, int64_t n, ga_wide_block *out);

/* Adds the products of n blocks of weights with row c of X to out[c][16], for a fixed number of rows. x: activations of
 * the same blocks, as avx2_gemm_wide.c rounds and orders them. */
typedef void (*ga_wide_micro)(const ga_wide_block *w, const int32_t *x, int64_t n, float *out);

#define GA_WIDE_COLS 4

typedef struct ga_wide_impl {
  ga_wide_unpack unpack;
  ga_wide_micro micro[GA_WIDE_COLS + 1]; /* micro[c] computes products with c rows of X, 1 to 4. */
} ga_wide_impl;

#endif
