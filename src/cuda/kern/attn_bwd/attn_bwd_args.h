/* Arguments of the attention backward kernels: one struct by value each, the same bytes on the host and on the device.
 * C11 and CUDA C.
 *
 * A pair is a (batch, query head), numbered batch * heads_q + head; a block is 64 query rows of a pair. The workspace
 * holds
 *   stat  [pair][2][64 * blocks_q]  log-sum-exp in log2 units (+infinity where a row contributes nothing), rowsum(dO O)
 *   acc   [pair][blocks_q][4][D / 8][128]  dQ in f32, unscaled: by warp (16 rows) and 8 columns, in register order
 *         (kernels whose blocks take all keys of a KV head: [thread block][query head of the group][blocks_q]...,
 *         accumulated anew for each head)
 *   dq_semaphore  [pair][blocks_q][dq_semaphores]  ordered kernels: number of key tiles that have added their part
 *   ticket                          number of tiles, or of KV heads, that have been taken */
#ifndef GA_CUDA_KERN_ATTN_BWD_ATTN_BWD_ARGS_H
#define GA_CUDA_KERN_ATTN_BWD_ATTN_BWD_ARGS_H
#include "cuda/kern/attn/attn_fwd_sm90a_args.h"

enum { GA_KBWD_ROWS = 64, GA_KBWD_WARPS = 8 }; /* rows of a block; consumer warps */
enum {
  GA_KBWD_CLUSTER2_SEMAPHORES = 16
  /* Consumer warps of a cluster of two blocks; each has a turn for every block of dQ. */
};

/* A tensor in 4-d: (column, row, head, batch), packed sequences as one batch of all rows. Strides are in elements. */
typedef struct {
  void *base;
  int64_t row, head, batch;
} ga_kbwd_tensor;

typedef struct {
  ga_kbwd_tensor o, dout;
  const float *lse;    /* [pair][rows_q], natural log */
  const int32_t *cu_q; /* varlen, else null */
  const int32_t *cu_k;
  float *stat, *acc;              /* acc null: the kernel needs no zeroed accumulator, because it writes dQ itself */
  int32_t *dq_semaphore, *ticket; /* null: the kernel has none */
  int32_t dq_semaphores;          /* semaphores of a block */
  ga_kbwd_tensor dq;              /* acc null: dQ of blocks that see no key is written here */
  int32_t rows_k, window_right, cols_k, out_f32, add_dq;
  int32_t heads_q, rows_q, blocks_q;
  int32_t cols_v, acc_cols;      /* value dim in memory; D of the main kernel */
  const int32_t *q_len, *kv_len; /* varlen: lengths of the sequences that begin at cu_q and cu_k, or null */
  int64_t lse_stride;            /* distance of heads in lse laid out by tokens; 0: lse is by pairs */
} ga_kargs_attn_bwd_pre;

typedef struct {
  const float *stat;
  const int32_t *cu_q;
  const float *sink; /* one logit per query head */
  float *dsink;
  int32_t heads_q, rows_q, blocks_q, batch;
  int32_t add; /* add to the old value of dsink */
  const int32_t *q_len;
} ga_kargs_attn_bwd_sink;

typedef struct {
  ga_tmap q, dout, k, v;     /* boxes of 64 columns and 64 rows, swizzle 128 B */
  ga_tmap stat;              /* boxes of 64 columns and 2 rows, no swizzle */
  ga_tmap acc_map;           /* ordered kernels: acc as rows of 256 floats, boxes of one block */
  ga_kbwd_tensor dk, dv, dq; /* dq: ordered kernels only */
  float *acc;
  int32_t *dq_semaphore, *ticket;
  const int32_t *cu_q, *cu_k;      /* varlen: batch + 1 row offsets into the packed tensors */
  const float *slope;              /* alibi: one per query head */
  int32_t heads_q, heads_k, group; /* group: query heads a KV head */
  int32_t rows_q, rows_k;          /* sequence lengths (varlen: the longest) */
  /* Blocks of queries, each of the rows of one step: 64 or 128. acc and dq_semaphore have an entry for each. */
  int32_t blocks_q;
  int32_t tiles_k;                   /* tiles of keys */
  int32_t heads_total;               /* heads_k * batch */
  int32_t heads_per_section;         /* causal order: longest tiles first within a section of this many KV heads */
  int32_t heads_last;                /* KV heads of the last section */
  int32_t window_left, window_right; /* row i sees columns i + rows_k - rows_q - left .. + right */
  int32_t features;                  /* GA_KATTN_*; kernels built without GA_P_EXTRAS ignore them */
  int32_t cols_k, cols_v;            /* dims in memory, multiples of 8 */
  int32_t out_f32;                   /* gradients are f32 */
  int32_t add_dq, add_dkv;           /* add to the old values of dq; of dk and dv */
  float scale, scale_log2;           /* scale * log2(e) > 0 */
  float softcap_in, softcap_out;     /* 2 log2(e) scale / cap, cap * log2(e) */
  const int32_t *q_len, *kv_len;     /* as in ga_kargs_attn_bwd_pre */
} ga_kargs_attn_bwd;

typedef struct {
  const float *acc;
  ga_kbwd_tensor dq;
  const int32_t *cu_q;
  int32_t heads_q, rows_q, blocks_q, cols_k;
  int32_t out_f32, add_dq;
  float scale;
  const int32_t *q_len;
} ga_kargs_attn_bwd_post;

/* Arguments of the variants for every shape; their workspace holds only stat. */
typedef struct {
  ga_kbwd_tensor q, dout, k, v, dq, dk, dv;
  const float *stat;
  const int32_t *cu_q, *cu_k;
  const float *slope; /* alibi, else null */
  int32_t heads_q, heads_k, group;
  int32_t rows_q, rows_k; /* sequence lengths (varlen: the longest) */
  int32_t blocks_q;       /* blocks of stat */
  /* Tiles of queries, and of keys, of one sequence and head. A block of threads keeps one of them in shared memory. */
  int32_t tiles_q, tiles_k;
  /* thread blocks for tiles of keys: tiles_k * heads_k * batch; those for tiles of queries follow */
  int32_t blocks_k;
  int32_t cols_k, cols_v;
  int32_t causal, window; /* 0: none */
  int32_t vec16;          /* q, dout, k, v: addresses and strides are multiples of 16 bytes, dims of 8 */
  int32_t out_f32, add_dq, add_dkv;
  float scale, out_scale;    /* factor of the logits; factor of dQ and dK */
  float softcap_in, softcap; /* scale / cap; softcap 0: none */
  const int32_t *q_len, *kv_len;
} ga_kargs_attn_bwd_fallback;
#endif
