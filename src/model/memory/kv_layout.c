#include "model/memory/kv_layout.h"

#include "base/status.h"

static ga_status lay_out_pages(int64_t heads, int32_t dim, ga_dtype dtype, int64_t n_pages, memory_tensor *out) {
  uint64_t page, codes;
  GA_TRY(ga_dtype_bytes(dtype, GA_KV_PAGE * heads * dim, &page));
  GA_TRY(ga_dtype_bytes(dtype, n_pages * GA_KV_PAGE * heads * dim, &codes));
  *out = (memory_tensor){.bytes = codes, .n_spans = 1};
  out->spans[0] = (memory_span){.bytes = page, .unit_stride = page, .runs = 1};
  if (dtype != GA_E4M3) return GA_OK;
  const uint64_t scales = GA_KV_PAGE * sizeof(float); /* of a page, in one head */
  out->n_spans = 2;
  out->spans[1] = (memory_span){
      .offset = codes, .bytes = scales, .unit_stride = scales, .run_stride = (uint64_t)n_pages * scales, .runs = heads};
  out->bytes += (uint64_t)(n_pages * heads) * scales;
  return GA_OK;
}

ga_status memory_kv_layout(const ga_hparams *p, ga_dtype dtype, int32_t layer, int64_t n_pages, memory_layout *out) {
  const ga_heads heads = ga_heads_of(p, layer);
  out->n_tensors = 2;
  GA_TRY(lay_out_pages(heads.n_kv, heads.dim, dtype, n_pages, &out->tensors[MEMORY_KEYS]));
  return lay_out_pages(heads.n_kv, heads.v_dim, dtype, n_pages, &out->tensors[MEMORY_VALUES]);
}
