/* Attention: dense, packed (VARLEN) and PAGED, any strides. Lengths of sequences and the order of pages are functions of
 * c->bits. Pages that no sequence owns, and the end of each last page, hold NaN. */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "ref/ref.h"
#include "tools/ga/check/check.h"

#define PAD_STRIDES (c->bits & 1)

/* --- description --- */

static void draw_masks(check_case *c, ga_attn_desc *d) {
  const uint32_t all[] = {GA_ATTN_CAUSAL, GA_ATTN_CAUSAL, GA_ATTN_VARLEN, GA_ATTN_PAGED, GA_ATTN_SINKS, GA_ATTN_ALIBI, GA_ATTN_LSE};
  for (size_t i = 0; i < GA_COUNT_OF(all); i++)
    if (check_pick(c, 3) == 0 || (i == 0 && check_pick(c, 2))) d->flags |= all[i];
  if (check_pick(c, 3) == 0) d->window = 1 + check_pick(c, check_pick(c, 2) ? 20 : 400);
  if (d->flags & GA_ATTN_PAGED) d->page_size = 1 + check_pick(c, 40);
  if (check_pick(c, 3) == 0) d->softcap = 5 + 20 * (float)ga_rng_unit(&c->rng);
}

/* The ladder takes one head dim and no feature: among all draws it would hardly find one. A few keep what it must refuse. */
static void draw_ladder(check_case *c, ga_attn_desc *d) {
  if (check_pick(c, 20) == 0) return;
  d->head_dim = d->v_dim = 128;
  d->scale = 1.0f / sqrtf(128);
  d->flags &= GA_ATTN_LSE;
  d->window = d->page_size = 0;
  d->softcap = 0;
}

static void draw(check_case *c) {
  static const ga_dtype caches[] = {GA_F32, GA_F16, GA_BF16, GA_Q8_0, GA_Q4_0, GA_E4M3};
  ga_attn_desc *d = c->desc;
  *d = (ga_attn_desc)GA_ATTN_DESC_INIT;
  d->q_dtype = check_dtype(c, 0);
  d->kv_dtype = check_dtype_of(c, 1, caches, (int)GA_COUNT_OF(caches));
  d->o_dtype = check_dtype(c, 2);
  const int32_t block = ga_dtype_info((ga_dtype)d->kv_dtype)->block_elems;
  const bool large = check_pick(c, 3) == 0;
  d->batch = check_dim(c, 0, large ? 2 : 4);
  d->max_q = check_dim(c, 0, large ? 150 : 12);
  d->max_kv = check_pick(c, 3) ? check_dim(c, 0, 330) : check_dim(c, 0, large ? 330 : 1500);
  d->kv_heads = 1 + check_pick(c, 3);
  d->q_heads = d->kv_heads * (check_pick(c, 20) ? 1 + check_pick(c, 5) : 17 + check_pick(c, 3));
  const int32_t step = check_pick(c, 8) ? (int32_t)ga_max_i64(block, c->kernel->align / 2) : block;
  d->head_dim = (int32_t)check_dim_step(c, step, large ? 64 : 160, step);
  d->v_dim = check_pick(c, 2) ? d->head_dim : (int32_t)check_dim_step(c, step, large ? 64 : 160, step);
  d->scale = 1.0f / sqrtf((float)d->head_dim);
  draw_masks(c, d);
  if (c->kernel->flags & GA_KERNEL_TEACHING) draw_ladder(c, d);
}

/* --- lengths and pages --- */

static int64_t hashed(const check_case *c, int64_t b, int64_t most) {
  uint64_t x = c->bits * 0x100000001b3u + (uint64_t)b;
  const uint64_t h = ga_splitmix64(&x);
  return h % 5 == 0 ? most : (int64_t)(h / 5 % (uint64_t)(most + 1));
}

static int64_t length_q(const check_case *c, const ga_attn_desc *d, int64_t b) {
  return d->flags & GA_ATTN_VARLEN ? hashed(c, b, d->max_q) : d->max_q;
}

static int64_t length_kv(const check_case *c, const ga_attn_desc *d, int64_t b) {
  return d->flags & (GA_ATTN_VARLEN | GA_ATTN_PAGED) ? hashed(c, b + 1000, d->max_kv) : d->max_kv;
}

static int64_t total_q(const check_case *c, const ga_attn_desc *d, int64_t n) {
  int64_t sum = 0;
  for (int64_t b = 0; b < n; b++) sum += length_q(c, d, b);
  return sum;
}

