/* Gradients of attention: dense and packed (VARLEN), any strides. O and LSE are those of the oracle's forward pass;
 * lengths of sequences are functions of c->bits. `plain` keeps P and dS in matrices of the inputs' type, as an unfused
 * evaluation does. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "opdef/attn_rows.h"
#include "ref/ref.h"
#include "verify/check/check.h"

#define PAD_STRIDES (c->bits & 1)

/* --- lengths --- */

static int64_t hashed(const check_case *c, int64_t b, int64_t most) {
  uint64_t x = c->bits * 0x100000001b3u + (uint64_t)b;
  const uint64_t h = ga_splitmix64(&x);
  return h % 5 == 0 ? most : (int64_t)(h / 5 % (uint64_t)(most + 1));
}

static int64_t length_of_sequence(const check_case *c, const ga_attn_bwd_desc *d, bool kv, int64_t b) {
  const int64_t length = kv ? hashed(c, b + 1000, d->max_kv) : hashed(c, b, d->max_q);
  return kv && hashed(c, b + 2000, 5) == 4 ? ga_min_i64(length, 1) : length;
}

/* With LENGTHS either side may have gaps, and be in any order. */
static bool has_gaps_between(const check_case *c, const ga_attn_bwd_desc *d, bool kv) {
  return d->flags & GA_ATTN_LENGTHS && !(c->bits >> (kv ? 10 : 11) & 1);
}

/* Tokens before sequence b; b = batch: all of them. */
static int64_t first_token_of(const check_case *c, const ga_attn_bwd_desc *d, bool kv, int64_t b) {
  const bool gaps = has_gaps_between(c, d, kv), backwards = gaps && c->bits >> 9 & 1 && b < d->batch;
  int64_t sum = 0;
  for (int64_t i = 0; i < d->batch; i++)
    if (backwards ? i > b : i < b)
      sum += length_of_sequence(c, d, kv, i) + (gaps ? hashed(c, (kv ? 8000 : 7000) + i, 9) : 0);
  return sum;
}

/* --- description --- */

static void draw_flags(check_case *c, ga_attn_bwd_desc *d) {
  const uint32_t all[] = {
      GA_ATTN_CAUSAL,     GA_ATTN_VARLEN,     GA_ATTN_SINKS, GA_ATTN_ALIBI, GA_ATTN_BWD_DETERMINISTIC,
      GA_ATTN_BWD_ADD_DQ, GA_ATTN_BWD_ADD_DKV};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++)
    if (check_pick(c, 3) == 0 || (i == 0 && check_pick(c, 2))) d->flags |= all[i];
  if (check_pick(c, 3) == 0) d->window = 1 + check_pick(c, check_pick(c, 2) ? 20 : 200);
  if (check_pick(c, 3) == 0) d->softcap = 5 + 20 * (float)ga_rng_unit(&c->rng);
  if (d->grad_dtype != GA_F32) d->flags &= ~GA_ATTN_BWD_ADDS;
}

static void draw(check_case *c) {
  ga_attn_bwd_desc *d = c->desc;
  *d = (ga_attn_bwd_desc)GA_ATTN_BWD_DESC_INIT;
  d->dtype = check_dtype(c, 0);
  d->grad_dtype = check_pick(c, 3) ? d->dtype : GA_F32;
  const bool large = check_pick(c, 3) == 0;
  const int32_t step = (int32_t)ga_max_i64(1, c->kernel->align / 2);
  d->batch = check_extent(c, 0, large ? 2 : 3);
  d->max_q = check_extent(c, 0, large ? 300 : 90);
  d->max_kv = check_pick(c, 3) ? check_extent(c, 0, large ? 300 : 90) : d->max_q;
  d->kv_heads = 1 + check_pick(c, 2);
  d->q_heads = d->kv_heads * (1 + check_pick(c, 3));
  const int64_t widest = large ? 64 : check_pick(c, 3) ? 160 : 256;
  d->head_dim = (int32_t)check_dim_step(c, step, widest, step);
  d->v_dim = check_pick(c, 4) ? d->head_dim : (int32_t)check_dim_step(c, step, widest, step);
  d->scale = 1.0f / sqrtf((float)d->head_dim);
  draw_flags(c, d);
  if ((c->bits >> 24 & 15) == 0) d->max_kv = 1;
  if (!(d->flags & GA_ATTN_VARLEN)) return;
  if (c->bits >> 20 & 1) d->flags |= GA_ATTN_LENGTHS;
  d->total_q = first_token_of(c, d, false, d->batch);
  d->total_kv = first_token_of(c, d, true, d->batch);
  if (c->bits >> 21 & 1) d->lse_stride = ga_max_i64(1, d->total_q) + (c->bits >> 4 & 7);
}

