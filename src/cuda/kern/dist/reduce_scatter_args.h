/* Arguments of the sum of a reduce-scatter (reduce_scatter_sm80.cu): the same bytes on the host and on the device. This
 * file is both C11 and CUDA C. */
#ifndef GA_CUDA_KERN_DIST_REDUCE_SCATTER_ARGS_H
#define GA_CUDA_KERN_DIST_REDUCE_SCATTER_ARGS_H
#include <stdint.h>

typedef struct ga_kargs_reduce_scatter {
  const void *own; /* This rank's own term of the sum, a row of its x, [n]. */
  /* The other ranks' terms of the sum, rows of their x, in the order of ranks. They are row_bytes bytes apart. */
  const void *received;
  void *y; /* Result, [n]. */
  int64_t n, row_bytes;
  int32_t rank, ranks;
  int32_t vec16; /* 1: own, received, y and row_bytes are multiples of 16 bytes. */
  int32_t reserved;
} ga_kargs_reduce_scatter;

#endif
