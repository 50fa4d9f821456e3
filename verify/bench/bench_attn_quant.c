#include <stdio.h>

#include "opdef/attn_fp8.h"
#include "verify/bench/bench.h"

/* Q or K with the Hadamard transform, and V, of 16384 tokens (a CPU's: 512), heads = 2048 / dim. */
static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  ga_attn_quant_desc *d = desc;
  *d = (ga_attn_quant_desc)GA_ATTN_QUANT_DESC_INIT;
  d->tokens = bench_on_gpu(kernel) ? 16384 : 512;
  d->dim = 64 << i / 2;
  d->heads = 2048 / d->dim;
  d->kind = i % 2;
  d->hadamard = d->kind == GA_ATTN_QUANT_ROWS;
  d->x_dtype = kernel->dtype[0] ? (int32_t)kernel->dtype[0] : GA_F32;
  (void)snprintf(name, BENCH_NAME, "%s d%d s%lld h%d %s", d->kind ? "v" : "qk", d->dim, (long long)d->tokens, d->heads,
                 ga_dtype_name((ga_dtype)d->x_dtype));
  return true;
}

static double flops(const void *desc) {
  const ga_attn_quant_desc *d = desc;
  return 2.0 * (double)d->batch * (double)d->tokens * d->heads * d->dim;
}

const bench_op bench_attn_quant = {.n_shapes = 6, .shape = shape, .flops = flops};
