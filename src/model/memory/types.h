/* The table of memory kinds. A layer has the first kind whose has_layer accepts it. */
#ifndef GA_MODEL_MEMORY_TYPES_H
#define GA_MODEL_MEMORY_TYPES_H

#include "model/memory_kind.h"

/* clang-format off */
#define MEMORY_TYPES(X) \
  X(memory_full_pages)  \
  X(memory_window_pages)
/* clang-format on */

#define MEMORY_DECLARE_TYPE(type) extern const memory_kind_type type;
MEMORY_TYPES(MEMORY_DECLARE_TYPE)

#endif
