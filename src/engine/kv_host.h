/* Memory of KV pages on the host, page-locked where the device is a GPU, and the copies that kv_pages asks for. */
#ifndef GA_ENGINE_KV_HOST_H
#define GA_ENGINE_KV_HOST_H

#include "engine/kv_pages.h"
#include "model/kv_cache.h"

/* A page is what all layers of its kind have of it, one behind the other: codes of keys, their scales in e4m3, the same
 * of values. */
typedef struct kv_host {
  const ga_kv_cache *cache;
  ga_ctx *ctx;
  uint8_t *memory[KV_KINDS]; /* NULL: no pages of that kind */
  uint64_t page_bytes[KV_KINDS];
  int32_t n_pages[KV_KINDS];
} kv_host;

/* cache lies in ctx, and outlives it. Release with kv_host_destroy, also after a failure. */
GA_NODISCARD ga_status kv_host_create(const ga_kv_cache *cache, ga_ctx *ctx, const int32_t n_pages[KV_KINDS],
                                      kv_host *out);
void kv_host_destroy(kv_host *host); /* nothing is under way; all zeros is fine */
/* Enqueues the copies, one behind the other. */
GA_NODISCARD ga_status kv_host_copy(const kv_host *host, const kv_copy *copies, int32_t n);
/* Seconds that a page takes to the host and back; page 0 of the cache is written. */
GA_NODISCARD ga_status kv_host_time(const kv_host *host, kv_kind kind, double *seconds);

#endif
