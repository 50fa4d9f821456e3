/* Memory of KV pages on the host, page-locked where the device is a GPU, and the copies that layer_memory asks for. */
#ifndef GA_ENGINE_MEMORY_HOST_H
#define GA_ENGINE_MEMORY_HOST_H

#include "engine/layer_memory.h"
#include "model/kv_cache.h"

/* A page is what all layers of its kind have of it, one behind the other: codes of keys, their scales in e4m3, the same
 * of values. */
typedef struct memory_host {
  const ga_kv_cache *cache;
  ga_ctx *ctx;
  uint8_t *memory[KV_KINDS]; /* NULL: no pages of that kind */
  uint64_t page_bytes[KV_KINDS];
  int32_t n_units[KV_KINDS];
} memory_host;

/* cache lies in ctx, and outlives it. Release with memory_host_destroy, also after a failure. */
GA_NODISCARD ga_status memory_host_create(const ga_kv_cache *cache, ga_ctx *ctx, const int32_t n_units[KV_KINDS],
                                          memory_host *out);
void memory_host_destroy(memory_host *host); /* nothing is under way; all zeros is fine */
/* Enqueues the copies, one behind the other. */
GA_NODISCARD ga_status memory_host_copy(const memory_host *host, const unit_copy *copies, int32_t n);
/* Seconds that a page takes to the host and back; page 0 of the cache is written. */
GA_NODISCARD ga_status memory_host_time(const memory_host *host, kv_kind kind, double *seconds);

#endif
