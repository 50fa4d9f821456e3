/* RMSNorm (arXiv 1910.07467), LayerNorm (arXiv 1607.06450), L2. */
#include <math.h>

#include "ref/ref.h"

typedef struct row_stats {
  double shift, scale; /* y = (x - shift) * scale */
} row_stats;

static row_stats stats_of(const ga_norm_desc *d, const void *x, int64_t at) {
  double n = (double)d->width, mean = 0, squares = 0;
  if (d->kind == GA_NORM_LAYER)
    for (int64_t c = 0; c < d->width; c++) mean += ga_ref_load((ga_dtype)d->x_dtype, x, at + c) / n;
  for (int64_t c = 0; c < d->width; c++) {
    double v = ga_ref_load((ga_dtype)d->x_dtype, x, at + c) - mean;
    squares += v * v;
  }
  double eps = (double)d->eps;
  if (d->kind == GA_NORM_L2) return (row_stats){.scale = 1 / fmax(sqrt(squares), eps)};
  return (row_stats){.shift = mean, .scale = 1 / sqrt(squares / n + eps)};
}

ga_status ga_ref_norm(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_norm_desc *d = desc;
  const ga_norm_io *a = io;
  for (int64_t r = 0; r < d->rows; r++) {
    row_stats s = stats_of(d, a->x, r * d->x_stride);
    for (int64_t c = 0; c < d->width; c++) {
      double y = (ga_ref_load((ga_dtype)d->x_dtype, a->x, r * d->x_stride + c) - s.shift) * s.scale;
      if (a->weight) y *= (double)a->weight[c];
      if (a->bias) y += (double)a->bias[c];
      if (a->residual) y += ga_ref_load((ga_dtype)d->y_dtype, a->residual, r * d->residual_stride + c);
      ga_ref_store((ga_dtype)d->y_dtype, a->y, r * d->y_stride + c, y);
    }
  }
  return GA_OK;
}