/* --- hostile values: in one KV head, of one sequence when they are not packed --- */

static int64_t bad_head(const check_case *c, const ga_attn_bwd_desc *d) {
  return (c->bits >> 12) % (uint32_t)d->kv_heads;
}
static int64_t bad_batch(const check_case *c, const ga_attn_bwd_desc *d) {
  return (c->bits >> 16) % (uint32_t)ga_max_i64(1, d->batch);
}

/* Element i of q, k, v, dout or a gradient, in order of its indices: of the head that holds them. An infinity times a
 * weight of 0 is no number, so that it may spread over that head: behind masks, and to its neighbours in a tile of
 * packed sequences. */
static bool in_bad_head(const check_case *c, const check_arg *arg, int64_t i) {
  const ga_attn_bwd_desc *d = c->desc;
  if (arg->n_dims == 1) return i / (d->q_heads / d->kv_heads) == bad_head(c, d); /* dsinks */
  const int64_t width = arg->dim[3], heads = arg->dim[2], token = i / (width * heads);
  if (i / width % heads / (heads / d->kv_heads) != bad_head(c, d)) return false;
  return d->flags & GA_ATTN_VARLEN || token / ga_max_i64(1, arg->dim[1]) == bad_batch(c, d);
}

static double hostile(check_case *c) {
  const double all[] = {HUGE_VAL, -HUGE_VAL, (double)NAN};
  return check_pick(c, 200) ? ga_rng_normal(&c->rng)
                            : all[check_pick(c, GA_COUNT_OF(all))]; /* few: rows without any are to be there */
}

static void excuse(const check_case *c, const check_arg *arg, const void *io, bool *excused, int64_t n) {
  (void)io;
  for (int64_t i = 0; i < n && c->mode == CHECK_HOSTILE; i++) excused[i] = in_bad_head(c, arg, i);
}

/* --- arguments --- */

typedef struct layout {
  int64_t n_batch, tokens, heads;
} layout;

/* [batch, tokens, heads, width] with room between heads, tokens and batches when the draw wants it. */
static void tensor(const check_case *c, check_args *a, const char *name, size_t io_at, check_role role, int32_t dtype,
                   layout l, int64_t width, ga_attn_strides *stride) {
  const int64_t block = ga_max_i64(1, c->kernel->align / 2); /* legal for f32 too */
  stride->head = width + (PAD_STRIDES ? block * (c->bits >> 4 & 3) : 0);
  stride->token = l.heads * stride->head + (PAD_STRIDES ? block * (c->bits >> 6 & 3) : 0);
  if (PAD_STRIDES && c->bits & 2) { /* heads outermost */
    stride->token = width;
    stride->head = l.tokens * width + block;
    stride->batch = l.heads * stride->head;
  } else {
    stride->batch = l.tokens * stride->token + (PAD_STRIDES ? block * (c->bits >> 8 & 3) : 0);
  }
  check_arg *t = check_arg_add(a, name, io_at, role, dtype);
  const int64_t dim[4] = {l.n_batch, l.tokens, l.heads, width},
                steps[4] = {stride->batch, stride->token, stride->head, 1};
  t->n_dims = 4;
  t->align = (size_t)c->kernel->align;
  t->fill = strcmp(name, "o") && c->mode != CHECK_HOSTILE ? CHECK_FILL_VALUES : CHECK_FILL_OP;
  memcpy(t->dim, dim, sizeof dim);
  memcpy(t->stride, steps, sizeof steps);
}

