#include "model/arch/arch.h"

#include <string.h>

static const ga_arch_desc *const archs[] = {
#define X(name) &ga_arch_##name,
    GA_ARCHS(X)
#undef X
};

const ga_arch_desc *ga_arch_find(const char *name, size_t bytes) {
  for (size_t i = 0; i < GA_COUNT_OF(archs); i++)
    if (strlen(archs[i]->name) == bytes && !memcmp(archs[i]->name, name, bytes)) return archs[i];
  return NULL;
}

const weight_use *ga_arch_weight(const ga_arch_desc *arch, weight_id id) {
  for (size_t i = 0; i < arch->n_weights; i++)
    if (arch->weights[i].id == id) return &arch->weights[i];
  return NULL;
}

const char *ga_arch_names(void) {
#define X(name) ", " #name
  static const char text[] = "" GA_ARCHS(X);
#undef X
  return text + 2;
}
