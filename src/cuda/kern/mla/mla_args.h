/* Arguments of the kernels of latent attention (ga/mla.h): one struct by value, the same bytes on the host and on the
 * device. This file is both C11 and CUDA C. */
#ifndef GA_CUDA_KERN_MLA_MLA_ARGS_H
#define GA_CUDA_KERN_MLA_MLA_ARGS_H
#include "cuda/dev/tmap.h"

/* A packed row is a pair of a query and a head. A sequence has query_rows of them for each query: rows of heads from
 * q_heads on do not exist. A tile has consecutive packed rows of one sequence. A unit is the work for one tile, and
 * `splits` blocks share its keys. Strides are in elements, except row_bytes. */
typedef struct {
  const void *q, *cache;
  void *o;
  /* lse receives the log-sum-exp of each row, natural log, as [q_heads][lse_stride]. NULL: not written. */
  float *lse;
  /* q_start holds the first token of each sequence in q and o, and the end of the last one. kv_len holds the number of
   * cached tokens of each sequence. page_table holds their pages, page_stride entries a sequence. */
  const int32_t *q_start, *kv_len, *page_table;
  /* Workspace for partial results, used if splits is above 1: [unit][split][tile row][mla_partial_floats(v_dim)]. A row
   * has unnormalised O, then its maximum in log2 units and its sum of weights (mla_merge.h). */
  float *partial;
  /* One counter per unit, used if splits is above 1. The counters are 0 before the launch, and the kernel leaves them
   * 0. */
  int32_t *counter;
  int64_t q_token, o_token, lse_stride, page_stride;
  int64_t tokens;           /* Number of tokens in q and o. Rows of later tokens are neither read nor written. */
  int32_t q_heads;          /* Number of heads. */
  int32_t head_dim;         /* Elements of a row of the cache and of a head of q. */
  int32_t v_dim;            /* Elements of a head of o. */
  int32_t row_bytes;        /* Bytes of a row of the cache. */
  int32_t page_size;        /* Number of rows of a page. */
  int32_t q_dtype, o_dtype; /* Types of Q and O, ga_dtype values. */
  int32_t query_rows;       /* Packed rows of a query, at least q_heads. */
  int32_t tiles;            /* Tiles of a sequence of the largest number of queries. */
  int32_t splits;           /* Parts into which the keys of a unit are divided. */
  float scale;              /* Factor of dot products: logits. */
  int32_t reserved;
} ga_kargs_mla;

GA_KARGS_ASSERT(sizeof(ga_kargs_mla) == 160);
#endif
