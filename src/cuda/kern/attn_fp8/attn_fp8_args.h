/* Arguments of the 8-bit attention kernel and of its quantiser. C11 and CUDA C. */
#ifndef GA_CUDA_KERN_ATTN_FP8_ATTN_FP8_ARGS_H
#define GA_CUDA_KERN_ATTN_FP8_ATTN_FP8_ARGS_H
#include "cuda/kern/attn/attn_fwd_sm90a_args.h"

/* Scales of one tensor: data[batch * batch_stride + head * head_stride + min(i >> shift, last) * block_stride]. */
typedef struct {
  const float *data;
  int64_t batch, head, block; /* strides */
  /* i counts units of 64 tokens, for an int8 Q single tokens; a block is 2^shift of them; last is the last block */
  int32_t shift, last;
} ga_kattn_scales;

/* Maps: (column, row, head, batch) of bytes, q and k as in ga_kargs_attn_fwd; v is (key, value dim, head, batch), its
 * keys in the order of ga/attn_quant.h. Boxes: q 64 rows, k BN, of 128 columns (64 when there are no more), swizzle as
 * wide; v 128 keys of all value dims, swizzle 128 B (64 and 64 B when BN is not a multiple of 128);
 * o is stored from registers. */
typedef struct {
  ga_kargs_attn_fwd fwd;
  ga_kattn_scales scale_q, scale_k, scale_v;
  const float *v_mean; /* [batch][kv heads][dim], added to rows that see a key; null: no means */
} ga_kargs_attn_fp8;

/* Arguments of the quantisers. Tokens of a head are processed in units of 128. For the means of V a unit is 64 columns
 * of a head, computed by `parts` blocks. Strides are in elements; for values y_token is the distance of dims. */
typedef struct {
  const void *x;
  void *y;
  float *scale;             /* [batch][heads][blocks] */
  const float *given;       /* scales to use when scale_tokens is 0 */
  const int32_t *positions; /* [batch][tokens] */
  const float *inv_freq;
  int64_t x_batch, x_token, x_head, y_batch, y_token, y_head, given_batch, given_head;
  int32_t tokens, heads, blocks; /* blocks of scale_tokens tokens, per head */
  int32_t units_per_head, units;
  int32_t parts, scale_tokens, hadamard, rot_dim, pairs;
  float magnitude;
  uint32_t sign[8]; /* signs of a word's 32 dims: bit 15 - i negates dim 2 i, bit 31 - i negates dim 2 i + 1 */
  int32_t centre;   /* subtract the means of the values' columns */
  float *mean;      /* [batch][heads][dim] */
} ga_kargs_attn_quant;

GA_KARGS_ASSERT(sizeof(ga_kargs_attn_quant) == 200);
GA_KARGS_ASSERT(sizeof(ga_kattn_scales) == 40);
GA_KARGS_ASSERT(sizeof(ga_kargs_attn_fp8) == 1728 + 128);
#endif
