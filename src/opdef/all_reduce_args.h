/* Arguments of the kernels that add up arrays of several devices (src/cuda/kern/dist), with the same layout on the host
 * and on the device. The header is valid C11 and CUDA C. */
#ifndef GA_OPDEF_ALL_REDUCE_ARGS_H
#define GA_OPDEF_ALL_REDUCE_ARGS_H
#include <stdint.h>

#define GA_REDUCE_RANKS 8
/* largest number of thread blocks of a launch; all run at the same time, since they wait for other devices */
#define GA_REDUCE_BLOCKS 64
#define GA_REDUCE_SLOTS  3
#define GA_REDUCE_UNIT   16 /* a unit: the number of bytes that a thread moves in one access */
/* Numbers of threads of a block: in the plain sum, and in the sum with a norm, where a block computes one row. */
#define GA_REDUCE_THREADS      256
#define GA_REDUCE_NORM_THREADS 512

/* The state that a thread block keeps from one call to the next. Between two launches the states of all blocks are
 * equal. */
typedef struct ga_reduce_turn {
  int32_t slot; /* slot of the next call, 0 to GA_REDUCE_SLOTS - 1 */
  /* number of units (GA_REDUCE_UNIT), from the start of the previous slot on, that the last call used */
  int32_t used;
  int32_t failed; /* not 0: a rank did not send its data in time; later calls do nothing */
  int32_t reserved;
} ga_reduce_turn;

/* The state of all blocks, in the rank's own device memory, initially zeros. Nothing else changes from call to call, so
 * a graph can be launched repeatedly. */
typedef struct ga_reduce_state {
  ga_reduce_turn turn[GA_REDUCE_BLOCKS]; /* [block] state of each block */
  int32_t missing[GA_REDUCE_RANKS];      /* [rank] not 0: that rank did not send its data in time */
} ga_reduce_state;

typedef struct ga_kargs_all_reduce {
  const void *x; /* array of n elements; in the sum with a norm, of rows x width elements */
  void *y;
  void *residual;
  const float *weight;
  /* [rank] memory with the slots of each rank, mapped on this device: GA_REDUCE_SLOTS x slot_units units */
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
