#include "cuda/kern/layer/layer.h"
#include "cuda/kern/layer/layer_args.h"

#define WARP 32

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
  LAYER_CHECK(part, GA_F32);
  LAYER_CHECK(part_lse, GA_F32);
  LAYER_CHECK(part_l, GA_F32);
  const ga_kargs_attn_merge args = {.o = a->o,
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
                                    .dim = d->dim};
  return cuda_layer_enqueue(k, stream, ga_div_up(d->rows * d->heads, (int64_t)v->threads / WARP), &args);
}
