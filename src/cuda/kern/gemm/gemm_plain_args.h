/* Arguments of the products of plain operands: one struct by value, the same bytes on the host and on the device. C11
 * and CUDA C. */
#ifndef GA_CUDA_KERN_GEMM_GEMM_PLAIN_ARGS_H
#define GA_CUDA_KERN_GEMM_GEMM_PLAIN_ARGS_H

#include "cuda/kern/gemm/gemm_args.h"

/* Strides are those of the rows as stored. */
typedef struct ga_kargs_gemm_plain {
  ga_kargs_gemm g;
  int64_t w_stride;
  const float *x_scale, *w_scale; /* null where there are no scales */
  int32_t layout;                 /* GA_GEMM_XT, GA_GEMM_WT */
  int32_t scales;                 /* ga_gemm_scales */
} ga_kargs_gemm_plain;

/* Arguments of gemm_tile_sm90a.cu, which works by whole tiles. Boxes of the maps are 128 bytes wide, swizzled. Their
 * rows are those of a tile, for w a block's share of them; for operands stored across, a step's rows of k; for y 16. */
typedef struct ga_kargs_gemm_tile {
  ga_tmap x, w, y;
  ga_kargs_gemm_plain p;
  int32_t row_tiles, col_tiles; /* tiles of a cluster */
  int32_t band;                 /* rows of tiles that share columns in L2 */
  int32_t steps;                /* steps of 128 bytes along k */
  /* 1: y has 16 bits, n is a multiple of 8, and the epilogue is only the scale, so y is written by its map */
  int32_t y_bulk;
  /* parts of k, whose sums are added in p.g.partial; p.g.counter has one count a warp and tile */
  int32_t k_splits;
  uint64_t w_policy; /* L2 policy of w */
  int32_t unused[10];
} ga_kargs_gemm_tile;

GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm_plain) == 184);
GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm_tile) == 640);
#endif
