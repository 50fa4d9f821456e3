/* Quantisers from f32 to one block of a GGUF type. They are simple and repeatable, not the best fit: scales come from
 * the extreme values of each run, codes are the nearest ones. src/ref/ref_dequant.c defines what the codes mean.
 *
 * Infinities and NaN have no code: they are taken as 0. The error of an element is at most half a step of its run, plus
 * the rounding error of the block's scales. */
#ifndef GA_BASE_QUANT_H
#define GA_BASE_QUANT_H

#include "ga/tensor.h"

#define GA_QUANT_MAX_BLOCK 256

/* Quantises one block. dtype: a block type; x: its block_elems floats; block: its block_bytes. */
void ga_quantise_block(ga_dtype dtype, const float *x, void *block);

#endif
