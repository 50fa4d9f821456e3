#include <stdio.h>

#include "verify/bench/bench.h"

static const int32_t caches[] = {GA_F32, GA_F16, GA_Q8_0, GA_E4M3};

/* Into a cache of 512 tokens, 8 heads of 128: one token, a prompt. */
static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  ga_kv_store_fused_desc *fused = desc;
  ga_kv_store_desc *d = &fused->plain;
  *fused = (ga_kv_store_fused_desc)GA_KV_STORE_FUSED_DESC_INIT;
  d->tokens = i % 2 ? 512 : 1;
  d->slots = 512;
  d->heads = 8;
  d->head_dim = d->v_dim = 128;
  d->k_stride = d->v_stride = 8 * 128;
  d->x_dtype = kernel->dtype[0] ? (int32_t)kernel->dtype[0] : GA_F32;
  d->kv_dtype = caches[i / 2];
  (void)snprintf(name, BENCH_NAME, "%lldx8x128 %s", (long long)d->tokens, ga_dtype_name((ga_dtype)d->kv_dtype));
  return true;
}

/* The rows that are stored, not the cache. */
static double bytes(const void *desc) {
  const ga_kv_store_desc *d = desc;
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)d->kv_dtype);
  double x = ga_dtype_info((ga_dtype)d->x_dtype)->block_bytes;
  const double scales = d->kv_dtype == GA_E4M3 ? 2.0 * (double)d->tokens * d->heads * sizeof(float) : 0;
  return (double)d->tokens * d->heads * (d->head_dim + d->v_dim) * (x + (double)t->block_bytes / t->block_elems) +
         scales;
}

const bench_op bench_kv_store = {
    .n_shapes = 2 * (int)GA_COUNT_OF(caches), .shape = shape, .bytes = bytes, .bits = 1 /* good slots */};
