#include "cuda/kern/layer/layer.h"
#include "cuda/kern/layer/layer_args.h"

const char *cuda_softmax_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)desc, (void)caps;
  return NULL;
}

ga_status cuda_softmax(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_softmax_desc *d = desc;
  const ga_softmax_io *a = io;
  if (d->rows == 0 || d->width == 0) return GA_OK;
  LAYER_CHECK(x, GA_F32);
  LAYER_CHECK(y, GA_F32);
  const ga_kargs_softmax args = {.x = a->x,
                                 .y = a->y,
                                 .rows = d->rows,
                                 .width = d->width,
                                 .x_stride = d->x_stride,
                                 .y_stride = d->y_stride,
                                 .scale = d->scale,
                                 .log = d->log};
  return cuda_layer_enqueue(k, stream, d->rows, &args);
}
