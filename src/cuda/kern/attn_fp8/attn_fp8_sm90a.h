/* Host side of 8-bit attention and its quantisers (src/cuda/kern/attn_fp8). */
#ifndef GA_CUDA_KERN_ATTN_FP8_ATTN_FP8_SM90A_H
#define GA_CUDA_KERN_ATTN_FP8_ATTN_FP8_SM90A_H

#include "cuda/kern/attn/attn_fwd_sm90a.h"

const char *cuda_attn_fp8_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Launches the attention kernel. kernel->impl must be a cuda_attn_variant. */
ga_status cuda_attn_fp8(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

/* Parameters of a quantiser; attn_quant_sm90a.toml explains them. */
typedef struct cuda_attn_quant_variant {
  cuda_variant base;
  /* d is the head dimension; blocks is the number of thread blocks per multiprocessor. */
  int32_t d, blocks;
  /* Kind of quantiser, a ga_attn_quant_kind value. */
  int32_t kind;
  /* Kind VALUES: the kernel that computes the means of V's columns. Otherwise NULL. */
  const ga_kernel *means;
} cuda_attn_quant_variant;

const char *cuda_attn_quant_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Plans the steps of a quantiser. If values are centred, a step that computes the means of their columns comes first.
 * Returns a reject reason, or NULL. */
const char *cuda_attn_quant_plan(const ga_kernel *kernel, const void *desc, ga_plan_steps *steps);
ga_status cuda_attn_quant(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                          ga_stream *stream);

#endif
