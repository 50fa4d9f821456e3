#include <stdio.h>

#include "verify/bench/bench.h"

static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  static const char *const names[] = {"greedy", "top-k 40, top-p 0.95", "top-p 0.95", "typical 0.9"};
  (void)kernel;
  ga_sample_desc *d = desc;
  *d = (ga_sample_desc)GA_SAMPLE_DESC_INIT;
  d->vocab = 128000;
  d->temperature = i ? 0.8f : 0.0f;
  d->top_k = i == 1 ? 40 : 0;
  d->top_p = i == 1 || i == 2 ? 0.95f : 1.0f;
  d->typical_p = i == 3 ? 0.9f : 1.0f;
  (void)snprintf(name, BENCH_NAME, "128000 %s", names[i]);
  return true;
}

const bench_op bench_sample = {.n_shapes = 4, .shape = shape, .bits = 4 /* token alone */};
