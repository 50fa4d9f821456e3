/* Random tensors in host memory. */
#ifndef GA_VERIFY_DIST_DRAW_H
#define GA_VERIFY_DIST_DRAW_H

#include "ga/ctx.h"

/* Allocates n + 1 floats of 0, which the caller frees with free. */
GA_NODISCARD ga_status dist_new_floats(int64_t n, float **out);
/* Fills x[n] with random numbers that are nearly normally distributed around 0 (sums of uniform numbers). */
void dist_fill_random(float *x, int64_t n, uint64_t seed);
/* Converts n numbers from type `from` to type `to` (ga_dtype). x and y are memory of ctx's device. */
GA_NODISCARD ga_status dist_convert(ga_ctx *ctx, int32_t from, const void *x, int32_t to, void *y, int64_t n);

#endif
