/* Device side of layer memory: the tensors that layers keep between steps, each on the device that has the layer.
 *
 * src/engine/layer_memory.h records which sequence has which unit. */
#ifndef GA_MODEL_KV_CACHE_H
#define GA_MODEL_KV_CACHE_H

#include "model/memory_kind.h"

typedef struct ga_kv_cache {
  const ga_model *model;
  memory_kinds kinds;
  ga_dtype dtype;
  int64_t n_units[MEMORY_KINDS_MAX];
  void **tensors; /* [n_layers, MEMORY_FORMS, MEMORY_TENSORS_MAX] device memory; NULL where a layer has fewer tensors */
} ga_kv_cache;

/* Allocates n_units[k] units of each kind k that memory_kinds_of lists for the model. Release with kv_cache_destroy,
 * also after a failure. */
GA_NODISCARD ga_status kv_cache_create(const ga_model *model, ga_dtype dtype, const int32_t n_units[MEMORY_KINDS_MAX],
                                       ga_kv_cache *out);
void kv_cache_destroy(ga_kv_cache *cache);         /* a cache of zeros is fine */
uint64_t kv_cache_bytes(const ga_kv_cache *cache); /* Returns the bytes of all tensors. */
/* Enqueues the copy of unit `from` to unit `to`, in all layers of the kind. */
GA_NODISCARD ga_status kv_cache_copy_unit(const ga_kv_cache *cache, int32_t kind, int32_t from, int32_t to);

/* A contiguous piece of each unit of a kind, in one tensor. The piece of unit u is at tensor + memory_run_at(span, u,
 * run). */
typedef struct memory_run {
  ga_ctx *ctx;
  uint8_t *tensor;
  const memory_span *span;
  int64_t run;
} memory_run;
typedef ga_status (*memory_run_fn)(void *user, const memory_run *run);
/* Calls fn for each piece of the kind's units, in the order of layers, tensors, spans and runs. The pieces' bytes
 * add up to unit_bytes. */
GA_NODISCARD ga_status kv_cache_each_run(const ga_kv_cache *cache, int32_t kind, memory_run_fn fn, void *user);

static inline void **kv_cache_slot(const ga_kv_cache *cache, int32_t layer, memory_form form, int32_t tensor) {
  return &cache->tensors[((int64_t)layer * MEMORY_FORMS + form) * MEMORY_TENSORS_MAX + tensor];
}
static inline void *kv_cache_tensor(const ga_kv_cache *cache, int32_t layer, memory_form form, int32_t tensor) {
  return *kv_cache_slot(cache, layer, form, tensor);
}
/* Returns the number of tokens that the pages of the layer can hold. */
static inline int64_t kv_cache_slots(const ga_kv_cache *cache, int32_t layer) {
  return cache->n_units[cache->kinds.of_layer[layer][MEMORY_PAGES]] * GA_KV_PAGE;
}

#endif
