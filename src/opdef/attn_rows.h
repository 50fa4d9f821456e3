/* Packed sequences (VARLEN and LENGTHS of ga/attn.h) on the host: their lengths, and the places of their LSE. */
#ifndef GA_OPDEF_ATTN_ROWS_H
#define GA_OPDEF_ATTN_ROWS_H

#include "ga/attn_bwd.h"

/* Returns the number of rows of sequence b. start: first row of each sequence. len: number of rows of each sequence,
 * read only with GA_ATTN_LENGTHS; NULL: start[b + 1] - start[b] rows. */
static inline int64_t ga_attn_rows_of(uint32_t flags, const int32_t *start, const int32_t *len, int64_t b) {
  return flags & GA_ATTN_LENGTHS && len ? len[b] : (int64_t)start[b + 1] - start[b];
}

/* Returns the index in LSE of query i of head h of sequence b. first: first row of the sequence. stride: lse_stride of
 * the description. */
static inline int64_t ga_attn_lse_at(int64_t stride, int64_t first, int64_t b, int64_t q_heads, int64_t max_q,
                                     int64_t h, int64_t i) {
  return stride ? h * stride + first + i : (b * q_heads + h) * max_q + i;
}

/* The two flags that replace GA_ATTN_BWD_ADD in descriptions that kernels get. */
#define GA_ATTN_BWD_ADDS ((uint32_t)GA_ATTN_BWD_ADD_DQ | (uint32_t)GA_ATTN_BWD_ADD_DKV)

#endif
