/* Functions that matrix products, embedding, conversion and packing on the CPU share. */
#ifndef GA_CPU_CPU_GEMM_H
#define GA_CPU_CPU_GEMM_H

#include "cpu/cpu_kernels.h"

/* Converts n contiguous elements of type dtype to f32. n is a multiple of the type's block size. */
void ga_cpu_dequantise(ga_dtype dtype, const void *src, int64_t n, float *dst);

/* Number of rows of W whose dot products with a row of X are computed together. */
#define GA_CPU_GEMM_ROWS 4
/* Sets t[r] to the dot product of x [k] and row r of w [GA_CPU_GEMM_ROWS, k]. */
void ga_cpu_gemm_dot_rows(const float *x, const float *w, int64_t k, float t[GA_CPU_GEMM_ROWS]);
/* Returns activation `act`, a ga_act_kind value, of x. */
float ga_cpu_gemm_activate(int32_t act, float x);

/* Applies the epilogue of gemm to n columns of row `row` of Y, from column `col` on, and writes them to Y. t[i] is (X
 * W^T)[row, col + i]. Kernels with a vector epilogue call this function for cases that it does not cover. */
void ga_cpu_gemm_epilogue(const ga_gemm_desc *desc, const ga_gemm_io *io, int64_t row, int64_t col, int64_t n,
                          const float *t);

/* Returns true if a matrix product is too small for several threads: starting them takes longer, about 1 us. */
static inline bool cpu_gemm_is_small(const ga_gemm_desc *d) { return d->m * d->n * d->k < 64 * 1024; }

#endif
