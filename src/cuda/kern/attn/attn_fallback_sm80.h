/* Host side of the attention variants that accept every shape (attn_fallback_sm80.toml), also used by the ladder. */
#ifndef GA_CUDA_KERN_ATTN_ATTN_FALLBACK_SM80_H
#define GA_CUDA_KERN_ATTN_ATTN_FALLBACK_SM80_H

#include "cuda/rt/cuda.h"

/* Parameters of a variant (attn_fallback_sm80.toml). d is the largest head dimension. bm is the number of packed rows
 * of a tile, pairs of a token and a query head. */
typedef struct cuda_attn_fallback_variant {
  cuda_variant base;
  int32_t d, bm;
} cuda_attn_fallback_variant;

/* Predicts the kernel's time in microseconds. With fewer packed rows than CUDA_ATTN_FALLBACK_ROWS most of a tile is
 * empty. The time is then multiplied by 10, so that kernels for few rows are preferred. */
double cuda_attn_fallback_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Number of packed rows that fill the part of a tile that one warp computes. With fewer rows three of four warps are
 * idle, and keys are not divided among blocks. */
#define CUDA_ATTN_FALLBACK_ROWS 16

const char *cuda_attn_fallback_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_attn_fallback(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                             ga_stream *stream);

#endif
