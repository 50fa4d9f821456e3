#include "verify/check/check_attn_plain.h"

#include <math.h>
#include <string.h>

#include "base/status.h"
#include "opdef/attn_fp8.h"
#include "opdef/attn_rows.h"
#include "ref/ref.h"
#include "verify/check/check_attn_fp8.h"

/* A cache in e4m3. */
bool check_attn_is_scaled_cache(const ga_attn_desc *d) { return d->kv_dtype == GA_E4M3 && !ga_attn_is_scaled(d); }

/* Its row of the tensor; the query's place is as far from it as their positions are. */
static check_attn_key key_of_stretches(const check_attn_row *r, int64_t j) {
  const ga_attn_stretch *kv = r->a->kv_stretches;
  for (; j >= kv->rows; kv++) j -= kv->rows;
  const int64_t row = kv->first + j, distance = kv->position + j - (r->stretch->position + r->i);
  return (check_attn_key){r->a->k, r->a->v, row, row - distance, kv->document != r->stretch->document};
}

check_attn_key check_attn_key_of(const check_attn_row *r, int64_t j) {
  check_attn_key x = {r->a->k, r->a->v, j, r->i + r->n_kv - r->n_q, false};
  for (int i = 0; i < r->d->kv_segments; i++) {
    const ga_attn_kv_segment *part = &r->a->kv_segments[i];
    x = (check_attn_key){part->k, part->v, j, r->i + part->kv - r->n_q + part->shift, false};
    if (j < part->kv) break;
    j -= part->kv;
  }
  return r->stretch ? key_of_stretches(r, j) : x;
}

int64_t check_attn_kv_at(const check_attn_row *r, const ga_attn_strides *s, int64_t j) {
  const ga_attn_desc *d = r->d;
  const int64_t head = r->h / (d->q_heads / d->kv_heads) * s->head;
  if (d->flags & GA_ATTN_PAGED)
    return head + r->a->page_table[r->b * r->a->page_table_stride + j / d->page_size] * s->batch +
           j % d->page_size * s->token;
  return head + (d->flags & GA_ATTN_VARLEN ? 0 : r->b * s->batch) + (r->kv_first + j) * s->token;
}

float check_attn_scale_of(const check_attn_row *r, const ga_attn_scale *s, int64_t j) {
  const ga_attn_desc *d = r->d;
  const int64_t head = r->h / (d->q_heads / d->kv_heads);
  int64_t b = d->flags & GA_ATTN_VARLEN ? 0 : r->b, token = r->kv_first + j;
  if (!check_attn_is_scaled_cache(d)) return 1;
  if (d->flags & GA_ATTN_PAGED)
    b = r->a->page_table[r->b * r->a->page_table_stride + j / d->page_size], token = j % d->page_size;
  return s->data[b * s->batch + head * s->head + (d->kv_scale_tokens ? token * s->block : 0)];
}

static int64_t plain_q(const check_attn_row *r, const ga_attn_strides *s) {
  return (r->d->flags & GA_ATTN_VARLEN ? 0 : r->b * s->batch) + (r->q_first + r->i) * s->token + r->h * s->head;
}

static float toward_zero(double x) {
  const float f = (float)x;
  return isfinite(f) && fabs((double)f) > fabs(x) ? nextafterf(f, 0.0f) : f;
}

void check_attn_load_query(const check_attn_row *r) {
  const ga_attn_desc *d = r->d;
  ga_ref_load_row((ga_dtype)d->q_dtype, r->a->q, plain_q(r, &r->a->q_stride), 1, d->head_dim, r->q);
  for (int c = 0; c < d->head_dim && r->as_kv; c++) r->q[c] = check_round((ga_dtype)d->kv_dtype, r->q[c]);
}

/* Tensor cores add 16 products at once and cut what does not fit (Fasi et al. 2021; Li et al. 2024, arXiv 2403.00232).
 * */
static float plain_dot(const check_attn_row *r, const void *k, int64_t at_k) {
  const ga_attn_desc *d = r->d;
  float x = 0;
  ga_ref_load_row((ga_dtype)d->kv_dtype, k, at_k, 1, d->head_dim, r->kv);
  for (int c = 0; c < d->head_dim;) {
    double part = (double)x;
    const int end = r->tensor && c + 16 < d->head_dim ? c + 16 : r->tensor ? d->head_dim : c + 1;
    for (; c < end; c++) part += (double)((float)r->q[c] * (float)r->kv[c]);
    x = r->tensor ? toward_zero(part) : (float)part;
  }
  return x;
}

