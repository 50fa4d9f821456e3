#include <math.h>

#include "ref/ref.h"

/* The largest scaled element; NaN when there is one. */
static double row_max(const float *x, int64_t n, double scale) {
  double m = -INFINITY;
  for (int64_t c = 0; c < n; c++) {
    double s = scale * (double)x[c];
    if (s > m || isnan(s)) m = s;
    if (isnan(m)) break;
  }
  return m;
}

ga_status ga_ref_softmax(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                         ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_softmax_desc *d = desc;
  const ga_softmax_io *a = io;
  for (int64_t r = 0; r < d->rows; r++) {
    const float *x = a->x + r * d->x_stride;
    float *y = a->y + r * d->y_stride;
    double scale = (double)d->scale, m = row_max(x, d->width, scale), sum = 0;
    const double none = d->log ? -INFINITY : 0; /* a row without a finite element */
    for (int64_t c = 0; c < d->width; c++) sum += exp(scale * (double)x[c] - m);
    for (int64_t c = 0; c < d->width; c++) {
      double s = scale * (double)x[c] - m;
      y[c] = (float)(m == -INFINITY ? none : d->log ? s - log(sum) : exp(s) / sum);
    }
  }
  return GA_OK;
}
