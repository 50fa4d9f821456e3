/* Attention as its rows see it. */
#ifndef GA_OPDEF_ATTN_H
#define GA_OPDEF_ATTN_H

#include <stdbool.h>
#include <stdint.h>

/* Pairs of a query and a key that a mask leaves, of one head of one sequence. */
double ga_attn_pairs(int64_t max_q, int64_t max_kv, bool causal, int64_t window);

#endif
