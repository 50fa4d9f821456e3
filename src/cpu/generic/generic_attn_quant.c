/* KERNEL    attn_quant, plain C for any CPU
 * COMPUTES  e4m3 or i8 and scales of Q, K or V (ga/attn_quant.h); sums in f32, angles in double
 * CONTRACT  any strides; a block is read twice instead of being kept, so that there is no workspace
 * THREADS   blocks of tokens are independent
 */
#include <math.h>

#include "base/half.h"
#include "cpu/cpu_gemm.h"
#include "cpu/cpu_layer.h"
#include "ga/layer.h"
#include "opdef/attn_fp8.h"

typedef struct quant_job {
  const ga_attn_quant_desc *d;
  const ga_attn_quant_io *a;
  int64_t step, blocks; /* tokens of a block; blocks of a head, of padded tokens with VALUES */
  uint64_t sign[GA_ATTN_FP8_DIM_MAX / 64];
} quant_job;

static void rope(const quant_job *job, int64_t token, float *x) {
  const ga_attn_quant_desc *d = job->d;
  const int half = d->rot_dim / 2;
  for (int p = 0; p < half; p++) {
    const double angle = (double)job->a->positions[token] * (double)job->a->inv_freq[p];
    const float c = d->magnitude * (float)cos(angle), s = d->magnitude * (float)sin(angle);
    const int at0 = d->pairs == GA_ROPE_NEOX ? p : 2 * p, at1 = d->pairs == GA_ROPE_NEOX ? p + half : 2 * p + 1;
    const float x0 = x[at0], x1 = x[at1];
    x[at0] = x0 * c - x1 * s;
    x[at1] = x0 * s + x1 * c;
  }
}

static void hadamard(const quant_job *job, float *x) {
  const int dim = job->d->dim;
  const float scale = 1.0f / sqrtf((float)dim);
  for (int i = 0; i < dim; i++) x[i] *= job->sign[i / 64] >> i % 64 & 1 ? -scale : scale;
  for (int step = 1; step < dim; step *= 2)
    for (int i = 0; i < dim; i += 2 * step)
      for (int j = i; j < i + step; j++) {
        const float a = x[j], b = x[j + step];
        x[j] = a + b;
        x[j + step] = a - b;
      }
}

static void load_row(const quant_job *job, int64_t b, int64_t t, int64_t h, float *x) {
  const ga_attn_quant_desc *d = job->d;
  const ga_attn_strides *s = &job->a->x_stride;
  const ga_dtype type = (ga_dtype)d->x_dtype;
  const int64_t at = b * s->batch + t * s->token + h * s->head;
  ga_cpu_dequantise(type, (const uint8_t *)job->a->x + at * ga_dtype_info(type)->block_bytes, d->dim, x);
  if (d->rot_dim) rope(job, b * d->tokens + t, x);
  if (d->hadamard) hadamard(job, x);
}

/* Takes the mean off a row. */
static void take_off(const quant_job *job, int64_t b, int64_t h, float *x) {
  const int dim = job->d->dim;
  const float *mean = job->a->mean + (b * job->d->heads + h) * dim;
  for (int i = 0; i < dim; i++) x[i] -= mean[i];
}

/* Of each column of some heads. */
static void means(const void *user, int64_t begin, int64_t end) {
  const quant_job *job = user;
  const ga_attn_quant_desc *d = job->d;
  float x[GA_ATTN_FP8_DIM_MAX];
  for (int64_t pair = begin; pair < end; pair++) {
    double sum[GA_ATTN_FP8_DIM_MAX] = {0};
    for (int64_t t = 0; t < d->tokens; t++) {
      load_row(job, pair / d->heads, t, pair % d->heads, x);
      for (int i = 0; i < d->dim; i++) sum[i] += (double)x[i];
    }
    for (int i = 0; i < d->dim; i++) job->a->mean[pair * d->dim + i] = (float)(sum[i] / (double)d->tokens);
  }
}

