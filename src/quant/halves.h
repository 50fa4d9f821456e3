/* Conversion of rows between f32 and 16-bit floats, without branches, with the same results as base/half.h. 16-bit
 * arrays need no alignment. */
#ifndef GA_QUANT_HALVES_H
#define GA_QUANT_HALVES_H

#include <stdint.h>

void quant_floats_to_f16(const float *x, int64_t n, void *y);
void quant_floats_to_bf16(const float *x, int64_t n, void *y);
void quant_f16_to_floats(const void *x, int64_t n, float *y);
void quant_bf16_to_floats(const void *x, int64_t n, float *y);

#endif
