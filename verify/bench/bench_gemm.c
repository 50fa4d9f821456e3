#include <stdio.h>

#include "verify/bench/bench.h"

#define MANY ((int64_t)1 << 32) /* multiply-adds */

/* Decode and small batches (k 14336 is a down projection of 8 B parameters), prefill; q, k and v, gate and up of one
 * token, with the norm. */
static const struct {
  int64_t m, n, k;
  int64_t more;   /* rows of each of two further matrices */
  uint32_t fused; /* ga_gemm_fused_flags */
} shapes[] = {{1, 4096, 4096, 0, 0},
              {8, 4096, 4096, 0, 0},
              {1, 4096, 14336, 0, 0},
              {8, 4096, 14336, 0, 0},
              {1, 1024, 4096, 0, 0},
              {1, 14336, 4096, 0, 0},
              {8, 14336, 4096, 0, 0},
              {1, 128256, 4096, 0, 0},
              {512, 2048, 2048, 0, 0},
              {256, 4096, 4096, 0, 0}, /* from here on tensor cores alone: a server's batch, a prompt */
              {256, 4096, 14336, 0, 0},
              {256, 14336, 4096, 0, 0},
              {2048, 4096, 4096, 0, 0},
              {2048, 4096, 14336, 0, 0},
              {2048, 14336, 4096, 0, 0},
              {1, 4096, 4096, 0, GA_GEMM_FUSED_NORM},
              {1, 4096, 4096, 1024, GA_GEMM_FUSED_NORM},
              {1, 14336, 4096, 0, GA_GEMM_FUSED_NORM | GA_GEMM_FUSED_GATED}};

static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  ga_gemm_fused_desc *d = desc;
  if (shapes[i].m * shapes[i].n * shapes[i].k >= MANY && !(kernel->flags & GA_KERNEL_TENSOR)) return false;
  *d = (ga_gemm_fused_desc)GA_GEMM_FUSED_DESC_INIT;
  d->plain.m = shapes[i].m;
  d->plain.n = d->plain.y_stride = shapes[i].n;
  d->plain.k = d->plain.x_stride = d->plain.w_stride = shapes[i].k;
  d->plain.w_dtype = kernel->dtype[0] ? (int32_t)kernel->dtype[0] : GA_F32;
  d->plain.x_dtype = kernel->dtype[1] ? (int32_t)kernel->dtype[1] : GA_F32;
  d->plain.y_dtype = kernel->dtype[2] ? (int32_t)kernel->dtype[2] : GA_F32;
  d->plain.w_layout = (int32_t)kernel->layout;
  if (kernel->op_flags & GA_GEMM_ROW_INVARIANT && kernel->rows_max)
    d->plain.flags |= GA_GEMM_INVARIANT; /* for that alone */
  if (kernel->op_flags & GA_GEMM_ROW_X_E4M3 && kernel->flags & GA_KERNEL_TENSOR) d->plain.flags |= GA_GEMM_X_E4M3;
  d->fused = shapes[i].fused;
  d->n_more[0] = d->n_more[1] = d->y_more_stride[0] = d->y_more_stride[1] = shapes[i].more;
  (void)snprintf(name, BENCH_NAME, "%lldx%lldx%lld %s%s%s%s", (long long)d->plain.m, (long long)d->plain.n,
                 (long long)d->plain.k, ga_dtype_name((ga_dtype)d->plain.w_dtype),
                 d->fused & GA_GEMM_FUSED_NORM ? " norm" : "", d->fused & GA_GEMM_FUSED_GATED ? " gated" : "",
                 shapes[i].more ? " q+k+v" : "");
  return true;
}

static double flops(const void *desc) {
  const ga_gemm_fused_desc *d = desc;
  const double rows =
      (double)d->plain.n * (d->fused & GA_GEMM_FUSED_GATED ? 2 : 1) + (double)d->n_more[0] + (double)d->n_more[1];
  return 2.0 * (double)d->plain.m * rows * (double)d->plain.k;
}

const bench_op bench_gemm = {.n_shapes = (int)GA_COUNT_OF(shapes), .shape = shape, .flops = flops};
