#include <stdio.h>

#include "tools/ga/bench/bench.h"

/* Decode and small batches (k 14336 is a down projection of 8 B parameters), prefill. */
static const int64_t shapes[][3] = {{1, 4096, 4096},  {8, 4096, 4096},  {1, 4096, 14336},  {8, 4096, 14336}, {1, 1024, 4096},
                                    {1, 14336, 4096}, {8, 14336, 4096}, {1, 128256, 4096}, {512, 2048, 2048}};

static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  ga_gemm_desc *d = desc;
  *d = (ga_gemm_desc)GA_GEMM_DESC_INIT;
  d->m = shapes[i][0];
  d->n = d->y_stride = shapes[i][1];
  d->k = d->x_stride = d->w_stride = shapes[i][2];
  d->w_dtype = kernel->dtype[0] ? (int32_t)kernel->dtype[0] : GA_F32;
  d->x_dtype = kernel->dtype[1] ? (int32_t)kernel->dtype[1] : GA_F32;
  d->y_dtype = kernel->dtype[2] ? (int32_t)kernel->dtype[2] : GA_F32;
  d->w_layout = (int32_t)kernel->layout;
  (void)snprintf(name, BENCH_NAME, "%lldx%lldx%lld %s", (long long)d->m, (long long)d->n, (long long)d->k,
                 ga_dtype_name((ga_dtype)d->w_dtype));
  return true;
}

static double flops(const void *desc) {
  const ga_gemm_desc *d = desc;
  return 2.0 * (double)d->m * (double)d->n * (double)d->k;
}

const bench_op bench_gemm = {.n_shapes = (int)GA_COUNT_OF(shapes), .shape = shape, .flops = flops};
