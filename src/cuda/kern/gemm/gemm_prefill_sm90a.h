/* Launch side of many rows of X by packed weights on Hopper (src/cuda/kern/gemm/gemm_prefill_sm90a.cu). */
#ifndef GA_CUDA_KERN_GEMM_GEMM_PREFILL_SM90A_H
#define GA_CUDA_KERN_GEMM_GEMM_PREFILL_SM90A_H

#include "cuda/rt/cuda.h"

typedef struct cuda_gemm_prefill_variant {
  cuda_variant base;
  int32_t bn;                 /* rows of X of a tile */
  int32_t kw;                 /* pairs of warpgroups that take turns along k */
  const ga_kernel *convert_x; /* its step */
} cuda_gemm_prefill_variant;

const char *cuda_gemm_prefill_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_gemm_prefill_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* X in bf16, then the product. */
const char *cuda_gemm_prefill_plan(const ga_kernel *kernel, const void *desc, ga_plan_steps *steps);
ga_status cuda_gemm_prefill(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                            ga_stream *stream);

#endif
