/* Blocks that share a scale in a conversion (ga_convert of ga/layer.h), for oracles and CPU kernels. */
#ifndef GA_OPDEF_CONVERT_AT_H
#define GA_OPDEF_CONVERT_AT_H

#include "base/mem.h"
#include "ga/layer.h"

#define GA_CONVERT_BLOCK   128
#define GA_CONVERT_LARGEST 448 /* the largest e4m3 number */

/* Returns the scale of a block whose largest magnitude is `most`. */
static inline float ga_convert_scale(float most) {
  const float scale = most / GA_CONVERT_LARGEST;
  return scale > 0 ? scale : 1;
}
/* Returns the number of rows of a block, whose elements share a scale. */
static inline int64_t ga_convert_block_rows(const ga_convert_desc *d) {
  return d->scales == GA_CONVERT_SCALES_ROW ? 1 : GA_CONVERT_BLOCK;
}
/* Returns the index of the scale of the block that begins at (row, col). */
static inline int64_t ga_convert_scale_at(const ga_convert_desc *d, int64_t row, int64_t col) {
  const int64_t b = GA_CONVERT_BLOCK;
  return d->scales == GA_CONVERT_SCALES_ROW ? col / b * d->rows + row : row / b * ga_div_up(d->width, b) + col / b;
}

#endif
