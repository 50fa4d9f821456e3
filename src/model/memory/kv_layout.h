/* Layout of pages of keys and values, which several kinds of layer memory use. */
#ifndef GA_MODEL_MEMORY_KV_LAYOUT_H
#define GA_MODEL_MEMORY_KV_LAYOUT_H

#include "model/memory_kind.h"

/* Returns whether the layer has keys and values of its own, for each head. */
static inline bool memory_has_kv(const ga_hparams *p, int32_t layer) {
  return !p->no_attention[layer] && !p->kv_latent && !p->kv_distance[layer];
}

/* Describes the tensors MEMORY_KEYS [pages, GA_KV_PAGE, Hkv, D] and MEMORY_VALUES [pages, GA_KV_PAGE, Hkv, Dv]. In
 * e4m3 each is followed by scales [Hkv, pages * GA_KV_PAGE] in f32. */
GA_NODISCARD ga_status memory_kv_layout(const ga_hparams *p, ga_dtype dtype, int32_t layer, int64_t n_pages,
                                        memory_layout *out);

#endif
