/* Arguments of the attention variants that take every shape (attn_fallback_sm80.cu), and of the ladder. The struct is
 * passed by value and has the same bytes on the host and on the device. This file is both C11 and CUDA C. */
#ifndef GA_CUDA_KERN_ATTN_ATTN_FALLBACK_SM80_ARGS_H
#define GA_CUDA_KERN_ATTN_ATTN_FALLBACK_SM80_ARGS_H

#include <stdint.h>

/* Strides in elements. batch is the distance between sequences (between pages, where K and V are paged); token and head
 * are the distances between tokens and between heads. */
typedef struct ga_kstrides {
  int64_t batch, token, head;
} ga_kstrides;

enum { GA_KATTN_KV_SEGMENTS = 4 }; /* The largest number of segments of K and V in a launch. */

/* A segment of K and V. In the causal mask, the window and ALiBi, query i has the position of key i + rows - rows_q +
 * shift of the segment. */
typedef struct ga_kattn_kv_segment {
  const void *k, *v;
  /* rows is the number of keys of the segment; shift moves the diagonal of the mask. Packed or paged K and V have one
   * segment, whose number of keys the device reads from kv_start or kv_len. */
  int32_t rows, shift;
} ga_kattn_kv_segment;

typedef struct ga_kargs_attn_fallback {
  const void *q;
  void *o;
  /* lse receives the log-sum-exp of each row, natural log: [batch, heads_k * group, rows_q], or with lse_stride
   * [heads_k * group, lse_stride]. NULL: not written. */
  float *lse;
  ga_kstrides q_stride, k_stride, v_stride, o_stride;
  /* Packed sequences: q_start and kv_start hold batch + 1 offsets of first tokens. NULL: dense tensors. */
  const int32_t *q_start, *kv_start;
  /* Packed sequences: q_len holds the number of queries of each sequence. NULL: q_start gives the lengths. */
  const int32_t *q_len;
  /* kv_len holds the number of keys of each sequence; packed sequences may have NULL, and kv_start gives the lengths.
   * page_table holds the pages of each sequence. NULL: not paged. */
  const int32_t *kv_len, *page_table;
  /* Distance between heads in lse, in elements, where a head has a row for each token of the packed sequences. 0: lse
   * is [batch, heads_k * group, rows_q]. */
  int64_t lse_stride;
  int64_t page_table_stride;
  /* slope holds one ALiBi slope per query head, sink one sink logit per query head. NULL: the call has none. */
  const float *slope, *sink;
  /* heads_k is the number of KV heads. group is the number of query heads per KV head: query head h reads KV head h /
   * group. */
  int32_t heads_k, group;
  int32_t rows_q;      /* Number of queries of a sequence. With packed sequences: of the longest one. */
  int32_t kv_segments; /* Number of entries of `part`, at least 1. */
  /* Number of tiles of packed rows per sequence and KV head. A packed row is a pair of a token and a head of the
   * group. */
  int32_t tiles;
  /* cols is the head dimension of q and k, cols_v the head dimension of v and o. */
  int32_t cols, cols_v;
  /* page_size is the number of keys of a page, 0: not paged. window is the number of keys that a query sees, 0: no
   * window. */
  int32_t page_size, window;
  /* causal: 1 with a causal mask. vec16: 1 when all addresses and strides of q, k, v and o are multiples of 16 bytes,
   * and cols and cols_v multiples of 8. */
  int32_t causal, vec16;
  float scale, scale_log2;   /* scale_log2 is scale * log2(e). */
  float softcap_in, softcap; /* softcap_in is scale / cap and softcap is cap. softcap 0: no cap. */
  /* state_in 1: the state (O, m, l) of every row is read and merged. state_out 1: the state is written instead of o and
   * lse. */
  int32_t state_in, state_out;
  float *state_o, *state_m,
      /* State of the rows: state_o is [batch][head][row][cols_v]; state_m (maximum) and state_l (sum of weights) are
       * laid out like lse. A weight is 2^(logit * log2(e) - m). */
      *state_l;
  ga_kattn_kv_segment part[GA_KATTN_KV_SEGMENTS];
} ga_kargs_attn_fallback;

#endif
