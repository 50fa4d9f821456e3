#include "cuda/kern/layer/layer.h"
#include "cuda/kern/layer/layer_args.h"

const char *cuda_norm_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_norm_desc *d = desc;
  if (d->x_dtype != (int32_t)k->dtype[0]) return "x_dtype is another";
  return d->y_dtype == (int32_t)k->dtype[1] ? NULL : "y_dtype is another";
}

ga_status cuda_norm(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_norm_desc *d = desc;
  const ga_norm_io *a = io;
  if (d->rows == 0 || d->width == 0) return GA_OK;
  LAYER_CHECK(x, k->dtype[0]);
  LAYER_CHECK(y, k->dtype[1]);
  LAYER_CHECK(weight, GA_F32);
  LAYER_CHECK(bias, GA_F32);
  LAYER_CHECK(residual, k->dtype[1]);
  const ga_kargs_norm args = {.x = a->x,
                              .y = a->y,
                              .weight = a->weight,
                              .bias = a->bias,
                              .residual = a->residual,
                              .rows = d->rows,
                              .width = d->width,
                              .x_stride = d->x_stride,
                              .y_stride = d->y_stride,
                              .residual_stride = d->residual_stride,
                              .eps = d->eps,
                              .kind = d->kind};
  return cuda_layer_enqueue(k, stream, d->rows, &args);
}
