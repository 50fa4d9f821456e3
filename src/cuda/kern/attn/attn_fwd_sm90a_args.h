/* Arguments of the attention kernels: one struct by value, the same bytes on the host and on the device. C11 and CUDA
 * C. */
#ifndef GA_CUDA_KERN_ATTN_ATTN_FWD_SM90A_ARGS_H
#define GA_CUDA_KERN_ATTN_ATTN_FWD_SM90A_ARGS_H
#include "cuda/dev/tmap.h"

/* Bits of ga_kargs_attn_fwd.features; kernels built without GA_P_EXTRAS ignore them.
 * VARLEN: q and o are packed; k and v too unless PAGED.
 * STATE_*: (O, m, l) is read and merged, or written instead of o and lse. */
enum {
  GA_KATTN_SOFTCAP = 1,
  GA_KATTN_ALIBI = 2,
  GA_KATTN_SINK = 4,
  GA_KATTN_VARLEN = 8,
  GA_KATTN_PAGED = 16,
  GA_KATTN_STATE_IN = 32,
  GA_KATTN_STATE_OUT = 64
};
enum { GA_KATTN_CHUNKS = 4 }; /* most segments of K and V in a launch */

/* One KV segment. Its tensor maps have the shape and boxes of ga_kargs_attn_fwd.k and v. */
typedef struct {
  ga_tmap k, v;
  int32_t rows, diagonal; /* row r sees columns r + diagonal - window_left to r + diagonal + window_right */
  int32_t unused[14];
} ga_kattn_chunk;

/* Tensors are 4-d: (column, row, head, batch). Packed sequences are one batch of all rows; pages are batches of
 * page_size rows. Strides are in elements. Tensor maps have boxes of 64 columns with the 128-byte swizzle; rows per
 * box: q 64, k and v BN or page_box, o 16. Where heads can be packed q is 5-d: (column, head of `pack`, row, head /
 * pack, batch), with boxes of pack heads and wg_queries rows. */
typedef struct {
  ga_tmap q, k, v, o;
  void *o_base; /* for kernels that store from registers; 16-byte aligned, strides multiples of 8 */
  int64_t o_stride_row, o_stride_head, o_stride_batch;
  float *lse; /* natural log; null: not written */
  /* Rows are contiguous; the strides hold for m and l too. Stride of batches 0: packed like q. */
  int64_t lse_stride_head, lse_stride_batch;
  const int32_t *cu_q, *cu_k; /* varlen: batch + 1 row offsets into the packed tensors */
  const float *slope;         /* alibi: one per q head */
  const float *sink;          /* one logit per q head */
  int32_t *counter;           /* two words, zeroed before the launch and left zeroed by the kernel */
  int32_t heads_q, group;     /* q heads, or groups of `pack` of them; heads_q per KV head */
  int32_t rows_q, rows_k;     /* sequence lengths (varlen, paged: the longest) */
  int32_t heads_total;        /* heads_q * batch */
  int32_t tiles_per_head,
      /* Tiles of BM rows per (head, batch), and in total. Resident kernels: units per head, and in total. */
      tiles;
  /* causal order: longest tiles first within a section of this many heads */
  int32_t heads_per_section;
  int32_t window_left, window_right; /* row r sees columns r + rows_k - rows_q - left .. + right */
  /* resident kernels: consecutive tiles of one head that share its K and V in shared memory */
  int32_t unit_tiles;
  int32_t features;
  float scale_log2;              /* scale * log2(e) > 0 */
  float softcap_in, softcap_out; /* scale / cap, cap * log2(e) */
  /* The ratio of scale (or cap) to the rounded scale_log2 (softcap_out), in two parts; it is close to ln 2. */
  float ln_hi, ln_lo;
  int32_t cols_v;        /* value dim in memory, a multiple of 8 */
  const int32_t *kv_len; /* paged: rows of K and V of each batch; packed: null, or the same */
  union {
    const int32_t *page_table; /* paged: [batch][page_table_stride] */
    const int32_t *q_len;      /* packed: null, or rows of q of each batch */
  };
  int64_t page_table_stride;
  int32_t page_size, page_box; /* rows of a page; rows of a box, which divide page_size and BN */
  float *state_o, *state_m,
      *state_l;   /* O [batch][head][row][cols_v]; m and l as lse. Weights are 2^(logit * log2 e - m) */
  int32_t shift;  /* shift of the diagonal: row i is aligned with column i + rows_k - rows_q + shift */
  int32_t chunks; /* segments of K and V: the first is k, v with rows_k, the others are in more */
  /* rows of a tile are pairs of a query and one of `pack` heads; 2^16 / pack, rounded up */
  int32_t pack, pack_inverse;
  int32_t wg_queries; /* queries of a warpgroup, 64 / pack */
  /* work items a tile, each with a share of its blocks of K and V */
  int32_t splits;
  float *partial; /* splits > 1: m, l and O of the splits [tile][warp][split][DV / 8 + 1][lane][4] */
  GA_KARGS_ALIGN ga_kattn_chunk more[GA_KATTN_CHUNKS - 1];
} ga_kargs_attn_fwd;

GA_KARGS_ASSERT(sizeof(ga_kattn_chunk) == 320);
GA_KARGS_ASSERT(sizeof(ga_kargs_attn_fwd) == 768 + 960);
#endif
