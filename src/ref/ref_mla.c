/* Multi-head latent attention by its definition (ga/mla.h): all logits of a row, their softmax, the weighted sum of the
 * latent vectors. */
#include <math.h>

#include "base/mem.h"
#include "base/status.h"
#include "opdef/mla_at.h"
#include "ref/ref.h"

/* One row: query i of head h in sequence b. */
typedef struct latent_row {
  const ga_mla_desc *d;
  const ga_mla_io *a;
  int64_t b, token; /* token: row of Q and O */
  int64_t n_seen;   /* tokens that the query sees */
  int h;
  double *weights, *o, *q, *row; /* scratch: [n_kv], [v_dim], [head_dim], [head_dim] */
} latent_row;

/* Loads elements [0, n) of cached token j. */
static void load_latent(const latent_row *r, int64_t j, int64_t n) {
  const ga_mla_desc *d = r->d;
  const int64_t page = r->a->page_table[r->b * r->a->page_table_stride + j / d->page_size];
  const int64_t row = page * d->page_size + j % d->page_size;
  if (d->kv_dtype != GA_E4M3) {
    ga_ref_load_row((ga_dtype)d->kv_dtype, r->a->cache, row * d->head_dim, 1, n, r->row);
    return;
  }
  const uint8_t *p = (const uint8_t *)r->a->cache + row * ga_mla_row_bytes(GA_E4M3, d->v_dim, d->head_dim - d->v_dim);
  for (int64_t i = 0; i < n; i++)
    r->row[i] = i < d->v_dim ? ga_ref_load(GA_E4M3, p, i) * ga_ref_load(GA_F32, p + ga_mla_scale_at(d->v_dim, i), 0)
                             : ga_ref_load(GA_BF16, p + ga_mla_rotated_at(d->v_dim, i - d->v_dim), 0);
}

static double latent_logit(const latent_row *r, int64_t j) {
  double x = 0;
  load_latent(r, j, r->d->head_dim);
  for (int c = 0; c < r->d->head_dim; c++) x += r->q[c] * r->row[c];
  return x * (double)r->d->scale;
}

static void store_latent_row(const latent_row *r, double top, double sum) {
  const ga_mla_desc *d = r->d;
  for (int c = 0; c < d->v_dim; c++)
    ga_ref_store((ga_dtype)d->o_dtype, r->a->o, r->token * d->o_stride + r->h * d->v_dim + c,
                 top == -INFINITY ? 0 : r->o[c] / sum);
  if (d->flags & GA_MLA_LSE)
    r->a->lse[r->h * d->lse_stride + r->token] = (float)(top == -INFINITY ? top : top + log(sum));
}

static void latent_row_of(latent_row *r) {
  const ga_mla_desc *d = r->d;
  double top = -INFINITY, sum = 0;
  ga_ref_load_row((ga_dtype)d->q_dtype, r->a->q, r->token * d->q_stride + r->h * d->head_dim, 1, d->head_dim, r->q);
  for (int64_t j = 0; j < r->n_seen; j++) {
    r->weights[j] = latent_logit(r, j);
    if (r->weights[j] > top || isnan(r->weights[j])) top = r->weights[j];
    if (isnan(top)) break;
  }
  for (int c = 0; c < d->v_dim; c++) r->o[c] = 0;
  for (int64_t j = 0; j < r->n_seen && top != -INFINITY; j++) {
    const double weight = exp(r->weights[j] - top);
    load_latent(r, j, d->v_dim);
    sum += weight;
    for (int c = 0; c < d->v_dim; c++) r->o[c] += weight * r->row[c];
  }
  store_latent_row(r, top, sum);
}

ga_status ga_ref_mla(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  latent_row r = {.d = desc, .a = io};
  const ga_mla_desc *d = desc;
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)(d->max_kv + d->v_dim + 2 * d->head_dim) + 1, sizeof(double), "a row of attention", &p));
  r.weights = p;
  r.o = r.weights + d->max_kv;
  r.q = r.o + d->v_dim;
  r.row = r.q + d->head_dim;
  for (r.b = 0; r.b < d->batch; r.b++) {
    const int64_t first = r.a->q_start[r.b], n_q = r.a->q_start[r.b + 1] - first, n_kv = r.a->kv_len[r.b];
    for (int64_t i = 0; i < n_q; i++)
      for (r.h = 0; r.h < d->q_heads; r.h++) {
        r.token = first + i;
        r.n_seen = ga_max_i64(0, i + n_kv - n_q + 1);
        latent_row_of(&r);
      }
  }
  ga_mem_free(p);
  return GA_OK;
}
