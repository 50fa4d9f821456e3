/* Arguments of the attention kernels over packed rows (attn_decode_simt, attn_decode): one struct by value, the same
 * bytes on the host and on the device. C11 and CUDA C. The struct is apart from attn_fallback_sm80_args.h, so that
 * changing it rebuilds no other attention kernel. */
#ifndef GA_CUDA_KERN_ATTN_ATTN_DECODE_ARGS_H
#define GA_CUDA_KERN_ATTN_ATTN_DECODE_ARGS_H
#include "cuda/dev/tmap.h"

/* Arguments of attention by packed rows. The rows of a tile are pairs of a query and one of the `group` query heads of
 * a KV head. A unit is one tile of one KV head and one sequence. All strides are in elements. */
typedef struct {
  const void *q, *k, *v;
  void *o;
  /* lse receives the log-sum-exp of each row, natural log. NULL: not written. */
  float *lse;
  /* q_start and kv_start hold the first token of each packed sequence; kv_len holds the number of keys of each
   * sequence. NULL: every sequence has rows_q queries and rows_k keys. */
  const int32_t *q_start, *kv_start, *kv_len;
  /* page_table holds the pages of each sequence. NULL: K and V are not paged. */
  const int32_t *page_table;
  /* sinks holds one sink logit per query head, alibi one slope per query head. NULL: the call has none. */
  const float *sinks, *alibi;
  /* Workspace for partial results, used when splits is above 1: [unit][split][tile row][v_dim + 2], or v_dim + 4 in
   * attn_decode. The values after O are the row's maximum and its sum of weights. */
  float *partial;
  /* One counter word per unit, used when splits is above 1. Zeroed before the launch, and left zeroed by the kernel. */
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
   * keys are cut. */
  int32_t tiles, splits;
  int32_t lanes; /* Number of lanes that share a key: 8, 16 or 32. Each lane takes 8 elements. */
  float scale, softcap;
  /* 1: the only keys that the previous launch may write are the keys of this call's queries. 0: it may write any
   * key. */
  int32_t kv_ready;
  /* Scales of e4m3 keys and values, indexed by batch, token and head like k and v. Unused for other types. */
  const float *k_scale, *v_scale;
  int32_t k_scale_batch, k_scale_token, k_scale_head, v_scale_batch, v_scale_token, v_scale_head;
  /* 1: the blocks of all splits of a tile form a cluster, and merge their partial results without global memory. */
  int32_t cluster;
  /* 1: the window and ALiBi apply to later keys too. Only attn_decode_simt reads it. */
  int32_t symmetric;
  /* 1: the first key is rounded down to a multiple of the keys that all warps of a block process in one step. The
   * assignment of keys to warps then does not depend on the first key. */
  int32_t whole_turns;
  /* q_len holds the number of queries of each packed sequence. NULL: q_start gives the lengths. Only with q_len may
   * kv_len hold the lengths of packed keys. */
  const int32_t *q_len;
  /* Distance between heads in lse, in elements, where lse is laid out by tokens. 0: lse is laid out by sequences. */
  int64_t lse_stride;
} ga_kargs_attn_decode;

GA_KARGS_ASSERT(sizeof(ga_kargs_attn_decode) == 352);
#endif
