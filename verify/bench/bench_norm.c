#include <stdio.h>

#include "verify/bench/bench.h"

/* One token, a prompt, and what fills a GPU. */
static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  static const int64_t shapes[][2] = {{1, 4096}, {512, 4096}, {8192, 4096}};
  ga_norm_desc *d = desc;
  *d = (ga_norm_desc)GA_NORM_DESC_INIT;
  d->rows = shapes[i][0];
  d->width = d->x_stride = d->y_stride = shapes[i][1];
  d->x_dtype = kernel->dtype[0] ? (int32_t)kernel->dtype[0] : GA_F32;
  d->y_dtype = kernel->dtype[1] ? (int32_t)kernel->dtype[1] : d->x_dtype;
  (void)snprintf(name, BENCH_NAME, "rms %lldx%lld %s", (long long)d->rows, (long long)d->width,
                 ga_dtype_name((ga_dtype)d->x_dtype));
  return i < 2 || bench_on_gpu(kernel);
}

static double flops(const void *desc) {
  const ga_norm_desc *d = desc;
  return 4.0 * (double)d->rows * (double)d->width;
}

const bench_op bench_norm = {.n_shapes = 3, .shape = shape, .flops = flops, .bits = 2 /* no bias */};
