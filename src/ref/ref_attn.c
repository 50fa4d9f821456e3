/* Exact attention by its definition: all logits of a row, their softmax, the weighted sum of V. */
#include <math.h>

#include "base/mem.h"
#include "base/status.h"
#include "opdef/attn_fp8.h"
#include "opdef/attn_rows.h"
#include "opdef/attn_stretch.h"
#include "ref/ref.h"

typedef struct sequence {
  int64_t b, n_q, n_kv;           /* n_kv: of the whole, or of all parts together */
  int64_t q_first, kv_first;      /* token of the packed arrays (VARLEN), else 0 */
  const ga_attn_stretch *stretch; /* of Q, at q_first; else NULL */
} sequence;

/* One key: where it is, and how far it stands from the query (0: at the query's place). */
typedef struct key {
  const void *k, *v;
  int64_t at_k, at_v; /* elements */
  int64_t v_step;     /* from one value to the next */
  double k_scale, v_scale;
  int64_t distance;
  bool elsewhere; /* in another document */
} key;

static sequence sequence_of(const ga_attn_desc *d, const ga_attn_io *a, int64_t b) {
  sequence s = {.b = b, .n_q = d->max_q, .n_kv = d->max_kv};
  const bool varlen = d->flags & GA_ATTN_VARLEN, paged = d->flags & GA_ATTN_PAGED;
  if (varlen) {
    s.q_first = a->q_start[b];
    s.n_q = ga_attn_rows_of(d->flags, a->q_start, a->q_len, b);
  }
  if (varlen && !paged) {
    s.kv_first = a->kv_start[b];
    s.n_kv = ga_attn_rows_of(d->flags, a->kv_start, a->kv_len, b);
  }
  if (paged) s.n_kv = a->kv_len[b];
  if (d->kv_segments) s.n_kv = 0;
  for (int i = 0; i < d->kv_segments; i++) s.n_kv += a->kv_segments[i].kv;
  return s;
}

static sequence stretch_sequence(const ga_attn_desc *d, const ga_attn_io *a, int64_t b, int i) {
  const ga_attn_stretch *q = &a->q_stretches[i];
  sequence s = {.b = b, .n_q = q->rows, .q_first = q->first, .stretch = q};
  for (int p = 0; p < d->kv_stretches; p++) s.n_kv += a->kv_stretches[p].rows;
  return s;
}

/* Element offset of a query (or output) row. */
static int64_t q_at(const ga_attn_desc *d, const ga_attn_strides *stride, const sequence *s, int64_t i, int h) {
  int64_t batch = d->flags & GA_ATTN_VARLEN ? 0 : s->b * stride->batch;
  return batch + (s->q_first + i) * stride->token + h * stride->head;
}

/* Element offset of a key (or value) row. */
static int64_t kv_at(const ga_attn_desc *d, const ga_attn_io *a, const ga_attn_strides *stride, const sequence *s,
                     int64_t j, int h) {
  if (d->flags & GA_ATTN_PAGED) {
    int64_t page = a->page_table[s->b * a->page_table_stride + j / d->page_size];
    return page * stride->batch + j % d->page_size * stride->token + h * stride->head;
  }
  int64_t batch = d->flags & GA_ATTN_VARLEN ? 0 : s->b * stride->batch;
  return batch + (s->kv_first + j) * stride->token + h * stride->head;
}

static void take_scales(const ga_attn_desc *d, const ga_attn_io *a, const sequence *s, int64_t j, int kv_head, key *x) {
  int64_t b = d->flags & GA_ATTN_VARLEN ? 0 : s->b, token = s->kv_first + j;
  if (d->flags & GA_ATTN_PAGED) {
    b = a->page_table[s->b * a->page_table_stride + j / d->page_size];
    token = j % d->page_size;
  }
  x->k_scale = (double)ga_attn_scale_at(&a->k_scale, b, kv_head, token, d->kv_scale_tokens);
  x->v_scale = (double)ga_attn_scale_at(&a->v_scale, b, kv_head, token, d->kv_scale_tokens);
}

/* Row of the tensor that key j of all stretches is; its distance from query i, or that it is of another document. */
static int64_t row_of_stretches(const ga_attn_io *a, const sequence *s, int64_t i, int64_t j, key *x) {
  const ga_attn_stretch *kv = a->kv_stretches;
  for (; j >= kv->rows; kv++) j -= kv->rows;
  x->distance = kv->position + j - (s->stretch->position + i);
  x->elsewhere = kv->document != s->stretch->document;
  return kv->first + j;
}

/* Key j, counted through all parts, as query i of head h has it. The last query stands at the last key, parts are
 * shifted. */
