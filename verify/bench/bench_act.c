#include <stdio.h>

#include "verify/bench/bench.h"

/* Each activation as a gated unit: one token, a prompt, and what fills a GPU. */
static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  static const char *const acts[] = {"silu", "gelu_tanh", "gelu_erf"};
  ga_act_desc *d = desc;
  *d = (ga_act_desc)GA_ACT_DESC_INIT;
  d->rows = (int64_t[]){1, 512, 8192}[i % 3];
  d->width = d->x_stride = d->g_stride = d->y_stride = 4096;
  d->act = GA_ACT_SILU + i / 3;
  d->dtype = kernel->dtype[0] ? (int32_t)kernel->dtype[0] : GA_F32;
  (void)snprintf(name, BENCH_NAME, "%s %lldx4096 %s", acts[i / 3], (long long)d->rows,
                 ga_dtype_name((ga_dtype)d->dtype));
  return i % 3 < 2 || bench_on_gpu(kernel);
}

const bench_op bench_act = {.n_shapes = 9, .shape = shape};
