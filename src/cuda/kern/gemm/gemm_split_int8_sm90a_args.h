/* Arguments of the products by a ring of packed weights (gemm_split_int8_sm90a.cu). C11 and CUDA C. */
#ifndef GA_CUDA_KERN_GEMM_GEMM_SPLIT_INT8_SM90A_ARGS_H
#define GA_CUDA_KERN_GEMM_GEMM_SPLIT_INT8_SM90A_ARGS_H

#include "cuda/kern/gemm/gemm_args.h"

/* Units in a stage of a ring: two where units are small. With an odd number of units along k, the last one has a stage
 * of its own. */
#define GA_RING_ITEM(unit_k, unit_bytes) ((unit_k) == 128 && (unit_bytes) < 2048 ? 2 : 1)
#define GA_RING_CONSTANTS                16   /* bytes of shared memory for constants */
#define GA_RING_SUM_K                    4096 /* largest k where X is a sum, which then stays in registers */
/* Bytes of a ring's barriers, 8 a stage, padded so that stages begin at lines of shared memory. */
#define GA_RING_BARS              128
#define GA_SPLIT_INT8_MAX_CLUSTER 4 /* most blocks of a cluster, whose sums are added */
/* Bytes of shared memory before the rings: a block's share, squares, a barrier. */
#define GA_RING_CONTROL 384

typedef struct ga_kargs_gemm_split_int8 {
  /* gemm.copies: columns of X in shared memory, three digits of each row. gemm.partial: null when the parts of k are
   * blocks of a cluster. */
  ga_kargs_gemm gemm;
  int32_t depth; /* items of W in the ring of a warp */
  /* Items of the ring that are copied before the previous kernel has ended; the others are issued after the loads of
   * X. */
  int32_t early;
  /* units of a part of k: units_each, and one more in the first units_longer parts */
  int32_t units_each, units_longer;
  /* tiles of a group of rows: tiles_each, and one more in the first tiles_longer groups */
  int32_t tiles_each, tiles_longer;
  /* Further matrices for the same X. Tiles are numbered consecutively over all matrices and then cut into groups; those
   * of the further matrices start at begin[]. gated: a group has the tiles of both matrices under the same numbers, and
   * begin[0] is gemm.tiles. */
  int32_t begin[2]; /* larger than all tile numbers: no such matrix */
  int32_t gated;
  float norm_eps;
  const float *norm; /* null: X is not normed */
  /* null, or: X is add + norm(x), one row of at most GA_RING_SUM_K elements. The pointer stands here, among the fields
   * that are read first. */
  const float *add;
  const float *add_norm; /* weights of the norm of x */
  float *sum;            /* null, or where the sum is also written */
  const void *w_more[2];
  void *y_more[2];
  const float *bias_more[2];
  int64_t n_more[2], y_more_stride[2];
  /* ends of the first two matrices where another one follows; gated: of both; else null */
  const void *end[2];
  /* gated, in bytes: hop[0] leads from the end of a tile of W to the gate's tile of the same number. hop[1] leads from
   * the end of the gate's tile to the next tile of W. */
  int64_t hop[2];
} ga_kargs_gemm_split_int8;

GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm_split_int8) == sizeof(ga_kargs_gemm) + 184);
#endif
