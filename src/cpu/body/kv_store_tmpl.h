/* KERNEL    kv_store, f32 rows into caches of f32, f16, bf16, e4m3 (a scale for each head of a token) or block types
 * ACCURACY  each element is rounded once; results equal those of ga_ref_kv_store bit for bit, except for NaN */
#include "base/quant.h"
#include "base/status.h"
#include "opdef/convert_at.h"

static void store_f16(const float *x, ga_f16 *y, int64_t n) {
  int64_t i = 0;
  for (; i + VN <= n; i += VN) vf_to_f16(y + i, vf_load(x + i));
  for (; i < n; i++) y[i] = ga_f32_to_f16(x[i]);
}

static void store_bf16(const float *x, ga_bf16 *y, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = ga_f32_to_bf16(x[i]);
}

static void store_blocks(ga_dtype dtype, const float *x, uint8_t *y, int64_t n) {
  const ga_dtype_traits *t = ga_dtype_info(dtype);
  for (int64_t i = 0; i < n; i += t->block_elems, y += t->block_bytes) ga_quantise_block(dtype, x + i, y);
}

/* Converts n elements of x to dtype and stores them as row `slot` of the cache. */
static void store_row(ga_dtype dtype, const float *x, void *cache, int64_t slot, int64_t n) {
  const ga_dtype_traits *t = ga_dtype_info(dtype);
  uint8_t *y = (uint8_t *)cache + slot * (n / t->block_elems * t->block_bytes);
  switch (dtype) {
  case GA_F32: memcpy(y, x, (size_t)n * sizeof *x); break;
  case GA_F16: store_f16(x, (ga_f16 *)(void *)y, n); break;
  case GA_BF16: store_bf16(x, (ga_bf16 *)(void *)y, n); break;
  default: store_blocks(dtype, x, y, n); break;
  }
}

typedef struct kv_job {
  const ga_kv_store_desc *d;
  const ga_kv_store_io *a;
} kv_job;

/* Converts x [heads, dim] to e4m3 and stores it as row `slot` of the cache, with a scale for each head in scale [heads,
 * slots]. */
static void store_scaled(const ga_kv_store_desc *d, const float *x, uint8_t *cache, int64_t slot, int64_t dim,
                         float *scale) {
  for (int64_t h = 0; h < d->heads; h++, x += dim) {
    uint8_t *y = cache + (slot * d->heads + h) * dim;
    float most = 0;
    for (int64_t i = 0; i < dim; i++) most = fmaxf(most, fabsf(x[i]));
    const float unit = ga_convert_scale(most);
    scale[h * d->slots + slot] = unit;
    for (int64_t i = 0; i < dim; i++) y[i] = ga_f32_to_e4m3(x[i] / unit);
  }
}

static void kv_rows(const void *job, int64_t begin, int64_t end) {
  const kv_job *j = job;
  const ga_kv_store_desc *d = j->d;
  for (int64_t t = begin; t < end; t++) {
    const int64_t slot = j->a->slot[t];
    const float *k = (const float *)j->a->k + t * d->k_stride, *v = (const float *)j->a->v + t * d->v_stride;
    if (slot < 0) continue;
    if (d->kv_dtype == GA_E4M3) {
      store_scaled(d, k, j->a->k_cache, slot, d->head_dim, j->a->k_scale);
      store_scaled(d, v, j->a->v_cache, slot, d->v_dim, j->a->v_scale);
      continue;
    }
    store_row((ga_dtype)d->kv_dtype, k, j->a->k_cache, slot, (int64_t)d->heads * d->head_dim);
    store_row((ga_dtype)d->kv_dtype, v, j->a->v_cache, slot, (int64_t)d->heads * d->v_dim);
  }
}

ga_status ISA(ga_cpu_kv_store)(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                               ga_stream *stream) {
  (void)workspace;
  kv_job job = {.d = desc, .a = io};
  for (int64_t t = 0; t < job.d->tokens; t++)
    GA_REQUIRE(job.a->slot[t] >= -1 && job.a->slot[t] < job.d->slots, GA_ERR_ARG,
               "kv_store %s: slot[%lld] is %d; must be -1 to %lld", kernel->id, (long long)t, job.a->slot[t],
               (long long)job.d->slots - 1);
  cpu_rows_run(stream, job.d->tokens, (int64_t)job.d->heads * (job.d->head_dim + job.d->v_dim), kv_rows, &job);
  return GA_OK;
}
