/* Gradients of attention by the chain rule, row by row: probabilities from the given LSE, sums in double. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "opdef/attn_rows.h"
#include "ref/ref.h"

typedef struct sequence {
  int64_t b, n_q, n_kv;
  int64_t q_first, kv_first; /* token of the packed arrays (VARLEN), else 0 */
} sequence;

/* Sums of one sequence: [token][head][dim]. And rows that are at work: of Q and K [head_dim], of V, O and dO [v_dim].
 */
typedef struct sums {
  double *dq, *dk, *dv;
  double *q, *k, *v, *dout;
} sums;

static sequence sequence_of(const ga_attn_bwd_desc *d, const ga_attn_bwd_io *a, int64_t b) {
  if (!(d->flags & GA_ATTN_VARLEN)) return (sequence){.b = b, .n_q = d->max_q, .n_kv = d->max_kv};
  return (sequence){.b = b,
                    .q_first = a->q_start[b],
                    .n_q = ga_attn_rows_of(d->flags, a->q_start, a->q_len, b),
                    .kv_first = a->kv_start[b],
                    .n_kv = ga_attn_rows_of(d->flags, a->kv_start, a->kv_len, b)};
}

/* Element offset of token i, whose sequence begins at token `first`. */
static int64_t element_at(const ga_attn_bwd_desc *d, const ga_attn_strides *s, int64_t b, int64_t first, int64_t i,
                          int64_t head) {
  return (d->flags & GA_ATTN_VARLEN ? 0 : b * s->batch) + (first + i) * s->token + head * s->head;
}

static double dot_doubles(const double *x, const double *y, int n) {
  double sum = 0;
  for (int c = 0; c < n; c++) sum += x[c] * y[c];
  return sum;
}

/* to += factor * x. */
static void add_scaled(double *to, double factor, const double *x, int n) {
  for (int c = 0; c < n; c++) to[c] += factor * x[c];
}

/* Query i stands at position p, so that the last query stands at the last key. */
static bool visible(const ga_attn_bwd_desc *d, int64_t p, int64_t j) {
  if (d->flags & GA_ATTN_CAUSAL && j > p) return false;
  return d->window == 0 || p - d->window < j;
}

/* The logit of scaled product x, and its derivative. */
static double logit(const ga_attn_bwd_desc *d, const ga_attn_bwd_io *a, int h, int64_t distance, double x,
                    double *slope) {
  *slope = 1;
  if (d->softcap > 0) {
    const double t = tanh(x / (double)d->softcap);
    x = (double)d->softcap * t;
    *slope = 1 - t * t;
  }
  return d->flags & GA_ATTN_ALIBI ? x + (double)a->alibi[h] * (double)distance : x;
}

static void one_row(const ga_attn_bwd_desc *d, const ga_attn_bwd_io *a, const sequence *s, int64_t i, int h,
                    const sums *g, double *dsink) {
  const int kv = h / (d->q_heads / d->kv_heads);
  const ga_dtype type = (ga_dtype)d->dtype;
  const double lse = (double)a->lse[ga_attn_lse_at(d->lse_stride, s->q_first, s->b, d->q_heads, d->max_q, h, i)];
  if (lse == -INFINITY) return;
  ga_ref_load_row(type, a->q, element_at(d, &a->q_stride, s->b, s->q_first, i, h), 1, d->head_dim, g->q);
  ga_ref_load_row(type, a->dout, element_at(d, &a->dout_stride, s->b, s->q_first, i, h), 1, d->v_dim, g->dout);
  ga_ref_load_row(type, a->o, element_at(d, &a->o_stride, s->b, s->q_first, i, h), 1, d->v_dim, g->v);
  const double delta = dot_doubles(g->dout, g->v, d->v_dim);
  if (dsink) *dsink -= exp((double)a->sinks[h] - lse) * delta;
  for (int64_t j = 0; j < s->n_kv; j++) {
    const int64_t p = i + s->n_kv - s->n_q;
    if (!visible(d, p, j)) continue;
    ga_ref_load_row(type, a->k, element_at(d, &a->k_stride, s->b, s->kv_first, j, kv), 1, d->head_dim, g->k);
    ga_ref_load_row(type, a->v, element_at(d, &a->v_stride, s->b, s->kv_first, j, kv), 1, d->v_dim, g->v);
    double slope;
    const double x = (double)d->scale * dot_doubles(g->q, g->k, d->head_dim);
    const double w = exp(logit(d, a, h, j - p, x, &slope) - lse);
    const double ds = (double)d->scale * slope * w * (dot_doubles(g->dout, g->v, d->v_dim) - delta);
    add_scaled(g->dq + (i * d->q_heads + h) * d->head_dim, ds, g->k, d->head_dim);
    add_scaled(g->dk + (j * d->kv_heads + kv) * d->head_dim, ds, g->q, d->head_dim);
    add_scaled(g->dv + (j * d->kv_heads + kv) * d->v_dim, w, g->dout, d->v_dim);
  }
}

