/* Arguments of several products by packed weights in one launch (gemm_chain_sm90a.cu). C11 and CUDA C. */
#ifndef GA_CORE_KARGS_GEMM_CHAIN_H
#define GA_CORE_KARGS_GEMM_CHAIN_H

#include "core/kargs_gemm_ring.h"

enum { GA_CHAIN_LINKS = 8, GA_CHAIN_SHARE = 80 /* bytes of what a block keeps of a link */ };
/* Bytes of shared memory before the rings. */
#define GA_CHAIN_CONTROL(warps) (4 * (warps) + (warps) * GA_CHAIN_LINKS * 16 + GA_CHAIN_LINKS * GA_CHAIN_SHARE)

/* A product of one row of X; k in one part. Other blocks than its own have nothing of it. */
typedef struct ga_kargs_gemm_link {
  ga_kargs_gemm_ring ring; /* depth and early are the chain's */
  int32_t second;     /* W is of the second of the kernel's types */
  int32_t unit_bytes; /* of W */
  int32_t per;        /* units of an item: but for one, the last of an odd number */
  int32_t items;      /* of a tile */
  int32_t wait;       /* for all blocks to have ended the links before: this one reads what they write, or writes what they read */
  int32_t table;      /* bytes from the first link's table on to this one's */
  int32_t plain;      /* all tiles follow one another in memory, in items of one size */
  int32_t block;      /* its first; it has ring.gemm.groups of them */
} ga_kargs_gemm_link;

typedef struct ga_kargs_gemm_chain {
  ga_kargs_gemm_link link[GA_CHAIN_LINKS];
  int32_t *counter;   /* GA_CHAIN_LINKS + 1 zeroed words, left zeroed */
  int32_t n, waits;   /* links; of them, those that wait */
  int32_t tables, unused; /* bytes of all tables, behind the rings */
  int32_t depth, early; /* items in the ring of a warp; of those, asked for before the kernel ahead has ended */
} ga_kargs_gemm_chain;

GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm_chain) == GA_CHAIN_LINKS * (sizeof(ga_kargs_gemm_ring) + 32) + 32);
#endif
