/* Arguments of the attention backward kernels: one struct by value for each kernel, the same bytes on the host and on
 * the device. This file is both C11 and CUDA C.
 *
 * A pair is a (batch, query head), numbered batch * heads_q + head. A block of queries is 64 query rows of a pair. The
 * workspace holds:
 *   stat  [pair][2][64 * blocks_q]: the log-sum-exp in log2 units (+infinity where a row contributes nothing), then
 *         delta = rowsum(dO O).
 *   acc   [pair][blocks_q][4][D / 8][128]: unscaled dQ in f32, by warp (16 rows) and 8 columns, in register order.
 *         Where a thread block takes all keys of a KV head: [thread block][query head of the group][blocks_q]...; the
 *         thread block uses this memory again for each KV head.
 *   dq_semaphore  [pair][blocks_q][dq_semaphores]: number of key tiles that have added their part of dQ. Only ordered
 *         kernels, which add the parts in a fixed order, use it.
 *   ticket: number of tiles, or of KV heads, that thread blocks have taken. */
#ifndef GA_CUDA_KERN_ATTN_BWD_ATTN_BWD_ARGS_H
#define GA_CUDA_KERN_ATTN_BWD_ATTN_BWD_ARGS_H
#include "cuda/kern/attn/attn_fwd_sm90a_args.h"

/* GA_KBWD_ROWS is the number of query rows of a block of queries, GA_KBWD_WARPS the number of warps that compute. */
enum { GA_KBWD_ROWS = 64, GA_KBWD_WARPS = 8 };
enum {
  GA_KBWD_CLUSTER2_SEMAPHORES = 16
  /* Number of computing warps in a cluster of two thread blocks. Each of them waits for its turn to add to a block of
   * dQ. */
};

/* A tensor with 4 dimensions: (column, row, head, batch). Packed sequences are one batch of all rows. row, head and
 * batch are strides in elements. */
typedef struct {
  void *base;
  int64_t row, head, batch;
} ga_kbwd_tensor;

typedef struct {
  ga_kbwd_tensor o, dout;
  const float *lse; /* Log-sum-exp of each row, [pair][rows_q], natural log. */
  /* cu_q and cu_k hold batch + 1 row offsets of packed sequences. NULL: dense tensors. */
  const int32_t *cu_q;
  const int32_t *cu_k;
  /* Workspace, as described at the top of this file. acc NULL: the main kernel writes dQ itself and needs no zeroed
   * accumulator. */
  float *stat, *acc;
  /* Workspace words that attn_bwd_pre zeroes. NULL: the main kernel uses none. */
  int32_t *dq_semaphore, *ticket;
  int32_t dq_semaphores; /* Number of semaphores for each block of queries. */
  /* Gradient of Q. Where acc is NULL, attn_bwd_pre writes dQ of the blocks of queries that see no key. */
  ga_kbwd_tensor dq;
  int32_t rows_k, window_right, cols_k, out_f32, add_dq;
  int32_t heads_q, rows_q, blocks_q;
  /* cols_v is the number of columns of V and O in memory. acc_cols is D, the head dimension that the main kernel is
   * compiled for. */
  int32_t cols_v, acc_cols;
  /* q_len and kv_len hold the lengths of packed sequences that begin at cu_q and cu_k. NULL: cu_q and cu_k give the
   * lengths. */
  const int32_t *q_len, *kv_len;
  /* Distance between heads in lse, in elements, where a head has a row for each token of the packed sequences. 0: lse
   * is [pair][rows_q]. */
  int64_t lse_stride;
} ga_kargs_attn_bwd_pre;

typedef struct {
  const float *stat;
  const int32_t *cu_q;
  const float *sink; /* One sink logit per query head. */
  float *dsink;
  int32_t heads_q, rows_q, blocks_q, batch;
  int32_t add; /* 1: the result is added to the old value of dsink. 0: the old value is overwritten. */
  const int32_t *q_len;
} ga_kargs_attn_bwd_sink;

