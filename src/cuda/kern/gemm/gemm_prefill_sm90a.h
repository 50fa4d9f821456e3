/* Launch side of many rows of X by packed weights on Hopper (src/cuda/kern/gemm/gemm_prefill_sm90a.cu). */
#ifndef GA_CUDA_KERN_GEMM_GEMM_PREFILL_SM90A_H
#define GA_CUDA_KERN_GEMM_GEMM_PREFILL_SM90A_H

#include "cuda/rt/cuda.h"
#include "ga/gemm.h"

typedef struct cuda_gemm_prefill_variant {
  cuda_variant base;
  int32_t bn; /* rows of X of a tile */
  int32_t kw; /* pairs of warpgroups that take turns along k */
  /* sets of sums to which units of k are added in turn; 2 gives the order of sums of two pairs */
  int32_t sum_sets;
  int32_t x_e4m3;             /* X is e4m3 with scales, like W: GA_GEMM_X_E4M3 */
  const ga_kernel *convert_x; /* the step that converts X */
} cuda_gemm_prefill_variant;

/* Returns the number of parts of k that GA_GEMM_INVARIANT gives a product of quantised weights, whatever m is. A part
 * is the sum of its odd units plus that of its even units; parts are added in their order. */
int64_t cuda_gemm_ordered_parts(const ga_gemm_desc *desc, const ga_caps *caps);

const char *cuda_gemm_prefill_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_gemm_prefill_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Plans two steps: X to bf16, f16 or e4m3, then the product. */
const char *cuda_gemm_prefill_plan(const ga_kernel *kernel, const void *desc, ga_plan_steps *steps);
ga_status cuda_gemm_prefill(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                            ga_stream *stream);

#endif
