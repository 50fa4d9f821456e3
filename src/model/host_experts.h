/* Memory for experts in host memory: the CPU multiplies by them for layers whose other parts are on a GPU.
 *
 *   GPU    ... X, route | copies to the host |          waits                     | copy of Y | residual + Y ...
 *   CPU                   waits              | products by the chosen experts: Y  |
 */
#ifndef GA_MODEL_HOST_EXPERTS_H
#define GA_MODEL_HOST_EXPERTS_H

#include "model/expert_cache.h"

typedef struct host_experts {
  ga_ctx *gpu;
  /* page-locked copies of X [tokens, width], of the route's arrays, and of the results Y [tokens, width] */
  float *x, *y;
  int32_t *route;
  float *slots;     /* [tokens * n_chosen, expert_ff_width] the CPU's rows between its two products */
  float *sum;       /* [tokens, width] Y on the device */
  ga_event *copied; /* X and the route are on the host */
  /* experts of the layer whose products have begun, as the GPU's cache has them; without a cache n_misses is 1 */
  cached_stacks stacks;
} host_experts;

/* Allocates memory for steps of max_tokens tokens of the placement. Release with host_experts_destroy. */
GA_NODISCARD ga_status host_experts_create(const ga_model *model, const ga_placement *placement, int32_t max_tokens,
                                           host_experts **out);
/* Waits for the copies and frees the memory. NULL is fine. */
void host_experts_destroy(host_experts *h);

#endif
