#include "cuda/kern/layer/layer.h"
#include "cuda/kern/layer/layer_args.h"

const char *cuda_embed_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)desc, (void)caps;
  return NULL;
}

ga_status cuda_embed(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_embed_desc *d = desc;
  const ga_embed_io *a = io;
  if (d->tokens == 0 || d->width == 0) return GA_OK;
  LAYER_CHECK(ids, GA_I32);
  GA_TRY(cuda_check_pointer(stream, k, "table", a->table, cuda_layer_align(d->w_dtype)));
  GA_TRY(cuda_check_pointer(stream, k, "y", a->y, cuda_layer_align(d->y_dtype)));
  const ga_kargs_embed args = {.ids = a->ids,
                               .table = a->table,
                               .y = a->y,
                               .tokens = d->tokens,
                               .vocab = d->vocab,
                               .width = d->width,
                               .y_stride = d->y_stride,
                               .w_dtype = d->w_dtype,
                               .y_dtype = d->y_dtype,
                               .scale = d->scale};
  return cuda_layer_enqueue_rows(k, stream, d->tokens, d->width, &args);
}
