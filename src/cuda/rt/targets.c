#include "cuda/rt/targets.h"

uint32_t cuda_isas_of(int capability) {
  uint32_t isas = 0;
  for (const cuda_target *t = cuda_targets; t < cuda_targets + cuda_n_targets; t++)
    if (capability == t->capability || (t->forward && capability > t->capability)) isas |= 1u << t->isa;
  return isas;
}

const char *cuda_suffix_of(ga_isa isa) {
  for (const cuda_target *t = cuda_targets; t < cuda_targets + cuda_n_targets; t++)
    if (t->isa == isa) return t->suffix;
  return "";
}
