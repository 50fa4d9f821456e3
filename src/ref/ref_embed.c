#include "base/status.h"
#include "ref/ref.h"

ga_status ga_ref_embed(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_embed_desc *d = desc;
  const ga_embed_io *a = io;
  for (int64_t t = 0; t < d->tokens; t++)
    GA_REQUIRE(a->ids[t] >= 0 && a->ids[t] < d->vocab, GA_ERR_ARG, "embed: ids[%lld] is %d; must be in [0, %lld)",
               (long long)t, a->ids[t], (long long)d->vocab);
  for (int64_t t = 0; t < d->tokens; t++)
    for (int64_t c = 0; c < d->width; c++)
      ga_ref_store((ga_dtype)d->y_dtype, a->y, t * d->y_stride + c,
                   (double)d->scale * ga_ref_load((ga_dtype)d->w_dtype, a->table, a->ids[t] * d->width + c));
  return GA_OK;
}
