/* Arguments of the products by a ring of packed weights (gemm_split_int8_sm90a.cu). C11 and CUDA C. */
#ifndef GA_CUDA_KERN_GEMM_GEMM_SPLIT_INT8_SM90A_ARGS_H
#define GA_CUDA_KERN_GEMM_GEMM_SPLIT_INT8_SM90A_ARGS_H

#include "cuda/kern/gemm/gemm_args.h"

/* Units that a stage of a ring holds, the last of an odd number along k alone: small ones go by two. */
#define GA_RING_ITEM(unit_k, unit_bytes) ((unit_k) == 128 && (unit_bytes) < 2048 ? 2 : 1)
#define GA_RING_CONSTANTS                16   /* bytes of shared memory, of constants */
#define GA_RING_SUM_K                    4096 /* most of k where X is a sum: it stays in registers */
/* Bytes of its barriers, 8 a stage; so many that stages begin at lines of shared memory. */
#define GA_RING_BARS              128
#define GA_SPLIT_INT8_MAX_CLUSTER 4 /* most blocks of a cluster, whose sums meet */
#define GA_RING_CONTROL \
  384 /* bytes of shared memory before the rings: what a block keeps of its share, squares, a barrier */

typedef struct ga_kargs_gemm_split_int8 {
  ga_kargs_gemm gemm; /* copies: columns of X in shared memory, three digits of each row; partial: null when parts of k
                         are blocks of a cluster */
  int32_t depth;      /* items of W in the ring of a warp */
  int32_t early;      /* of those, asked for before the kernel ahead has ended; the others behind the loads of X */
  int32_t units_each, units_longer; /* of a part of k: so many, and one more in the first parts */
  int32_t tiles_each, tiles_longer; /* of a group of rows, likewise */
  /* Further matrices of the same X. Their tiles follow those of the first in the numbers that are cut into groups, from
   * begin on; gated: a group has the tiles of both matrices, which have the same numbers, and begin[0] is gemm.tiles.
   * */
  int32_t begin[2]; /* above all tiles: no such matrix */
  int32_t gated;
  float norm_eps;
  const float *norm; /* null: X is not normed */
  const float *add;  /* null, or: X is add + norm(x), one row of GA_RING_SUM_K elements at most. Here, where it comes
                        with what is read first */
  const float *add_norm; /* the weights of that norm */
  float *sum;            /* null, or where it goes, too */
  const void *w_more[2];
  void *y_more[2];
  const float *bias_more[2];
  int64_t n_more[2], y_more_stride[2];
  const void *end[2]; /* of the first two, where another follows; gated: of both; else null */
  int64_t hop[2];     /* gated: from behind a tile of W to the gate's, from behind that to the next of W */
} ga_kargs_gemm_split_int8;

GA_KARGS_GEMM_ASSERT(sizeof(ga_kargs_gemm_split_int8) == sizeof(ga_kargs_gemm) + 184);
#endif
