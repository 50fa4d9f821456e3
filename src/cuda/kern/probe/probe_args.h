/* Arguments of the probe kernels (ga probe): the same bytes on the host and on the device. C11 and CUDA C. */
#ifndef GA_CUDA_KERN_PROBE_PROBE_ARGS_H
#define GA_CUDA_KERN_PROBE_PROBE_ARGS_H
#include <stdint.h>

typedef struct ga_kargs_probe {
  void *src, *dst;
  int64_t *cycles; /* Clock cycles of the loop, one number for each thread block. */
  /* Number of 16-byte units of src and dst. For the kernel that chases pointers: number of 128-byte lines, a power of
   * two. */
  int64_t n;
  int32_t rounds; /* Number of repetitions of the loop. */
  int32_t cols;   /* Kernels of wgmma: N, the number of columns of the product. */
  /* Kernels of wgmma: 1 when the operand A comes from registers, 0 when it comes from shared memory. */
  int32_t from_registers;
} ga_kargs_probe;

#endif