float check_attn_logit(const check_attn_row *r, int64_t n) {
  const ga_attn_desc *d = r->d;
  const check_attn_key y = check_attn_key_of(r, n);
  if (y.elsewhere || (d->flags & GA_ATTN_CAUSAL && y.j > y.p) || (d->window && y.j <= y.p - d->window))
    return -INFINITY;
  const bool symmetric = d->flags & GA_ATTN_SYMMETRIC;
  if (symmetric && d->window && y.j >= y.p + d->window) return -INFINITY;
  float x = plain_dot(r, y.k, check_attn_kv_at(r, &r->a->k_stride, y.j)) * d->scale *
            check_attn_scale_of(r, &r->a->k_scale, y.j);
  if (d->softcap > 0) x = d->softcap * tanhf(x / d->softcap);
  if (d->flags & GA_ATTN_ALIBI) x += r->a->alibi[r->h] * (float)(symmetric && y.j > y.p ? y.p - y.j : y.j - y.p);
  return x;
}

static double significant_11(double x) {
  int e;
  const double m = frexp(x, &e);
  return ldexp(nearbyint(ldexp(m, 11)), e - 11);
}

/* Key n's weight in the sum of values. Tensor cores take that of an e4m3 cache, with the scale, as the sum of two f16:
 * even a key that is alone has 22 bits of it. */
static float plain_weight(const check_attn_row *r, const check_attn_key *y, float weight) {
  const float w = weight * check_attn_scale_of(r, &r->a->v_scale, y->j);
  if (!r->tensor || !check_attn_is_scaled_cache(r->d)) return w;
  const double high = significant_11((double)w);
  return (float)(high + significant_11((double)w - high));
}

/* State of a row, joined with the weights that are to come: m in doublings. */
static void plain_join(const check_attn_row *r, int64_t at, float *most, float *sum) {
  const ga_attn_io *a = r->a;
  const float m = a->state_m[at] * 0.693147181f, top = fmaxf(m, *most);
  const float f = top == -INFINITY ? 0 : expf(*most - top), g = top == -INFINITY ? 0 : expf(m - top);
  *most = top;
  *sum = *sum * f + a->state_l[at] * g;
  for (int c = 0; c < r->d->v_dim; c++) r->o[c] = r->o[c] * f + a->state_o[at * r->d->v_dim + c] * g;
}

/* o += weight * value of key y. */
static void add_value(const check_attn_row *r, const check_attn_key *y, float weight) {
  const int64_t at = check_attn_kv_at(r, &r->a->v_stride, y->j);
  ga_ref_load_row((ga_dtype)r->d->kv_dtype, y->v, at, 1, r->d->v_dim, r->kv);
  for (int c = 0; c < r->d->v_dim; c++) r->o[c] += weight * (float)r->kv[c];
}

enum { PLAIN_BLOCK = 128 }; /* keys between two looks at the maximum */

/* The row's sum and O with a running maximum by blocks, from the last key down, and weights that are rounded to the
 * type of V: what FlashAttention does. *most: of the blocks so far. */
static float plain_rounded(const check_attn_row *r, float *most) {
  const ga_attn_desc *d = r->d;
  float sum = 0;
  *most = -INFINITY;
  for (int c = 0; c < d->v_dim; c++) r->o[c] = 0;
  for (int64_t end = r->n_kv, j0; end > 0; end = j0) {
    float top = *most;
    bool none = true; /* as in plain_one */
    j0 = (end - 1) / PLAIN_BLOCK * PLAIN_BLOCK;
    for (int64_t j = j0; j < end; j++) {
      top = fmaxf(top, r->s[j]); /* passes over what is no number */
      none = none && r->s[j] == -INFINITY;
    }
    if (none && top == -INFINITY) continue;
    if (top == -INFINITY) top = NAN;
    const float by = expf(*most - top);
    *most = top;
    sum *= by;
    for (int c = 0; c < d->v_dim; c++) r->o[c] *= by;
    for (int64_t j = j0; j < end; j++) {
      const check_attn_key y = check_attn_key_of(r, j);
      const float w = expf(r->s[j] - top), rounded = (float)check_round((ga_dtype)d->kv_dtype, (double)w);
      sum += w;
      if (r->s[j] != -INFINITY) add_value(r, &y, rounded);
    }
  }
  return sum;
}

