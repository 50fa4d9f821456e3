/* Host side of the products of few rows of X with packed quantised weights on Hopper
 * (src/cuda/kern/gemm/gemm_split_int8_sm90a.cu). */
#ifndef GA_CUDA_KERN_GEMM_GEMM_SPLIT_INT8_SM90A_H
#define GA_CUDA_KERN_GEMM_GEMM_SPLIT_INT8_SM90A_H

#include "cuda/rt/cuda.h"

const char *cuda_gemm_split_int8_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_gemm_split_int8_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_gemm_split_int8_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_gemm_split_int8(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                               ga_stream *stream);

#endif
