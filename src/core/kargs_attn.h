/* Arguments of the attention kernels: one struct by value, the same bytes on the host and on the device. C11 and CUDA C. */
#ifndef GA_CORE_KARGS_ATTN_H
#define GA_CORE_KARGS_ATTN_H
#include <stdint.h>

#ifdef __cplusplus
#define GA_KARGS_ALIGN alignas(64)
#define GA_KARGS_ASSERT(c) static_assert(c, #c)
#else
#define GA_KARGS_ALIGN _Alignas(64)
#define GA_KARGS_ASSERT(c) _Static_assert(c, #c)
#endif

/* A driver-encoded tensor map (CUtensorMap), opaque here. */
typedef struct { GA_KARGS_ALIGN uint64_t word[16]; } ga_tmap;

/* Bits of ga_kargs_attn_fwd.features; kernels built without GA_P_FEATURES ignore them. */
enum { GA_KATTN_SOFTCAP = 1, GA_KATTN_ALIBI = 2, GA_KATTN_SINK = 4, GA_KATTN_VARLEN = 8 };

/* Tensors are 4-d: (column, row, head, batch), packed sequences as one batch of all rows. Strides in elements.
 * Tensor maps: boxes of 64 columns, swizzle 128 B; rows per box: q 64, k and v BN, o 16. */
typedef struct {
    ga_tmap q, k, v, o;
    void *o_base;                                   /* for kernels that store from registers; 16-byte aligned, strides multiples of 8 */
    int64_t o_stride_row, o_stride_head, o_stride_batch;
    float *lse;                                     /* natural log; null: not written */
    int64_t lse_stride_head, lse_stride_batch;      /* rows are contiguous */
    const int32_t *cu_q, *cu_k;                     /* varlen: batch + 1 row offsets into the packed tensors */
    const float *slope;                             /* alibi: one per q head */
    const float *sink;                              /* one logit per q head */
    int32_t *counter;                               /* two zeroed words; the kernel leaves them zeroed */
    int32_t heads_q, group;                         /* q heads; q heads per kv head */
    int32_t rows_q, rows_k;                         /* sequence lengths (varlen: the longest) */
    int32_t heads_total;                            /* heads_q * batch */
    int32_t tiles_per_head, tiles;                  /* tiles of BM rows per (head, batch); in all. Resident kernels: units per head, in all */
    int32_t heads_per_section;                      /* causal order: longest tiles first inside a section of this many heads */
    int32_t window_left, window_right;              /* mask window: columns row+rows_k-rows_q - left .. + right */
    int32_t unit_tiles;                             /* resident kernels: consecutive tiles of one head that share its K and V in shared memory */
    int32_t features;
    float scale_log2;                               /* scale * log2(e) > 0 */
    float softcap_in, softcap_out;                  /* scale / cap, cap * log2(e) */
    int32_t cols_v;                                 /* value dim in memory, a multiple of 8 */
} ga_kargs_attn_fwd;

/* Attention by packed rows: the `group` query heads of a kv head and its queries are rows of one tile. Strides in elements. */
typedef struct {
    const void *q, *k, *v;
    void *o;
    float *lse;                                     /* null: not written */
    const int32_t *q_start, *kv_start, *kv_len;     /* null: every sequence has rows_q and rows_k */
    const int32_t *page_table;                      /* null: not paged */
    const float *sinks, *alibi;                     /* null: none */
    float *partial;                                 /* [unit][split][tile row][v_dim + 2] when splits > 1 */
    int32_t *counter;                               /* zeroed words, one a unit, left zeroed; when splits > 1 */
    int64_t q_batch, q_token, q_head, k_batch, k_token, k_head, v_batch, v_token, v_head, o_batch, o_token, o_head;
    int64_t page_stride;
    int32_t rows_q, rows_k;                         /* longest of a sequence */
    int32_t q_heads, group, head_dim, v_dim;
    int32_t q_dtype, o_dtype;                       /* ga_dtype */
    int32_t causal, window, page_size;              /* window, page_size 0: none */
    int32_t tiles, splits;                          /* tiles of packed rows a kv head; parts of the keys */
    int32_t lanes;                                  /* that share a key: 8, 16 or 32, of 8 elements each */
    float scale, softcap;
} ga_kargs_attn_rows;

GA_KARGS_ASSERT(sizeof(ga_kargs_attn_rows) == 272);
GA_KARGS_ASSERT(sizeof(ga_tmap) == 128);
GA_KARGS_ASSERT(sizeof(ga_kargs_attn_fwd) == 704);
#endif
