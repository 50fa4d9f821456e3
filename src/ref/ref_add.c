#include "ref/ref.h"

ga_status ga_ref_add(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_add_desc *d = desc;
  const ga_add_io *a = io;
  ga_dtype t = (ga_dtype)d->dtype;
  for (int64_t r = 0; r < d->rows; r++) {
    int64_t b_row = d->b_rows == 1 ? 0 : r;
    const double factor = d->factor_stride ? ga_ref_load(GA_F32, a->factors, r * d->factor_stride) : 1;
    for (int64_t c = 0; c < d->width; c++) {
      double x = (double)d->scale * factor * ga_ref_load(t, a->x, r * d->x_stride + c);
      double b = a->b ? ga_ref_load(t, a->b, b_row * d->b_stride + c) : 0;
      ga_ref_store(t, a->y, r * d->y_stride + c, x + b);
    }
  }
  return GA_OK;
}
