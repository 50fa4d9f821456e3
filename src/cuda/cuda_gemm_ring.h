/* Launch side of the products by packed quantised weights on Hopper (src/cuda/kern/gemm/gemm_t16_sm90a.cu). */
#ifndef GA_CUDA_CUDA_GEMM_RING_H
#define GA_CUDA_CUDA_GEMM_RING_H

#include "cuda/cuda.h"

/* Bytes of X and of weights that a multiprocessor asks for before X is there, in a chain: what is under way delays X. Measured on an H200: a
 * ring of one stage of 16 units before 57 KiB of X, of two before 16 KiB. */
#define CUDA_RING_EARLY_BYTES (96 << 10)
#define CUDA_RING_SMALL_X (32 << 10) /* bytes of X ahead of which two stages may be asked for */

const char *cuda_gemm_ring_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
int32_t cuda_gemm_ring_fit(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_gemm_ring_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_gemm_ring(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

#endif
