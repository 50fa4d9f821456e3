/* Arguments of the ladder's kernels (src/cuda/kern/ladder): one struct by value, the same bytes on the host and on the
 * device. C11 and CUDA C. */
#ifndef GA_CUDA_KERN_LADDER_LADDER_ARGS_H
#define GA_CUDA_KERN_LADDER_LADDER_ARGS_H

#include "cuda/kern/attn/attn_fallback_sm80_args.h"
#include "cuda/kern/attn/attn_fwd_sm90a_args.h"

/* Columns: 128, contiguous; addresses and strides multiples of 16 bytes. Tensor maps as in attn_fwd_sm90a_args.h. */
typedef struct ga_kargs_ladder {
  ga_tmap q_map, k_map, v_map; /* for steps that load by the copy engine */
  const uint16_t *q, *k, *v;   /* bf16 */
  uint16_t *o;
  float *lse; /* [batch, heads_q, rows_q], natural log; null: not written */
  ga_kstrides q_stride, k_stride, v_stride, o_stride;
  int32_t rows_q, rows_k, heads_q, group; /* query head h reads KV head h / group */
  int32_t tiles;                          /* tiles of BM rows of each head */
  float scale, scale_log2;                /* > 0; scale * log2(e) */
} ga_kargs_ladder;

#endif
