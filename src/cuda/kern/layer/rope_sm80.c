#include "cuda/kern/layer/layer.h"
#include "cuda/kern/layer/layer_args.h"

const char *cuda_rope_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)desc, (void)caps;
  return NULL;
}

ga_status cuda_rope(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_rope_desc *d = desc;
  const ga_rope_io *a = io;
  if (d->tokens == 0 || d->rot_dim == 0 || d->heads == 0) return GA_OK;
  GA_TRY(cuda_check_pointer(stream, k, "x", a->x, cuda_layer_align(d->x_dtype)));
  LAYER_CHECK(positions, GA_I32);
  LAYER_CHECK(inv_freq, GA_F32);
  const ga_kargs_rope args = {.x = a->x,
                              .positions = a->positions,
                              .inv_freq = a->inv_freq,
                              .tokens = d->tokens,
                              .x_stride = d->x_stride,
                              .heads = d->heads,
                              .head_dim = d->head_dim,
                              .rot_dim = d->rot_dim,
                              .pairs = d->pairs,
                              .x_dtype = d->x_dtype,
                              .magnitude = d->magnitude};
  return cuda_layer_enqueue_rows(k, stream, d->tokens, (int64_t)d->heads * (d->rot_dim / 2), &args);
}
