/* Arguments of the 8-bit attention kernel and of its quantisers. This file is both C11 and CUDA C. */
#ifndef GA_CUDA_KERN_ATTN_FP8_ATTN_FP8_ARGS_H
#define GA_CUDA_KERN_ATTN_FP8_ATTN_FP8_ARGS_H
#include "cuda/kern/attn/attn_fwd_sm90a_args.h"

/* Scales of one tensor, for units of 64 tokens (int8 Q: of one token). The scale of unit i is data[batch index * batch
 * + head index * head + min(i >> shift, last) * block]. */
typedef struct {
  const float *data;
  int64_t batch, head, block; /* Strides of data between batches, heads and blocks, in elements. */
  /* shift is log2 of the number of units in a block; the units of a block share a scale. last is the index of the last
   * block. */
  int32_t shift, last;
} ga_kattn_scales;

/* Arguments of 8-bit attention. Tensors have one byte per element. q and k are (column, row, head, batch). v is (key,
 * value dimension, head, batch), with its keys in the order of ga/attn_quant.h.
 *
 * A box of q has 64 rows, and a box of k has BN rows. Both have 128 columns, or 64 if the head dimension is 64, and a
 * swizzle of the same width.
 *
 * A box of v has 128 keys of all value dimensions with the 128-byte swizzle. If BN is not a multiple of 128 it has 64
 * keys with the 64-byte swizzle. o is stored from registers. */
typedef struct {
  ga_kargs_attn_fwd fwd;
  ga_kattn_scales scale_q, scale_k, scale_v;
  /* Means of the columns of V, [batch][KV heads][dim]. They are added to rows of O that see a key. NULL: no means are
   * added. */
  const float *v_mean;
} ga_kargs_attn_fp8;

/* Arguments of the quantisers. A unit of work is 128 tokens of a head. For the means of V a unit is 64 columns of a
 * head, computed by `parts` thread blocks. Strides are in elements. For quantised V, y_token is the distance of value
 * dimensions in y. */
typedef struct {
  const void *x;
  void *y;
  float *scale; /* Scales that the kernel writes, [batch][heads][blocks]. */
  /* Scales that the caller gives, used if scale_tokens is 0. */
  const float *given;
  const int32_t *positions; /* Position of each token, [batch][tokens]. */
  const float *inv_freq;
  int64_t x_batch, x_token, x_head, y_batch, y_token, y_head, given_batch, given_head;
  int32_t tokens, heads, blocks; /* blocks is the number of scales per head, one for every scale_tokens tokens. */
  int32_t units_per_head, units;
  int32_t parts, scale_tokens, hadamard, rot_dim, pairs;
  float magnitude;
  /* Signs of the dimensions, 32 in a word. Bit 15 - i negates dimension 2 * i, and bit 31 - i negates dimension 2 * i +
   * 1. */
  uint32_t sign[8];
  int32_t centre; /* 1: the mean of each column of V is subtracted from its values. */
  float *mean;    /* Means of the columns of V, [batch][heads][dim], written or read. */
} ga_kargs_attn_quant;

GA_KARGS_ASSERT(sizeof(ga_kargs_attn_quant) == 200);
GA_KARGS_ASSERT(sizeof(ga_kattn_scales) == 40);
GA_KARGS_ASSERT(sizeof(ga_kargs_attn_fp8) == 1728 + 128);
#endif