static int64_t total_kv(const check_case *c, const ga_attn_desc *d, int64_t n) {
  int64_t sum = 0;
  for (int64_t b = 0; b < n; b++) sum += length_kv(c, d, b);
  return sum;
}

static int64_t pages_a_sequence(const ga_attn_desc *d) { return ga_div_up(d->max_kv, d->page_size); }

/* A power of two, so that multiplying by an odd number permutes. */
static int64_t n_pages(const ga_attn_desc *d) {
  int64_t n = 1;
  while (n < d->batch * pages_a_sequence(d) + 1) n *= 2;
  return n;
}

static int64_t page_of(const ga_attn_desc *d, int64_t b, int64_t i) {
  return ((b * pages_a_sequence(d) + i) * 5 + 3) & (n_pages(d) - 1);
}

/* --- arguments --- */

typedef struct layout {
  int64_t n_batch, tokens;
} layout;

/* [batch, tokens, heads, width] with room between heads, tokens and batches when the draw wants it. */
static check_arg *tensor(const check_case *c, check_args *a, const char *name, size_t io_at, check_role role, int32_t dtype,
                         layout l, int64_t heads, int64_t width, ga_attn_strides *stride) {
  const ga_dtype_traits *t_info = ga_dtype_info((ga_dtype)dtype);
  const int64_t block = ga_max_i64(t_info->block_elems, c->kernel->align / t_info->block_bytes);
  stride->head = width + (PAD_STRIDES ? block * (c->bits >> 4 & 3) : 0);
  stride->token = heads * stride->head + (PAD_STRIDES ? block * (c->bits >> 6 & 3) : 0);
  if (PAD_STRIDES && c->bits & 2) { /* heads outermost */
    stride->token = width;
    stride->head = l.tokens * width + block;
    stride->batch = heads * stride->head;
  } else {
    stride->batch = l.tokens * stride->token + (PAD_STRIDES ? block * (c->bits >> 8 & 3) : 0);
  }
  check_arg *t = check_arg_add(a, name, io_at, role, dtype);
  const int64_t dim[4] = {l.n_batch, l.tokens, heads, width}, steps[4] = {stride->batch, stride->token, stride->head, 1};
  t->n_dims = 4;
  t->align = (size_t)c->kernel->align;
  memcpy(t->dim, dim, sizeof dim);
  memcpy(t->stride, steps, sizeof steps);
  return t;
}

static void index_args(const check_case *c, const ga_attn_desc *d, check_args *a, ga_attn_io *io) {
  const bool varlen = d->flags & GA_ATTN_VARLEN, paged = d->flags & GA_ATTN_PAGED;
  (void)c;
  if (varlen) check_index(a, "q_start", offsetof(ga_attn_io, q_start), d->batch + 1, 0, 1)->fill = CHECK_FILL_OP;
  if (varlen && !paged) check_index(a, "kv_start", offsetof(ga_attn_io, kv_start), d->batch + 1, 0, 1)->fill = CHECK_FILL_OP;
  if (!paged) return;
  io->page_table_stride = pages_a_sequence(d) + 1;
  check_index(a, "kv_len", offsetof(ga_attn_io, kv_len), d->batch, 0, 1)->fill = CHECK_FILL_OP;
  check_index(a, "page_table", offsetof(ga_attn_io, page_table), d->batch * io->page_table_stride, 0, 1)->fill = CHECK_FILL_OP;
}

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_attn_desc *d = desc;
  ga_attn_io *io = (ga_attn_io *)(void *)a->io;
  const bool varlen = d->flags & GA_ATTN_VARLEN, paged = d->flags & GA_ATTN_PAGED;
  layout q = {d->batch, d->max_q}, kv = {d->batch, d->max_kv};
  if (varlen) q = (layout){1, total_q(c, d, d->batch)};
  if (varlen) kv = (layout){1, total_kv(c, d, d->batch)};
  if (paged) kv = (layout){n_pages(d), d->page_size};
  tensor(c, a, "q", offsetof(ga_attn_io, q), CHECK_IN, d->q_dtype, q, d->q_heads, d->head_dim, &io->q_stride);
  check_arg *k = tensor(c, a, "k", offsetof(ga_attn_io, k), CHECK_IN, d->kv_dtype, kv, d->kv_heads, d->head_dim, &io->k_stride);
  check_arg *v = tensor(c, a, "v", offsetof(ga_attn_io, v), CHECK_IN, d->kv_dtype, kv, d->kv_heads, d->v_dim, &io->v_stride);
  if (paged) k->fill = v->fill = CHECK_FILL_OP;
  tensor(c, a, "o", offsetof(ga_attn_io, o), CHECK_OUT, d->o_dtype, q, d->q_heads, d->v_dim, &io->o_stride);
  if (d->flags & GA_ATTN_LSE) /* INOUT: entries past a packed sequence's length stay */
    check_inout(a, "lse", offsetof(ga_attn_io, lse), GA_F32, d->batch * d->q_heads, d->max_q, d->max_q);
  index_args(c, d, a, io);
  check_arg *s = NULL;
  if (d->flags & GA_ATTN_SINKS) s = check_in(a, "sinks", offsetof(ga_attn_io, sinks), GA_F32, 1, d->q_heads, d->q_heads);
  if (s) s->fill = CHECK_FILL_RANGE, s->lo = -3, s->hi = 6;
  if (d->flags & GA_ATTN_ALIBI) s = check_in(a, "alibi", offsetof(ga_attn_io, alibi), GA_F32, 1, d->q_heads, d->q_heads);
  if (d->flags & GA_ATTN_ALIBI) s->fill = CHECK_FILL_RANGE, s->lo = 0, s->hi = 0.5;
}

