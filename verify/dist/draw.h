/* Random tensors in host memory. */
#ifndef GA_VERIFY_DIST_DRAW_H
#define GA_VERIFY_DIST_DRAW_H

#include "ga/ctx.h"

/* n zeros and one more, in malloc'd memory. */
GA_NODISCARD ga_status dist_new_floats(int64_t n, float **out);
/* Fills x[n] with sums of uniform numbers, around 0: near enough to normal. */
void dist_fill_random(float *x, int64_t n, uint64_t seed);
/* Converts n numbers in memory that ctx reads. */
GA_NODISCARD ga_status dist_convert(ga_ctx *ctx, int32_t from, const void *x, int32_t to, void *y, int64_t n);

#endif
