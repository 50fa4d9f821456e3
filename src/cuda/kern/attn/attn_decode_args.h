/* Arguments of the attention kernels for few queries, attn_decode_simt and attn_decode: one struct by value, the same
 * bytes on the host and on the device. This file is both C11 and CUDA C.
 *
 * The struct is not in attn_fallback_sm80_args.h, so that changing it rebuilds no other attention kernel. */
#ifndef GA_CUDA_KERN_ATTN_ATTN_DECODE_ARGS_H
#define GA_CUDA_KERN_ATTN_ATTN_DECODE_ARGS_H
#include "cuda/dev/tmap.h"

/* Arguments of attention of few queries. A packed row is a pair of a query and one of the `group` query heads of a KV
 * head. A tile has packed rows of one KV head and one sequence. A unit is the work for one tile. All strides are in
 * elements. */
typedef struct {
  const void *q, *k, *v;
  void *o;
  /* lse receives the log-sum-exp of each row, natural log. NULL: not written. */
  float *lse;
  /* q_start and kv_start hold the first token of each packed sequence. kv_len holds the number of keys of each
   * sequence. NULL: every sequence has rows_q queries and rows_k keys. */
  const int32_t *q_start, *kv_start, *kv_len;
  /* page_table holds the page numbers of each sequence, whose rows are page_stride entries apart. NULL: K and V are not
   * paged. */
  const int32_t *page_table;
  /* sinks holds one sink logit per query head, alibi one slope per query head. NULL: the call has none. */
  const float *sinks, *alibi;
  /* Workspace for partial results, used if splits is above 1: [unit][split][tile row][v_dim + 2], or v_dim + 4 in
   * attn_decode. A row has unnormalised O, then its maximum and its sum of weights. */
  float *partial;
  /* One counter per unit, used if splits is above 1. The counters are 0 before the launch, and the kernel leaves them
   * 0. */
  int32_t *counter;
  int64_t q_batch, q_token, q_head, k_batch, k_token, k_head, v_batch, v_token, v_head, o_batch, o_token, o_head;
  int64_t page_stride;
  /* rows_q is the number of queries of the longest sequence, rows_k the number of keys of the longest sequence. */
  int32_t rows_q, rows_k;
  int32_t q_heads, group, head_dim, v_dim;
  int32_t q_dtype, o_dtype; /* Types of Q and O, ga_dtype values. */
  /* window is the number of keys that a query sees, 0: no window. page_size is the number of keys of a page, 0: not
   * paged. */
  int32_t causal, window, page_size;
  /* tiles is the number of tiles of packed rows per KV head and sequence. splits is the number of parts into which the
   * keys are divided. */
  int32_t tiles, splits;
  int32_t lanes; /* Number of lanes that share the row of a key: 8, 16 or 32. Each lane reads 8 elements. */
  float scale, softcap;
  /* 1: the previous launch may write only the keys of this call's queries, so that other keys may be read before it
   * ends. 0: it may write any key. */
  int32_t kv_ready;
  /* Scales of e4m3 keys and values, one for each token and KV head. Unused for other types. The strides that follow are
   * of batches, tokens and heads in these arrays. */
  const float *k_scale, *v_scale;
  int32_t k_scale_batch, k_scale_token, k_scale_head, v_scale_batch, v_scale_token, v_scale_head;
  /* 1: the blocks of all splits of a tile form a cluster, and merge their partial results in shared memory. */
  int32_t cluster;
  /* 1: window and ALiBi also apply to keys after the query (GA_ATTN_SYMMETRIC). Only attn_decode_simt reads it. */
  int32_t symmetric;
  /* 1: a tile reads its keys from a multiple of the number of keys that all warps of a block process in one step. The
   * assignment of keys to warps then does not depend on the first key that is seen. */
  int32_t whole_turns;
  /* q_len holds the number of queries of each packed sequence. NULL: q_start gives the lengths, and for packed keys
   * kv_len is NULL too. */
  const int32_t *q_len;
  /* Distance between heads in lse, in elements, where lse is [q_heads][tokens]. 0: lse is [batch][q_heads][rows_q]. */
  int64_t lse_stride;
} ga_kargs_attn_decode;

GA_KARGS_ASSERT(sizeof(ga_kargs_attn_decode) == 352);
#endif
