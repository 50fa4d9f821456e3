/* Arguments of the kernels that add up numbers of several devices (src/cuda/kern/dist): the same bytes on the host and
 * on the device. C11 and CUDA C. */
#ifndef GA_OPDEF_ALL_REDUCE_ARGS_H
#define GA_OPDEF_ALL_REDUCE_ARGS_H
#include <stdint.h>

#define GA_REDUCE_RANKS  8
#define GA_REDUCE_BLOCKS 64 /* of a launch, at most: all are on the device at once, since they wait for other devices */
#define GA_REDUCE_SLOTS  3
#define GA_REDUCE_UNIT   16 /* bytes that a thread moves at once */
/* Threads of a block: of the sum, and of the sum with a norm, where a block has a row. */
#define GA_REDUCE_THREADS      256
#define GA_REDUCE_NORM_THREADS 512

/* A block's record from one call to the next. Between two launches all blocks' records are equal. */
typedef struct ga_reduce_turn {
  int32_t slot;   /* of the call to come, 0 to GA_REDUCE_SLOTS - 1 */
  int32_t used;   /* units that the last call has used of the slot before this one, from its start */
  int32_t failed; /* not 0: a rank did not come; later calls do nothing */
  int32_t reserved;
} ga_reduce_turn;

/* In the rank's own device memory, zeros at first. Nothing else changes from call to call, so that a graph can be
 * launched again. */
typedef struct ga_reduce_state {
  ga_reduce_turn turn[GA_REDUCE_BLOCKS]; /* one a block */
  int32_t missing[GA_REDUCE_RANKS];      /* not 0: that rank did not come */
} ga_reduce_state;

typedef struct ga_kargs_all_reduce {
  const void *x; /* n elements; of the norm rows x width */
  void *y;
  void *residual;
  const float *weight;
  void *slots[GA_REDUCE_RANKS]; /* of each rank, as this one reaches it: GA_REDUCE_SLOTS x slot_units */
  ga_reduce_state *state;
  int64_t slot_units;
  int64_t n;
  int64_t rows, width;
  int64_t patience; /* cycles that a thread waits for one unit */
  int32_t rank, ranks;
  int32_t two_shot;
  float eps;
} ga_kargs_all_reduce;

#endif
