/* Flags of attention's kernels, and the work of a call. */
#ifndef GA_OPDEF_ATTN_H
#define GA_OPDEF_ATTN_H

#include <stdbool.h>
#include <stdint.h>

/* Flags of attention's kernels, for ga_kernel.op_flags. */
typedef enum ga_attn_row_flags {
  GA_ATTN_ROW_V_FINITE = 1, /* a non-finite element of V may spread over its column of O (ga/attn.h) */
  /* Flags of a kernel's rounding, which determines the allowed error of its results. */
  GA_ATTN_ROW_AS_KV = 2,      /* Q and O are rounded to the type of K and V */
  GA_ATTN_ROW_WEIGHTS_16 = 4, /* softmax weights are rounded to the type of V before they multiply V */
  /* Flags of ga_attn_desc that a kernel supports. */
  GA_ATTN_ROW_FAST_SUM = 8,  /* supports GA_ATTN_FAST_SUM: sums e4m3 products over all keys in the tensor cores */
  GA_ATTN_ROW_INVARIANT = 16 /* supports GA_ATTN_INVARIANT */
} ga_attn_row_flags;

/* Flags of the kernels of latent attention, for ga_kernel.op_flags. */
typedef enum ga_mla_row_flags {
  GA_MLA_ROW_INVARIANT = 1, /* supports GA_MLA_INVARIANT */
  /* Flags of a kernel's rounding, which determines the allowed error of its results. */
  GA_MLA_ROW_AS_KV = 2,     /* Q is rounded to the type of the cache */
  GA_MLA_ROW_WEIGHTS_16 = 4 /* softmax weights are rounded to the type of the cache before they multiply it */
} ga_mla_row_flags;

/* Returns the number of pairs of a query and a key that are not masked, for one head of one sequence. */
double ga_attn_pairs(int64_t max_q, int64_t max_kv, bool causal, int64_t window);

#endif
