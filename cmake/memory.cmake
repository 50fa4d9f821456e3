# The list of kinds of layer memory is made here of their declarations in src/model/memory: adding one touches no list.
file(GLOB GA_MEMORY_FILES CONFIGURE_DEPENDS src/model/memory/*.c)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${GA_MEMORY_FILES})
set(GA_MEMORY_TYPES)
foreach(file ${GA_MEMORY_FILES})
  file(STRINGS ${file} lines REGEX "^const memory_kind_type [a-z0-9_]+ =")
  foreach(line ${lines})
    string(REGEX REPLACE "^const memory_kind_type ([a-z0-9_]+) =.*" "\\1" name "${line}")
    list(APPEND GA_MEMORY_TYPES ${name})
  endforeach()
endforeach()
list(SORT GA_MEMORY_TYPES)
list(TRANSFORM GA_MEMORY_TYPES REPLACE "(.+)" "X(\\1)" OUTPUT_VARIABLE GA_MEMORY_LIST)
list(JOIN GA_MEMORY_LIST " " GA_MEMORY_LIST)
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/memory/memory_list.c @ONLY CONTENT [[
/* Made by cmake/memory.cmake of the declarations in src/model/memory. */
#include "model/memory_kind.h"

#define MEMORY_TYPES(X) @GA_MEMORY_LIST@

#define X(type) extern const memory_kind_type type;
MEMORY_TYPES(X)
#undef X

#define X(type) &type,
const memory_kind_type *const memory_kind_types[] = {MEMORY_TYPES(X) NULL};
#undef X
]])
list(APPEND GA_SOURCES ${CMAKE_BINARY_DIR}/memory/memory_list.c)
