/* Memory of a KV cache: pages of keys and values, for each layer on the device that has it.
 *
 * Layers are of two kinds, each with tables and a number of pages of its own. Which page holds what is the business
 * of src/engine/layer_memory.h. */
#ifndef GA_MODEL_KV_CACHE_H
#define GA_MODEL_KV_CACHE_H

#include "model/kv_kind.h"
#include "model/model.h"

#define GA_KV_PAGE 64 /* tokens */

/* [pages, GA_KV_PAGE, Hkv, D] each; in e4m3 with scales [Hkv, n_slots] behind. */
typedef struct ga_kv_cache {
  const ga_model *model;
  void **k, **v; /* [n_layers] device memory */
  ga_dtype dtype;
  int64_t n_slots[KV_KINDS]; /* pages * GA_KV_PAGE */
} ga_kv_cache;

static inline kv_kind kv_kind_of_layer(const ga_hparams *p, int32_t layer) {
  return p->window && p->is_local[layer] ? KV_WINDOW : KV_FULL;
}

/* n_pages: of each kind, 0 where the model has no such layer. Release with kv_cache_destroy, also after a failure. */
GA_NODISCARD ga_status kv_cache_create(const ga_model *model, ga_dtype dtype, const int32_t n_units[KV_KINDS],
                                       ga_kv_cache *out);
void kv_cache_destroy(ga_kv_cache *cache); /* all zeros is fine */
uint64_t kv_cache_bytes(const ga_kv_cache *cache);
/* Bytes of one page in all layers of a kind. */
GA_NODISCARD ga_status kv_cache_page_bytes(const ga_hparams *p, ga_dtype dtype, kv_kind kind, uint64_t *bytes);
/* Enqueues the copy of a page in all layers of its kind. */
GA_NODISCARD ga_status kv_cache_copy_page(const ga_kv_cache *cache, kv_kind kind, int32_t from, int32_t to);

#endif
