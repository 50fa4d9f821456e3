/* Launch side of the attention backward kernels (src/cuda/kern/attn_bwd): a step before, the main kernel, steps behind. */
#ifndef GA_CUDA_CUDA_ATTN_BWD_H
#define GA_CUDA_CUDA_ATTN_BWD_H

#include "cuda/cuda_attn.h"

/* A row's shape: see attn_bwd_rows.h. */
typedef struct cuda_attn_bwd_variant {
  cuda_variant base;
  int32_t d, order, features;
  cuda_attn_mask mask;
  const char *pre, *sink, *post; /* ids of its steps */
} cuda_attn_bwd_variant;

const char *cuda_attn_bwd_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Few keys: the ordered form, which needs neither zeros nor a conversion, is the faster one. */
int32_t cuda_attn_bwd_fit(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
uint64_t cuda_attn_bwd_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_attn_bwd(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

/* Of a step: never legal alone. */
const char *cuda_step_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
ga_status cuda_step(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

#endif
