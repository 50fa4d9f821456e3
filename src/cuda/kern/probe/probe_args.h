/* Arguments of the kernels of `ga probe`, which measure a GPU: the same bytes on the host and on the device. This file
 * is both C11 and CUDA C. */
#ifndef GA_CUDA_KERN_PROBE_PROBE_ARGS_H
#define GA_CUDA_KERN_PROBE_PROBE_ARGS_H
#include <stdint.h>

typedef struct ga_kargs_probe {
  void *src, *dst;
  int64_t *cycles; /* Clock cycles that the loop took, one number for each thread block. */
  /* Number of 16-byte units of src and dst. For the kernel that follows pointers: number of 128-byte lines, a power of
   * two. */
  int64_t n;
  int32_t rounds; /* Number of repetitions of the loop. */
  int32_t cols;   /* For kernels that measure wgmma: N, the number of columns of the product. */
  /* For kernels that measure wgmma: 1 if operand A comes from registers, 0 if it comes from shared memory. */
  int32_t from_registers;
} ga_kargs_probe;

#endif
