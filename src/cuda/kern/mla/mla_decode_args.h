/* Arguments of the Hopper kernel of latent attention, mla_decode: one struct by value, the same bytes on the host and
 * on the device. This file is both C11 and CUDA C. */
#ifndef GA_CUDA_KERN_MLA_MLA_DECODE_ARGS_H
#define GA_CUDA_KERN_MLA_MLA_DECODE_ARGS_H
#include "cuda/kern/mla/mla_args.h"

/* Both maps see the cache as [panel of 64 elements][row][64 elements]. A box of `latent` has four panels, a box of
 * `rope` has one. */
typedef struct {
  ga_tmap latent, rope;
  ga_kargs_mla m;
  int32_t box_rows; /* Rows of a box: 8 to 64, all of one page. */
  float scale;      /* The absolute value of m.scale, times log2 e: to logits in log2 units. */
  int32_t cluster;  /* Number of blocks of a cluster: 1, 2, 4 or 8; m.splits is a multiple. */
  int32_t reserved[13];
} ga_kargs_mla_decode;

GA_KARGS_ASSERT(sizeof(ga_kargs_mla_decode) == 512);
#endif