/* Rows of pages: normal where a sequence has keys, NaN elsewhere. values: [page, slot, head, width]. */
static void fill_pages(check_case *c, const check_arg *arg, double *values, int64_t n) {
  const ga_attn_desc *d = c->desc;
  const int64_t row = arg->dim[2] * arg->dim[3];
  for (int64_t i = 0; i < n; i++) values[i] = (double)NAN;
  for (int64_t b = 0; b < d->batch; b++)
    for (int64_t j = 0; j < length_kv(c, d, b); j++) {
      double *x = values + (page_of(d, b, j / d->page_size) * d->page_size + j % d->page_size) * row;
      for (int64_t i = 0; i < row; i++) x[i] = ga_rng_normal(&c->rng);
    }
}

static void fill(check_case *c, const check_arg *arg, double *values, int64_t n) {
  const ga_attn_desc *d = c->desc;
  if (arg->n_dims == 4) {
    fill_pages(c, arg, values, n);
    return;
  }
  const int64_t stride = (d->flags & GA_ATTN_PAGED) ? pages_a_sequence(d) + 1 : 1;
  for (int64_t i = 0; i < n; i++) {
    if (!strcmp(arg->name, "q_start")) values[i] = (double)total_q(c, d, i);
    else if (!strcmp(arg->name, "kv_start")) values[i] = (double)total_kv(c, d, i);
    else if (!strcmp(arg->name, "kv_len")) values[i] = (double)length_kv(c, d, i);
    else values[i] = i % stride < stride - 1 ? (double)page_of(d, i / stride, i % stride) : 1e9;
  }
}

static void widen(void *desc) { ((ga_attn_desc *)desc)->o_dtype = GA_F64; }

/* --- the plain evaluation --- */

typedef struct plain_row {
  const ga_attn_desc *d;
  const ga_attn_io *a;
  int64_t b, i, n_q, n_kv, q_first, kv_first;
  int h;
} plain_row;

static int64_t plain_kv(const plain_row *r, const ga_attn_strides *s, int64_t j) {
  const ga_attn_desc *d = r->d;
  const int64_t head = r->h / (d->q_heads / d->kv_heads) * s->head;
  if (d->flags & GA_ATTN_PAGED)
    return head + r->a->page_table[r->b * r->a->page_table_stride + j / d->page_size] * s->batch + j % d->page_size * s->token;
  return head + (d->flags & GA_ATTN_VARLEN ? 0 : r->b * s->batch) + (r->kv_first + j) * s->token;
}

static int64_t plain_q(const plain_row *r, const ga_attn_strides *s) {
  return (r->d->flags & GA_ATTN_VARLEN ? 0 : r->b * s->batch) + (r->q_first + r->i) * s->token + r->h * s->head;
}

static float plain_logit(const plain_row *r, int64_t j) {
  const ga_attn_desc *d = r->d;
  const int64_t p = r->i + r->n_kv - r->n_q, q = plain_q(r, &r->a->q_stride), k = plain_kv(r, &r->a->k_stride, j);
  if ((d->flags & GA_ATTN_CAUSAL && j > p) || (d->window && j <= p - d->window)) return -INFINITY;
  float x = 0;
  for (int c = 0; c < d->head_dim; c++)
    x += (float)ga_ref_load((ga_dtype)d->q_dtype, r->a->q, q + c) * (float)ga_ref_load((ga_dtype)d->kv_dtype, r->a->k, k + c);
  x *= d->scale;
  if (d->softcap > 0) x = d->softcap * tanhf(x / d->softcap);
  if (d->flags & GA_ATTN_ALIBI) x += r->a->alibi[r->h] * (float)(j - p);
  return x;
}

