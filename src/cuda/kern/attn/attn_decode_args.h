/* Arguments of the attention kernels that take packed rows (attn_decode_simt, attn_decode): one struct by value, the
 * same bytes on the host and on the device. C11 and CUDA C. Apart from attn_fallback_sm80_args.h, so that a change here
 * builds no other attention kernel anew. */
#ifndef GA_CUDA_KERN_ATTN_ATTN_DECODE_ARGS_H
#define GA_CUDA_KERN_ATTN_ATTN_DECODE_ARGS_H
#include "cuda/dev/tmap.h"

/* Attention by packed rows: the `group` query heads of a kv head and its queries are rows of one tile. Strides in
 * elements. */
typedef struct {
  const void *q, *k, *v;
  void *o;
  float *lse;                                 /* null: not written */
  const int32_t *q_start, *kv_start, *kv_len; /* null: every sequence has rows_q and rows_k */
  const int32_t *page_table;                  /* null: not paged */
  const float *sinks, *alibi;                 /* null: none */
  float *partial;                             /* [unit][part][tile row][v_dim + 2 or 4] when there are several parts */
  int32_t *counter;                           /* zeroed words, one a unit, left zeroed; when there are several parts */
  int64_t q_batch, q_token, q_head, k_batch, k_token, k_head, v_batch, v_token, v_head, o_batch, o_token, o_head;
  int64_t page_stride;
  int32_t rows_q, rows_k; /* longest of a sequence */
  int32_t q_heads, group, head_dim, v_dim;
  int32_t q_dtype, o_dtype;          /* ga_dtype */
  int32_t causal, window, page_size; /* window, page_size 0: none */
  int32_t tiles, splits;             /* tiles of packed rows a kv head; parts of the keys */
  int32_t lanes;                     /* that share a key: 8, 16 or 32, of 8 elements each */
  float scale, softcap;
  int32_t kv_ready;               /* the launch ahead writes no keys but those of the queries */
  const float *k_scale, *v_scale; /* e4m3: of a key, as k and v lie */
  int32_t k_scale_batch, k_scale_token, k_scale_head, v_scale_batch, v_scale_token, v_scale_head;
  int32_t cluster;     /* 1: the splits of a tile are a cluster, whose parts do not go to memory */
  int32_t symmetric;   /* window and ALiBi look both ways: attn_decode_simt alone */
  int32_t whole_turns; /* 1: warps have the same keys whatever the first one: keys are taken from a multiple of what all
                          of a tile's warps take at once */
  const int32_t *q_len; /* packed: null, or lengths of q; then kv_len may be those of k */
  int64_t lse_stride;   /* from head to head of lse by tokens; 0: by sequences */
} ga_kargs_attn_decode;

GA_KARGS_ASSERT(sizeof(ga_kargs_attn_decode) == 352);
#endif
