#include <math.h>

#include "base/quant.h"
#include "opdef/convert_at.h"
#include "ref/ref.h"

/* The block of rows [row, bottom) and columns [col, right). */
static void scale_block(const ga_convert_desc *d, const ga_convert_io *a, int64_t row, int64_t bottom, int64_t col,
                        int64_t right) {
  float most = 0;
  for (int64_t r = row; r < bottom; r++)
    for (int64_t c = col; c < right; c++)
      most = fmaxf(most, fabsf((float)ga_ref_load((ga_dtype)d->x_dtype, a->x, r * d->width + c)));
  const float scale = ga_convert_scale(most);
  a->scale[ga_convert_scale_at(d, row, col)] = scale;
  for (int64_t r = row; r < bottom; r++)
    for (int64_t c = col; c < right; c++)
      ga_ref_store((ga_dtype)d->y_dtype, a->y, r * d->width + c,
                   (double)((float)ga_ref_load((ga_dtype)d->x_dtype, a->x, r * d->width + c) / scale));
}

/* Through double for plain types, through f32 into block types: a block type's quantiser is defined on f32. */
ga_status ga_ref_convert(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                         ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_convert_desc *d = desc;
  const ga_convert_io *a = io;
  ga_dtype from = (ga_dtype)d->x_dtype, to = (ga_dtype)d->y_dtype;
  const ga_dtype_traits *t = ga_dtype_info(to);
  int64_t total = d->rows * d->width;
  const int64_t rows = ga_convert_block_rows(d), b = GA_CONVERT_BLOCK;
  for (int64_t r = 0; d->scales && r < d->rows; r += rows)
    for (int64_t c = 0; c < d->width; c += b)
      scale_block(d, a, r, ga_min_i64(r + rows, d->rows), c, ga_min_i64(c + b, d->width));
  if (d->scales) return GA_OK;
  for (int64_t i = 0; i < total; i += t->block_elems) {
    float x[GA_QUANT_MAX_BLOCK];
    for (int e = 0; e < t->block_elems; e++) x[e] = (float)ga_ref_load(from, a->x, i + e);
    if (t->is_quant)
      ga_quantise_block(to, x, (uint8_t *)a->y + i / t->block_elems * t->block_bytes);
    else
      ga_ref_store(to, a->y, i, ga_ref_load(from, a->x, i));
  }
  return GA_OK;
}