#define AT(name) offsetof(ga_attn_bwd_io, name)
#define TENSOR(name, role, dtype, layout, width) \
  tensor(c, a, #name, AT(name), role, dtype, layout, width, &io->name##_stride)

/* In this order: o and lse are made of those before them. */
static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_attn_bwd_desc *d = desc;
  ga_attn_bwd_io *io = (ga_attn_bwd_io *)(void *)a->io;
  const bool varlen = d->flags & GA_ATTN_VARLEN;
  const bool add_dq = d->flags & GA_ATTN_BWD_ADD_DQ, add_dkv = d->flags & GA_ATTN_BWD_ADD_DKV,
             q_len = has_gaps_between(c, d, false), kv_len = has_gaps_between(c, d, true);
  const check_role out_q = add_dq || q_len ? CHECK_INOUT : CHECK_OUT, /* rows between sequences stay: INOUT */
      out_kv = add_dkv || kv_len ? CHECK_INOUT : CHECK_OUT, out_sinks = add_dkv ? CHECK_INOUT : CHECK_OUT;
  layout q = {d->batch, d->max_q, d->q_heads}, kv = {d->batch, d->max_kv, d->kv_heads};
  if (varlen) q = (layout){1, d->total_q, d->q_heads};
  if (varlen) kv = (layout){1, d->total_kv, d->kv_heads};
  TENSOR(q, CHECK_IN, d->dtype, q, d->head_dim);
  TENSOR(k, CHECK_IN, d->dtype, kv, d->head_dim);
  TENSOR(v, CHECK_IN, d->dtype, kv, d->v_dim);
  TENSOR(dout, CHECK_IN, d->dtype, q, d->v_dim);
  if (varlen) check_index(a, "q_start", AT(q_start), d->batch + !q_len, 0, 1)->fill = CHECK_FILL_OP;
  if (varlen) check_index(a, "kv_start", AT(kv_start), d->batch + !kv_len, 0, 1)->fill = CHECK_FILL_OP;
  if (q_len) check_index(a, "q_len", AT(q_len), d->batch, 0, 1)->fill = CHECK_FILL_OP;
  if (kv_len) check_index(a, "kv_len", AT(kv_len), d->batch, 0, 1)->fill = CHECK_FILL_OP;
  check_arg *s = NULL;
  if (d->flags & GA_ATTN_SINKS) s = check_in(a, "sinks", AT(sinks), GA_F32, 1, d->q_heads, d->q_heads);
  if (s) s->fill = CHECK_FILL_RANGE, s->lo = -3, s->hi = 6;
  if (d->flags & GA_ATTN_ALIBI) s = check_in(a, "alibi", AT(alibi), GA_F32, 1, d->q_heads, d->q_heads);
  if (d->flags & GA_ATTN_ALIBI) s->fill = CHECK_FILL_RANGE, s->lo = 0, s->hi = 0.5;
  TENSOR(o, CHECK_IN, d->dtype, q, d->v_dim);
  if (d->lse_stride)
    check_in(a, "lse", AT(lse), GA_F32, d->q_heads, d->total_q, d->lse_stride)->fill = CHECK_FILL_OP;
  else
    check_in(a, "lse", AT(lse), GA_F32, d->batch * d->q_heads, d->max_q, d->max_q)->fill = CHECK_FILL_OP;
  TENSOR(dq, out_q, d->grad_dtype, q, d->head_dim);
  TENSOR(dk, out_kv, d->grad_dtype, kv, d->head_dim);
  TENSOR(dv, out_kv, d->grad_dtype, kv, d->v_dim);
  if (d->flags & GA_ATTN_SINKS) check_arg_add(a, "dsinks", AT(dsinks), out_sinks, GA_F32)->n_dims = 1;
  if (d->flags & GA_ATTN_SINKS) a->arg[a->n - 1].dim[0] = d->q_heads, a->arg[a->n - 1].stride[0] = 1;
}

