/* Quantisers: f32 into one block of a GGUF type. Simple and repeatable, not the best fit: codes are the nearest ones
 * for scales taken from the extreme values of each run. src/ref/ref_dequant.c defines what the codes mean.
 *
 * Infinities and NaN have no code: they are taken as 0. The error of an element is at most half a step of its run,
 * plus what rounding the scales to the block's own small formats costs. */
#ifndef GA_BASE_QUANT_H
#define GA_BASE_QUANT_H

#include "ga/tensor.h"

#define GA_QUANT_MAX_BLOCK 256

/* x: block_elems floats of dtype, a block type; block: its block_bytes. */
void ga_quantise_block(ga_dtype dtype, const float *x, void *block);

#endif
