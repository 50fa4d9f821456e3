/* Arguments of the products with few rows of X, whose packed weights pass through rings in shared memory
 * (gemm_split_int8_sm90a.cu). This file is both C11 and CUDA C. */
#ifndef GA_CUDA_KERN_GEMM_GEMM_SPLIT_INT8_SM90A_ARGS_H
#define GA_CUDA_KERN_GEMM_GEMM_SPLIT_INT8_SM90A_ARGS_H

#include "cuda/kern/gemm/gemm_args.h"

/* Number of units of packed weights (gemm_args.h) in a stage of a ring. It is two if a unit has 128 elements along k
 * and less than 2048 bytes, else one. With an odd number of units along k, the last unit has a stage of its own. */
#define GA_RING_ITEM(unit_k, unit_bytes) ((unit_k) == 128 && (unit_bytes) < 2048 ? 2 : 1)
#define GA_RING_CONSTANTS                16   /* Bytes of shared memory for constants (packed_constants). */
#define GA_RING_SUM_K                    4096 /* Largest k for which X may be a sum of two tensors. */
/* Bytes of a ring's mbarriers: 8 bytes for each stage, padded to 128 bytes, so that stages begin at a multiple of
 * 128. */
#define GA_RING_BARS 128
/* Largest number of thread blocks of a cluster whose sums are added. */
#define GA_SPLIT_INT8_MAX_CLUSTER 4
/* Bytes of shared memory before the rings, for a block's share of the work, sums of squares and an mbarrier. */
#define GA_RING_CONTROL 384

typedef struct ga_kargs_gemm_split_int8 {
  /* Arguments common to all products. gemm.copies is the number of columns of operand B in shared memory: one for each
   * part (digit or bf16 number) of each row of X. gemm.partial is NULL if the parts of k are blocks of a cluster. */
  ga_kargs_gemm gemm;
  int32_t depth; /* Number of stages of W in the ring of a warp. */
  /* Number of stages of a ring whose copies start before the previous kernel has ended. The other copies start after
   * the loads of X. */
  int32_t early;
  /* Each part of k has units_each units, and the first units_longer parts have one more. */
  int32_t units_each, units_longer;
  /* Each group of rows of W has tiles_each tiles, and the first tiles_longer groups have one more. */
  int32_t tiles_each, tiles_longer;
  /* Numbers of the first tiles of the second and third matrix, which multiply the same X. Tiles are numbered
   * consecutively over all matrices and then divided into groups.
   *
   * With `gated`, a group has the tiles of both matrices under the same numbers, and begin[0] is gemm.tiles. */
  int32_t begin[2]; /* A number above all tile numbers: the matrix does not exist. */
  int32_t gated;    /* 1: w_more[0] is a gate G, and Y = act(X G^T) * (X W^T). 0: there is no gate. */
  float norm_eps;
  const float *norm; /* Weights of the norm of X, [k]. NULL: X is not normed. */
  /* First term of the sum X = add + norm(x), one row of at most GA_RING_SUM_K elements. NULL: no sum. The field stands
   * here because it is read early. */
  const float *add;
  const float *add_norm; /* Weights of norm(x) in the sum X = add + norm(x), [k]. */
  float *sum;            /* Address to which the sum X = add + norm(x) is also written. NULL: not written. */
  /* Second and third matrix, and the fields of their products: Y, bias, number of rows of the matrix, stride of Y. */
  const void *w_more[2];
  void *y_more[2];
  const float *bias_more[2];
  int64_t n_more[2], y_more_stride[2];
  /* Addresses of the ends of W and of w_more[0]. Without `gated`, NULL if no further matrix follows. */
  const void *end[2];
  /* Distances in bytes, used with `gated`. hop[0] leads from the end of a tile of W to the gate's tile with the same
   * number. hop[1] leads from the end of the gate's tile to the next tile of W. */
  int64_t hop[2];
} ga_kargs_gemm_split_int8;

GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm_split_int8) == sizeof(ga_kargs_gemm) + 184);
#endif