/* --- the forward pass, on the row's images --- */

static const void *image(const check_case *c, const char *name) {
  const check_arg *a = check_find(&c->row, name);
  return a && a->before ? a->before + a->at : NULL;
}

/* O [tokens][heads][v_dim] as doubles, or LSE. */
static void forward(check_case *c, double *o, double *lse, int64_t n_lse) {
  const ga_attn_bwd_desc *d = c->desc;
  const ga_attn_bwd_io *io = (const ga_attn_bwd_io *)(const void *)c->row.io;
  const int64_t tokens = d->flags & GA_ATTN_VARLEN ? d->total_q : d->batch * d->max_q;
  const int64_t all_lse = d->lse_stride ? d->q_heads * d->lse_stride : d->batch * d->q_heads * d->max_q;
  ga_attn_desc f = GA_ATTN_DESC_INIT;
  f.batch = d->batch, f.max_q = d->max_q, f.max_kv = d->max_kv, f.q_heads = d->q_heads, f.kv_heads = d->kv_heads;
  f.head_dim = d->head_dim, f.v_dim = d->v_dim, f.q_dtype = f.kv_dtype = d->dtype, f.o_dtype = GA_F64;
  f.flags = (d->flags & 0xffff) | GA_ATTN_LSE, f.window = d->window, f.scale = d->scale, f.softcap = d->softcap;
  f.lse_stride = d->lse_stride;
  void *o_all, *lse_all;
  if (ga_arena_alloc(&c->arena, (size_t)(tokens * d->q_heads * d->v_dim + 1) * sizeof(double), &o_all) != GA_OK ||
      ga_arena_alloc(&c->arena, (size_t)(all_lse + 1) * sizeof(float), &lse_all) != GA_OK)
    return;
  memset(o_all, 0, (size_t)(tokens * d->q_heads * d->v_dim) * sizeof(double)); /* rows between sequences */
  ga_attn_io a = {.q = image(c, "q"), .k = image(c, "k"), .v = image(c, "v"), .o = o_all, .lse = lse_all};
  a.q_stride = io->q_stride, a.k_stride = io->k_stride, a.v_stride = io->v_stride;
  a.o_stride = (ga_attn_strides){d->max_q * d->q_heads * d->v_dim, (int64_t)d->q_heads * d->v_dim, d->v_dim};
  a.q_start = image(c, "q_start"), a.kv_start = image(c, "kv_start"), a.sinks = image(c, "sinks"),
  a.alibi = image(c, "alibi"), a.q_len = image(c, "q_len"), a.kv_len = image(c, "kv_len");
  for (int64_t i = 0; i < all_lse; i++) ((float *)lse_all)[i] = NAN; /* of no sequence: not read */
  if (ga_ref_attn(NULL, &f, &a, NULL, NULL) != GA_OK) return;
  if (o) memcpy(o, o_all, (size_t)(tokens * d->q_heads * d->v_dim) * sizeof *o);
  const int64_t width = d->lse_stride ? d->total_q : 1, apart = d->lse_stride ? d->lse_stride : 1;
  for (int64_t i = 0; lse && i < n_lse; i++) lse[i] = (double)((float *)lse_all)[i / width * apart + i % width];
}

/* Too large for the oracle: only timed. Normal Q and K have logits of variance 1, whose sum of e^x is about n e^(1/2).
 * */
static void forward_by_chance(check_case *c, bool o, double *values, int64_t n) {
  const ga_attn_bwd_desc *d = c->desc;
  for (int64_t i = 0; i < n; i++) {
    const double seen =
        d->flags & GA_ATTN_CAUSAL ? (double)(i % d->max_q + 1 + d->max_kv - d->max_q) : (double)d->max_kv;
    values[i] = o ? ga_rng_normal(&c->rng) / sqrt((double)d->max_kv) : log(fmax(seen, 1)) + 0.5;
  }
}

