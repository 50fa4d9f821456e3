/* Quantisers from f32 to one block of a GGUF type. They are simple and repeatable, not the best fit. The scale of each
 * run (elements that share one) is computed from its extreme values. Each element gets the nearest code.
 * src/ref/ref_dequant.c defines the meaning of the codes.
 *
 * Infinities and NaN have no code and are replaced by 0. The error of an element is at most half a step of its run,
 * plus the rounding error of the block's scales. */
#ifndef GA_BASE_QUANT_H
#define GA_BASE_QUANT_H

#include "ga/tensor.h"

#define GA_QUANT_MAX_BLOCK 256

/* Quantises one block to a block type `dtype`. x has the floats of a block, and block receives its bytes. */
void ga_quantise_block(ga_dtype dtype, const float *x, void *block);

#endif
