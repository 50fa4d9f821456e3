#include <stdio.h>

#include "verify/bench/bench.h"

static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  static const int64_t shapes[][2] = {{1, 4096}, {512, 4096}, {8192, 4096}};
  ga_add_desc *d = desc;
  *d = (ga_add_desc)GA_ADD_DESC_INIT;
  d->rows = d->b_rows = shapes[i][0];
  d->width = d->x_stride = d->b_stride = d->y_stride = shapes[i][1];
  d->dtype = kernel->dtype[0] ? (int32_t)kernel->dtype[0] : GA_F32;
  (void)snprintf(name, BENCH_NAME, "%lldx%lld %s", (long long)d->rows, (long long)d->width,
                 ga_dtype_name((ga_dtype)d->dtype));
  return i < 2 || bench_on_gpu(kernel);
}

static double flops(const void *desc) {
  const ga_add_desc *d = desc;
  return 2.0 * (double)d->rows * (double)d->width;
}

const bench_op bench_add = {.n_shapes = 3, .shape = shape, .flops = flops};