/* A single key, added to what there is: LSE and O are those of four keys then, as in distributed attention. */
static bool is_one_of_more(const ga_attn_bwd_desc *d) { return d->max_kv == 1 && d->flags & GA_ATTN_BWD_ADDS; }

static void fill(check_case *c, const check_arg *arg, double *values, int64_t n) {
  const ga_attn_bwd_desc *d = c->desc;
  const bool o = !strcmp(arg->name, "o"), made = o || !strcmp(arg->name, "lse");
  if (n == 0) return;
  if (made && (double)d->batch * d->q_heads * (double)d->max_q * (double)d->max_kv > 1e7) {
    forward_by_chance(c, o, values, n);
    return;
  }
  if (arg->n_dims == 4 && !o) { /* hostile mode; gradients that are added to stay numbers */
    for (int64_t i = 0; i < n; i++)
      values[i] = arg->role == CHECK_IN && in_bad_head(c, arg, i) ? hostile(c) : ga_rng_normal(&c->rng);
    return;
  }
  if (o) {
    forward(c, values, NULL, 0);
    for (int64_t i = 0; is_one_of_more(d) && i < n; i++) values[i] = values[i] / 4 + ga_rng_normal(&c->rng) / 2;
  } else if (made) {
    forward(c, NULL, values, n);
    for (int64_t i = 0; is_one_of_more(d) && i < n; i++) values[i] += log(4);
  } else
    for (int64_t i = 0; i < n; i++) {
      const bool kv = arg->name[0] == 'k', start = strstr(arg->name, "_start") != NULL;
      values[i] = (double)(start ? first_token_of(c, d, kv, i) : length_of_sequence(c, d, kv, i));
    }
}

/* Rows of inputs between sequences. (LSE has NaN there: forward.) */
static void unread(const check_case *c, const check_arg *arg, bool *none, int64_t n) {
  const ga_attn_bwd_desc *d = c->desc;
  const bool kv = !strcmp(arg->name, "k") || !strcmp(arg->name, "v");
  if (arg->n_dims != 4 || !has_gaps_between(c, d, kv)) return;
  const int64_t row = arg->dim[2] * arg->dim[3];
  memset(none, 1, (size_t)n);
  for (int64_t b = 0; b < d->batch; b++)
    memset(none + first_token_of(c, d, kv, b) * row, 0, (size_t)(length_of_sequence(c, d, kv, b) * row));
}

static void oracle_types(void *desc) { ((ga_attn_bwd_desc *)desc)->grad_dtype = GA_F64; }

/* --- the plain evaluation: one head of one sequence after the other, whole matrices --- */

typedef struct plain_head {
  const ga_attn_bwd_desc *d;
  const ga_attn_bwd_io *a;
  int64_t b, n_q, n_kv, q_first, kv_first;
  int h, kv;
  float *p, *ds; /* [n_q, n_kv], rounded to dtype */
} plain_head;

static int64_t plain_at(const plain_head *x, const ga_attn_strides *s, int64_t first, int64_t i, int head) {
  return (x->d->flags & GA_ATTN_VARLEN ? 0 : x->b * s->batch) + (first + i) * s->token + head * s->head;
}
#define AT_Q(name, i)  plain_at(x, &x->a->name##_stride, x->q_first, i, x->h)
#define AT_KV(name, j) plain_at(x, &x->a->name##_stride, x->kv_first, j, x->kv)

static float load_element(const plain_head *x, const void *p, int64_t i) {
  return (float)ga_ref_load((ga_dtype)x->d->dtype, p, i);
}
static float round_to(const plain_head *x, float v) { return (float)check_round((ga_dtype)x->d->dtype, (double)v); }

