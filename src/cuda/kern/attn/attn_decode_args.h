/* Arguments of the attention kernels over packed rows (attn_decode_simt, attn_decode): one struct by value, the same
 * bytes on the host and on the device. C11 and CUDA C. The struct is apart from attn_fallback_sm80_args.h, so that
 * changing it rebuilds no other attention kernel. */
#ifndef GA_CUDA_KERN_ATTN_ATTN_DECODE_ARGS_H
#define GA_CUDA_KERN_ATTN_ATTN_DECODE_ARGS_H
#include "cuda/dev/tmap.h"

/* Attention by packed rows: the rows of one tile are pairs of a query and one of the `group` query heads of a KV head.
 * Strides are in elements. */
typedef struct {
  const void *q, *k, *v;
  void *o;
  float *lse;                                 /* null: not written */
  const int32_t *q_start, *kv_start, *kv_len; /* null: every sequence has rows_q and rows_k */
  const int32_t *page_table;                  /* null: not paged */
  const float *sinks, *alibi;                 /* null: none */
  /* [unit][part][tile row][v_dim + 2 or 4]; used when there are several parts */
  float *partial;
  /* One word a unit, zeroed before the launch and left zeroed; used when there are several parts. */
  int32_t *counter;
  int64_t q_batch, q_token, q_head, k_batch, k_token, k_head, v_batch, v_token, v_head, o_batch, o_token, o_head;
  int64_t page_stride;
  int32_t rows_q, rows_k; /* the longest sequence's */
  int32_t q_heads, group, head_dim, v_dim;
  int32_t q_dtype, o_dtype;          /* ga_dtype */
  int32_t causal, window, page_size; /* window, page_size 0: none */
  int32_t tiles, splits;             /* tiles of packed rows per KV head; parts into which the keys are cut */
  int32_t lanes;                     /* lanes that share a key: 8, 16 or 32, with 8 elements each */
  float scale, softcap;
  /* 1: the previous launch writes no keys except those of this call's queries. */
  int32_t kv_ready;
  const float *k_scale, *v_scale; /* scales of e4m3 keys and values, indexed like k and v */
  int32_t k_scale_batch, k_scale_token, k_scale_head, v_scale_batch, v_scale_token, v_scale_head;
  /* 1: the splits of a tile form a cluster, whose partial sums bypass global memory. */
  int32_t cluster;
  int32_t symmetric; /* window and ALiBi apply in both directions; attn_decode_simt only */
  /* 1: the first key is rounded down to a multiple of the keys that all warps of a tile take in one turn. Each warp's
   * keys then do not depend on the first key. */
  int32_t whole_turns;
  const int32_t *q_len; /* packed: lengths of q, or null; with them kv_len may hold lengths of k */
  int64_t lse_stride;   /* distance of heads in lse laid out by tokens; 0: by sequences */
} ga_kargs_attn_decode;

GA_KARGS_ASSERT(sizeof(ga_kargs_attn_decode) == 352);
#endif
