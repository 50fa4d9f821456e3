#include "engine/memory_host.h"

#include "base/clock.h"
#include "base/status.h"
#include "core/ctx.h"

#define TIMED_COPIES 3

ga_status memory_host_create(const ga_kv_cache *cache, ga_ctx *ctx, const int32_t n_units[KV_KINDS], memory_host *out) {
  *out = (memory_host){.cache = cache, .ctx = ctx};
  for (int kind = 0; kind < KV_KINDS; kind++) {
    void *p;
    if (!n_units[kind]) continue;
    uint64_t *bytes = &out->page_bytes[kind];
    GA_TRY(kv_cache_page_bytes(&cache->model->hparams, cache->dtype, (kv_kind)kind, bytes));
    const ga_status status = ga_host_alloc(ctx, (size_t)n_units[kind] * (size_t)*bytes, &p);
    if (status != GA_OK)
      return ga_fail_in(status, "swap space of %d pages of %llu bytes", n_units[kind], (unsigned long long)*bytes);
    out->memory[kind] = p;
    out->n_units[kind] = n_units[kind];
  }
  return GA_OK;
}

void memory_host_destroy(memory_host *host) {
  for (int kind = 0; kind < KV_KINDS; kind++) ga_host_free(host->ctx, host->memory[kind]);
  *host = (memory_host){.cache = NULL};
}

/* Moves *at behind the bytes. */
static ga_status copy_span(const memory_host *host, unit_way way, uint8_t *device, uint8_t **at, uint64_t bytes) {
  uint8_t *memory = *at;
  *at += bytes;
  return way == UNIT_TO_HOST ? ga_copy_to_host_later(host->ctx, memory, device, bytes, NULL)
                             : ga_copy_to_device_later(host->ctx, device, memory, bytes, NULL);
}

/* Keys or values of a layer: heads of `dim` elements, and behind all codes the scales of each head. */
static ga_status copy_layer(const memory_host *host, unit_way way, uint8_t *base, int64_t n_slots, int32_t dim,
                            int32_t page, uint8_t **at) {
  const ga_kv_cache *c = host->cache;
  const int64_t heads = c->model->hparams.n_kv_heads;
  uint64_t page_codes, codes;
  GA_TRY(ga_dtype_bytes(c->dtype, GA_KV_PAGE * heads * dim, &page_codes));
  GA_TRY(ga_dtype_bytes(c->dtype, n_slots * heads * dim, &codes));
  GA_TRY(copy_span(host, way, base + (uint64_t)page * page_codes, at, page_codes));
  if (c->dtype != GA_E4M3) return GA_OK;
  for (int64_t h = 0; h < heads; h++) {
    const uint64_t slot = (uint64_t)(h * n_slots) + (uint64_t)page * GA_KV_PAGE;
    GA_TRY(copy_span(host, way, base + codes + slot * sizeof(float), at, GA_KV_PAGE * sizeof(float)));
  }
  return GA_OK;
}

static ga_status copy_page(const memory_host *host, kv_kind kind, unit_way way, int32_t on_device, int32_t on_host) {
  const ga_kv_cache *c = host->cache;
  const ga_hparams *p = &c->model->hparams;
  uint8_t *at = host->memory[kind] + (uint64_t)on_host * host->page_bytes[kind];
  for (int32_t il = 0; il < p->n_layers; il++) {
    if (kv_kind_of_layer(p, il) != kind) continue;
    GA_TRY(copy_layer(host, way, c->k[il], c->n_slots[kind], p->head_dim, on_device, &at));
    GA_TRY(copy_layer(host, way, c->v[il], c->n_slots[kind], p->v_dim, on_device, &at));
  }
  return GA_OK;
}

ga_status memory_host_copy(const memory_host *host, const unit_copy *copies, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    const unit_copy *c = &copies[i];
    if (c->way == UNIT_WITHIN)
      GA_TRY(kv_cache_copy_page(host->cache, c->kind, c->from, c->to));
    else if (c->way == UNIT_TO_HOST)
      GA_TRY(copy_page(host, c->kind, c->way, c->from, c->to));
    else
      GA_TRY(copy_page(host, c->kind, c->way, c->to, c->from));
  }
  return GA_OK;
}

ga_status memory_host_time(const memory_host *host, kv_kind kind, double *seconds) {
  *seconds = 0;
  if (!host->n_units[kind]) return GA_OK;
  for (int i = 0; i < TIMED_COPIES; i++) {
    const double start = ga_seconds();
    GA_TRY(copy_page(host, kind, UNIT_TO_HOST, 0, 0));
    GA_TRY(copy_page(host, kind, UNIT_FROM_HOST, 0, 0));
    GA_TRY(ga_stream_sync(host->ctx, NULL));
    const double took = ga_seconds() - start;
    if (i == 0 || took < *seconds) *seconds = took;
  }
  return GA_OK;
}
