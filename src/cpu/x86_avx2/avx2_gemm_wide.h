/* Prefill with AVX2: the functions that each weight type adds to its scheduling. */
#ifndef GA_CPU_X86_AVX2_AVX2_GEMM_WIDE_H
#define GA_CPU_X86_AVX2_AVX2_GEMM_WIDE_H

#include "cpu/cpu_gemm_x16.h"

#define GA_WIDE_BLOCKS 8 /* blocks of 32 elements that are widened together: the most that share a head */

/* 16 rows x 32 elements, widened. Step s of w: dword r = elements 4t + j and 4t + j + 2 of row r, s = 2t + j. */
typedef struct ga_wide_block {
  int16_t w[16][2 * GA_X16_ROWS];
  float d[2][GA_X16_ROWS], m[2][GA_X16_ROWS]; /* of run 0 (steps 0-7, or all) and run 1 */
} ga_wide_block;

/* Widens blocks [first, first + n) of a panel of k elements, n <= GA_WIDE_BLOCKS, first a multiple of it. */
typedef void (*ga_wide_unpack)(const uint8_t *panel, int64_t k, int64_t first, int64_t n, ga_wide_block *out);

/* out[c][16] += products of n blocks with columns c; x: the activations of those columns and blocks. */
typedef void (*ga_wide_micro)(const ga_wide_block *w, const int32_t *x, int64_t n, float *out);

#define GA_WIDE_COLS 4

typedef struct ga_wide_impl {
  ga_wide_unpack unpack;
  ga_wide_micro micro[GA_WIDE_COLS + 1]; /* by columns, 1 to 4 */
} ga_wide_impl;

#endif
