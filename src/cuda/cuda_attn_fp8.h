/* Launch side of FP8 attention and its quantiser (src/cuda/kern/attn8). */
#ifndef GA_CUDA_CUDA_ATTN_FP8_H
#define GA_CUDA_CUDA_ATTN_FP8_H

#include "cuda/cuda_attn.h"

const char *cuda_attn_fp8_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* impl: a cuda_attn_variant. */
ga_status cuda_attn_fp8(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

const char *cuda_attn_quant_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_attn_quant(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

#endif
