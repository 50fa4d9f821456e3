#include <math.h>
#include <stdio.h>

#include "ga/mla.h"
#include "opdef/attn.h"
#include "opdef/mla_at.h"
#include "verify/bench/bench.h"

typedef struct mla_shape {
  int64_t batch, q, kv;
  int32_t heads;
} mla_shape;

/* A CPU: one token of DeepSeek V2 Lite, of V3 over eight GPUs and whole, a prompt. */
static const mla_shape on_cpu[] = {
    {1, 1, 1024, 16}, {1, 1, 8192, 16}, {1, 1, 4096, 128}, {8, 1, 2048, 16}, {1, 256, 256, 16}};
/* A GPU: the figures that FlashMLA publishes, and fewer heads. */
static const mla_shape on_gpu[] = {{64, 1, 4096, 128}, {64, 1, 4096, 64}, {64, 1, 4096, 32}, {64, 1, 4096, 16},
                                   {128, 1, 4096, 16}, {64, 2, 4096, 64}, {1, 1, 4096, 128}, {1, 1, 32768, 128}};

static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  const bool gpu = bench_on_gpu(kernel);
  ga_mla_desc *d = desc;
  *d = (ga_mla_desc)GA_MLA_DESC_INIT;
  if (i >= (int)(gpu ? GA_COUNT_OF(on_gpu) : GA_COUNT_OF(on_cpu))) return false;
  const mla_shape *s = gpu ? &on_gpu[i] : &on_cpu[i];
  d->batch = s->batch, d->max_q = s->q, d->max_kv = s->kv;
  d->q_heads = s->heads;
  d->head_dim = 576, d->v_dim = 512;
  d->q_stride = (int64_t)d->q_heads * d->head_dim;
  d->o_stride = (int64_t)d->q_heads * d->v_dim;
  d->kv_dtype = kernel->dtype[1] ? (int32_t)kernel->dtype[1] : GA_BF16;
  d->q_dtype = kernel->dtype[0]                      ? (int32_t)kernel->dtype[0]
               : kernel->op_flags & GA_MLA_ROW_AS_KV ? d->kv_dtype
                                                     : GA_F32;
  d->o_dtype = kernel->dtype[2] ? (int32_t)kernel->dtype[2] : d->q_dtype;
  d->scale = 1 / sqrtf(192);
  (void)snprintf(name, BENCH_NAME, "%lld x %lld, %lld rows, h%d %s", (long long)s->batch, (long long)s->kv,
                 (long long)s->q, s->heads, ga_dtype_name((ga_dtype)d->kv_dtype));
  return true;
}

/* Pairs of a query and a token that it sees, times two products. */
static double flops(const void *desc) {
  const ga_mla_desc *d = desc;
  const double q = (double)d->max_q, pairs = q * ((double)d->max_kv - (q - 1) / 2);
  return 2 * (double)d->batch * pairs * d->q_heads * (d->head_dim + d->v_dim);
}

/* Q, the tokens of sequences, and O once: other pages do not count. */
static double bytes(const void *desc) {
  const ga_mla_desc *d = desc;
  const double rows = (double)d->batch * (double)d->max_q * d->q_heads;
  return rows * d->head_dim * ga_dtype_info((ga_dtype)d->q_dtype)->block_bytes +
         rows * d->v_dim * ga_dtype_info((ga_dtype)d->o_dtype)->block_bytes +
         (double)d->batch * (double)d->max_kv *
             (double)ga_mla_row_bytes((ga_dtype)d->kv_dtype, d->v_dim, d->head_dim - d->v_dim);
}

const bench_op bench_mla = {
    .n_shapes = (int)GA_COUNT_OF(on_gpu), .shape = shape, .flops = flops, .bytes = bytes, .bits = 0};
