/* Launch side of the conversion from f32 to 16 bits (src/cuda/kern/layer/narrow_sm80.cu). */
#include "cuda/kern/layer/layer.h"
#include "cuda/kern/layer/layer_args.h"

const char *cuda_narrow_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_convert_desc *d = desc;
  if (d->scales) return "it makes no scales";
  return d->x_dtype == GA_F32 && d->y_dtype == (int32_t)k->dtype[1] ? NULL : "dtype is another";
}

ga_status cuda_narrow(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_convert_desc *d = desc;
  const ga_convert_io *a = io;
  const int64_t n = d->rows * d->width;
  if (n == 0) return GA_OK;
  LAYER_CHECK(x, GA_F32);
  LAYER_CHECK(y, k->dtype[1]);
  const ga_kargs_narrow args = {.x = a->x,
                                .y = a->y,
                                .n = n,
                                .vec16 = (uintptr_t)a->x % CUDA_LAYER_WIDE_BYTES == 0 &&
                                         (uintptr_t)a->y % CUDA_LAYER_WIDE_BYTES == 0};
  return cuda_layer_enqueue(k, stream, cuda_layer_pieces(k, 1, n), &args);
}
