/* Arguments of the fp8 attention kernel and of its quantiser. C11 and CUDA C. */
#ifndef GA_CORE_KARGS_ATTN_FP8_H
#define GA_CORE_KARGS_ATTN_FP8_H
#include "core/kargs_attn.h"

/* Scales of one tensor: data[batch * batch_stride + head * head_stride + min(token / 64 >> shift, last) * block_stride]. */
typedef struct {
    const float *data;
    int64_t batch, head, block; /* strides */
    int32_t shift, last;        /* 0: blocks of 64 tokens, 1: of 128; the last block */
} ga_kattn_scales;

/* Maps: (column, row, head, batch) of bytes, q and k as in ga_kargs_attn_fwd; v is (key, value dim, head, batch), its keys
 * in the order of ga/attn_quant.h. Boxes: q 64 rows, k 128, of 128 columns (64 when there are no more), swizzle as wide;
 * v 128 keys of all value dims, swizzle 128 B. o is stored from registers. */
typedef struct {
    ga_kargs_attn_fwd fwd;
    ga_kattn_scales scale_q, scale_k, scale_v;
    int64_t unused[1];
} ga_kargs_attn_fp8;

GA_KARGS_ASSERT(sizeof(ga_kattn_scales) == 40);
GA_KARGS_ASSERT(sizeof(ga_kargs_attn_fp8) == 1728 + 128);
#endif
