/* Functions of packed matrix products (cpu_gemm_x16.h) for AVX-512 that several files use. */
#ifndef GA_CPU_X86_AVX512_X16_AVX512_H
#define GA_CPU_X86_AVX512_X16_AVX512_H

#include "cpu/cpu_gemm_x16.h"

void ga_x16_quantise_avx512(const ga_x16_format *format, const float *x, int64_t n_blocks, ga_x16_act *out,
                            int64_t step);
void ga_x16_epilogue_avx512(const ga_gemm_desc *desc, const ga_gemm_io *io, int64_t row, int64_t rows, int64_t col,
                            int64_t n, const float *t, int64_t t_step);

#endif