static void plain_pair(const plain_head *x, int64_t i, int64_t j, float lse, float delta) {
  const ga_attn_bwd_desc *d = x->d;
  const int64_t pos = i + x->n_kv - x->n_q;
  float *p = x->p + i * x->n_kv + j, *ds = x->ds + i * x->n_kv + j, s = 0, dp = 0, slope = d->scale;
  *p = *ds = 0;
  if ((d->flags & GA_ATTN_CAUSAL && j > pos) || (d->window && j <= pos - d->window) || lse == -INFINITY) return;
  for (int c = 0; c < d->head_dim; c++)
    s += load_element(x, x->a->q, AT_Q(q, i) + c) * load_element(x, x->a->k, AT_KV(k, j) + c);
  for (int c = 0; c < d->v_dim; c++)
    dp += load_element(x, x->a->dout, AT_Q(dout, i) + c) * load_element(x, x->a->v, AT_KV(v, j) + c);
  s *= d->scale;
  if (d->softcap > 0) {
    const float t = tanhf(s / d->softcap);
    s = d->softcap * t;
    slope *= 1 - t * t;
  }
  if (d->flags & GA_ATTN_ALIBI) s += x->a->alibi[x->h] * (float)(j - pos);
  const float w = expf(s - lse);
  *p = round_to(x, w);
  *ds = round_to(x, w * (dp - delta) * (slope / d->scale)) * d->scale; /* scaled when the product leaves, as is usual */
}

/* out[c] += sum over k of m[k * col] y[k][c], in floats. */
static void plain_product(const plain_head *x, const float *m, int64_t col, int64_t n, const void *y, int64_t y_at,
                          int64_t y_step, int dim, float *out) {
  for (int c = 0; c < dim; c++) {
    float sum = 0;
    for (int64_t k = 0; k < n; k++) sum += m[k * col] * load_element(x, y, y_at + k * y_step + c);
    out[c] += sum;
  }
}

static void plain_one(const plain_head *x, float *dq, float *dk, float *dv, float *dsink) {
  const ga_attn_bwd_desc *d = x->d;
  const ga_attn_bwd_io *a = x->a;
  for (int64_t i = 0; i < x->n_q; i++) {
    const float lse = a->lse[ga_attn_lse_at(d->lse_stride, x->q_first, x->b, d->q_heads, d->max_q, x->h, i)];
    float delta = 0;
    for (int c = 0; c < d->v_dim; c++)
      delta += load_element(x, a->dout, AT_Q(dout, i) + c) * load_element(x, a->o, AT_Q(o, i) + c);
    if (d->flags & GA_ATTN_SINKS && lse != -INFINITY) *dsink -= expf(a->sinks[x->h] - lse) * delta;
    for (int64_t j = 0; j < x->n_kv; j++) plain_pair(x, i, j, lse, delta);
    plain_product(x, x->ds + i * x->n_kv, 1, x->n_kv, a->k, AT_KV(k, 0), a->k_stride.token, d->head_dim,
                  dq + (i * d->q_heads + x->h) * d->head_dim);
  }
  for (int64_t j = 0; j < x->n_kv; j++) {
    plain_product(x, x->ds + j, x->n_kv, x->n_q, a->q, AT_Q(q, 0), a->q_stride.token, d->head_dim,
                  dk + (j * d->kv_heads + x->kv) * d->head_dim);
    plain_product(x, x->p + j, x->n_kv, x->n_q, a->dout, AT_Q(dout, 0), a->dout_stride.token, d->v_dim,
                  dv + (j * d->kv_heads + x->kv) * d->v_dim);
  }
}

static void plain_store(const plain_head *x, uint32_t add, const float *sums, void *out, const ga_attn_strides *s,
                        int64_t first, int64_t n, int heads, int dim) {
  for (int64_t i = 0; i < n; i++)
    for (int h = 0; h < heads; h++)
      for (int c = 0; c < dim; c++) {
        const int64_t to = plain_at(x, s, first, i, h) + c;
        const double old = x->d->flags & add ? ga_ref_load((ga_dtype)x->d->grad_dtype, out, to) : 0;
        ga_ref_store((ga_dtype)x->d->grad_dtype, out, to, old + (double)sums[(i * heads + h) * dim + c]);
      }
}

