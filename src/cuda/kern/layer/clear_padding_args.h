/* Arguments of the clearing of padding: one struct by value, the same bytes on the host and on the device. C11 and CUDA
 * C. */
#ifndef GA_CUDA_KERN_LAYER_CLEAR_PADDING_ARGS_H
#define GA_CUDA_KERN_LAYER_CLEAR_PADDING_ARGS_H

#include <stdint.h>

/* One tensor of rows whose padding is cleared, and the strides between its rows and heads in units of `unit` bytes. */
typedef struct ga_kargs_padded {
  void *x; /* NULL: there is no tensor. */
  int64_t token, head;
  int32_t units; /* Units of a row of a head. */
  int32_t unit;  /* 16, or the bytes of an element where addresses or strides are no multiples of 16 bytes. */
} ga_kargs_padded;

/* Borders of the packed sequences of one side: queries, or keys and values. */
typedef struct ga_kargs_padded_side {
  ga_kargs_padded x[2];
  const int32_t *start, *len; /* len NULL: a sequence ends where the next one starts. */
  int64_t tokens;
  int32_t heads, tiles; /* tiles of as many rows as a block has threads. */
} ga_kargs_padded_side;

/* Arguments of the clearing of rows that no packed sequence has. */
typedef struct ga_kargs_clear_padding {
  ga_kargs_padded_side q, kv;
  float *lse; /* NULL: there is none. */
  int64_t batch, max_q;
  int64_t lse_stride; /* 0: lse is [batch, heads, max_q]. Otherwise it is [heads, lse_stride]. */
} ga_kargs_clear_padding;

#ifdef __cplusplus
static_assert(sizeof(ga_kargs_clear_padding) == 224, "the same bytes on the host and on the device");
#else
_Static_assert(sizeof(ga_kargs_clear_padding) == 224, "the same bytes on the host and on the device");
#endif

#endif
