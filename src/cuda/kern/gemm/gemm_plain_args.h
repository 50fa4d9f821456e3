/* Arguments of the products of plain operands, which are neither packed nor stored in quantised blocks. They have the
 * same bytes on the host and on the device. This file is both C11 and CUDA C. */
#ifndef GA_CUDA_KERN_GEMM_GEMM_PLAIN_ARGS_H
#define GA_CUDA_KERN_GEMM_GEMM_PLAIN_ARGS_H

#include "cuda/kern/gemm/gemm_args.h"

/* Arguments of the products of plain operands. Strides are in elements, between rows as they are stored in memory. */
typedef struct ga_kargs_gemm_plain {
  ga_kargs_gemm g;
  int64_t w_stride;
  const float *x_scale, *w_scale; /* Scales of x and w. NULL: the operand has no scales. */
  int32_t layout;                 /* Bits GA_GEMM_XT and GA_GEMM_WT: the operand is stored transposed. */
  int32_t scales;                 /* Kind of scales, a ga_gemm_scales value. */
} ga_kargs_gemm_plain;

/* Arguments of gemm_tile_sm90a.cu, which computes whole tiles of Y. The boxes of the tensor maps are 128 bytes wide and
 * swizzled.
 *
 * A box of x has the rows of a tile. A box of w has the share of one thread block in the tile's rows of W. A box of y
 * has 16 rows. If an operand is transposed, its box has the rows of k of one step. */
typedef struct ga_kargs_gemm_tile {
  ga_tmap x, w, y;
  ga_kargs_gemm_plain p;
  /* Number of tiles from the first to the last row of Y (row_tiles) and column of Y (col_tiles). The tiles that a
   * cluster computes together count as one. */
  int32_t row_tiles, col_tiles;
  /* Number of rows of tiles of Y that are processed together, so that they share data of W in L2. */
  int32_t band;
  int32_t steps; /* Number of steps along k. A step is 128 bytes of each row. */
  /* 1: y is stored through its tensor map. This needs y of 16 bits, n a multiple of 8, and an epilogue that only
   * scales. */
  int32_t y_bulk;
  /* Number of parts of k, whose sums are added in p.g.partial. p.g.counter has one counter per warp and tile. */
  int32_t k_splits;
  uint64_t w_policy; /* L2 cache policy for loads of w. */
  int32_t unused[10];
} ga_kargs_gemm_tile;

GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm_plain) == 184);
GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm_tile) == 640);
#endif