static void plain_sequence(plain_head *x, float *memory, float *dsinks) {
  const ga_attn_bwd_desc *d = x->d;
  const ga_attn_bwd_io *a = x->a;
  const int64_t n_dq = x->n_q * d->q_heads * d->head_dim, n_dk = x->n_kv * d->kv_heads * d->head_dim;
  const int64_t n_dv = x->n_kv * d->kv_heads * d->v_dim;
  memset(memory, 0, (size_t)(n_dq + n_dk + n_dv) * sizeof *memory);
  for (x->h = 0; x->h < d->q_heads; x->h++) {
    x->kv = x->h / (d->q_heads / d->kv_heads);
    plain_one(x, memory, memory + n_dq, memory + n_dq + n_dk, &dsinks[x->h]);
  }
  plain_store(x, GA_ATTN_BWD_ADD_DQ, memory, a->dq, &a->dq_stride, x->q_first, x->n_q, d->q_heads, d->head_dim);
  plain_store(x, GA_ATTN_BWD_ADD_DKV, memory + n_dq, a->dk, &a->dk_stride, x->kv_first, x->n_kv, d->kv_heads,
              d->head_dim);
  plain_store(x, GA_ATTN_BWD_ADD_DKV, memory + n_dq + n_dk, a->dv, &a->dv_stride, x->kv_first, x->n_kv, d->kv_heads,
              d->v_dim);
}

static ga_status plain(const ga_kernel *kernel, const void *desc, const void *io) {
  (void)kernel;
  const ga_attn_bwd_desc *d = desc;
  const ga_attn_bwd_io *a = io;
  const int64_t square = d->max_q * d->max_kv, row = d->head_dim + d->v_dim;
  const int64_t sums = d->max_q * d->q_heads * d->head_dim + d->max_kv * d->kv_heads * row;
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)(2 * square + sums + d->q_heads), sizeof(float), "gradients", &p));
  float *dsinks = p;
  plain_head x = {.d = d, .a = a, .p = dsinks + d->q_heads};
  x.ds = x.p + square;
  for (x.b = 0; x.b < d->batch; x.b++) {
    x.n_q = d->max_q, x.n_kv = d->max_kv;
    if (d->flags & GA_ATTN_VARLEN) {
      x.q_first = a->q_start[x.b], x.n_q = ga_attn_rows_of(d->flags, a->q_start, a->q_len, x.b);
      x.kv_first = a->kv_start[x.b], x.n_kv = ga_attn_rows_of(d->flags, a->kv_start, a->kv_len, x.b);
    }
    plain_sequence(&x, x.ds + square, dsinks);
  }
  for (int h = 0; h < d->q_heads && d->flags & GA_ATTN_SINKS; h++)
    a->dsinks[h] = dsinks[h] + (d->flags & GA_ATTN_BWD_ADD_DKV ? a->dsinks[h] : 0);
  ga_mem_free(p);
  return GA_OK;
}

/* --- error unit --- */

static double mean_size(const check_arg *arg, const void *data) {
  double sum = 0;
  const int64_t n = check_count(arg);
  int64_t counted = 0;
  for (int64_t i = 0; i < n; i++) {
    const double x = fabs(ga_ref_load(arg->dtype, data, check_at(arg, i)));
    if (!isfinite(x)) continue; /* tells nothing of the others' size */
    sum += x;
    counted++;
  }
  return counted ? sum / (double)counted : 0;
}

/* Returns whether dQ and dK of sequences with one key must be 0, because no other key shares their weight. */
static bool one_key_is_alone(const ga_attn_bwd_desc *d) { return !(d->flags & (GA_ATTN_SINKS | GA_ATTN_BWD_ADDS)); }

