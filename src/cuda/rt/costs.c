#include "cuda/rt/costs.h"

#include <string.h>

const cuda_costs *cuda_costs_of_chip(const char *chip) {
  const cuda_costs *fallback = NULL;
  for (const cuda_costs *c = cuda_all_costs; c < cuda_all_costs + cuda_n_costs; c++) {
    if (strstr(chip, c->chip)) return c;
    if (c->fallback) fallback = c;
  }
  return fallback;
}
