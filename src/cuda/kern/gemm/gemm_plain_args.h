/* Arguments of the products of plain operands: one struct by value, the same bytes on the host and on the device. C11
 * and CUDA C. */
#ifndef GA_CUDA_KERN_GEMM_GEMM_PLAIN_ARGS_H
#define GA_CUDA_KERN_GEMM_GEMM_PLAIN_ARGS_H

#include "cuda/kern/gemm/gemm_args.h"

/* Arguments of the products of plain operands. Strides are in elements, between rows as they are stored. */
typedef struct ga_kargs_gemm_plain {
  ga_kargs_gemm g;
  int64_t w_stride;
  const float *x_scale, *w_scale; /* Scales of x and w. NULL: the operand has no scales. */
  int32_t layout;                 /* Bits GA_GEMM_XT and GA_GEMM_WT: the operand is stored transposed. */
  int32_t scales;                 /* Kind of scales, a ga_gemm_scales value. */
} ga_kargs_gemm_plain;

/* Arguments of gemm_tile_sm90a.cu, which computes whole tiles of Y. The boxes of the tensor maps are 128 bytes wide and
 * swizzled. A box of x has the rows of a tile, one of w a block's share of them, and one of y 16 rows. A box of a
 * transposed operand has the rows of k of one step. */
typedef struct ga_kargs_gemm_tile {
  ga_tmap x, w, y;
  ga_kargs_gemm_plain p;
  /* Number of tiles of Y along its rows (row_tiles) and along its columns (col_tiles). The tiles that a cluster
   * computes together count as one. */
  int32_t row_tiles, col_tiles;
  /* Number of rows of tiles that are processed together, so that they share columns of W in L2. */
  int32_t band;
  int32_t steps; /* Number of steps along k. A step is 128 bytes of each row. */
  /* 1: y is stored through its tensor map. This needs y of 16 bits, n a multiple of 8, and an epilogue with nothing but
   * the scale. */
  int32_t y_bulk;
  /* Number of parts of k, whose sums are added in p.g.partial. p.g.counter has one counter per warp and tile. */
  int32_t k_splits;
  uint64_t w_policy; /* L2 cache policy for loads of w. */
  int32_t unused[10];
} ga_kargs_gemm_tile;

GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm_plain) == 184);
GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm_tile) == 640);
#endif
