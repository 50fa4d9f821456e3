#include "cuda/kern/layer/layer.h"
#include "cuda/kern/layer/layer_args.h"

enum { WARP = 32, WIDE = 8 /* columns that a lane takes */ };

/* Returns whether rows of `p` begin at multiples of 16 bytes. */
static bool has_wide_rows(const void *p, int64_t token, int64_t head, size_t each) {
  return (uintptr_t)p % CUDA_LAYER_WIDE_BYTES == 0 && (uint64_t)token * each % CUDA_LAYER_WIDE_BYTES == 0 &&
         (uint64_t)head * each % CUDA_LAYER_WIDE_BYTES == 0;
}

/* Returns the number of rows that a warp takes at once: lanes of a row are a power of two (attn_merge_sm80.cu). */
static int64_t rows_at_once(int32_t dim) {
  int64_t rows = 1;
  while (rows < WARP && dim <= WARP / (2 * rows) * WIDE) rows *= 2;
  return rows;
}

const char *cuda_attn_merge_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)desc, (void)caps;
  return NULL;
}

ga_status cuda_attn_merge(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_attn_merge_desc *d = desc;
  const ga_attn_merge_io *a = io;
  const cuda_variant *v = k->impl;
  const bool state = d->kind == GA_ATTN_MERGE_STATE;
  if (d->rows == 0) return GA_OK;
  LAYER_CHECK(o, GA_F32);
  LAYER_CHECK(lse, GA_F32);
  LAYER_CHECK(part, (ga_dtype)d->part_dtype);
  LAYER_CHECK(part_lse, GA_F32);
  LAYER_CHECK(part_l, GA_F32);
  const ga_kargs_attn_merge args = {
      .o = a->o,
      .lse = a->lse,
      .part = a->part,
      .part_lse = a->part_lse,
      .part_l = state ? a->part_l : NULL,
      .rows = d->rows,
      .o_token = d->o_token,
      .o_head = d->o_head,
      .lse_head = d->lse_head,
      .part_token = d->part_token,
      .part_head = d->part_head,
      .part_lse_head = d->part_lse_head,
      .heads = d->heads,
      .dim = d->dim,
      .part_dtype = d->part_dtype,
      .vec16 = d->dim % WIDE == 0 && has_wide_rows(a->o, d->o_token, d->o_head, sizeof(float)) &&
               has_wide_rows(a->part, d->part_token, d->part_head, cuda_layer_bytes((ga_dtype)d->part_dtype))};
  const int64_t rows = v->threads / WARP * rows_at_once(d->dim);
  return cuda_layer_enqueue(k, stream, ga_div_up(d->rows * d->heads, rows), &args);
}
