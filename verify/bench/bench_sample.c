#include <stdio.h>

#include "verify/bench/bench.h"

static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  static const char *const names[] = {"greedy", "top-k 40, top-p 0.95", "top-p 0.95", "typical 0.9", "64 rows"};
  (void)kernel;
  ga_sample_fused_desc *fused = desc;
  ga_sample_desc *d = &fused->plain;
  *fused = (ga_sample_fused_desc)GA_SAMPLE_FUSED_DESC_INIT;
  d->vocab = 128000;
  d->temperature = i ? 0.8f : 0.0f;
  d->top_k = i == 1 ? 40 : 0;
  d->top_p = i == 1 || i == 2 ? 0.95f : 1.0f;
  d->typical_p = i == 3 ? 0.9f : 1.0f;
  if (i == 4) fused->rows = 64, fused->logits_stride = d->vocab; /* each with a random chain */
  (void)snprintf(name, BENCH_NAME, "128000 %s", names[i]);
  return true;
}

const bench_op bench_sample = {.n_shapes = 5, .shape = shape, .bits = 4 /* token alone */};
