/* Launch side of the attention rows for every shape (attn_fallback_sm80.toml) and of the ladder. */
#ifndef GA_CUDA_KERN_ATTN_ATTN_FALLBACK_SM80_H
#define GA_CUDA_KERN_ATTN_ATTN_FALLBACK_SM80_H

#include "cuda/rt/cuda.h"

/* A row's shape: see attn_fallback_sm80.toml. */
typedef struct cuda_attn_fallback_variant {
  cuda_variant base;
  int32_t d, bm;
} cuda_attn_fallback_variant;

/* Behind the row kernels where most of a tile would stay empty. */
double cuda_attn_fallback_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Rows of a group that are a warp's share of a tile: fewer leave three warps idle, and keys are not split among
 * blocks. */
#define CUDA_ATTN_FALLBACK_ROWS 16

const char *cuda_attn_fallback_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_attn_fallback(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                             ga_stream *stream);

#endif
