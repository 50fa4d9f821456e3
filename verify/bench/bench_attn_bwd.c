#include <stdio.h>

#include "verify/bench/bench.h"

typedef struct bwd_shape {
  int64_t tokens, length;
  int32_t width, kv_share, dim; /* q heads = width / dim; query heads a KV head */
} bwd_shape;

/* A layer that trains on a CPU, and 16384 tokens of a width of 2048 for a GPU. */
static const bwd_shape cpu_shapes[] = {{1024, 512, 576, 3, 64}, {2048, 2048, 1024, 1, 128}};
static const bwd_shape gpu_shapes[] = {
    {16384, 512, 2048, 1, 64},  {16384, 2048, 2048, 1, 64},  {16384, 8192, 2048, 1, 64},  {16384, 16384, 2048, 1, 64},
    {16384, 512, 2048, 1, 128}, {16384, 2048, 2048, 1, 128}, {16384, 8192, 2048, 1, 128}, {16384, 16384, 2048, 1, 128},
    {16384, 512, 2048, 1, 256}, {16384, 2048, 2048, 1, 256}, {16384, 8192, 2048, 1, 256}, {16384, 16384, 2048, 1, 256},
};

/* Each shape twice: full, causal. */
static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  const bool gpu = kernel->isa >= GA_ISA_sm80, causal = i % 2;
  if (!gpu && i / 2 >= (int)GA_COUNT_OF(cpu_shapes)) return false;
  const bwd_shape *s = gpu ? &gpu_shapes[i / 2] : &cpu_shapes[i / 2];
  ga_attn_bwd_desc *d = desc;
  *d = (ga_attn_bwd_desc)GA_ATTN_BWD_DESC_INIT;
  d->batch = s->tokens / s->length;
  d->max_q = d->max_kv = s->length;
  d->q_heads = s->width / s->dim;
  d->kv_heads = d->q_heads / s->kv_share;
  d->head_dim = d->v_dim = s->dim;
  d->dtype = d->grad_dtype = kernel->dtype[0] ? (int32_t)kernel->dtype[0] : GA_F32;
  d->flags = causal ? GA_ATTN_CAUSAL : 0;
  d->scale = 1.0f / sqrtf((float)s->dim);
  (void)snprintf(name, BENCH_NAME, "%lldx%lld h%d/%d d%d %s", (long long)d->batch, (long long)s->length, d->q_heads,
                 d->kv_heads, s->dim, causal ? "causal" : "full");
  return true;
}

/* Five products over the pairs that the mask leaves. */
static double flops(const void *desc) {
  const ga_attn_bwd_desc *d = desc;
  const double q = (double)d->max_q, pairs = q * (double)d->max_kv - (d->flags & GA_ATTN_CAUSAL ? q * (q - 1) / 2 : 0);
  return 2.0 * pairs * (double)d->batch * d->q_heads * (3 * d->head_dim + 2 * d->v_dim);
}

const bench_op bench_attn_bwd = {.n_shapes = 2 * (int)GA_COUNT_OF(gpu_shapes), .shape = shape, .flops = flops};
