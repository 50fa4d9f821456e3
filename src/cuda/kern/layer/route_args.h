/* Arguments of the kernels of routing: one struct by value, the same bytes on the host and on the device. This file is
 * both C11 and CUDA C. */
#ifndef GA_CUDA_KERN_LAYER_ROUTE_ARGS_H
#define GA_CUDA_KERN_LAYER_ROUTE_ARGS_H

#include <stdint.h>

#ifdef __cplusplus
#define GA_KARGS_ROUTE_ASSERT(c) static_assert(c, #c)
#else
#define GA_KARGS_ROUTE_ASSERT(c) _Static_assert(c, #c)
#endif

/* Arguments of the choice of experts. Fields have the meaning that ga_route_desc and ga_route_io give them. */
typedef struct ga_kargs_route {
  const float *logits, *bias, *expert_scale; /* bias, expert_scale NULL: none. */
  const int32_t *token_ids, *table;          /* Read if vocab is above 0. */
  int32_t *experts;
  float *weights;
  int64_t tokens, logits_stride, vocab;
  int32_t n_experts, top_k, scores, n_groups, top_k_groups, group_score, renorm;
  float norm_eps, scale;
  int32_t reserved;
} ga_kargs_route;

/* Arguments of the sort of `rows` slots by expert, a token's slots one after the other. */
typedef struct ga_kargs_route_sort {
  const int32_t *experts;
  int32_t *counts, *offsets, *order, *place;
  int32_t rows, n_experts;
} ga_kargs_route_sort;

GA_KARGS_ROUTE_ASSERT(sizeof(ga_kargs_route) == 120);
GA_KARGS_ROUTE_ASSERT(sizeof(ga_kargs_route_sort) == 48);
#endif
