#include <stdio.h>

#include "verify/bench/bench.h"

/* Decode and small batches (k 14336 is a down projection of 8 B parameters), prefill; q, k and v, gate and up of one
 * token, with the norm. */
static const struct {
  int64_t m, n, k;
  int64_t more; /* rows of each of two further matrices */
  uint32_t flags;
} shapes[] = {{1, 4096, 4096, 0, 0},
              {8, 4096, 4096, 0, 0},
              {1, 4096, 14336, 0, 0},
              {8, 4096, 14336, 0, 0},
              {1, 1024, 4096, 0, 0},
              {1, 14336, 4096, 0, 0},
              {8, 14336, 4096, 0, 0},
              {1, 128256, 4096, 0, 0},
              {512, 2048, 2048, 0, 0},
              {1, 4096, 4096, 0, GA_GEMM_NORM},
              {1, 4096, 4096, 1024, GA_GEMM_NORM},
              {1, 14336, 4096, 0, GA_GEMM_NORM | GA_GEMM_GATED}};

static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  ga_gemm_desc *d = desc;
  *d = (ga_gemm_desc)GA_GEMM_DESC_INIT;
  d->m = shapes[i].m;
  d->n = d->y_stride = shapes[i].n;
  d->k = d->x_stride = d->w_stride = shapes[i].k;
  d->w_dtype = kernel->dtype[0] ? (int32_t)kernel->dtype[0] : GA_F32;
  d->x_dtype = kernel->dtype[1] ? (int32_t)kernel->dtype[1] : GA_F32;
  d->y_dtype = kernel->dtype[2] ? (int32_t)kernel->dtype[2] : GA_F32;
  d->w_layout = (int32_t)kernel->layout;
  d->flags = shapes[i].flags;
  d->n_more[0] = d->n_more[1] = d->y_more_stride[0] = d->y_more_stride[1] = shapes[i].more;
  (void)snprintf(name, BENCH_NAME, "%lldx%lldx%lld %s%s%s%s", (long long)d->m, (long long)d->n, (long long)d->k,
                 ga_dtype_name((ga_dtype)d->w_dtype), d->flags & GA_GEMM_NORM ? " norm" : "",
                 d->flags & GA_GEMM_GATED ? " gated" : "", shapes[i].more ? " q+k+v" : "");
  return true;
}

static double flops(const void *desc) {
  const ga_gemm_desc *d = desc;
  const double rows = (double)d->n * (d->flags & GA_GEMM_GATED ? 2 : 1) + (double)d->n_more[0] + (double)d->n_more[1];
  return 2.0 * (double)d->m * rows * (double)d->k;
}

const bench_op bench_gemm = {.n_shapes = (int)GA_COUNT_OF(shapes), .shape = shape, .flops = flops};
