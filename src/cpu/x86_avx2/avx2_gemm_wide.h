/* Products of many rows with AVX2: the functions that each weight type adds to the common scheduling. */
#ifndef GA_CPU_X86_AVX2_AVX2_GEMM_WIDE_H
#define GA_CPU_X86_AVX2_AVX2_GEMM_WIDE_H

#include "cpu/cpu_gemm_x16.h"

/* Number of blocks of 32 elements that are widened together, the largest number that share a head. */
#define GA_WIDE_BLOCKS 8

/* A block of 16 rows x 32 elements, widened to 16 bits. Dword r of step s = 2t + j of w has elements 4t + j and 4t + j
 * + 2 of row r. */
typedef struct ga_wide_block {
  int16_t w[16][2 * GA_X16_ROWS];
  /* Scales and minimums of the rows: [0] of run 0, steps 0 to 7 or all steps; [1] of run 1. */
  float d[2][GA_X16_ROWS], m[2][GA_X16_ROWS];
} ga_wide_block;

/* Widens blocks [first, first + n) of a panel of k elements, n <= GA_WIDE_BLOCKS. first is a multiple of
 * GA_WIDE_BLOCKS. */
typedef void (*ga_wide_unpack)(const uint8_t *panel, int64_t k, int64_t first, int64_t n, ga_wide_block *out);

/* Adds the products of n blocks with column c of X to out[c][16]. x has the activations of these columns and blocks. */
typedef void (*ga_wide_micro)(const ga_wide_block *w, const int32_t *x, int64_t n, float *out);

#define GA_WIDE_COLS 4

typedef struct ga_wide_impl {
  ga_wide_unpack unpack;
  ga_wide_micro micro[GA_WIDE_COLS + 1]; /* Products by number of columns, 1 to 4. */
} ga_wide_impl;

#endif
