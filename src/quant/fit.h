/* Quantises into blocks of a GGUF type with a small error: scales are searched for, codes are the nearest ones.
 *
 * The error of a block is the sum of w (x - y)^2, where y is the dequantised block, with its scales rounded as stored.
 * For iq4_nl and iq4_xs it is the sum of w sqrt(x^2 + 2 mean x^2) (x - y)^2, with the mean over the block. It is at
 * most the error of ga_quantise_block (base/quant.h), whose scales are always tried. */
#ifndef GA_QUANT_FIT_H
#define GA_QUANT_FIT_H

#include "base/compiler.h"
#include "ga/tensor.h"

/* Quantises n blocks. x: finite values, at most QUANT_MOST_VALUE in magnitude. w: as many weights, at least 0, of mean
 * near 1, not all 0 in a block; NULL: all equal. A block does not depend on its neighbours. */
void quant_fit_blocks(ga_dtype dtype, const float *x, const float *w, int64_t n, uint8_t *blocks);
/* True for the types that quant_fit_blocks can write. */
bool quant_fits(ga_dtype dtype);

/* The largest f16: scales of blocks hold no more. */
#define QUANT_MOST_VALUE 65504.0f
/* Values of a block that are all smaller than this are written as 0: f16 scales end at 6e-8. */
#define QUANT_LEAST_VALUE 1e-12f

/* Quantises one block of values that are not all nearly 0, with weights. The lookups below return NULL for types of
 * other files. They exist because the functions must be local to their files: compilers export the functions that they
 * clone. */
typedef void (*quant_fit_fn)(const float *x, const float *w, uint8_t *b);
quant_fit_fn quant_fit_k(ga_dtype dtype);     /* fit_k.c: blocks of 256 with a scale for each run */
quant_fit_fn quant_fit_table(ga_dtype dtype); /* fit_table.c: codes that are indices into a table */
/* Quantises 1 to 8 blocks, as quant_fit_blocks does. */
typedef void (*quant_fit_eight_fn)(const float *x, const float *w, int n, uint8_t *b);
quant_fit_eight_fn quant_fit_one(ga_dtype dtype); /* fit_one.c: blocks of 32 with one scale */

#endif
