/* Launch side of FP8 attention and its quantiser (src/cuda/kern/attn_fp8). */
#ifndef GA_CUDA_KERN_ATTN_FP8_ATTN_FP8_SM90A_H
#define GA_CUDA_KERN_ATTN_FP8_ATTN_FP8_SM90A_H

#include "cuda/kern/attn/attn_fwd_sm90a.h"

const char *cuda_attn_fp8_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Launches the kernel; impl of the variant is a cuda_attn_variant. */
ga_status cuda_attn_fp8(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream);

/* A quantiser's shape; see attn_quant_sm90a.toml. */
typedef struct cuda_attn_quant_variant {
  cuda_variant base;
  int32_t d, blocks;      /* blocks per multiprocessor */
  int32_t kind;           /* ga_attn_quant_kind */
  const ga_kernel *means; /* VALUES: the step that computes the means of V's columns */
} cuda_attn_quant_variant;

const char *cuda_attn_quant_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Plans the steps. Where values are centred, the means of their columns come first. */
const char *cuda_attn_quant_plan(const ga_kernel *kernel, const void *desc, ga_plan_steps *steps);
ga_status cuda_attn_quant(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                          ga_stream *stream);

#endif
