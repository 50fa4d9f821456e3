/* Units of layer memory in host memory, page-locked if the device is a GPU, and the copies between them and the
 * device. */
#ifndef GA_ENGINE_MEMORY_HOST_H
#define GA_ENGINE_MEMORY_HOST_H

#include "engine/layer_memory.h"
#include "model/kv_cache.h"

/* Host memory for units of layer memory. Each unit is stored as a sequence of contiguous pieces, in the order of
 * kv_cache_each_run. */
typedef struct memory_host {
  const ga_kv_cache *cache;
  ga_ctx *ctx;
  uint8_t *memory[MEMORY_KINDS_MAX]; /* [kind] memory of n_units[kind] units; NULL: no units of the kind */
  int32_t n_units[MEMORY_KINDS_MAX];
} memory_host;

/* Allocates n_units[kind] units of each kind in host memory, page-locked for the device of ctx. The cache must outlive
 * *out. The caller releases *out with memory_host_destroy, also after a failure. */
GA_NODISCARD ga_status memory_host_create(const ga_kv_cache *cache, ga_ctx *ctx,
                                          const int32_t n_units[MEMORY_KINDS_MAX], memory_host *out);
void memory_host_destroy(memory_host *host); /* no copy may be in flight; a struct of zeros is fine */
/* Enqueues the copies in the given order. */
GA_NODISCARD ga_status memory_host_copy(const memory_host *host, const unit_copy *copies, int32_t n);
/* Returns the bytes of a unit of the kind. */
static inline uint64_t memory_host_unit_bytes(const memory_host *host, int32_t kind) {
  return host->cache->kinds.kind[kind].unit_bytes;
}
/* Measures the time in seconds of copying one unit to the host and back. Overwrites unit 0 of the cache. */
GA_NODISCARD ga_status memory_host_time(const memory_host *host, int32_t kind, double *seconds);

#endif