static key attn_key_of(const ga_attn_desc *d, const ga_attn_io *a, const sequence *s, int64_t i, int h, int64_t j) {
  key x = {.k = a->k, .v = a->v, .distance = j - (i + s->n_kv - s->n_q), .v_step = 1, .k_scale = 1, .v_scale = 1};
  for (int p = 0; p < d->kv_segments; p++) {
    const ga_attn_kv_segment *part = &a->kv_segments[p];
    x.k = part->k;
    x.v = part->v;
    x.distance = j - (i + part->kv - s->n_q + part->shift);
    if (j < part->kv) break;
    j -= part->kv;
  }
  if (s->stretch) j = row_of_stretches(a, s, i, j, &x);
  const int kv_head = h / (d->q_heads / d->kv_heads);
  x.at_k = kv_at(d, a, &a->k_stride, s, j, kv_head);
  x.at_v = kv_at(d, a, &a->v_stride, s, j, kv_head);
  if (d->kv_dtype == GA_E4M3) take_scales(d, a, s, j, kv_head, &x);
  if (!ga_attn_is_scaled(d)) return x;
  x.at_v = s->b * a->v_stride.batch + kv_head * a->v_stride.head + ga_attn_fp8_slot(j);
  x.v_step = a->v_stride.token;
  return x;
}

static bool visible(const ga_attn_desc *d, const key *x) {
  if (x->elsewhere || (d->flags & GA_ATTN_CAUSAL && x->distance > 0)) return false;
  if (d->flags & GA_ATTN_SYMMETRIC && d->window && x->distance >= d->window) return false;
  return d->window == 0 || -d->window < x->distance;
}

/* Of one row at a time. */
typedef struct scratch {
  double *weights;       /* [n_kv] */
  double *o;             /* [v_dim] */
  double *q, *key, *val; /* the query, a key, its value; each loaded once */
} scratch;

static double logit(const ga_attn_desc *d, const ga_attn_io *a, const sequence *s, int64_t i, int h, const key *y,
                    const scratch *m) {
  double x = 0;
  ga_ref_load_row(ga_attn_k_dtype(d), y->k, y->at_k, 1, d->head_dim, m->key);
  for (int c = 0; c < d->head_dim; c++) x += m->q[c] * m->key[c];
  x *= (double)d->scale * y->k_scale;
  if (ga_attn_is_scaled(d)) x *= (double)ga_attn_scale_at(&a->q_scale, s->b, h, i, d->q_scale_tokens);
  if (d->softcap > 0) x = (double)d->softcap * tanh(x / (double)d->softcap);
  const int64_t distance = d->flags & GA_ATTN_SYMMETRIC && y->distance > 0 ? -y->distance : y->distance;
  if (d->flags & GA_ATTN_ALIBI) x += (double)a->alibi[h] * (double)distance;
  return x;
}

/* Sums of a row over the keys seen so far: weights are exp(logit - top). */
typedef struct row_sums {
  double top, sum;
} row_sums;

/* Fills the weights of row (i, h), 0 where masked. */
static row_sums row_weights(const ga_attn_desc *d, const ga_attn_io *a, const sequence *s, int64_t i, int h,
                            const scratch *m) {
  row_sums r = {.top = -INFINITY};
  double *p = m->weights;
  ga_ref_load_row((ga_dtype)d->q_dtype, a->q, q_at(d, &a->q_stride, s, i, h), 1, d->head_dim, m->q);
  for (int64_t j = 0; j < s->n_kv; j++) {
    const key x = attn_key_of(d, a, s, i, h, j);
    p[j] = visible(d, &x) ? logit(d, a, s, i, h, &x, m) : -INFINITY;
    if (p[j] > r.top || isnan(p[j])) r.top = p[j];
    if (isnan(r.top)) break;
  }
  for (int64_t j = 0; j < s->n_kv; j++) {
    const key x = attn_key_of(d, a, s, i, h, j);
    p[j] = visible(d, &x) && r.top != -INFINITY ? exp(p[j] - r.top) : 0;
    r.sum += p[j];
  }
  return r;
}

static double mean_of_values(const ga_attn_desc *d, const ga_attn_io *a, const sequence *s, int h, int c) {
  const int64_t head = s->b * d->kv_heads + h / (d->q_heads / d->kv_heads);
  return a->v_mean ? (double)a->v_mean[head * d->v_dim + c] : 0;
}

/* o[v_dim] = sum of weights times values; a row that sees nothing has 0. */
static void row_values(const ga_attn_desc *d, const ga_attn_io *a, const sequence *s, int64_t i, int h,
                       const row_sums *r, const scratch *m) {
  double *o = m->o;
  for (int c = 0; c < d->v_dim; c++) o[c] = 0;
  for (int64_t j = 0; j < s->n_kv && r->top != -INFINITY; j++) {
    const key x = attn_key_of(d, a, s, i, h, j);
    if (!visible(d, &x)) continue;
    ga_ref_load_row((ga_dtype)d->kv_dtype, x.v, x.at_v, x.v_step, d->v_dim, m->val);
    for (int c = 0; c < d->v_dim; c++) o[c] += m->weights[j] * (x.v_scale * m->val[c] + mean_of_values(d, a, s, h, c));
  }
}

