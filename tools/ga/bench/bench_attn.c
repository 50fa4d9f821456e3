#include <stdio.h>

#include "tools/ga/bench/bench.h"

typedef struct attn_shape {
  const char *name;
  int64_t q, kv;
  int32_t heads, kv_heads, dim;
} attn_shape;

static const attn_shape shapes[] = {
    {"decode", 1, 1024, 32, 8, 128},
    {"decode", 1, 8192, 32, 8, 128},
    {"prefill", 512, 512, 32, 8, 128},
    {"prefill", 512, 512, 9, 3, 64},
};
static const int32_t caches[] = {GA_F32, GA_F16, GA_Q8_0};
#define N_SHAPES (int)GA_COUNT_OF(shapes)

static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  const attn_shape *s = &shapes[i % N_SHAPES];
  ga_attn_desc *d = desc;
  *d = (ga_attn_desc)GA_ATTN_DESC_INIT;
  d->max_q = s->q;
  d->max_kv = s->kv;
  d->q_heads = s->heads;
  d->kv_heads = s->kv_heads;
  d->head_dim = d->v_dim = s->dim;
  d->q_dtype = kernel->dtype[0] ? (int32_t)kernel->dtype[0] : GA_F32;
  d->kv_dtype = caches[i / N_SHAPES];
  d->o_dtype = kernel->dtype[2] ? (int32_t)kernel->dtype[2] : d->q_dtype;
  d->flags = GA_ATTN_CAUSAL;
  d->scale = 1.0f / sqrtf((float)s->dim);
  (void)snprintf(name, BENCH_NAME, "%s %lldx%lld h%d/%d d%d %s", s->name, (long long)s->q, (long long)s->kv, s->heads,
                 s->kv_heads, s->dim, ga_dtype_name((ga_dtype)d->kv_dtype));
  return !kernel->dtype[1] || (int32_t)kernel->dtype[1] == d->kv_dtype;
}

/* Two products over the pairs that the causal mask leaves. */
static double flops(const void *desc) {
  const ga_attn_desc *d = desc;
  double q = (double)d->max_q, pairs = q * (double)d->max_kv - q * (q - 1) / 2;
  return 2.0 * pairs * d->q_heads * (d->head_dim + d->v_dim);
}

const bench_op bench_attn = {.n_shapes = N_SHAPES * (int)GA_COUNT_OF(caches), .shape = shape, .flops = flops};
