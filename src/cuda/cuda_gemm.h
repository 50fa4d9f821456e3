/* Launch side of the matrix products (src/cuda/kern/gemm). */
#ifndef GA_CUDA_CUDA_GEMM_H
#define GA_CUDA_CUDA_GEMM_H

#include "core/kernel.h"

const char *cuda_gemm_native_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_gemm_native(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

/* Packed weights, GA_LAYOUT_T16. */
const char *cuda_gemm_t16_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_gemm_t16_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_gemm_t16(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);
const char *cuda_pack_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_pack_bytes(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_pack(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

#endif