/* Lets no error pass in rows of dQ and dK that belong to packed sequences with one key. */
static void be_exact_where_alone(const check_case *c, const check_arg *arg, double *unit) {
  const ga_attn_bwd_desc *d = c->desc;
  const bool kv = !strcmp(arg->name, "dk");
  if (c->mode != CHECK_NORMAL || !(d->flags & GA_ATTN_VARLEN) || !one_key_is_alone(d)) return;
  if (!kv && strcmp(arg->name, "dq")) return;
  const int64_t row = arg->dim[2] * arg->dim[3];
  for (int64_t b = 0; b < d->batch; b++) {
    if (length_of_sequence(c, d, true, b) != 1) continue;
    const int64_t first = first_token_of(c, d, kv, b) * row;
    for (int64_t i = 0; i < length_of_sequence(c, d, kv, b) * row; i++) unit[first + i] = 1e-44;
  }
}

/* The spacing at the largest value of the row. dP - delta cancels: where a row sees one key dQ and dK are 0, with the
 * error of dP, whose size is that of |dO| |V|. */
static void unit(const check_case *c, const check_arg *arg, const void *io, double *unit, int64_t n) {
  const ga_attn_bwd_desc *d = c->oracle_desc;
  const ga_attn_bwd_io *a = io;
#define MEAN(name) mean_size(check_find(&c->oracle, #name), a->name)
  const double dp = 1.6 /* rms / mean of |normal|, squared */ * MEAN(dout) * MEAN(v) * sqrt((double)d->v_dim);
  /* P errs by the rounding of its logit, which grows with the logit's size. */
  const double bias = d->flags & GA_ATTN_ALIBI ? MEAN(alibi) * (double)ga_max_i64(d->max_q, d->max_kv) : 0;
  const double logit = 1.6 * MEAN(q) * MEAN(k) * sqrt((double)d->head_dim) * (double)d->scale + bias;
  const double size = !strcmp(arg->name, "dq")   ? (double)d->scale * dp * MEAN(k)
                      : !strcmp(arg->name, "dk") ? (double)d->scale * dp * MEAN(q)
                      : !strcmp(arg->name, "dv") ? MEAN(dout)
                                                 : dp;
  /* f32 gradients of 16-bit inputs: 4 units are one spacing, by which two roundings, of P and of dS, may err. */
  const double inner = d->dtype == GA_F32 ? 0 : 1.0 / 4;
  const check_arg *out = check_find(&c->oracle, arg->name);
  const void *want = *(void *const *)(const void *)((const char *)io + arg->io_at);
  const int64_t width = arg->dim[arg->n_dims - 1];
  for (int64_t row = 0; row < n; row += width) {
    double most = size;
    for (int64_t i = row; i < row + width; i++) {
      const double x = fabs(ga_ref_load(out->dtype, want, check_at(out, i)));
      if (isfinite(x)) most = fmax(most, x);
    }
    const double ulp = fmax(check_ulp(arg->dtype, most), inner * check_ulp((ga_dtype)d->dtype, most));
    for (int64_t i = row; i < row + width; i++) unit[i] = ulp * (1 + logit) + 1e-44;
  }
  be_exact_where_alone(c, arg, unit);
}

static void describe(const void *desc, char *text, size_t capacity) {
  const ga_attn_bwd_desc *d = desc;
  (void)snprintf(text, capacity, "flags=0x%x window=%d softcap=%g scale=%g lse_stride=%lld", d->flags, d->window,
                 (double)d->softcap, (double)d->scale, (long long)d->lse_stride);
}

/* With no other key the weights are 1, whatever Q and K are. */
static bool is_exact(const check_case *c, const check_arg *arg) {
  const ga_attn_bwd_desc *d = c->desc;
  const bool logits = !strcmp(arg->name, "dq") || !strcmp(arg->name, "dk");
  const bool alone = d->max_kv == 1 && one_key_is_alone(d);
  return c->mode == CHECK_NORMAL && logits && alone;
}

const check_op check_attn_bwd = {
    .modes = CHECK_NORMAL | CHECK_HOSTILE,
    .ulps = 4,
    .draw = draw,
    .args = args,
    .fill = fill,
    .unread = unread,
    .oracle_types = oracle_types,
    .plain = plain,
    .unit = unit,
    .excuse = excuse,
    .exact = is_exact,
    .describe = describe,
};
