/* Host side of route_sm80.cu, which chooses experts, and of route_sort_sm80.cu, which sorts rows by expert. */
#ifndef GA_CUDA_KERN_LAYER_ROUTE_H
#define GA_CUDA_KERN_LAYER_ROUTE_H

#include "cuda/kern/layer/layer.h"

typedef struct cuda_route_variant {
  cuda_variant base;
  const ga_kernel *sort; /* Kernel of the step that sorts, after the choice. */
} cuda_route_variant;

GA_DECLARE_CUDA(route);
/* Plans the choice, if there are tokens, and the sort, if the description has GA_ROUTE_SORT. */
const char *cuda_route_plan(const ga_kernel *kernel, const void *desc, ga_plan_steps *steps);

#endif
