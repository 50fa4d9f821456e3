/* Arguments of the attention kernels (attn_fwd_sm90a.cu): one struct by value, the same bytes on the host and on the
 * device. This file is both C11 and CUDA C. */
#ifndef GA_CUDA_KERN_ATTN_ATTN_FWD_SM90A_ARGS_H
#define GA_CUDA_KERN_ATTN_ATTN_FWD_SM90A_ARGS_H
#include "cuda/dev/tmap.h"

/* Bits of ga_kargs_attn_fwd.features. Kernels built without GA_P_EXTRAS ignore them.
 * VARLEN: q and o are packed sequences; k and v are packed too, unless PAGED is set.
 * STATE_IN: the state (O, m, l) of every row is read and merged. STATE_OUT: the state is written instead of o and
 * lse. */
enum {
  GA_KATTN_SOFTCAP = 1,
  GA_KATTN_ALIBI = 2,
  GA_KATTN_SINK = 4,
  GA_KATTN_VARLEN = 8,
  GA_KATTN_PAGED = 16,
  GA_KATTN_STATE_IN = 32,
  GA_KATTN_STATE_OUT = 64
};
enum { GA_KATTN_CHUNKS = 4 }; /* The largest number of segments of K and V in a launch. */

/* A segment of K and V. Its tensor maps have the shape and boxes of ga_kargs_attn_fwd.k and v. */
typedef struct {
  ga_tmap k, v;
  /* rows is the number of keys of the segment. Query r sees keys r + diagonal - window_left to r + diagonal +
   * window_right. */
  int32_t rows, diagonal;
  int32_t unused[14];
} ga_kattn_chunk;

/* Arguments of attention over whole tiles. Tensors are 4-d: (column, row, head, batch). Packed sequences are one batch
 * of all rows; pages are batches of page_size rows. Strides are in elements. Tensor maps have boxes of 64 columns with
 * the 128-byte swizzle. A box has 64 rows of q, BN or page_box rows of k and v, and 16 rows of o. Where heads can be
 * packed, q is 5-d: (column, head of `pack`, row, head / pack, batch), with boxes of pack heads and wg_queries rows. */
typedef struct {
  ga_tmap q, k, v, o;
  /* Address of O, for kernels that store O from registers. It is 16-byte aligned, and the strides of O are multiples of
   * 8. */
  void *o_base;
  int64_t o_stride_row, o_stride_head, o_stride_batch;
  /* lse receives the log-sum-exp of each row, natural log. NULL: not written. */
  float *lse;
  /* Distances between heads and between batches in lse, state_m and state_l, whose rows are contiguous.
   * lse_stride_batch 0: the rows of packed sequences follow each other. */
  int64_t lse_stride_head, lse_stride_batch;
  /* With VARLEN: cu_q and cu_k hold batch + 1 row offsets into the packed tensors. */
  const int32_t *cu_q, *cu_k;
  /* With ALIBI: slope holds one ALiBi slope per query head. */
  const float *slope;
  /* With SINK: sink holds one sink logit per query head. */
  const float *sink;
  /* Counters, which are 0 before the launch and which the kernel leaves 0. They count work items taken and thread
   * blocks finished, then finished splits for each warp's 16 rows of a tile. */
  int32_t *counter;
  /* heads_q is the number of query heads; with packed heads, the number of groups of `pack` query heads. group is the
   * number of these heads that share a KV head. */
  int32_t heads_q, group;
  /* Number of queries and number of keys of a sequence; of the longest sequence with VARLEN or PAGED. */
  int32_t rows_q, rows_k;
  int32_t heads_total; /* Number of heads (heads_q) over all batches. */
  int32_t tiles_per_head,
      /* tiles_per_head is the number of tiles of BM rows per head and batch, and tiles the number over all heads and
       * batches. Kernels that keep K and V in shared memory count groups of unit_tiles tiles instead. */
      tiles;
  /* Number of heads of a section, used with masks: within a section the longest tiles are processed first. */
  int32_t heads_per_section;
  /* Query r sees keys r + rows_k - rows_q - window_left to r + rows_k - rows_q + window_right. */
  int32_t window_left, window_right;
  /* Number of consecutive tiles of one head that share its K and V, for kernels that keep K and V in shared memory. */
  int32_t unit_tiles;
  int32_t features;
  float scale_log2;              /* scale_log2 is scale * log2(e), above 0. */
  float softcap_in, softcap_out; /* softcap_in is scale / cap; softcap_out is cap * log2(e). */
  /* ln_hi + ln_lo is the factor, near ln 2, from log2 units to natural units in the log-sum-exp. It is the ratio of
   * scale to the rounded scale_log2, or of cap to the rounded softcap_out. */
  float ln_hi, ln_lo;
  int32_t cols_v; /* Number of columns of V and O in memory, a multiple of 8. */
  /* kv_len holds the number of keys of each sequence. For packed K and V it may be NULL; cu_k then gives the
   * lengths. */
  const int32_t *kv_len;
  union {
    const int32_t *page_table; /* With PAGED: the pages of each sequence, [batch][page_table_stride]. */
    /* Without PAGED: number of queries of each packed sequence. NULL: cu_q gives the lengths. */
    const int32_t *q_len;
  };
  int64_t page_table_stride;
  /* page_size is the number of keys of a page. page_box is the number of rows of a box of k and v, which divides
   * page_size and BN. */
  int32_t page_size, page_box;
  float *state_o, *state_m,
      /* State of the rows: state_o is [batch][head][row][cols_v]; state_m (maximum) and state_l (sum of weights) are
       * laid out like lse. A weight is 2^(logit * log2(e) - m). */
      *state_l;
  /* Shift of the diagonal of the mask, in keys: query i is at the position of key i + rows_k - rows_q + shift. */
  int32_t shift;
  /* Number of segments of K and V. The first segment is k and v with rows_k keys; the others are in `more`. */
  int32_t chunks;
  /* pack is the number of query heads that share a tile, whose rows are pairs of a query and one of these heads.
   * pack_inverse is 2^16 / pack, rounded up. */
  int32_t pack, pack_inverse;
  int32_t wg_queries; /* Number of queries of a warpgroup, 64 / pack. */
  /* Number of splits of a tile. Each split is a work item, which processes a part of the tile's blocks of K and V. */
  int32_t splits;
  /* Workspace for the splits' maxima m, sums l and O, used if splits is above 1: [tile][warp][split][DV / 8 +
   * 1][lane][4]. */
  float *partial;
  GA_KARGS_ALIGN ga_kattn_chunk more[GA_KATTN_CHUNKS - 1];
} ga_kargs_attn_fwd;

GA_KARGS_ASSERT(sizeof(ga_kattn_chunk) == 320);
GA_KARGS_ASSERT(sizeof(ga_kargs_attn_fwd) == 768 + 960);
#endif
