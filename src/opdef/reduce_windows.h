/* Windows of an all-reduce: memory of all GPUs, mapped into one of them, and the kernel that uses it. */
#ifndef GA_OPDEF_REDUCE_WINDOWS_H
#define GA_OPDEF_REDUCE_WINDOWS_H

#include "core/device.h"
#include "opdef/all_reduce_args.h"

/* The part of a ga_all_reduce on a GPU that its kernels use. It is the first field of ga_all_reduce. */
typedef struct ga_reduce_windows {
  ga_kargs_all_reduce args; /* the kernel's arguments, filled in as far as they are the same in all calls */
  int64_t one_shot_most;    /* largest number of units (GA_REDUCE_UNIT) of a call that is done in one shot */
  ga_function *sum;         /* function of the chosen kernel, loaded when the windows were made */
  int32_t sum_ranks;        /* number of ranks for which the kernel of `sum` was built */
} ga_reduce_windows;

/* Returns the largest size of x, in bytes, for which one shot is faster than two. One shot: each rank adds up all of x.
 * Two: it adds up a part, then all ranks gather the parts. */
static inline int64_t ga_reduce_one_shot_bytes(int32_t ranks) {
  if (ranks <= 2) return INT64_MAX;
  return ranks <= 4 ? 384 * 1024 : 128 * 1024;
}

#endif
