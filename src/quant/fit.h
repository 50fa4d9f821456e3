/* Quantises values into blocks of a GGUF type with a small error. A search finds the scales; each value gets the
 * nearest code.
 *
 * The error of a block is the sum of w (x - y)^2, where y is the dequantised block, with its scales rounded as stored.
 * For iq4_nl and iq4_xs it is the sum of w sqrt(x^2 + 2 mean x^2) (x - y)^2, with the mean over the block. It is at
 * most the error of ga_quantise_block (base/quant.h), since the search includes that function's scales. */
#ifndef GA_QUANT_FIT_H
#define GA_QUANT_FIT_H

#include "base/compiler.h"
#include "ga/tensor.h"

/* Quantises n blocks. x: finite values, at most QUANT_MOST_VALUE in magnitude. w: a weight of the error of each value,
 * at least 0, of mean near 1, not all 0 in a block; NULL: all equal. A block does not depend on other blocks. */
void quant_fit_blocks(ga_dtype dtype, const float *x, const float *w, int64_t n, uint8_t *blocks);
/* Returns whether quant_fit_blocks can write a type. */
bool quant_fits(ga_dtype dtype);

/* The largest finite f16, and thus the largest scale of a block. */
#define QUANT_MOST_VALUE 65504.0f
/* A block whose magnitudes are all below this is written as zeros, since the smallest f16 scale is 6e-8. */
#define QUANT_LEAST_VALUE 1e-12f

/* A function that quantises one block of values, which are not all nearly 0. w: weights of the values' errors. Such
 * functions are static, because compilers export functions that they clone for instruction sets. */
typedef void (*quant_fit_fn)(const float *x, const float *w, uint8_t *b);

/* Returns the function for a type with blocks of 256 and a scale for each run in a block (fit_k.c); NULL for other
 * types. */
quant_fit_fn quant_fit_k(ga_dtype dtype);
/* Returns the function for a type whose codes are indices into a table (fit_table.c); NULL for other types. */
quant_fit_fn quant_fit_table(ga_dtype dtype);
/* A function that quantises n blocks, 1 to 8. w: weights of the values' errors; NULL: all equal. */
typedef void (*quant_fit_eight_fn)(const float *x, const float *w, int n, uint8_t *b);
/* Returns the function for a type with blocks of 32 and one scale (fit_one.c); NULL for other types. */
quant_fit_eight_fn quant_fit_one(ga_dtype dtype);

#endif