/* --- carried state --- */

#define LN2 0.69314718055994530942

static int64_t state_at(const ga_attn_desc *d, const sequence *s, int64_t i, int h) {
  return (s->b * d->q_heads + h) * d->max_q + (s->stretch ? s->q_first : 0) + i;
}

static void rescale(const ga_attn_desc *d, row_sums *r, double *o, double top) {
  const double f = top == -INFINITY ? 1 : exp(r->top - top);
  r->top = top;
  r->sum *= f;
  for (int c = 0; c < d->v_dim; c++) o[c] *= f;
}

static void join_state(const ga_attn_desc *d, const ga_attn_io *a, int64_t at, row_sums *r, double *o) {
  const double top = (double)a->state_m[at] * LN2, both = top > r->top ? top : r->top;
  const double f = both == -INFINITY ? 0 : exp(top - both);
  rescale(d, r, o, both);
  r->sum += f * (double)a->state_l[at];
  for (int c = 0; c < d->v_dim; c++) o[c] += f * (double)a->state_o[at * d->v_dim + c];
}

static void store_state(const ga_attn_desc *d, const ga_attn_io *a, int64_t at, row_sums *r, double *o) {
  const double m = ceil(r->top / LN2);
  rescale(d, r, o, m * LN2);
  a->state_m[at] = (float)m;
  a->state_l[at] = (float)r->sum;
  for (int c = 0; c < d->v_dim; c++) a->state_o[at * d->v_dim + c] = (float)o[c];
}

/* --- results --- */

/* One more column without a value. */
static void add_sink(const ga_attn_desc *d, row_sums *r, double *o, double sink) {
  if (r->top == -INFINITY) return;
  if (sink > r->top) rescale(d, r, o, sink);
  r->sum += exp(sink - r->top);
}

static void one_row(const ga_attn_desc *d, const ga_attn_io *a, const sequence *s, int64_t i, int h, const scratch *m) {
  const int64_t at = state_at(d, s, i, h);
  double *o = m->o;
  row_sums r = row_weights(d, a, s, i, h, m);
  row_values(d, a, s, i, h, &r, m);
  if (d->flags & GA_ATTN_STATE_IN) join_state(d, a, at, &r, o);
  if (d->flags & GA_ATTN_STATE_OUT) {
    store_state(d, a, at, &r, o);
    return;
  }
  if (d->flags & GA_ATTN_SINKS) add_sink(d, &r, o, (double)a->sinks[h]);
  if (d->flags & GA_ATTN_LSE)
    a->lse[d->lse_stride ? h * d->lse_stride + s->q_first + i : at] =
        (float)(r.top == -INFINITY ? r.top : r.top + log(r.sum));
  for (int c = 0; c < d->v_dim; c++)
    ga_ref_store((ga_dtype)d->o_dtype, a->o, q_at(d, &a->o_stride, s, i, h) + c, r.top == -INFINITY ? 0 : o[c] / r.sum);
}

static void all_rows(const ga_attn_desc *d, const ga_attn_io *a, const sequence *s, const scratch *m) {
  for (int64_t i = 0; i < s->n_q; i++)
    for (int h = 0; h < d->q_heads; h++) one_row(d, a, s, i, h, m);
}

ga_status ga_ref_attn(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_attn_desc *d = desc;
  const ga_attn_io *a = io;
  int64_t most_kv = 0;
  if (d->q_stretches) most_kv = stretch_sequence(d, a, 0, 0).n_kv;
  for (int64_t b = 0; b < d->batch && !d->q_stretches; b++) most_kv = ga_max_i64(most_kv, sequence_of(d, a, b).n_kv);
  for (int i = 0; i < d->kv_stretches; i++) ga_attn_wait_ready(a, i);
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)(most_kv + 2 * (d->v_dim + d->head_dim)) + 1, sizeof(double), "a row of attention", &p));
  scratch m = {.weights = p};
  m.o = m.weights + most_kv;
  m.val = m.o + d->v_dim;
  m.q = m.val + d->v_dim;
  m.key = m.q + d->head_dim;
  for (int64_t b = 0; b < d->batch; b++) {
    for (int i = 0; i < d->q_stretches; i++) {
      const sequence s = stretch_sequence(d, a, b, i);
      all_rows(d, a, &s, &m);
    }
    if (d->q_stretches) continue;
    const sequence s = sequence_of(d, a, b);
    all_rows(d, a, &s, &m);
  }
  ga_mem_free(p);
  return GA_OK;
}
