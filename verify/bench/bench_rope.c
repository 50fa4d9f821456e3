#include <stdio.h>

#include "verify/bench/bench.h"

static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  ga_rope_desc *d = desc;
  *d = (ga_rope_desc)GA_ROPE_DESC_INIT;
  d->tokens = i % 2 ? 512 : 1;
  d->heads = 32;
  d->head_dim = d->rot_dim = 128;
  d->x_stride = 32 * 128;
  d->pairs = i / 2;
  d->x_dtype = kernel->dtype[0] ? (int32_t)kernel->dtype[0] : GA_F32;
  (void)snprintf(name, BENCH_NAME, "%s %lldx32x128 %s", d->pairs == GA_ROPE_NEOX ? "neox" : "norm",
                 (long long)d->tokens, ga_dtype_name((ga_dtype)d->x_dtype));
  return true;
}

static double flops(const void *desc) {
  const ga_rope_desc *d = desc;
  return 3.0 * (double)d->tokens * d->heads * d->rot_dim;
}

const bench_op bench_rope = {.n_shapes = 4, .shape = shape, .flops = flops, .bits = 1};
