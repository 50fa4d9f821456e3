/* KERNEL    clear_padding, plain C for any CPU
 * COMPUTES  zeros in rows that no packed sequence has, -infinity in their LSE (ga/attn.h)
 * CONTRACT  any strides; rows of sequences are neither read nor written
 * THREADS   one: padding is a small part of the tensors
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/cpu_layer.h"
#include "ga/attn.h"

/* Borders of the sequences of one side. */
typedef struct padded_side {
  const int32_t *start, *len;
  int64_t batch, tokens;
} padded_side;

static int64_t end_of_sequence(const padded_side *s, int64_t b) {
  return s->len ? (int64_t)s->start[b] + s->len[b] : s->start[b + 1];
}

/* Returns the first row of padding from `row` on, or `tokens`. Sequences with lengths lie in any order. */
static int64_t next_padding(const padded_side *s, int64_t row) {
  if (!s->len && s->batch && row >= s->start[0]) return ga_max_i64(row, s->start[s->batch]);
  for (int64_t b = 0; s->len && b < s->batch; b++)
    if (row >= s->start[b] && row < end_of_sequence(s, b)) {
      row = end_of_sequence(s, b);
      b = -1; /* another sequence may go on from here */
    }
  return row;
}

/* Returns the end of the padding that begins at `row`: the next start of a sequence that has rows, or `tokens`. */
static int64_t padding_end(const padded_side *s, int64_t row) {
  int64_t end = s->tokens;
  if (!s->len)
    return s->batch && row < s->start[0] && s->start[s->batch] > s->start[0] ? ga_min_i64(end, s->start[0]) : end;
  for (int64_t b = 0; b < s->batch; b++)
    if (s->len[b] > 0 && s->start[b] > row && s->start[b] < end) end = s->start[b];
  return end;
}

static void clear_tensor(int64_t row, int64_t end, size_t bytes, void *x, const ga_attn_strides *stride, int32_t heads,
                         int32_t dim) {
  for (; x && row < end; row++)
    for (int32_t h = 0; h < heads; h++)
      memset((char *)x + (size_t)(row * stride->token + h * stride->head) * bytes, 0, (size_t)dim * bytes);
}

/* LSE of sequences, [batch, q_heads, max_q]: entries past a sequence's own rows. */
static void clear_lse_ends(const padded_side *s, const ga_clear_padding_desc *d, float *lse) {
  for (int64_t b = 0; b < d->batch; b++)
    for (int32_t h = 0; h < d->q_heads; h++)
      for (int64_t i = end_of_sequence(s, b) - s->start[b]; i < d->max_q; i++)
        lse[(b * d->q_heads + h) * d->max_q + i] = -INFINITY;
}

static void clear_lse_rows(int64_t row, int64_t end, const ga_clear_padding_desc *d, float *lse) {
  for (int32_t h = 0; h < d->q_heads; h++)
    for (int64_t i = row; i < end; i++) lse[h * d->lse_stride + i] = -INFINITY;
}

const char *ga_cpu_clear_padding_any(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)desc, (void)caps;
  return NULL;
}

ga_status ga_cpu_clear_padding_generic(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                                       ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_clear_padding_desc *d = desc;
  const ga_clear_padding_io *a = io;
  const size_t bytes = (size_t)ga_dtype_info((ga_dtype)d->dtype)->block_bytes;
  const padded_side sides[2] = {{a->q_start, a->q_len, d->batch, a->q || a->lse ? a->q_tokens : 0},
                                {a->kv_start, a->kv_len, d->batch, a->k || a->v ? a->kv_tokens : 0}};
  for (int i = 0; i < 2; i++) {
    int64_t row = 0, end = 0;
    while (end < sides[i].tokens && (row = next_padding(&sides[i], end)) < sides[i].tokens) {
      end = padding_end(&sides[i], row);
      if (i == 0) clear_tensor(row, end, bytes, a->q, &a->q_stride, d->q_heads, d->q_dim);
      if (i == 0 && a->lse && d->lse_stride) clear_lse_rows(row, end, d, a->lse);
      if (i == 1) clear_tensor(row, end, bytes, a->k, &a->k_stride, d->kv_heads, d->k_dim);
      if (i == 1) clear_tensor(row, end, bytes, a->v, &a->v_stride, d->kv_heads, d->v_dim);
    }
  }
  if (a->lse && !d->lse_stride) clear_lse_ends(&sides[0], d, a->lse);
  return GA_OK;
}
