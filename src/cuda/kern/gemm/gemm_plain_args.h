/* Arguments of the products of plain operands: one struct by value, the same bytes on the host and on the device. C11
 * and CUDA C. */
#ifndef GA_CUDA_KERN_GEMM_GEMM_PLAIN_ARGS_H
#define GA_CUDA_KERN_GEMM_GEMM_PLAIN_ARGS_H

#include "cuda/kern/gemm/gemm_args.h"

/* With strides of rows as they are stored. */
typedef struct ga_kargs_gemm_plain {
  ga_kargs_gemm g;
  int64_t w_stride;
  const float *x_scale, *w_scale; /* where scales are */
  int32_t layout;                 /* GA_GEMM_XT, GA_GEMM_WT */
  int32_t scales;                 /* ga_gemm_scales */
} ga_kargs_gemm_plain;

/* By whole tiles (gemm_tile_sm90a.cu). Boxes of the maps: 128 bytes, swizzled; rows: a tile's, for w a block's share of
 * them, of operands stored across a step's of k; for y 16. */
typedef struct ga_kargs_gemm_tile {
  ga_tmap x, w, y;
  ga_kargs_gemm_plain p;
  int32_t row_tiles, col_tiles; /* of a cluster's tile */
  int32_t band;                 /* rows of tiles that share columns in L2 */
  int32_t steps;                /* of 128 bytes along k */
  int32_t y_bulk; /* y is of 16 bits, n a multiple of 8, and there is nothing in the epilogue but scale: y leaves by its
                     map */
  int32_t k_splits;  /* of k, which meet in p.g.partial, counted by p.g.counter (one a warp and tile) */
  uint64_t w_policy; /* of L2 */
  int32_t unused[10];
} ga_kargs_gemm_tile;

GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm_plain) == 184);
GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm_tile) == 640);
#endif
