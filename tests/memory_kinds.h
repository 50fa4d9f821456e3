/* Kinds of layer memory for tests of bookkeeping: what models have, and states of which the library has none yet. */
#ifndef GA_TESTS_MEMORY_KINDS_H
#define GA_TESTS_MEMORY_KINDS_H

#include "engine/layer_memory.h"

enum { FULL, WINDOW, STATE, LATENT, KINDS };

/* All kinds, without units: a kind gets some by n_units. keep_prefixes is set. */
static inline layer_memory_options memory_test_options(int32_t page_tokens, int32_t window) {
  layer_memory_options o = {.n_kinds = KINDS, .page_tokens = page_tokens, .keep_prefixes = true};
  const memory_kind page = {.unit_tokens = page_tokens, .is_shared = true, .exact_rewind = INT32_MAX};
  o.kinds[FULL] = o.kinds[WINDOW] = o.kinds[LATENT] = page;
  o.kinds[WINDOW].window = window;
  o.kinds[FULL].name = "full";
  o.kinds[WINDOW].name = "window";
  o.kinds[LATENT].name = "latent"; /* chained, as FULL */
  o.kinds[STATE].name = "state";
  return o;
}

#endif
