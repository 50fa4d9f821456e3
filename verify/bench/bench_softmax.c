#include <stdio.h>

#include "verify/bench/bench.h"

static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  static const int64_t shapes[][2] = {{1, 50000}, {512, 4096}, {8192, 4096}};
  ga_softmax_desc *d = desc;
  *d = (ga_softmax_desc)GA_SOFTMAX_DESC_INIT;
  d->rows = shapes[i][0];
  d->width = d->x_stride = d->y_stride = shapes[i][1];
  (void)snprintf(name, BENCH_NAME, "%lldx%lld f32", (long long)d->rows, (long long)d->width);
  return i < 2 || bench_on_gpu(kernel);
}

const bench_op bench_softmax = {.n_shapes = 3, .shape = shape};
