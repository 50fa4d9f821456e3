/* Host side of the product of many rows of X with packed weights on Hopper
 * (src/cuda/kern/gemm/gemm_prefill_sm90a.cu). */
#ifndef GA_CUDA_KERN_GEMM_GEMM_PREFILL_SM90A_H
#define GA_CUDA_KERN_GEMM_GEMM_PREFILL_SM90A_H

#include "cuda/rt/cuda.h"
#include "ga/gemm.h"

typedef struct cuda_gemm_prefill_variant {
  cuda_variant base;
  int32_t bn; /* Number of rows of X in a tile of Y. */
  int32_t kw; /* Number of pairs of warpgroups. With two pairs, each takes every other unit of k. */
  /* 2: even and odd units of k have separate sums, so that one pair of warpgroups adds in the same order as two pairs.
   * Otherwise 1. */
  int32_t sum_sets;
  /* 1: X is e4m3 with scales, like W (GA_GEMM_X_E4M3). */
  int32_t x_e4m3;
  const ga_kernel *convert_x; /* Kernel of the helper step that converts X. */
} cuda_gemm_prefill_variant;

/* Returns the number of parts into which GA_GEMM_INVARIANT divides k for quantised weights, the same for every m. A
 * part is the sum of its odd units plus the sum of its even units. Parts are added in their order. */
int64_t cuda_gemm_ordered_parts(const ga_gemm_desc *desc, const ga_caps *caps);

const char *cuda_gemm_prefill_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_gemm_prefill_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Plans two steps: the conversion of X to bf16, f16 or e4m3, then the product. Returns a reject reason, or NULL. */
const char *cuda_gemm_prefill_plan(const ga_kernel *kernel, const void *desc, ga_plan_steps *steps);
ga_status cuda_gemm_prefill(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                            ga_stream *stream);

#endif
