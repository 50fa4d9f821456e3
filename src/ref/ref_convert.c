#include "base/quant.h"
#include "ref/ref.h"

/* Through double for plain types, through f32 into block types: a block type's quantiser is defined on f32. */
ga_status ga_ref_convert(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_convert_desc *d = desc;
  const ga_convert_io *a = io;
  ga_dtype from = (ga_dtype)d->x_dtype, to = (ga_dtype)d->y_dtype;
  const ga_dtype_traits *t = ga_dtype_info(to);
  int64_t total = d->rows * d->width;
  for (int64_t i = 0; i < total; i += t->block_elems) {
    float x[GA_QUANT_MAX_BLOCK];
    for (int e = 0; e < t->block_elems; e++) x[e] = (float)ga_ref_load(from, a->x, i + e);
    if (t->is_quant) ga_quantise_block(to, x, (uint8_t *)a->y + i / t->block_elems * t->block_bytes);
    else ga_ref_store(to, a->y, i, ga_ref_load(from, a->x, i));
  }
  return GA_OK;
}
