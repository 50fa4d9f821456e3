# The list of architectures is made here of their descriptors in src/model/arch: adding one touches no list.
file(GLOB GA_ARCH_FILES CONFIGURE_DEPENDS src/model/arch/*.c)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${GA_ARCH_FILES})
set(GA_ARCH_NAMES)
foreach(file ${GA_ARCH_FILES})
  file(STRINGS ${file} lines REGEX "^const ga_arch_desc ga_arch_[a-z0-9_]+ =")
  foreach(line ${lines})
    string(REGEX REPLACE "^const ga_arch_desc ga_arch_([a-z0-9_]+) =.*" "\\1" name "${line}")
    list(APPEND GA_ARCH_NAMES ${name})
  endforeach()
endforeach()
list(SORT GA_ARCH_NAMES)
list(TRANSFORM GA_ARCH_NAMES REPLACE "(.+)" "X(\\1)" OUTPUT_VARIABLE GA_ARCH_LIST)
list(JOIN GA_ARCH_LIST " " GA_ARCH_LIST)
list(JOIN GA_ARCH_NAMES ", " GA_ARCH_TEXT)
string(REPLACE "_" "-" GA_ARCH_TEXT "${GA_ARCH_TEXT}") # nomic_bert in C is nomic-bert in files
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/archs/arch_list.c @ONLY CONTENT [[
/* Made by cmake/archs.cmake of the descriptors in src/model/arch. */
#include "model/arch/arch.h"

#define GA_ARCHS(X) @GA_ARCH_LIST@

#define X(name) extern const ga_arch_desc ga_arch_##name;
GA_ARCHS(X)
#undef X

#define X(name) &ga_arch_##name,
const ga_arch_desc *const ga_archs[] = {GA_ARCHS(X) NULL};
#undef X

const char *ga_arch_names(void) { return "@GA_ARCH_TEXT@"; }
]])
list(APPEND GA_SOURCES ${CMAKE_BINARY_DIR}/archs/arch_list.c)
