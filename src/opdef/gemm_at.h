/* Indices of elements and scales of a matrix product's operands (ga/gemm.h), for oracles, CPU kernels and checks. */
#ifndef GA_OPDEF_GEMM_AT_H
#define GA_OPDEF_GEMM_AT_H

#include <math.h>

#include "base/half.h"
#include "base/mem.h"
#include "ga/gemm.h"
#include "opdef/convert_at.h"

/* Returns the index of element i of row `row` of X, for both orders in which X may be stored. */
static inline int64_t ga_gemm_x_at(const ga_gemm_desc *d, int64_t row, int64_t i) {
  return d->flags & GA_GEMM_XT ? i * d->x_stride + row : row * d->x_stride + i;
}
/* Returns the index of element i of row `col` of W, for both orders in which W may be stored. */
static inline int64_t ga_gemm_w_at(const ga_gemm_desc *d, int64_t col, int64_t i) {
  return d->flags & GA_GEMM_WT ? i * d->w_stride + col : col * d->w_stride + i;
}

/* Returns the number of blocks that share a scale along a side of n elements. */
static inline int64_t ga_gemm_blocks(int64_t n) { return ga_div_up(n, GA_GEMM_SCALE_BLOCK); }
/* Returns the scale of element i of row `row` of X; 1 if there are no scales. */
static inline float ga_gemm_x_scale(const ga_gemm_desc *d, const ga_gemm_io *a, int64_t row, int64_t i) {
  if (d->scales == GA_GEMM_SCALES_NONE) return 1;
  return a->x_scale[d->scales == GA_GEMM_SCALES_TENSOR ? 0 : i / GA_GEMM_SCALE_BLOCK * d->m + row];
}
/* Returns the scale of element i of row `col` of W; 1 if there are no scales. */
static inline float ga_gemm_w_scale(const ga_gemm_desc *d, const ga_gemm_io *a, int64_t col, int64_t i) {
  if (d->scales == GA_GEMM_SCALES_NONE) return 1;
  return a->w_scale[d->scales == GA_GEMM_SCALES_TENSOR
                        ? 0
                        : col / GA_GEMM_SCALE_BLOCK * ga_gemm_blocks(d->k) + i / GA_GEMM_SCALE_BLOCK];
}

/* Rounds to e4m3 the n <= 128 elements of a row of X that share a scale, as GA_GEMM_X_E4M3 says. Writes x / scale,
 * rounded, to code[n], and returns the scale. */
static inline float ga_gemm_x_codes(const float *x, int64_t n, float *code) {
  float most = 0;
  for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i]));
  const float scale = ga_convert_scale(most);
  for (int64_t i = 0; i < n; i++) code[i] = ga_e4m3_to_f32(ga_f32_to_e4m3(x[i] / scale));
  return scale;
}

#endif
