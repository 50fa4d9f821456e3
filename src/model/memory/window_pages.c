/* Pages of keys and values that only tokens within a window read. A page becomes free once no later token reads it. */
#include "model/memory/kv_layout.h"

static bool sees_window(const ga_hparams *p, int32_t layer) {
  return memory_has_kv(p, layer) && p->window && p->is_local[layer];
}

static int32_t window_of(const ga_hparams *p) { return p->window; }

const memory_kind_type memory_window_pages = {.name = "window_pages",
                                              .unit_tokens = GA_KV_PAGE,
                                              .is_shared = true,
                                              .exact_rewind = INT32_MAX,
                                              .has_layer = sees_window,
                                              .window = window_of,
                                              .layout = memory_kv_layout};
