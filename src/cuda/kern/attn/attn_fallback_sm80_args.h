/* Arguments of the attention variants that take every shape (src/cuda/kern/attn/attn_fallback_sm80.cu) and of the
 * ladder: one struct by value, the same bytes on the host and on the device. C11 and CUDA C. */
#ifndef GA_CUDA_KERN_ATTN_ATTN_FALLBACK_SM80_ARGS_H
#define GA_CUDA_KERN_ATTN_ATTN_FALLBACK_SM80_ARGS_H

#include <stdint.h>

/* Distances in elements between sequences (between pages, where K and V are paged), tokens and heads. */
typedef struct ga_kstrides {
  int64_t batch, token, head;
} ga_kstrides;

enum { GA_KATTN_KV_SEGMENTS = 4 }; /* most segments of K and V in a launch */

/* One segment of K and V. Token i of the sequence is aligned with key i + rows - rows_q + shift of the segment. */
typedef struct ga_kattn_kv_segment {
  const void *k, *v;
  int32_t rows, shift; /* packed, paged: one segment, whose rows the device reads */
} ga_kattn_kv_segment;

typedef struct ga_kargs_attn_fallback {
  const void *q;
  void *o;
  float *lse; /* [batch, heads_k * group, rows_q], or by tokens; natural log; null: not written */
  ga_kstrides q_stride, k_stride, v_stride, o_stride;
  const int32_t *q_start, *kv_start; /* packed sequences: batch + 1 first tokens; null: dense */
  const int32_t *q_len;              /* packed: lengths of q, or null */
  /* paged: lengths of K and V; packed: as q_len; the pages of each sequence, or null */
  const int32_t *kv_len, *page_table;
  int64_t lse_stride; /* distance of heads in lse laid out by tokens; 0: by sequences */
  int64_t page_table_stride;
  const float *slope, *sink; /* one a query head, or null */
  int32_t heads_k, group;    /* query head h reads KV head h / group */
  int32_t rows_q;            /* tokens of a sequence; packed: of the longest */
  int32_t kv_segments;       /* at least 1 */
  int32_t tiles;             /* tiles of packed rows (token, head of the group) per sequence and KV head */
  int32_t cols, cols_v;      /* head dim of q and k; of v and o */
  int32_t page_size, window; /* 0: no pages, no window */
  int32_t causal, vec16;     /* vec16: addresses and strides of q, k, v, o are multiples of 16 bytes, dims of 8 */
  float scale, scale_log2;   /* scale * log2(e) */
  float softcap_in, softcap; /* scale / cap, cap; 0: none */
  /* state_in: (O, m, l) of every row is read and merged; state_out: it is written instead of o and lse */
  int32_t state_in, state_out;
  float *state_o, *state_m,
      *state_l; /* O [batch][head][row][cols_v], m and l as lse. Weights are 2^(logit * log2 e - m) */
  ga_kattn_kv_segment part[GA_KATTN_KV_SEGMENTS];
} ga_kargs_attn_fallback;

#endif
