/* Arguments of the conversions before and after 16-bit attention: one struct by value, the same bytes on the host and
 * on the device. This file is both C11 and CUDA C. */
#ifndef GA_CUDA_KERN_ATTN_ATTN_PREFILL_F32_ARGS_H
#define GA_CUDA_KERN_ATTN_ATTN_PREFILL_F32_ARGS_H

#include <stdint.h>

/* Arguments of the copy y[batch, token, head, column] = x[batch, token, head, column] with a change of type. Strides
 * are in elements, and cols is a multiple of 8. x_dtype and y_dtype are GA_F32, GA_F16 or GA_BF16. */
typedef struct ga_kargs_attn_cast {
  const void *x;
  void *y;
  int64_t x_stride[3], y_stride[3]; /* Strides of batches, tokens and heads, in this order. */
  int64_t batch, tokens;
  int32_t heads, cols, x_dtype, y_dtype;
} ga_kargs_attn_cast;

#endif
