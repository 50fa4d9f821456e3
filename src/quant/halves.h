/* Rows of 16-bit floats, as base/half.h has each, without branches. y and x of 16 bits need no alignment. */
#ifndef GA_QUANT_HALVES_H
#define GA_QUANT_HALVES_H

#include <stdint.h>

void quant_floats_to_f16(const float *x, int64_t n, void *y);
void quant_floats_to_bf16(const float *x, int64_t n, void *y);
void quant_f16_to_floats(const void *x, int64_t n, float *y);
void quant_bf16_to_floats(const void *x, int64_t n, float *y);

#endif
