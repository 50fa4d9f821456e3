#include <stdio.h>

#include "ga/mla.h"
#include "verify/bench/bench.h"

/* DeepSeek's rows: one token, a prompt. */
static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  ga_mla_store_desc *d = desc;
  *d = (ga_mla_store_desc)GA_MLA_STORE_DESC_INIT;
  d->tokens = i ? 2048 : 1;
  d->slots = 4096;
  d->v_dim = 512, d->rot_dim = 64;
  d->x_stride = 576;
  d->x_dtype = kernel->dtype[0] ? (int32_t)kernel->dtype[0] : GA_F32;
  d->norm_eps = 1e-6f;
  (void)snprintf(name, BENCH_NAME, "%lld x 512+64", (long long)d->tokens);
  return true;
}

/* The rows that are stored, not the cache. */
static double bytes(const void *desc) {
  const ga_mla_store_desc *d = desc;
  const double x = ga_dtype_info((ga_dtype)d->x_dtype)->block_bytes,
               y = ga_dtype_info((ga_dtype)d->kv_dtype)->block_bytes;
  return (double)d->tokens * (d->v_dim + d->rot_dim) * (x + y);
}

const bench_op bench_mla_store = {.n_shapes = 2, .shape = shape, .bytes = bytes, .bits = 1 /* with a norm */};
