#include "model/kv_cache.h"

#include "base/mem.h"
#include "base/status.h"

static ga_ctx *ctx_of_layer(const ga_model *model, int32_t il) {
  const ga_placement *placement = model->placements;
  while (il >= placement->end) placement++;
  return placement->ctx;
}

/* Kernels on tensor cores read whole pages of a GPU's cache, slots too that no token has been written to. */
static ga_status alloc_kv(ga_ctx *ctx, uint64_t bytes, void **out) {
  return ga_device_in_host_memory(ctx->device) ? ga_buffer_alloc_for(ctx, bytes, "kv cache", out)
                                               : ga_buffer_alloc_zeroed(ctx, bytes, "kv cache", out);
}

static ga_status create_layer(ga_kv_cache *c, int32_t il) {
  const ga_hparams *p = &c->model->hparams;
  ga_ctx *ctx = ctx_of_layer(c->model, il);
  uint64_t k_bytes, v_bytes;
  GA_TRY(ga_kv_bytes(p, c->dtype, c->n_slots[kv_kind_of_layer(p, il)], &k_bytes, &v_bytes));
  ga_status status = alloc_kv(ctx, k_bytes, &c->k[il]);
  if (status == GA_OK) status = alloc_kv(ctx, v_bytes, &c->v[il]);
  if (status == GA_OK) return GA_OK;
  return ga_fail_in(status, "kv cache of %lld tokens (%llu bytes a layer, %d layers)",
                    (long long)c->n_slots[kv_kind_of_layer(p, il)], (unsigned long long)(k_bytes + v_bytes),
                    p->n_layers);
}

ga_status kv_cache_create(const ga_model *model, ga_dtype dtype, const int32_t n_pages[KV_KINDS], ga_kv_cache *out) {
  const int32_t n_layers = model->hparams.n_layers;
  void *list;
  *out = (ga_kv_cache){.model = model, .dtype = dtype};
  for (int kind = 0; kind < KV_KINDS; kind++) out->n_slots[kind] = (int64_t)n_pages[kind] * GA_KV_PAGE;
  GA_TRY(ga_mem_zalloc((size_t)n_layers * 2, sizeof(void *), "kv cache", &list));
  out->k = list;
  out->v = out->k + n_layers;
  for (int32_t il = 0; il < n_layers; il++) GA_TRY(create_layer(out, il));
  return GA_OK;
}

void kv_cache_destroy(ga_kv_cache *c) {
  for (int32_t il = 0; c->k && il < c->model->hparams.n_layers; il++) {
    ga_buffer_free(ctx_of_layer(c->model, il), c->k[il]);
    ga_buffer_free(ctx_of_layer(c->model, il), c->v[il]);
  }
  ga_mem_free(c->k);
  *c = (ga_kv_cache){0};
}

uint64_t kv_cache_bytes(const ga_kv_cache *c) {
  const ga_hparams *p = &c->model->hparams;
  uint64_t sum = 0, k = 0, v = 0;
  for (int32_t il = 0; il < p->n_layers; il++) {
    const ga_status status = ga_kv_bytes(p, c->dtype, c->n_slots[kv_kind_of_layer(p, il)], &k, &v);
    (void)status; /* it was right when the cache was made */
    sum += k + v;
  }
  return sum;
}

ga_status kv_cache_page_bytes(const ga_hparams *p, ga_dtype dtype, kv_kind kind, uint64_t *bytes) {
  uint64_t k, v;
  *bytes = 0;
  GA_TRY(ga_kv_bytes(p, dtype, GA_KV_PAGE, &k, &v));
  for (int32_t il = 0; il < p->n_layers; il++)
    if (kv_kind_of_layer(p, il) == kind) *bytes += k + v;
  return GA_OK;
}

/* Heads of `dim` elements of a page, and behind all codes the scales of each head. */
static ga_status copy_in_layer(const ga_kv_cache *c, ga_ctx *ctx, void *memory, int64_t n_slots, int32_t dim,
                               int32_t from, int32_t to) {
  const int64_t heads = c->model->hparams.n_kv_heads;
  uint64_t page, codes;
  GA_TRY(ga_dtype_bytes(c->dtype, GA_KV_PAGE * heads * dim, &page));
  GA_TRY(ga_dtype_bytes(c->dtype, n_slots * heads * dim, &codes));
  uint8_t *base = memory;
  GA_TRY(ga_copy_within(ctx, base + (uint64_t)to * page, base + (uint64_t)from * page, page));
  if (c->dtype != GA_E4M3) return GA_OK;
  float *scales = (float *)(void *)(base + codes);
  for (int64_t h = 0; h < heads; h++, scales += n_slots)
    GA_TRY(ga_copy_within(ctx, scales + (int64_t)to * GA_KV_PAGE, scales + (int64_t)from * GA_KV_PAGE,
                          GA_KV_PAGE * sizeof(float)));
  return GA_OK;
}

ga_status kv_cache_copy_page(const ga_kv_cache *c, kv_kind kind, int32_t from, int32_t to) {
  const ga_hparams *p = &c->model->hparams;
  for (int32_t il = 0; il < p->n_layers; il++) {
    if (kv_kind_of_layer(p, il) != kind) continue;
    ga_ctx *ctx = ctx_of_layer(c->model, il);
    GA_TRY(copy_in_layer(c, ctx, c->k[il], c->n_slots[kind], p->head_dim, from, to));
    GA_TRY(copy_in_layer(c, ctx, c->v[il], c->n_slots[kind], p->v_dim, from, to));
  }
  return GA_OK;
}