static uint8_t i8_of(float x) { return (uint8_t)(int8_t)(isnan(x) ? 0 : fmaxf(-128, fminf(127, rintf(x)))); }

static void store_row(const quant_job *job, int64_t b, int64_t t, int64_t h, const float *x, float inverse) {
  const ga_attn_strides *s = &job->a->y_stride;
  uint8_t *y = (uint8_t *)job->a->y + b * s->batch + h * s->head;
  const bool rows = job->d->kind == GA_ATTN_QUANT_ROWS, i8 = job->d->y_dtype == GA_I8;
  for (int i = 0; i < job->d->dim; i++)
    y[rows ? t * s->token + i : i * s->token + ga_attn_fp8_slot(t)] = !x   ? 0
                                                                      : i8 ? i8_of(x[i] * inverse)
                                                                           : ga_f32_to_e4m3(x[i] * inverse);
}

static float block_most(const quant_job *job, int64_t b, int64_t h, int64_t begin, int64_t end) {
  float x[GA_ATTN_FP8_DIM_MAX], most = 0;
  for (int64_t t = begin; t < end; t++) {
    load_row(job, b, t, h, x);
    if (job->d->centre) take_off(job, b, h, x);
    for (int i = 0; i < job->d->dim; i++) {
      if (isnan(x[i]) && job->d->y_dtype == GA_I8) return NAN; /* which i8 cannot hold */
      most = fmaxf(most, fabsf(x[i]));
    }
  }
  return most;
}

static void one_block(const quant_job *job, int64_t b, int64_t h, int64_t begin) {
  const ga_attn_quant_desc *d = job->d;
  const ga_attn_quant_io *a = job->a;
  const int64_t last = ga_min_i64(begin + job->step, d->tokens);
  float x[GA_ATTN_FP8_DIM_MAX], scale = 1;
  if (!d->scale_tokens) {
    scale = a->given.data[b * a->given.batch + h * a->given.head];
  } else if (begin < d->tokens) {
    const float most = block_most(job, b, h, begin, last);
    scale = most > 0 || isnan(most) ? most / (float)ga_attn_quant_largest(d->y_dtype) : 1;
    a->scale[(b * d->heads + h) * ga_div_up(d->tokens, job->step) + begin / job->step] = scale;
  }
  for (int64_t t = begin; t < last; t++) {
    load_row(job, b, t, h, x);
    if (job->d->centre) take_off(job, b, h, x);
    store_row(job, b, t, h, x, 1 / scale);
  }
  for (int64_t t = ga_max_i64(last, begin); t < begin + job->step && d->kind == GA_ATTN_QUANT_VALUES; t++)
    store_row(job, b, t, h, NULL, 0);
}

static void some_blocks(const void *user, int64_t begin, int64_t end) {
  const quant_job *job = user;
  for (int64_t i = begin; i < end; i++) {
    const int64_t pair = i / job->blocks;
    one_block(job, pair / job->d->heads, pair % job->d->heads, i % job->blocks * job->step);
  }
}

const char *ga_cpu_attn_quant_any(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)desc, (void)caps;
  return NULL;
}

ga_status ga_cpu_attn_quant_generic(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                                    ga_stream *stream) {
  (void)kernel, (void)workspace;
  const ga_attn_quant_desc *d = desc;
  quant_job job = {.d = d, .a = io, .step = d->scale_tokens ? d->scale_tokens : GA_ATTN_FP8_BLOCK};
  const int64_t tokens = d->kind == GA_ATTN_QUANT_VALUES ? ga_attn_fp8_padded(d->tokens) : d->tokens;
  job.blocks = ga_div_up(tokens, job.step);
  ga_attn_quant_signs(d->seed, job.sign);
  if (d->centre && d->tokens) cpu_rows_run(stream, d->batch * d->heads, d->tokens * d->dim, means, &job);
  if (job.blocks) cpu_rows_run(stream, d->batch * d->heads * job.blocks, job.step * d->dim, some_blocks, &job);
  return GA_OK;
}
