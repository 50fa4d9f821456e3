# The list of architectures is made here of their descriptors in src/model/arch: adding one touches no list.
ga_declared(GA_ARCH src/model/arch ga_arch_desc ga_arch_)
list(JOIN GA_ARCH ", " GA_ARCH_TEXT)
string(REPLACE "_" "-" GA_ARCH_TEXT "${GA_ARCH_TEXT}") # nomic_bert in C is nomic-bert in files
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/archs/arch_list.c @ONLY CONTENT [[
/* Made by cmake/archs.cmake of the descriptors in src/model/arch. */
#include "model/arch/arch.h"

#define GA_ARCHS(X) @GA_ARCH_X@

#define X(name) extern const ga_arch_desc ga_arch_##name;
GA_ARCHS(X)
#undef X

#define X(name) &ga_arch_##name,
const ga_arch_desc *const ga_archs[] = {GA_ARCHS(X) NULL};
#undef X

const char *ga_arch_names(void) { return "@GA_ARCH_TEXT@"; }
]])
list(APPEND GA_SOURCES ${CMAKE_BINARY_DIR}/archs/arch_list.c)