typedef struct {
  /* Tensor maps with boxes of 64 columns and 64 rows, and the 128-byte swizzle. */
  ga_tmap q, dout, k, v;
  /* Tensor map of the workspace stat, with boxes of 64 columns and 2 rows, without swizzle. */
  ga_tmap stat;
  /* Ordered kernels: tensor map of acc as rows of 256 floats. A box has the rows of one block of queries. */
  ga_tmap acc_map;
  ga_kbwd_tensor dk, dv, dq; /* Gradients of K, V and Q. Only ordered kernels write dq. */
  float *acc;
  int32_t *dq_semaphore, *ticket;
  /* cu_q and cu_k hold batch + 1 row offsets of packed sequences. NULL: dense tensors. */
  const int32_t *cu_q, *cu_k;
  const float *slope;              /* One ALiBi slope per query head. */
  int32_t heads_q, heads_k, group; /* group is the number of query heads per KV head. */
  /* Number of queries and number of keys of a sequence; of the longest sequence where sequences are packed. */
  int32_t rows_q, rows_k;
  /* Number of blocks of queries per pair. A block has the 64 or 128 rows of one step. acc and dq_semaphore have an
   * entry for each block. */
  int32_t blocks_q;
  int32_t tiles_k;     /* Number of tiles of keys per sequence and KV head. */
  int32_t heads_total; /* Number of pairs of a KV head and a batch, heads_k * batch. */
  /* Number of KV heads of a section, used with causal masks: within a section the longest tiles are processed first. */
  int32_t heads_per_section;
  /* Number of the pairs in heads_total that form the last section, a group whose longest tiles are processed first. */
  int32_t heads_last;
  /* Query i sees keys i + rows_k - rows_q - window_left to i + rows_k - rows_q + window_right. */
  int32_t window_left, window_right;
  /* Bits GA_KATTN_*. Kernels built without GA_P_EXTRAS ignore them. */
  int32_t features;
  /* Numbers of columns of Q and K (cols_k) and of V (cols_v) in memory, multiples of 8. */
  int32_t cols_k, cols_v;
  int32_t out_f32; /* 1: gradients are f32. 0: they have the type of the inputs. */
  /* 1: gradients are added to the old values of dq (add_dq), or of dk and dv (add_dkv). 0: old values are
   * overwritten. */
  int32_t add_dq, add_dkv;
  float scale, scale_log2;       /* scale_log2 is scale * log2(e), above 0. */
  float scale_alone;             /* Factor of dQ and dK of packed sequences with a single key. */
  float softcap_in, softcap_out; /* softcap_in is 2 * log2(e) * scale / cap; softcap_out is cap * log2(e). */
  const int32_t *q_len, *kv_len; /* Lengths of packed sequences. NULL: cu_q and cu_k give the lengths. */
} ga_kargs_attn_bwd;

typedef struct {
  const float *acc;
  ga_kbwd_tensor dq;
  const int32_t *cu_q;
  int32_t heads_q, rows_q, blocks_q, cols_k;
  int32_t out_f32, add_dq;
  float scale;
  const int32_t *q_len;
  /* First rows (cu_k) and lengths (kv_len) of the packed sequences of keys. kv_len NULL: cu_k gives the lengths.
   * scale_alone is the factor of dQ in sequences with a single key; scale is the factor in others. */
  const int32_t *cu_k, *kv_len;
  float scale_alone;
} ga_kargs_attn_bwd_post;

/* Arguments of the backward variants that accept every shape (attn_bwd_fallback). Their workspace holds only stat. */
typedef struct {
  ga_kbwd_tensor q, dout, k, v, dq, dk, dv;
  const float *stat;
  const int32_t *cu_q, *cu_k;
  const float *slope; /* One ALiBi slope per query head. NULL: no ALiBi. */
  int32_t heads_q, heads_k, group;
  /* Number of queries and number of keys of a sequence; of the longest sequence where sequences are packed. */
  int32_t rows_q, rows_k;
  int32_t blocks_q; /* Number of blocks of 64 queries in stat, per pair. */
  /* Number of tiles of queries and number of tiles of keys, per sequence and head. A thread block keeps one tile in
   * shared memory. */
  int32_t tiles_q, tiles_k;
  /* Number of thread blocks that process tiles of keys, tiles_k * heads_k * batch. Thread blocks with higher indices
   * process tiles of queries. */
  int32_t blocks_k;
  int32_t cols_k, cols_v;
  /* causal 0: no causal mask. window is the number of keys that a query sees, 0: no window. */
  int32_t causal, window;
  /* vec16: 1 when all addresses and strides of q, dout, k and v are multiples of 16 bytes, and cols_k and cols_v
   * multiples of 8. */
  int32_t vec16;
  int32_t out_f32, add_dq, add_dkv;
  float scale, out_scale;    /* scale multiplies the logits; out_scale multiplies dQ and dK. */
  float softcap_in, softcap; /* softcap_in is scale / cap and softcap is cap. softcap 0: no cap. */
  float scale_alone;         /* Replaces out_scale in sequences with a single key. */
  const int32_t *q_len, *kv_len;
} ga_kargs_attn_bwd_fallback;
#endif
