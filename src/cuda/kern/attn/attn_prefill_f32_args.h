/* Arguments of the conversions before and after 16-bit attention: one struct by value, the same bytes on the host and
 * on the device. C11 and CUDA C. */
#ifndef GA_CUDA_KERN_ATTN_ATTN_PREFILL_F32_ARGS_H
#define GA_CUDA_KERN_ATTN_ATTN_PREFILL_F32_ARGS_H

#include <stdint.h>

/* y[batch, token, head, cols] = x[...]; strides in elements, cols a multiple of 8; types are ga_dtype, plain. */
typedef struct ga_kargs_attn_cast {
  const void *x;
  void *y;
  int64_t x_stride[3], y_stride[3]; /* batch, token, head */
  int64_t batch, tokens;
  int32_t heads, cols, x_dtype, y_dtype;
} ga_kargs_attn_cast;

#endif
