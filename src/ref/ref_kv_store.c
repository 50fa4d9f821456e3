/* Rows of K and V into their cache slots, rounded to the cache's type. */
#include "base/quant.h"
#include "base/status.h"
#include "ref/ref.h"

/* n elements from x[from] to cache[to]; block types by their quantiser, which is defined on f32. */
static void store_row(ga_dtype xt, const void *x, int64_t from, ga_dtype ct, void *cache, int64_t to, int64_t n) {
  const ga_dtype_traits *t = ga_dtype_info(ct);
  for (int64_t i = 0; i < n; i += t->block_elems) {
    float block[GA_QUANT_MAX_BLOCK];
    for (int e = 0; e < t->block_elems; e++) block[e] = (float)ga_ref_load(xt, x, from + i + e);
    if (t->is_quant) ga_quantise_block(ct, block, (uint8_t *)cache + (to + i) / t->block_elems * t->block_bytes);
    else ga_ref_store(ct, cache, to + i, ga_ref_load(xt, x, from + i));
  }
}

ga_status ga_ref_kv_store(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_kv_store_desc *d = desc;
  const ga_kv_store_io *a = io;
  for (int64_t t = 0; t < d->tokens; t++)
    GA_REQUIRE(a->slot[t] >= -1 && a->slot[t] < d->slots, GA_ERR_ARG, "kv_store: slot[%lld] is %d; must be -1 to %lld",
               (long long)t, a->slot[t], (long long)d->slots - 1);
  const int64_t k_width = (int64_t)d->heads * d->head_dim, v_width = (int64_t)d->heads * d->v_dim;
  for (int64_t t = 0; t < d->tokens; t++) {
    if (a->slot[t] < 0) continue;
    store_row((ga_dtype)d->x_dtype, a->k, t * d->k_stride, (ga_dtype)d->kv_dtype, a->k_cache, a->slot[t] * k_width, k_width);
    store_row((ga_dtype)d->x_dtype, a->v, t * d->v_stride, (ga_dtype)d->kv_dtype, a->v_cache, a->slot[t] * v_width, v_width);
  }
  return GA_OK;
}
