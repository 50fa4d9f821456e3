#include "base/half.h"
#include "base/status.h"
#include "cpu/cpu_gemm.h"

/* Rows are dequantised in pieces that fit the stack: 256 is a multiple of every block. */
#define PIECE 256

static void store_embedding(ga_dtype dtype, void *y, int64_t at, const float *x, int64_t n, float scale) {
  if (dtype == GA_F32)
    for (int64_t i = 0; i < n; i++) ((float *)y)[at + i] = scale * x[i];
  else if (dtype == GA_F16)
    for (int64_t i = 0; i < n; i++) ((ga_f16 *)y)[at + i] = ga_f32_to_f16(scale * x[i]);
  else
    for (int64_t i = 0; i < n; i++) ((ga_bf16 *)y)[at + i] = ga_f32_to_bf16(scale * x[i]);
}

static void embed_one(const ga_embed_desc *d, const ga_embed_io *a, int64_t token) {
  const ga_dtype_traits *t = ga_dtype_info((ga_dtype)d->w_dtype);
  const uint8_t *row = (const uint8_t *)a->table + a->ids[token] * (d->width / t->block_elems * t->block_bytes);
  for (int64_t c = 0; c < d->width; c += PIECE) {
    float x[PIECE];
    int64_t n = d->width - c < PIECE ? d->width - c : PIECE;
    ga_cpu_dequantise((ga_dtype)d->w_dtype, row + c / t->block_elems * t->block_bytes, n, x);
    store_embedding((ga_dtype)d->y_dtype, a->y, token * d->y_stride + c, x, n, d->scale);
  }
}

typedef struct embed_job {
  const ga_embed_desc *desc;
  const ga_embed_io *io;
} embed_job;

static void embed_range(void *arg, int64_t begin, int64_t end, int thread) {
  (void)thread;
  const embed_job *job = arg;
  for (int64_t t = begin; t < end; t++) embed_one(job->desc, job->io, t);
}

ga_status ga_cpu_embed_generic(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                               ga_stream *stream) {
  (void)workspace;
  embed_job job = {.desc = desc, .io = io};
  for (int64_t t = 0; t < job.desc->tokens; t++)
    GA_REQUIRE(job.io->ids[t] >= 0 && job.io->ids[t] < job.desc->vocab, GA_ERR_ARG,
               "%s: ids[%lld] is %d; must be in [0, %lld)", kernel->id, (long long)t, job.io->ids[t],
               (long long)job.desc->vocab);
  const bool small = job.desc->tokens * job.desc->width < 32 * 1024;
  ga_pool_run_ranges(small ? NULL : cpu_pool(stream), job.desc->tokens, 1, embed_range, &job);
  return GA_OK;
}
