# The list of kinds of layer memory is made here of their declarations in src/model/memory: adding one touches no list.
ga_declared(GA_MEMORY src/model/memory memory_kind_type "")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/memory/memory_list.c @ONLY CONTENT [[
/* Made by cmake/memory.cmake of the declarations in src/model/memory. */
#include "model/memory_kind.h"

#define MEMORY_TYPES(X) @GA_MEMORY_X@

#define X(type) extern const memory_kind_type type;
MEMORY_TYPES(X)
#undef X

#define X(type) &type,
const memory_kind_type *const memory_kind_types[] = {MEMORY_TYPES(X) NULL};
#undef X
]])
list(APPEND GA_SOURCES ${CMAKE_BINARY_DIR}/memory/memory_list.c)
