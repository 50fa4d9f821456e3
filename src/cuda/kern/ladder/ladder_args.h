/* Arguments of the ladder's kernels (src/cuda/kern/ladder): one struct by value, the same bytes on the host and on the
 * device. This file is both C11 and CUDA C. */
#ifndef GA_CUDA_KERN_LADDER_LADDER_ARGS_H
#define GA_CUDA_KERN_LADDER_LADDER_ARGS_H

#include "cuda/kern/attn/attn_fallback_sm80_args.h"
#include "cuda/kern/attn/attn_fwd_sm90a_args.h"

/* Arguments of the ladder's kernels. Tensors have 128 contiguous columns; addresses and strides are multiples of 16
 * bytes. Tensors of tensor maps are (column, row, head, batch), with boxes of 64 columns and the 128-byte swizzle. */
typedef struct ga_kargs_ladder {
  /* Tensor maps for the ladder's kernels that load by the copy engine. */
  ga_tmap q_map, k_map, v_map;
  const uint16_t *q, *k, *v; /* Tensors of bf16. */
  uint16_t *o;
  /* lse receives the log-sum-exp of each row, [batch, heads_q, rows_q], natural log. NULL: not written. */
  float *lse;
  ga_kstrides q_stride, k_stride, v_stride, o_stride;
  /* group is the number of query heads per KV head: query head h reads KV head h / group. */
  int32_t rows_q, rows_k, heads_q, group;
  int32_t tiles;           /* Number of tiles of BM rows of each head. */
  float scale, scale_log2; /* scale is above 0; scale_log2 is scale * log2(e). */
} ga_kargs_ladder;

#endif
