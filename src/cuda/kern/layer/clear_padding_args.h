/* Arguments of clear_padding_sm80.cu, which clears padding: one struct by value, the same bytes on the host and on the
 * device. This file is both C11 and CUDA C. */
#ifndef GA_CUDA_KERN_LAYER_CLEAR_PADDING_ARGS_H
#define GA_CUDA_KERN_LAYER_CLEAR_PADDING_ARGS_H

#include <stdint.h>

/* A tensor of rows whose padding is cleared. token and head are the strides between its rows and heads, in units of
 * `unit` bytes. */
typedef struct ga_kargs_padded {
  void *x; /* Address of the tensor. NULL: there is no such tensor. */
  int64_t token, head;
  int32_t units; /* Number of units in a row of a head. */
  /* Bytes of a unit: 16, or the size of an element if addresses or strides are not multiples of 16 bytes. */
  int32_t unit;
} ga_kargs_padded;

/* The tensors of one side, queries or keys and values, and the borders of its packed sequences. */
typedef struct ga_kargs_padded_side {
  ga_kargs_padded x[2];
  /* First rows and lengths of the sequences. len NULL: a sequence ends where the next one starts. */
  const int32_t *start, *len;
  int64_t tokens;
  /* tiles is the number of tiles of tokens; a tile has as many rows as a thread block has threads. */
  int32_t heads, tiles;
} ga_kargs_padded_side;

/* Arguments of the kernel that clears rows outside all packed sequences. It sets the LSE of queries outside all
 * sequences to -infinity. */
typedef struct ga_kargs_clear_padding {
  ga_kargs_padded_side q, kv;
  float *lse; /* Log-sum-exps of the queries. NULL: there are none. */
  int64_t batch, max_q;
  int64_t lse_stride; /* 0: lse is [batch, heads, max_q]. Otherwise lse is [heads, lse_stride]. */
} ga_kargs_clear_padding;

#ifdef __cplusplus
static_assert(sizeof(ga_kargs_clear_padding) == 224, "the same bytes on the host and on the device");
#else
_Static_assert(sizeof(ga_kargs_clear_padding) == 224, "the same bytes on the host and on the device");
#endif

#endif
