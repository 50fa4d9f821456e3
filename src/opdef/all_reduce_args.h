/* Arguments of the kernels that add up numbers of several devices (src/cuda/kern/dist): the same bytes on the host and
 * on the device. C11 and CUDA C. */
#ifndef GA_OPDEF_ALL_REDUCE_ARGS_H
#define GA_OPDEF_ALL_REDUCE_ARGS_H
#include <stdint.h>

#define GA_REDUCE_RANKS 8
/* the most blocks of a launch; all run at the same time, since they wait for other devices */
#define GA_REDUCE_BLOCKS 64
#define GA_REDUCE_SLOTS  3
#define GA_REDUCE_UNIT   16 /* bytes that a thread moves in one access */
/* Threads of a block: of the sum, and of the sum with a norm, where each block has one row. */
#define GA_REDUCE_THREADS      256
#define GA_REDUCE_NORM_THREADS 512

/* The state that a block keeps from one call to the next. Between two launches the states of all blocks are equal. */
typedef struct ga_reduce_turn {
  int32_t slot;   /* slot of the next call, 0 to GA_REDUCE_SLOTS - 1 */
  int32_t used;   /* units of the previous slot, from its start, that the last call used */
  int32_t failed; /* not 0: a rank did not send its data in time; later calls do nothing */
  int32_t reserved;
} ga_reduce_turn;

/* State in the rank's own device memory, initially zeros. Nothing else changes from call to call, so a graph can be
 * launched repeatedly. */
typedef struct ga_reduce_state {
  ga_reduce_turn turn[GA_REDUCE_BLOCKS]; /* [block] state of each block */
  int32_t missing[GA_REDUCE_RANKS];      /* [rank] not 0: that rank did not send its data in time */
} ga_reduce_state;

typedef struct ga_kargs_all_reduce {
  const void *x; /* n elements; for the norm rows x width */
  void *y;
  void *residual;
  const float *weight;
  /* [rank] slots of each rank as addresses of this device: GA_REDUCE_SLOTS x slot_units units */
  void *slots[GA_REDUCE_RANKS];
  ga_reduce_state *state;
  int64_t slot_units;
  int64_t n;
  int64_t rows, width;
  int64_t patience; /* GPU cycles that a thread waits for one unit */
  int32_t rank, ranks;
  int32_t two_shot; /* not 0: each rank adds up a part, and then all ranks gather the parts */
  float eps;
} ga_kargs_all_reduce;

#endif
