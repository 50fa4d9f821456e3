/* Random tensors in host memory. */
#ifndef GA_VERIFY_DIST_DRAW_H
#define GA_VERIFY_DIST_DRAW_H

#include "ga/ctx.h"

/* Allocates n + 1 zeros, which the caller frees. */
GA_NODISCARD ga_status dist_new_floats(int64_t n, float **out);
/* Fills x[n] with sums of uniform numbers around 0, which are nearly normally distributed. */
void dist_fill_random(float *x, int64_t n, uint64_t seed);
/* Converts n numbers from type `from` to type `to`; x and y are memory of ctx. */
GA_NODISCARD ga_status dist_convert(ga_ctx *ctx, int32_t from, const void *x, int32_t to, void *y, int64_t n);

#endif
