#include "cuda/kern/layer/layer.h"
#include "cuda/kern/layer/layer_args.h"

const char *cuda_add_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  return ((const ga_add_desc *)desc)->dtype == (int32_t)k->dtype[0] ? NULL : "dtype is another";
}

ga_status cuda_add(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_add_desc *d = desc;
  const ga_add_io *a = io;
  if (d->rows == 0 || d->width == 0) return GA_OK;
  LAYER_CHECK(x, k->dtype[0]);
  LAYER_CHECK(b, k->dtype[0]);
  LAYER_CHECK(y, k->dtype[0]);
  if (d->factor_stride) LAYER_CHECK(factors, GA_F32);
  size_t each = cuda_layer_bytes(k->dtype[0]);
  const ga_kargs_add args = {.x = a->x,
                             .b = a->b,
                             .y = a->y,
                             .rows = d->rows,
                             .width = d->width,
                             .x_stride = d->x_stride,
                             .b_stride = d->b_rows == 1 ? 0 : d->b_stride,
                             .y_stride = d->y_stride,
                             .factors = d->factor_stride ? a->factors : NULL,
                             .factor_stride = d->factor_stride,
                             .scale = d->scale,
                             .vec16 = cuda_layer_wide(a->x, d->x_stride, d->rows, each) &&
                                      cuda_layer_wide(a->b, d->b_stride, d->b_rows, each) &&
                                      cuda_layer_wide(a->y, d->y_stride, d->rows, each)};
  return cuda_layer_enqueue(k, stream, cuda_layer_pieces(k, d->rows, d->width), &args);
}
