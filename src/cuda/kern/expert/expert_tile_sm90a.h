/* Host side of the products by experts with many rows on Hopper (src/cuda/kern/expert/expert_tile_sm90a.cu). */
#ifndef GA_CUDA_KERN_EXPERT_EXPERT_TILE_SM90A_H
#define GA_CUDA_KERN_EXPERT_EXPERT_TILE_SM90A_H

#include "cuda/kern/expert/expert.h"

typedef struct cuda_expert_tile_variant {
  cuda_variant base;
  int32_t bn;                 /* Number of sorted rows of a tile. */
  const ga_kernel *sum;       /* Kernel of the step that adds up slots' results. */
  const ga_kernel *convert_x; /* Kernel of the step that converts X. */
} cuda_expert_tile_variant;

const char *cuda_expert_tile_ok(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
double cuda_expert_tile_cost(const ga_kernel *kernel, const void *desc, const ga_caps *caps);
/* Plans the conversion of X to bf16 in sorted rows, the product, and in OUT the sum of slots' results. Returns a reject
 * reason, or NULL. */
const char *cuda_expert_tile_plan(const ga_kernel *kernel, const void *desc, ga_plan_steps *steps);
ga_status cuda_expert_tile(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                           ga_stream *stream);

#endif