static void plain_one(const check_attn_row *r) {
  const ga_attn_desc *d = r->d;
  const int64_t at = (r->b * d->q_heads + r->h) * d->max_q + (r->stretch ? r->q_first : 0) + r->i;
  float most = -INFINITY, sum = 0;
  bool none = true; /* no key is seen; a logit that is no number is one of a key */
  check_attn_load_query(r);
  for (int64_t j = 0; j < r->n_kv; j++) {
    most = fmaxf(most, r->s[j] = check_attn_logit(r, j));
    none = none && r->s[j] == -INFINITY;
  }
  for (int64_t j = 0; j < r->n_kv && !none; j++) sum += expf(r->s[j] - most);
  if (r->rounds) sum = plain_rounded(r, &most);
  for (int c = 0; c < d->v_dim && !r->rounds; c++) r->o[c] = 0;
  for (int64_t j = 0; j < r->n_kv && !none && !r->rounds; j++) {
    if (r->s[j] == -INFINITY) continue;
    const check_attn_key y = check_attn_key_of(r, j);
    add_value(r, &y, plain_weight(r, &y, expf(r->s[j] - most)));
  }
  if (d->flags & GA_ATTN_STATE_IN) plain_join(r, at, &most, &sum), none = none && most == -INFINITY;
  if (d->flags & GA_ATTN_STATE_OUT) {
    r->a->state_m[at] = most * 1.44269504f;
    r->a->state_l[at] = sum;
    memcpy(r->a->state_o + at * d->v_dim, r->o, (size_t)d->v_dim * sizeof(float));
    return;
  }
  if (d->flags & GA_ATTN_SINKS && !none) sum += expf(r->a->sinks[r->h] - most);
  for (int c = 0; c < d->v_dim; c++)
    ga_ref_store((ga_dtype)d->o_dtype, r->a->o, plain_q(r, &r->a->o_stride) + c,
                 none       ? 0
                 : r->as_kv ? check_round((ga_dtype)d->kv_dtype, (double)(r->o[c] / sum))
                            : (double)(r->o[c] / sum));
  if (d->flags & GA_ATTN_LSE)
    r->a->lse[d->lse_stride ? r->h * d->lse_stride + r->q_first + r->i : at] = none ? -INFINITY : most + logf(sum);
}

int64_t check_attn_sequences(const ga_attn_desc *d) { return d->batch * ga_max_i64(d->q_stretches, 1); }

static check_attn_row row_of_stretch(const ga_attn_desc *d, const ga_attn_io *a, int64_t i) {
  const ga_attn_stretch *q = &a->q_stretches[i % d->q_stretches];
  check_attn_row r = {.d = d, .a = a, .b = i / d->q_stretches, .n_q = q->rows, .q_first = q->first, .stretch = q};
  for (int k = 0; k < d->kv_stretches; k++) r.n_kv += a->kv_stretches[k].rows;
  return r;
}

/* Rows of sequence b: which of them, i and h, is the caller's. */
check_attn_row check_attn_sequence(const ga_attn_desc *d, const ga_attn_io *a, int64_t b) {
  const bool varlen = d->flags & GA_ATTN_VARLEN, paged = d->flags & GA_ATTN_PAGED;
  if (d->q_stretches) return row_of_stretch(d, a, b);
  check_attn_row r = {.d = d, .a = a, .b = b, .n_q = d->max_q, .n_kv = d->max_kv};
  if (varlen) r.q_first = a->q_start[b], r.n_q = ga_attn_rows_of(d->flags, a->q_start, a->q_len, b);
  if (varlen && !paged) r.kv_first = a->kv_start[b], r.n_kv = ga_attn_rows_of(d->flags, a->kv_start, a->kv_len, b);
  if (paged) r.n_kv = a->kv_len[b];
  if (d->kv_segments) r.n_kv = 0;
  for (int i = 0; i < d->kv_segments; i++) r.n_kv += a->kv_segments[i].kv;
  return r;
}

ga_status check_attn_plain(const ga_kernel *kernel, const void *desc, const void *io) {
  const ga_attn_desc *d = desc;
  const ga_attn_io *a = io;
  const int64_t n_logits = (d->max_kv + 1) * (d->kv_segments ? d->kv_segments : 1),
                n_kv = ga_max_i64(d->head_dim, d->v_dim);
  void *memory;
  if (ga_attn_is_scaled(d)) return check_attn_fp8_plain(kernel, d, a);
  GA_TRY(ga_mem_alloc((size_t)(d->head_dim + n_kv) * sizeof(double) + (size_t)(n_logits + d->v_dim) * sizeof(float),
                      "logits", &memory));
  for (int64_t b = 0; b < check_attn_sequences(d); b++) {
    check_attn_row r = check_attn_sequence(d, a, b);
    r.tensor = kernel->flags & GA_KERNEL_TENSOR;
    r.as_kv = kernel->op_flags & GA_ATTN_ROW_AS_KV;
    r.rounds = kernel->op_flags & GA_ATTN_ROW_WEIGHTS_16;
    r.q = memory;
    r.kv = r.q + d->head_dim;
    r.o = (float *)(r.kv + n_kv);
    r.s = r.o + d->v_dim;
    for (r.i = 0; r.i < r.n_q; r.i++)
      for (r.h = 0; r.h < d->q_heads; r.h++) plain_one(&r);
  }
  ga_mem_free(memory);
  return GA_OK;
}
