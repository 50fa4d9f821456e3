/* Exact attention by its definition: all logits of a row, their softmax, the weighted sum of V. */
#include <math.h>

#include "base/mem.h"
#include "base/status.h"
#include "ref/ref.h"

typedef struct sequence {
  int64_t b, n_q, n_kv;
  int64_t q_first, kv_first; /* token of the packed arrays (VARLEN), else 0 */
} sequence;

static sequence sequence_of(const ga_attn_desc *d, const ga_attn_io *a, int64_t b) {
  sequence s = {.b = b, .n_q = d->max_q, .n_kv = d->max_kv};
  const bool varlen = d->flags & GA_ATTN_VARLEN, paged = d->flags & GA_ATTN_PAGED;
  if (varlen) {
    s.q_first = a->q_start[b];
    s.n_q = a->q_start[b + 1] - a->q_start[b];
  }
  if (varlen && !paged) {
    s.kv_first = a->kv_start[b];
    s.n_kv = a->kv_start[b + 1] - a->kv_start[b];
  }
  if (paged) s.n_kv = a->kv_len[b];
  return s;
}

/* Element offset of a query (or output) row. */
static int64_t q_at(const ga_attn_desc *d, const ga_attn_strides *stride, const sequence *s, int64_t i, int h) {
  int64_t batch = d->flags & GA_ATTN_VARLEN ? 0 : s->b * stride->batch;
  return batch + (s->q_first + i) * stride->token + h * stride->head;
}

/* Element offset of a key (or value) row. */
static int64_t kv_at(const ga_attn_desc *d, const ga_attn_io *a, const ga_attn_strides *stride, const sequence *s, int64_t j,
                     int h) {
  if (d->flags & GA_ATTN_PAGED) {
    int64_t page = a->page_table[s->b * a->page_table_stride + j / d->page_size];
    return page * stride->batch + j % d->page_size * stride->token + h * stride->head;
  }
  int64_t batch = d->flags & GA_ATTN_VARLEN ? 0 : s->b * stride->batch;
  return batch + (s->kv_first + j) * stride->token + h * stride->head;
}

/* Query i stands at position p, so that the last query stands at the last key. */
static bool visible(const ga_attn_desc *d, const sequence *s, int64_t i, int64_t j) {
  int64_t p = i + s->n_kv - s->n_q;
  if (d->flags & GA_ATTN_CAUSAL && j > p) return false;
  return d->window == 0 || p - d->window < j;
}

static double logit(const ga_attn_desc *d, const ga_attn_io *a, const sequence *s, int64_t i, int h, int64_t j) {
  int64_t q = q_at(d, &a->q_stride, s, i, h), k = kv_at(d, a, &a->k_stride, s, j, h / (d->q_heads / d->kv_heads));
  double x = 0;
  for (int c = 0; c < d->head_dim; c++)
    x += ga_ref_load((ga_dtype)d->q_dtype, a->q, q + c) * ga_ref_load((ga_dtype)d->kv_dtype, a->k, k + c);
  x *= (double)d->scale;
  if (d->softcap > 0) x = (double)d->softcap * tanh(x / (double)d->softcap);
  if (d->flags & GA_ATTN_ALIBI) x += (double)a->alibi[h] * (double)(j - (i + s->n_kv - s->n_q));
  return x;
}

/* Fills p[n_kv] with the softmax of row (i, h), 0 where masked; returns the log of its denominator. */
static double row_softmax(const ga_attn_desc *d, const ga_attn_io *a, const sequence *s, int64_t i, int h, double *p) {
  double most = -INFINITY, sum = 0;
  for (int64_t j = 0; j < s->n_kv; j++) {
    p[j] = visible(d, s, i, j) ? logit(d, a, s, i, h, j) : -INFINITY;
    if (p[j] > most || isnan(p[j])) most = p[j];
    if (isnan(most)) break;
  }
  if (most == -INFINITY) {
    for (int64_t j = 0; j < s->n_kv; j++) p[j] = 0;
    return -INFINITY;
  }
  const double sink = d->flags & GA_ATTN_SINKS ? (double)a->sinks[h] : -INFINITY;
  if (sink > most) most = sink;
  for (int64_t j = 0; j < s->n_kv; j++) {
    p[j] = visible(d, s, i, j) ? exp(p[j] - most) : 0;
    sum += p[j];
  }
  sum += exp(sink - most);
  for (int64_t j = 0; j < s->n_kv; j++) p[j] /= sum;
  return most + log(sum);
}

static void one_row(const ga_attn_desc *d, const ga_attn_io *a, const sequence *s, int64_t i, int h, double *p) {
  double lse = row_softmax(d, a, s, i, h, p);
  if (d->flags & GA_ATTN_LSE) a->lse[(s->b * d->q_heads + h) * d->max_q + i] = (float)lse;
  for (int c = 0; c < d->v_dim; c++) {
    double o = 0;
    for (int64_t j = 0; j < s->n_kv; j++) {
      if (!visible(d, s, i, j) || lse == -INFINITY) continue;
      int64_t v = kv_at(d, a, &a->v_stride, s, j, h / (d->q_heads / d->kv_heads));
      o += p[j] * ga_ref_load((ga_dtype)d->kv_dtype, a->v, v + c);
    }
    ga_ref_store((ga_dtype)d->o_dtype, a->o, q_at(d, &a->o_stride, s, i, h) + c, o);
  }
}

ga_status ga_ref_attn(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_attn_desc *d = desc;
  const ga_attn_io *a = io;
  int64_t most_kv = 0;
  for (int64_t b = 0; b < d->batch; b++) most_kv = ga_max_i64(most_kv, sequence_of(d, a, b).n_kv);
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)most_kv + 1, sizeof(double), "logits of a row", &p));
  for (int64_t b = 0; b < d->batch; b++) {
    sequence s = sequence_of(d, a, b);
    for (int64_t i = 0; i < s.n_q; i++)
      for (int h = 0; h < d->q_heads; h++) one_row(d, a, &s, i, h, p);
  }
  ga_mem_free(p);
  return GA_OK;
}
