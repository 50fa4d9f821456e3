#include "model/arch/arch.h"

#include <string.h>

const ga_arch_desc *ga_arch_find(const char *name, size_t bytes) {
  for (const ga_arch_desc *const *a = ga_archs; *a; a++)
    if (strlen((*a)->name) == bytes && !memcmp((*a)->name, name, bytes)) return *a;
  return NULL;
}

const weight_use *ga_arch_weight(const ga_arch_desc *arch, weight_id id) {
  for (size_t i = 0; i < arch->n_weights; i++)
    if (arch->weights[i].id == id) return &arch->weights[i];
  return NULL;
}

bool ga_arch_has_weight(const ga_hparams *p, weight_id id, int32_t layer) {
  if (!ga_arch_weight(p->arch, id)) return false;
  return !p->arch->has_weight || p->arch->has_weight(p, id, ga_weight_specs[id].of_layer ? layer : 0);
}
