#include <math.h>

#include "ref/ref.h"

/* Borders of the sequences of one side. */
typedef struct side {
  const int32_t *start, *len;
  int64_t batch, tokens;
} side;

static int64_t end_of(const side *s, int64_t b) { return s->len ? (int64_t)s->start[b] + s->len[b] : s->start[b + 1]; }

static bool has_row(const side *s, int64_t row) {
  for (int64_t b = 0; b < s->batch; b++)
    if (row >= s->start[b] && row < end_of(s, b)) return true;
  return false;
}

static void zero_rows(const side *s, ga_dtype dtype, void *x, const ga_attn_strides *stride, int32_t heads,
                      int32_t dim) {
  for (int64_t row = 0; x && row < s->tokens; row++)
    for (int32_t h = 0; !has_row(s, row) && h < heads; h++)
      for (int32_t c = 0; c < dim; c++) ga_ref_store(dtype, x, row * stride->token + h * stride->head + c, 0);
}

static void clear_lse(const side *s, const ga_clear_padding_desc *d, float *lse) {
  for (int32_t h = 0; h < d->q_heads; h++) {
    for (int64_t row = 0; d->lse_stride && row < s->tokens; row++)
      if (!has_row(s, row)) lse[h * d->lse_stride + row] = -INFINITY;
    for (int64_t b = 0; !d->lse_stride && b < d->batch; b++)
      for (int64_t i = end_of(s, b) - s->start[b]; i < d->max_q; i++)
        lse[(b * d->q_heads + h) * d->max_q + i] = -INFINITY;
  }
}

ga_status ga_ref_clear_padding(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                               ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_clear_padding_desc *d = desc;
  const ga_clear_padding_io *a = io;
  const side q = {a->q_start, a->q_len, d->batch, a->q_tokens}, kv = {a->kv_start, a->kv_len, d->batch, a->kv_tokens};
  zero_rows(&q, (ga_dtype)d->dtype, a->q, &a->q_stride, d->q_heads, d->q_dim);
  zero_rows(&kv, (ga_dtype)d->dtype, a->k, &a->k_stride, d->kv_heads, d->k_dim);
  zero_rows(&kv, (ga_dtype)d->dtype, a->v, &a->v_stride, d->kv_heads, d->v_dim);
  if (a->lse) clear_lse(&q, d, a->lse);
  return GA_OK;
}
