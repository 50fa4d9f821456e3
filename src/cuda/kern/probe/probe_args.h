/* Arguments of the probe kernels (ga probe): the same bytes on the host and on the device. C11 and CUDA C. */
#ifndef GA_CUDA_KERN_PROBE_PROBE_ARGS_H
#define GA_CUDA_KERN_PROBE_PROBE_ARGS_H
#include <stdint.h>

typedef struct ga_kargs_probe {
  void *src, *dst;
  int64_t *cycles; /* cycles of the loop, one number a block */
  /* 16-byte units of src and dst; chase: lines of 128 bytes, a power of two */
  int64_t n;
  int32_t rounds;         /* repetitions of the loop */
  int32_t cols;           /* wgmma: N */
  int32_t from_registers; /* wgmma: whether A comes from registers */
} ga_kargs_probe;

#endif
