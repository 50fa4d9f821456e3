/* Windows of an all-reduce: memory of all GPUs, as one of them has mapped it, and the kernel that uses it. */
#ifndef GA_OPDEF_REDUCE_WINDOWS_H
#define GA_OPDEF_REDUCE_WINDOWS_H

#include "core/device.h"
#include "opdef/all_reduce_args.h"

/* Begins a ga_all_reduce on a GPU: rows of the table see this much of it. */
typedef struct ga_reduce_windows {
  ga_kargs_all_reduce args; /* what is the same in all calls */
  int64_t one_shot_most;    /* units that go in one shot */
  ga_function *sum;         /* kernel of the row that is chosen, loaded when the windows were made */
  int32_t sum_ranks;        /* of that row */
} ga_reduce_windows;

/* Bytes of x up to which one shot is the faster way. */
static inline int64_t ga_reduce_one_shot_bytes(int32_t ranks) {
  if (ranks <= 2) return INT64_MAX;
  return ranks <= 4 ? 384 * 1024 : 128 * 1024;
}

#endif
