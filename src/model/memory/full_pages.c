/* Pages of keys and values that every later token reads: full attention. */
#include "model/memory/kv_layout.h"

static bool sees_all(const ga_hparams *p, int32_t layer) {
  return memory_has_kv(p, layer) && (!p->window || !p->is_local[layer]);
}

const memory_kind_type memory_full_pages = {.name = "full_pages",
                                            .unit_tokens = GA_KV_PAGE,
                                            .is_shared = true,
                                            .exact_rewind = INT32_MAX,
                                            .has_layer = sees_all,
                                            .layout = memory_kv_layout};
