#include "cpu/cpu.h"

ga_status ga_cpu_add_generic(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_add_desc *d = desc;
  const ga_add_io *a = io;
  const float *x = a->x, *b = a->b;
  float *y = a->y;
  for (int64_t r = 0; r < d->rows; r++) {
    const float *xr = x + r * d->x_stride, *br = b ? b + (d->b_rows == 1 ? 0 : r) * d->b_stride : NULL;
    float *yr = y + r * d->y_stride;
    for (int64_t c = 0; c < d->width; c++) yr[c] = d->scale * xr[c] + (br ? br[c] : 0.0f);
  }
  return GA_OK;
}
