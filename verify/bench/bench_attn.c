#include <stdio.h>
#include <string.h>

#include "verify/bench/bench.h"

typedef struct attn_shape {
  const char *name;
  int64_t q, kv;
  int32_t heads, kv_heads, dim;
} attn_shape;

/* --- on a CPU: a model's decode and prefill over each type of KV --- */

static const attn_shape shapes[] = {
    {"decode", 1, 1024, 32, 8, 128},
    {"decode", 1, 8192, 32, 8, 128},
    {"prefill", 512, 512, 32, 8, 128},
    {"prefill", 512, 512, 9, 3, 64},
};
static const int32_t caches[] = {GA_F32, GA_F16, GA_Q8_0, GA_E4M3};
#define N_SHAPES (int)GA_COUNT_OF(shapes)
#define N_HOST   (N_SHAPES * (int)GA_COUNT_OF(caches))

static bool host_shape(int i, const ga_kernel *kernel, ga_attn_desc *d, char name[BENCH_NAME]) {
  const attn_shape *s = &shapes[i % N_SHAPES];
  d->max_q = s->q;
  d->max_kv = s->kv;
  d->q_heads = s->heads;
  d->kv_heads = s->kv_heads;
  d->head_dim = d->v_dim = s->dim;
  d->q_dtype = kernel->dtype[0] ? (int32_t)kernel->dtype[0] : GA_F32;
  d->kv_dtype = caches[i / N_SHAPES];
  d->o_dtype = kernel->dtype[2] ? (int32_t)kernel->dtype[2] : d->q_dtype;
  d->flags = GA_ATTN_CAUSAL;
  d->kv_scale_tokens = d->kv_dtype == GA_E4M3 ? 1 : 0;
  (void)snprintf(name, BENCH_NAME, "%s %lldx%lld h%d/%d d%d %s", s->name, (long long)s->q, (long long)s->kv, s->heads,
                 s->kv_heads, s->dim, ga_dtype_name((ga_dtype)d->kv_dtype));
  return !kernel->dtype[1] || (int32_t)kernel->dtype[1] == d->kv_dtype;
}

/* --- on a GPU --- */

typedef struct gpu_shape {
  int32_t dim, v_dim, seq, batch, heads, kv_heads, window;
  bool causal;
} gpu_shape;

/* Beside the grids below: windows, grouped heads, a wider K, the ladder's. */
static const gpu_shape others[] = {
    {64, 64, 8192, 2, 32, 32, 1024, true}, {128, 128, 8192, 2, 16, 16, 1024, true},
    {128, 128, 8192, 2, 32, 8, 0, true},   {96, 96, 8192, 2, 16, 16, 0, true},
    {192, 128, 8192, 2, 16, 16, 0, true},  {192, 192, 8192, 2, 16, 16, 0, true},
    {128, 128, 4096, 4, 16, 16, 0, false}, /* docs/guide/ladder.md */
};
/* 3 head dims x 2 masks x 4 lengths, 16384 tokens in all, heads = 2048 / dim: those of FlashAttention-3's paper. */
#define N_LONG  24
#define N_SHORT 9 /* 3 lengths x 3 batches, 8 heads of 64: those of FlashCore */
#define N_GPU   (N_LONG + N_SHORT + (int)GA_COUNT_OF(others))

static gpu_shape gpu_shape_at(int i) {
  static const int32_t lengths[] = {512, 2048, 8192, 16384};
  if (i < N_LONG) {
    const int32_t dim = 64 << i / 8, seq = lengths[i % 4];
    return (gpu_shape){dim, dim, seq, 16384 / seq, 2048 / dim, 2048 / dim, 0, i / 4 % 2 == 1};
  }
  i -= N_LONG;
  if (i < N_SHORT) return (gpu_shape){64, 64, 128 << i / 3, 8 << i % 3, 8, 8, 0, false};
  return others[i - N_SHORT];
}

#define LEAST_CUT 2048 /* keys that are timed in stretches: 8 of two blocks */

static bool gpu_shape_of(int i, const ga_kernel *kernel, ga_attn_desc *d, char name[BENCH_NAME]) {
  const gpu_shape s = gpu_shape_at(i);
  char heads[16] = "", dims[16] = "", window[16] = "", whole[96];
  if (s.kv_heads != s.heads) (void)snprintf(heads, sizeof heads, "/%d", s.kv_heads);
  if (s.v_dim != s.dim) (void)snprintf(dims, sizeof dims, "/%d", s.v_dim);
  if (s.window) (void)snprintf(window, sizeof window, " w%d", s.window);
  d->batch = s.batch;
  d->max_q = d->max_kv = s.seq;
  d->q_heads = s.heads;
  d->kv_heads = s.kv_heads;
  d->head_dim = s.dim;
  d->v_dim = s.v_dim;
  d->window = s.window;
  d->flags = s.causal ? GA_ATTN_CAUSAL : 0;
  d->q_dtype = (int32_t)kernel->dtype[0];
  d->kv_dtype = (int32_t)kernel->dtype[1];
  d->o_dtype = (int32_t)kernel->dtype[2];
  const bool stretches = strstr(kernel->id, "_stretch_");
  if (stretches) d->q_stretches = 2, d->kv_stretches = 8; /* check_attn_stretch_timed */
  (void)snprintf(whole, sizeof whole, "d%d%s s%d b%d h%d%s %s%s %s", s.dim, dims, s.seq, s.batch, s.heads, heads,
                 s.causal ? "causal" : "full", window, ga_dtype_name(kernel->dtype[0]));
  (void)snprintf(name, BENCH_NAME, "%.*s", BENCH_NAME - 1, whole);
  return !stretches || s.seq >= LEAST_CUT;
}

