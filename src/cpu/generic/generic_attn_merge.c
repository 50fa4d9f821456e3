/* KERNEL    attn_merge, plain C for any CPU
 * COMPUTES  partial results of attention, merged by their LSE (ga/layer.h); weights in double, rows in f32
 * CONTRACT  any strides
 * THREADS   rows are independent
 */
#include <math.h>

#include "base/half.h"
#include "cpu/cpu_layer.h"
#include "ga/layer.h"

#define LN2 0.69314718055994530942

typedef struct merge_job {
  const ga_attn_merge_desc *d;
  const ga_attn_merge_io *a;
} merge_job;

/* Returns element i of PART. */
static float merged_part_at(const merge_job *j, int64_t i) {
  switch (j->d->part_dtype) {
  case GA_F16: return ga_f16_to_f32(((const ga_f16 *)j->a->part)[i]);
  case GA_BF16: return ga_bf16_to_f32(((const ga_bf16 *)j->a->part)[i]);
  default: return ((const float *)j->a->part)[i];
  }
}

static void merge_head(const merge_job *j, int64_t row, int64_t head) {
  const ga_attn_merge_desc *d = j->d;
  float *const o = j->a->o + row * d->o_token + head * d->o_head, *const lse = j->a->lse + head * d->lse_head + row;
  const int64_t part = row * d->part_token + head * d->part_head, at = head * d->part_lse_head + row;
  const double l = d->kind == GA_ATTN_MERGE_STATE ? (double)j->a->part_l[at] : 1, given = (double)j->a->part_lse[at];
  const double more = d->kind == GA_ATTN_MERGE_STATE ? LN2 * (given + log2(l)) : given, old = (double)*lse;
  if (more == -INFINITY) return;
  const double top = old > more ? old : more, a = exp(old - top), b = exp(more - top);
  const float mine = (float)(a / (a + b)), theirs = (float)(b / (a + b) / l);
  for (int32_t c = 0; c < d->dim; c++)
    o[c] = (old == -INFINITY ? 0 : mine * o[c]) + theirs * merged_part_at(j, part + c);
  *lse = (float)(top + log(a + b));
}

static void merge_rows(const void *job, int64_t begin, int64_t end) {
  const merge_job *j = job;
  for (int64_t row = begin; row < end; row++)
    for (int32_t head = 0; head < j->d->heads; head++) merge_head(j, row, head);
}

const char *ga_cpu_attn_merge_any(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)desc, (void)caps;
  return NULL;
}

ga_status ga_cpu_attn_merge_generic(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                                    ga_stream *stream) {
  (void)kernel, (void)workspace;
  const merge_job job = {.d = desc, .a = io};
  cpu_rows_run(stream, job.d->rows, (int64_t)job.d->heads * job.d->dim, merge_rows, &job);
  return GA_OK;
}
