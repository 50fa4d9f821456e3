/* Rows of a latent cache in plain C: a row is some 600 elements of each token. Norm and rotation are computed in
 * double, so that results are rounded once. */
#include <math.h>

#include "base/half.h"
#include "base/status.h"
#include "cpu/cpu_gemm.h"

const char *ga_cpu_mla_store_f32(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps;
  return ((const ga_mla_store_desc *)desc)->x_dtype == GA_F32 ? NULL : "x is not f32";
}

typedef struct latent_job {
  const ga_mla_store_desc *d;
  const ga_mla_store_io *a;
} latent_job;

static void put_latent(const ga_mla_store_desc *d, void *cache, int64_t at, double x) {
  switch (d->kv_dtype) {
  case GA_F32: ((float *)cache)[at] = (float)x; break;
  case GA_F16: ((ga_f16 *)cache)[at] = ga_f32_to_f16((float)x); break;
  default: ((ga_bf16 *)cache)[at] = ga_f32_to_bf16((float)x); break;
  }
}

static void store_latent_vector(const latent_job *job, const float *x, int64_t to) {
  const ga_mla_store_desc *d = job->d;
  const float *norm = job->a->norm;
  double squares = 0;
  for (int i = 0; i < d->v_dim; i++) squares += (double)x[i] * (double)x[i];
  const double factor = norm ? 1 / sqrt(squares / d->v_dim + (double)d->norm_eps) : 1;
  for (int i = 0; i < d->v_dim; i++)
    put_latent(d, job->a->cache, to + i, (double)x[i] * factor * (norm ? (double)norm[i] : 1));
}

static void store_latent_key(const latent_job *job, const float *x, int64_t to, int32_t position) {
  const ga_mla_store_desc *d = job->d;
  const int half = d->rot_dim / 2;
  const bool neox = d->pairs == GA_ROPE_NEOX;
  for (int p = 0; p < half; p++) {
    const int first = neox ? p : 2 * p, second = neox ? p + half : 2 * p + 1;
    const double angle = (double)position * (double)job->a->inv_freq[p], m = (double)d->magnitude;
    const double cosine = m * cos(angle), sine = m * sin(angle), a = (double)x[first], b = (double)x[second];
    put_latent(d, job->a->cache, to + first, a * cosine - b * sine);
    put_latent(d, job->a->cache, to + second, a * sine + b * cosine);
  }
}

static void store_latent_rows(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const latent_job *job = arg;
  const ga_mla_store_desc *d = job->d;
  for (int64_t t = begin; t < end; t++) {
    const float *x = (const float *)job->a->x + t * d->x_stride;
    const int64_t to = job->a->slot[t] * (int64_t)(d->v_dim + d->rot_dim);
    if (job->a->slot[t] < 0) continue;
    store_latent_vector(job, x, to);
    if (d->rot_dim) store_latent_key(job, x + d->v_dim, to + d->v_dim, job->a->positions[t]);
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