/* Decode over pages of 256: Llama-3-8B's heads, then SmolLM2-135M's and Gemma-3-270M's. For rows that take any q. */
static const attn_shape decodes[] = {
    {"decode", 1, 512, 32, 8, 128},   {"decode", 1, 4096, 32, 8, 128}, {"decode", 1, 16384, 32, 8, 128},
    {"decode", 1, 65536, 32, 8, 128}, {"decode", 1, 512, 9, 3, 64},    {"decode", 1, 512, 4, 1, 256},
};
#define N_DECODE (int)GA_COUNT_OF(decodes)
#define BITS     20 /* check_attn.c: lengths are the longest, strides plain */

static bool decode_shape(int i, const ga_kernel *kernel, ga_attn_desc *d, char name[BENCH_NAME]) {
  const attn_shape *s = &decodes[i];
  d->max_q = s->q;
  d->max_kv = s->kv;
  d->q_heads = s->heads;
  d->kv_heads = s->kv_heads;
  d->head_dim = d->v_dim = s->dim;
  d->kv_dtype = (int32_t)kernel->dtype[1];
  d->flags = GA_ATTN_CAUSAL | GA_ATTN_PAGED | GA_ATTN_KV_READY;
  d->page_size = 256;
  d->kv_scale_tokens = d->kv_dtype == GA_E4M3 ? 1 : 0;
  (void)snprintf(name, BENCH_NAME, "decode %lld h%d/%d d%d %s", (long long)s->kv, s->heads, s->kv_heads, s->dim,
                 ga_dtype_name(kernel->dtype[1]));
  return true;
}

/* --- both --- */

static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  ga_attn_desc *d = desc;
  const bool gpu = bench_on_gpu(kernel);
  *d = (ga_attn_desc)GA_ATTN_DESC_INIT;
  const bool decode = gpu && !kernel->dtype[0];
  if (i >= (decode ? N_DECODE : gpu ? N_GPU : N_HOST)) return false;
  const bool fits = decode ? decode_shape(i, kernel, d, name)
                    : gpu  ? gpu_shape_of(i, kernel, d, name)
                           : host_shape(i, kernel, d, name);
  d->scale = 1.0f / sqrtf((float)d->head_dim);
  return fits;
}

/* Pairs that the mask leaves, as everybody counts them: a causal square is halved, its diagonal not told apart. The
 * query at place p of `kv` sees min(p, window) keys. */
static double pairs(const ga_attn_desc *d) {
  const double kv = (double)d->max_kv, first = fmax(kv - (double)d->max_q, 0),
               window = d->window ? fmin(d->window, kv) : kv;
  if (!(d->flags & GA_ATTN_CAUSAL)) return (double)d->max_q * kv;
  if (window <= first || d->max_q == 1) return (double)d->max_q * window;
  return (window * window - first * first) / 2 + (kv - window) * window;
}

/* Two products. */
static double flops(const void *desc) {
  const ga_attn_desc *d = desc;
  return 2.0 * (double)d->batch * pairs(d) * d->q_heads * (d->head_dim + d->v_dim);
}

static double elements_bytes(int32_t dtype, double n) {
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)dtype);
  return n / t->block_elems * t->block_bytes;
}

/* Q, K, V and O once: pages that no sequence owns do not count. */
static double bytes(const void *desc) {
  const ga_attn_desc *d = desc;
  const double rows_q = (double)d->batch * (double)d->max_q * d->q_heads,
               rows_k = (double)d->batch * (double)d->max_kv * d->kv_heads;
  const double scales = d->kv_dtype == GA_E4M3 && d->kv_scale_tokens == 1 ? 2 * rows_k * sizeof(float) : 0;
  return scales + elements_bytes(d->q_dtype, rows_q * d->head_dim) + elements_bytes(d->o_dtype, rows_q * d->v_dim) +
         elements_bytes(d->kv_dtype, rows_k * (d->head_dim + d->v_dim));
}

const bench_op bench_attn = {
    .n_shapes = N_HOST > N_GPU ? N_HOST : N_GPU, .shape = shape, .flops = flops, .bytes = bytes, .bits = BITS};
