/* Units of layer memory on the host, page-locked where the device is a GPU, and the copies that are pending. */
#ifndef GA_ENGINE_MEMORY_HOST_H
#define GA_ENGINE_MEMORY_HOST_H

#include "engine/layer_memory.h"
#include "model/kv_cache.h"

/* A unit on the host is the sequence of its pieces in the order of kv_cache_each_run. */
typedef struct memory_host {
  const ga_kv_cache *cache;
  ga_ctx *ctx;
  uint8_t *memory[MEMORY_KINDS_MAX]; /* NULL: no units of that kind */
  int32_t n_units[MEMORY_KINDS_MAX];
} memory_host;

/* cache outlives the units, which are page-locked for the device of ctx. Release with memory_host_destroy, also after a
 * failure. */
GA_NODISCARD ga_status memory_host_create(const ga_kv_cache *cache, ga_ctx *ctx,
                                          const int32_t n_units[MEMORY_KINDS_MAX], memory_host *out);
void memory_host_destroy(memory_host *host); /* no copy is in flight; all zeros is fine */
/* Enqueues the copies in their order. */
GA_NODISCARD ga_status memory_host_copy(const memory_host *host, const unit_copy *copies, int32_t n);
/* Bytes of a unit of the kind. */
static inline uint64_t memory_host_unit_bytes(const memory_host *host, int32_t kind) {
  return host->cache->kinds.kind[kind].unit_bytes;
}
/* Measures the seconds that a unit's copy to the host and back takes. It overwrites unit 0 of the cache. */
GA_NODISCARD ga_status memory_host_time(const memory_host *host, int32_t kind, double *seconds);

#endif
