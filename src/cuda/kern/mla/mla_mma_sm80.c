#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/mla/mla.h"
#include "opdef/mla_at.h"

#define MOST_DIM    576
#define MOST_V      512
#define HEAD_STEP   16  /* heads of a tile of rows with one query */
#define LEAST_KEYS  256 /* that a split has */
#define FEW_QUERIES 16  /* whose f32 is kept */
#define SM_BYTES    ((int64_t)228 * 1024)

static int64_t mma_blocks(const ga_kernel *k, const ga_caps *caps) {
  const cuda_variant *v = k->impl;
  return caps->sms * ga_max_i64(1, SM_BYTES / (v->shared_bytes + 1024));
}

static cuda_mla_cut cut_mma(const ga_kernel *k, const ga_mla_desc *d, const ga_caps *caps) {
  const cuda_mla_variant *v = k->impl;
  return cuda_mla_cut_of(d, v->rows, HEAD_STEP, mma_blocks(k, caps), LEAST_KEYS);
}

const char *cuda_mla_mma_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const ga_mla_desc *d = desc;
  const cuda_variant *v = k->impl;
  const char *reason = cuda_mla_refusal(k, d);
  if (reason) return reason;
  if (d->head_dim > MOST_DIM || d->v_dim > MOST_V) return "head_dim is above 576 or v_dim above 512";
  if (d->head_dim % 8 || d->v_dim % 8) return "head_dim and v_dim must be multiples of 8";
  if (ga_mla_row_bytes((ga_dtype)d->kv_dtype, d->v_dim, d->head_dim - d->v_dim) % 16)
    return "rows of the cache must be multiples of 16 bytes";
  if (d->q_stride % 8 || d->o_stride % 2) return "q_stride must be a multiple of 8, and o_stride of 2";
  return v->shared_bytes + v->static_bytes > caps->smem_bytes ? "shared memory is too small" : NULL;
}

/* Rows of one part round f32 queries to the type of the cache, which is for prompts. */
double cuda_mla_mma_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const double rounds_few = 10;
  const ga_mla_desc *d = desc;
  const cuda_mla_variant *v = k->impl;
  const cuda_mla_cut c = cut_mma(k, d, caps);
  const bool rounds = v->parts == 1 && d->q_dtype == GA_F32;
  return cuda_mla_us(d, &c, v->rows, v->parts, caps) * 100 / k->speed *
         (rounds && d->max_q < FEW_QUERIES ? rounds_few : 1);
}

uint64_t cuda_mla_mma_workspace(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  const cuda_mla_cut c = cut_mma(k, desc, caps);
  return cuda_mla_partial_bytes(desc, &c, ((const cuda_mla_variant *)k->impl)->rows);
}

ga_status cuda_mla_mma(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  const cuda_mla_cut c = cut_mma(k, desc, &stream->device->caps);
  return cuda_mla_enqueue(k, desc, io, &c, 16, workspace, stream);
}
