/* Host side of gemm_few_sm90a.cu: products with up to 8 rows of X on Hopper. Sums are added in the order of the kernel
 * for many rows (gemm_prefill), so that results have the same bits. */
#ifndef GA_CUDA_KERN_GEMM_GEMM_FEW_SM90A_H
#define GA_CUDA_KERN_GEMM_GEMM_FEW_SM90A_H

#include "cuda/rt/cuda.h"

const char *cuda_gemm_few_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_gemm_few_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_gemm_few(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

#endif