static void plain_one(const plain_row *r, float *s) {
  const ga_attn_desc *d = r->d;
  float most = -INFINITY, sum = 0;
  for (int64_t j = 0; j < r->n_kv; j++) most = fmaxf(most, s[j] = plain_logit(r, j));
  const bool none = most == -INFINITY;
  if (d->flags & GA_ATTN_SINKS && !none) {
    most = fmaxf(most, r->a->sinks[r->h]);
    sum = expf(r->a->sinks[r->h] - most);
  }
  for (int64_t j = 0; j < r->n_kv; j++) sum += expf(s[j] - most);
  for (int c = 0; c < d->v_dim; c++) {
    float o = 0;
    for (int64_t j = 0; j < r->n_kv && !none; j++)
      if (s[j] != -INFINITY)
        o += expf(s[j] - most) / sum * (float)ga_ref_load((ga_dtype)d->kv_dtype, r->a->v, plain_kv(r, &r->a->v_stride, j) + c);
    ga_ref_store((ga_dtype)d->o_dtype, r->a->o, plain_q(r, &r->a->o_stride) + c, (double)o);
  }
  if (d->flags & GA_ATTN_LSE) r->a->lse[(r->b * d->q_heads + r->h) * d->max_q + r->i] = none ? -INFINITY : most + logf(sum);
}

static ga_status plain(const ga_kernel *kernel, const void *desc, const void *io) {
  (void)kernel;
  const ga_attn_desc *d = desc;
  const ga_attn_io *a = io;
  const bool varlen = d->flags & GA_ATTN_VARLEN, paged = d->flags & GA_ATTN_PAGED;
  void *s;
  GA_TRY(ga_mem_alloc((size_t)(d->max_kv + 1) * sizeof(float), "logits", &s));
  for (int64_t b = 0; b < d->batch; b++) {
    plain_row r = {.d = d, .a = a, .b = b, .n_q = d->max_q, .n_kv = d->max_kv};
    if (varlen) r.q_first = a->q_start[b], r.n_q = a->q_start[b + 1] - a->q_start[b];
    if (varlen && !paged) r.kv_first = a->kv_start[b], r.n_kv = a->kv_start[b + 1] - a->kv_start[b];
    if (paged) r.n_kv = a->kv_len[b];
    for (r.i = 0; r.i < r.n_q; r.i++)
      for (r.h = 0; r.h < d->q_heads; r.h++) plain_one(&r, s);
  }
  ga_mem_free(s);
  return GA_OK;
}

/* --- error unit --- */

/* Mean of |x| over the finite elements. */
static double mean_size(const check_arg *arg, const void *data) {
  double sum = 0;
  int64_t n = check_count(arg), finite = 0;
  for (int64_t i = 0; i < n; i++) {
    double x = fabs(ga_ref_load(arg->dtype, data, check_at(arg, i)));
    if (!isfinite(x)) continue;
    sum += x;
    finite++;
  }
  return finite ? sum / (double)finite : 0;
}

/* Rounding a logit of size L moves a weight by L spacings; a weighted mean of V is as exact as V's mean size. */
static void unit(const check_case *c, const check_arg *arg, const void *io, double *unit, int64_t n) {
  const ga_attn_desc *d = c->oracle_desc;
  const ga_attn_io *a = io;
  const double q = mean_size(check_find(&c->oracle, "q"), a->q), k = mean_size(check_find(&c->oracle, "k"), a->k);
  double logit = 1.6 /* rms / mean of |normal|, squared */ * q * k * sqrt((double)d->head_dim) * (double)d->scale;
  if (d->flags & GA_ATTN_ALIBI) logit += 0.1 * (double)d->max_kv;
  const double size = strcmp(arg->name, "lse") ? mean_size(check_find(&c->oracle, "v"), a->v) : 1;
  for (int64_t i = 0; i < n; i++) unit[i] = check_ulp(arg->dtype, size) * (1 + logit) + 1e-44;
}

const check_op check_attn = {
    .modes = CHECK_NORMAL | CHECK_HOSTILE,
    .specials = CHECK_INF | CHECK_NAN | CHECK_TINY,
    .ulps = 4,
    .draw = draw,
    .args = args,
    .fill = fill,
    .widen = widen,
    .plain = plain,
    .unit = unit,
};
