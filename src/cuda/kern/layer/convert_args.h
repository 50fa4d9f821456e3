/* Arguments of the conversion of x [rows, width] to e4m3 with scales. The struct has the same bytes on the host and on
 * the device. This file is both C11 and CUDA C. */
#ifndef GA_CUDA_KERN_LAYER_CONVERT_ARGS_H
#define GA_CUDA_KERN_LAYER_CONVERT_ARGS_H

#include <stdint.h>

typedef struct ga_kargs_convert {
  const void *x;
  void *y;
  float *scale;
  int64_t rows, width;
  int32_t x_dtype;
  int32_t blocks; /* 1: one scale for 128 x 128 elements. 0: one scale for 1 x 128 elements. */
  /* 1: rows begin at multiples of 16 bytes of x and of 4 bytes of y. */
  int32_t vec16;
  int32_t reserved;
} ga_kargs_convert;

#endif
