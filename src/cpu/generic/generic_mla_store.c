/* Rows of a latent cache in plain C: a row is some 600 elements of each token. Norm and rotation are computed in
 * double, so that results are rounded once. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/status.h"
#include "cpu/cpu_gemm.h"
#include "opdef/mla_at.h"

const char *ga_cpu_mla_store_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps;
  return ((const ga_mla_store_desc *)desc)->x_dtype == GA_F32 ? NULL : "x is not f32";
}

typedef struct latent_job {
  const ga_mla_store_desc *d;
  const ga_mla_store_io *a;
} latent_job;

static void put_latent(int32_t dtype, void *row, int64_t at, double x) {
  switch (dtype) {
  case GA_F32: ((float *)row)[at] = (float)x; break;
  case GA_F16: ((ga_f16 *)row)[at] = ga_f32_to_f16((float)x); break;
  case GA_E4M3: ((uint8_t *)row)[at] = ga_f32_to_e4m3((float)x); break;
  default: ((ga_bf16 *)row)[at] = ga_f32_to_bf16((float)x); break;
  }
}

/* The normed elements of a block to codes, in units of their scale, which follows the codes of the row. */
static void put_latent_block(const ga_mla_store_desc *d, uint8_t *row, int first, const double *y) {
  float most = 0;
  for (int i = 0; i < GA_MLA_BLOCK; i++) most = fmaxf(most, fabsf((float)y[i]));
  const float scale = ga_mla_scale(most);
  memcpy(row + ga_mla_scale_at(d->v_dim, first), &scale, sizeof scale);
  for (int i = 0; i < GA_MLA_BLOCK; i++) put_latent(GA_E4M3, row, first + i, y[i] / (double)scale);
}

static void store_latent_vector(const latent_job *job, const float *x, uint8_t *row) {
  const ga_mla_store_desc *d = job->d;
  const float *norm = job->a->norm;
  double squares = 0, y[GA_MLA_BLOCK];
  for (int i = 0; i < d->v_dim; i++) squares += (double)x[i] * (double)x[i];
  const double factor = norm ? 1 / sqrt(squares / d->v_dim + (double)d->norm_eps) : 1;
  for (int i = 0; i < d->v_dim; i++) {
    const double z = (double)x[i] * factor * (norm ? (double)norm[i] : 1);
    y[i % GA_MLA_BLOCK] = z;
    if (d->kv_dtype != GA_E4M3)
      put_latent(d->kv_dtype, row, i, z);
    else if (i % GA_MLA_BLOCK == GA_MLA_BLOCK - 1)
      put_latent_block(d, row, i + 1 - GA_MLA_BLOCK, y);
  }
}

static void store_latent_key(const latent_job *job, const float *x, uint8_t *key, int32_t position) {
  const ga_mla_store_desc *d = job->d;
  const int32_t dtype = d->kv_dtype == GA_E4M3 ? GA_BF16 : d->kv_dtype;
  const int half = d->rot_dim / 2;
  const bool neox = d->pairs == GA_ROPE_NEOX;
  for (int p = 0; p < half; p++) {
    const int first = neox ? p : 2 * p, second = neox ? p + half : 2 * p + 1;
    const double angle = (double)position * (double)job->a->inv_freq[p], m = (double)d->magnitude;
    const double cosine = m * cos(angle), sine = m * sin(angle), a = (double)x[first], b = (double)x[second];
    put_latent(dtype, key, first, a * cosine - b * sine);
    put_latent(dtype, key, second, a * sine + b * cosine);
  }
}

static void store_latent_rows(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const latent_job *job = arg;
  const ga_mla_store_desc *d = job->d;
  const int64_t bytes = ga_mla_row_bytes((ga_dtype)d->kv_dtype, d->v_dim, d->rot_dim),
                key = d->kv_dtype == GA_E4M3 ? ga_mla_rotated_at(d->v_dim, 0)
                                             : ga_mla_row_bytes((ga_dtype)d->kv_dtype, d->v_dim, 0);
  for (int64_t t = begin; t < end; t++) {
    const float *x = (const float *)job->a->x + t * d->x_stride;
    uint8_t *row = (uint8_t *)job->a->cache + job->a->slot[t] * bytes;
    if (job->a->slot[t] < 0) continue;
    store_latent_vector(job, x, row);
    if (d->rot_dim) store_latent_key(job, x + d->v_dim, row + key, job->a->positions[t]);
  }
}

ga_status ga_cpu_mla_store_generic(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                                   ga_stream *stream) {
  (void)workspace;
  latent_job job = {.d = desc, .a = io};
  for (int64_t t = 0; t < job.d->tokens; t++)
    GA_REQUIRE(job.a->slot[t] >= -1 && job.a->slot[t] < job.d->slots, GA_ERR_ARG,
               "mla_store %s: slot[%lld] is %d; must be -1 to %lld", kernel->id, (long long)t, job.a->slot[t],
               (long long)job.d->slots - 1);
  ga_pool_run_ranges(job.d->tokens < 32 ? NULL : cpu_pool(stream), job.d->tokens, 1, store_latent_rows, &job);
  return GA_OK;
}