/* add: the flag by which these are added to what out holds. */
static void store_gradient_row(const ga_attn_bwd_desc *d, uint32_t add, const double *x, void *out,
                               const ga_attn_strides *stride, int64_t b, int64_t first, int64_t n, int heads, int dim) {
  for (int64_t i = 0; i < n; i++)
    for (int h = 0; h < heads; h++)
      for (int c = 0; c < dim; c++) {
        const int64_t to = element_at(d, stride, b, first, i, h) + c;
        const double old = d->flags & add ? ga_ref_load((ga_dtype)d->grad_dtype, out, to) : 0;
        ga_ref_store((ga_dtype)d->grad_dtype, out, to, old + x[(i * heads + h) * dim + c]);
      }
}

static void one_sequence(const ga_attn_bwd_desc *d, const ga_attn_bwd_io *a, const sequence *s, double *memory,
                         double *dsinks) {
  const int64_t n_dq = s->n_q * d->q_heads * d->head_dim, n_dk = s->n_kv * d->kv_heads * d->head_dim;
  const int64_t n_dv = s->n_kv * d->kv_heads * d->v_dim;
  sums g = {.dq = memory, .dk = memory + n_dq, .dv = memory + n_dq + n_dk};
  g.q = g.dv + n_dv;
  g.k = g.q + d->head_dim;
  g.v = g.k + d->head_dim;
  g.dout = g.v + d->v_dim;
  memset(memory, 0, (size_t)(n_dq + n_dk + n_dv) * sizeof *memory);
  for (int64_t i = 0; i < s->n_q; i++)
    for (int h = 0; h < d->q_heads; h++) one_row(d, a, s, i, h, &g, d->flags & GA_ATTN_SINKS ? &dsinks[h] : NULL);
  store_gradient_row(d, GA_ATTN_BWD_ADD_DQ, g.dq, a->dq, &a->dq_stride, s->b, s->q_first, s->n_q, d->q_heads,
                     d->head_dim);
  store_gradient_row(d, GA_ATTN_BWD_ADD_DKV, g.dk, a->dk, &a->dk_stride, s->b, s->kv_first, s->n_kv, d->kv_heads,
                     d->head_dim);
  store_gradient_row(d, GA_ATTN_BWD_ADD_DKV, g.dv, a->dv, &a->dv_stride, s->b, s->kv_first, s->n_kv, d->kv_heads,
                     d->v_dim);
}

ga_status ga_ref_attn_bwd(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                          ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_attn_bwd_desc *d = desc;
  const ga_attn_bwd_io *a = io;
  const int64_t n = d->max_q * d->q_heads * d->head_dim + (d->max_kv * d->kv_heads + 2) * (d->head_dim + d->v_dim);
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)(n + d->q_heads), sizeof(double), "gradients of a sequence", &p));
  double *dsinks = p;
  for (int64_t b = 0; b < d->batch; b++) {
    const sequence s = sequence_of(d, a, b);
    one_sequence(d, a, &s, dsinks + d->q_heads, dsinks);
  }
  for (int h = 0; h < d->q_heads && d->flags & GA_ATTN_SINKS; h++) {
    const double old = d->flags & GA_ATTN_BWD_ADD_DKV ? (double)a->dsinks[h] : 0;
    a->dsinks[h] = (float)(old + dsinks[h]);
  }
  ga_mem_free(p);
  return GA_OK;
}
