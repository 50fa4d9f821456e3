#include <math.h>

#include "ref/ref.h"

#define LN2 0.69314718055994530942

/* Sources: online softmax (arXiv 1805.02867), merging by LSE as in FlashDecoding and Ring Attention (2310.01889). */
static void merge_one(const ga_attn_merge_desc *d, const ga_attn_merge_io *a, int64_t row, int64_t head) {
  float *const o = a->o + row * d->o_token + head * d->o_head, *const lse = a->lse + head * d->lse_head + row;
  const int64_t part = row * d->part_token + head * d->part_head, at = head * d->part_lse_head + row;
  const bool state = d->kind == GA_ATTN_MERGE_STATE;
  const double l = state ? (double)a->part_l[at] : 1;
  const double more = state ? LN2 * ((double)a->part_lse[at] + log2(l)) : (double)a->part_lse[at];
  if (more == -INFINITY) return;
  const double old = (double)*lse, top = old > more ? old : more;
  const double w_old = exp(old - top), w_more = exp(more - top), sum = w_old + w_more;
  for (int32_t c = 0; c < d->dim; c++) {
    const double mine = old == -INFINITY ? 0 : (double)o[c];
    o[c] = (float)((w_old * mine + w_more * (ga_ref_load((ga_dtype)d->part_dtype, a->part, part + c) / l)) / sum);
  }
  *lse = (float)(top + log(sum));
}

ga_status ga_ref_attn_merge(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                            ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_attn_merge_desc *d = desc;
  for (int64_t row = 0; row < d->rows; row++)
    for (int32_t head = 0; head < d->heads; head++) merge_one(d, io, row, head);
  return GA_OK;
}
