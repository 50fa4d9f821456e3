/* Multi-head latent attention: lengths of sequences and the order of pages are functions of c->bits. Pages that no
 * sequence owns, the end of each last page, and queries of no sequence hold NaN. In hostile draws one sequence has
 * tokens with NaN, infinity or denormal numbers, which must stay in its rows. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "opdef/mla_at.h"
#include "ref/ref.h"
#include "verify/check/check.h"
#include "verify/check/tensor_sum.h"

#define LEAD  ((int64_t)(c->bits & 3))      /* rows of Q and O before the first sequence */
#define TRAIL ((int64_t)(c->bits >> 2 & 3)) /* rows behind the last one */
#define FEW   ((c->bits >> 4 & 7) == 0)     /* at most 1, 2 or 17 tokens */
#define GAIN  (c->bits >> 8 & 7)            /* of the queries */

/* --- description --- */

/* Half of the draws have DeepSeek's rows, which is all that some kernels take. */
static void draw_dims(check_case *c, ga_mla_desc *d) {
  d->v_dim = 512, d->head_dim = 576;
  if (check_pick(c, 2)) return;
  if (d->kv_dtype == GA_E4M3) { /* whole blocks that have scales */
    d->v_dim = GA_MLA_BLOCK * (1 + check_pick(c, 4));
    d->head_dim = d->v_dim + 2 * check_pick(c, 40);
    return;
  }
  const int32_t step = check_pick(c, 8) ? (int32_t)ga_max_i64(1, c->kernel->align / 2) : 1;
  d->v_dim = (int32_t)check_dim_step(c, step, 160, step);
  d->head_dim = d->v_dim + step * check_pick(c, 1 + 64 / step);
}

/* Number of heads: one, few, those of models over several GPUs. */
static int32_t draw_heads(check_case *c, bool is_wide) {
  switch (check_pick(c, 4)) {
  case 0: return 1;
  case 1: return 16;
  case 2: return 1 + check_pick(c, is_wide ? 8 : 40);
  default: return is_wide ? 3 : 128;
  }
}

static int64_t all_queries(const check_case *c, const ga_mla_desc *d);

static void draw(check_case *c) {
  static const ga_dtype caches[] = {GA_F32, GA_F16, GA_BF16, GA_E4M3};
  ga_mla_desc *d = c->desc;
  *d = (ga_mla_desc)GA_MLA_DESC_INIT;
  d->q_dtype = check_dtype(c, 0);
  d->kv_dtype = check_dtype_of(c, 1, caches, (int)GA_COUNT_OF(caches));
  d->o_dtype = check_dtype(c, 2);
  draw_dims(c, d);
  d->batch = check_extent(c, 0, 4);
  d->max_q = check_extent(c, 0, check_pick(c, 4) ? 3 : 20);
  d->max_kv = check_extent(c, 0, check_pick(c, 4) ? 150 : 700);
  if (FEW) d->max_kv = (int64_t[]){1, 1, 2, 17}[c->bits >> 11 & 3];
  d->q_heads = draw_heads(c, d->head_dim > 300);
  d->page_size = check_pick(c, 2) ? 64 : 1 + check_pick(c, 40);
  d->scale = 1 / sqrtf((float)d->head_dim);
  d->q_stride = check_stride(c, (int64_t)d->q_heads * d->head_dim, ga_max_i64(1, c->kernel->align / 2));
  d->o_stride = check_stride(c, (int64_t)d->q_heads * d->v_dim, ga_max_i64(1, c->kernel->align / 2));
  if (check_pick(c, 2)) d->flags |= GA_MLA_LSE;
  if (d->flags & GA_MLA_LSE) d->lse_stride = ga_max_i64(1, all_queries(c, d)) + check_pick(c, 5);
  if (c->kernel->op_flags & GA_MLA_ROW_INVARIANT && check_pick(c, 5) == 0) d->flags |= GA_MLA_INVARIANT;
}

/* --- lengths and pages --- */

static int64_t hashed(const check_case *c, int64_t b, int64_t most) {
  uint64_t x = c->bits * 0x100000001b3u + (uint64_t)b;
  const uint64_t h = ga_splitmix64(&x);
  return c->timing || h % 5 == 0 ? most : (int64_t)(h / 5 % (uint64_t)(most + 1));
}

static int64_t queries_of(const check_case *c, const ga_mla_desc *d, int64_t b) { return hashed(c, b, d->max_q); }
static int64_t cached_of(const check_case *c, const ga_mla_desc *d, int64_t b) {
  return hashed(c, b + 1000, d->max_kv);
}

/* First row of sequence b in Q and O; b = batch: the row behind the last sequence. */
static int64_t first_query_of(const check_case *c, const ga_mla_desc *d, int64_t b) {
  int64_t sum = LEAD;
  for (int64_t i = 0; i < b; i++) sum += queries_of(c, d, i);
  return sum;
}

static int64_t all_queries(const check_case *c, const ga_mla_desc *d) { return first_query_of(c, d, d->batch) + TRAIL; }

static int64_t table_row(const ga_mla_desc *d) { return ga_div_up(d->max_kv, d->page_size); }

/* A power of two, so that multiplying by an odd number permutes. */
static int64_t pages_in_cache(const ga_mla_desc *d) {
  int64_t n = 1;
  while (n < d->batch * table_row(d) + 1) n *= 2;
  return n;
}

static int64_t page_of_latents(const ga_mla_desc *d, int64_t b, int64_t i) {
  return ((b * table_row(d) + i) * 5 + 3) & (pages_in_cache(d) - 1);
}

static int64_t latent_row_bytes(const ga_mla_desc *d) {
  return ga_mla_row_bytes((ga_dtype)d->kv_dtype, d->v_dim, d->head_dim - d->v_dim);
}

/* Row of the cache with token j of sequence b. */
static int64_t drawn_row_of(const ga_mla_desc *d, int64_t b, int64_t j) {
  return page_of_latents(d, b, j / d->page_size) * d->page_size + j % d->page_size;
}

/* Writes a row of the cache as doubles. */
static void decode_latents(const ga_mla_desc *d, const void *cache, int64_t row, double *out) {
  const uint8_t *p = (const uint8_t *)cache + row * latent_row_bytes(d);
  if (d->kv_dtype != GA_E4M3) ga_ref_load_row((ga_dtype)d->kv_dtype, p, 0, 1, d->head_dim, out);
  for (int i = 0; d->kv_dtype == GA_E4M3 && i < d->head_dim; i++)
    out[i] = i < d->v_dim ? ga_ref_load(GA_E4M3, p, i) * ga_ref_load(GA_F32, p + ga_mla_scale_at(d->v_dim, i), 0)
                          : ga_ref_load(GA_BF16, p + ga_mla_rotated_at(d->v_dim, i - d->v_dim), 0);
}

/* --- arguments --- */

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_mla_desc *d = desc;
  ga_mla_io *io = (ga_mla_io *)(void *)a->io;
  const int64_t rows = all_queries(c, d), slots = pages_in_cache(d) * d->page_size;
  check_arg *q =
      check_in(a, "q", offsetof(ga_mla_io, q), d->q_dtype, rows, (int64_t)d->q_heads * d->head_dim, d->q_stride);
  const int64_t width = d->kv_dtype == GA_E4M3 ? latent_row_bytes(d) : d->head_dim;
  check_arg *cache = check_in(a, "cache", offsetof(ga_mla_io, cache), d->kv_dtype == GA_E4M3 ? GA_U8 : d->kv_dtype,
                              slots, width, width);
  /* INOUT: rows of no sequence stay as they are */
  check_arg *o =
      check_inout(a, "o", offsetof(ga_mla_io, o), d->o_dtype, rows, (int64_t)d->q_heads * d->v_dim, d->o_stride);
  q->fill = cache->fill = CHECK_FILL_OP;
  q->align = cache->align = o->align = (size_t)c->kernel->align;
  if (d->kv_dtype == GA_E4M3 && cache->align < sizeof(float)) cache->align = sizeof(float);
  if (d->flags & GA_MLA_LSE) check_inout(a, "lse", offsetof(ga_mla_io, lse), GA_F32, d->q_heads, rows, d->lse_stride);
  check_index(a, "q_start", offsetof(ga_mla_io, q_start), d->batch + 1, 0, 1)->fill = CHECK_FILL_OP;
  check_index(a, "kv_len", offsetof(ga_mla_io, kv_len), d->batch, 0, 1)->fill = CHECK_FILL_OP;
  io->page_table_stride = table_row(d) + 1;
  check_index(a, "page_table", offsetof(ga_mla_io, page_table), d->batch * io->page_table_stride, 0, 1)->fill =
      CHECK_FILL_OP;
  io->q_tokens = rows;
}

static void fill_absorbed(check_case *c, const ga_mla_desc *d, double *values, int64_t n) {
  static const double gains[] = {1, 1, 1, 0.25, 3, 8, 16, 64};
  const int64_t width = (int64_t)d->q_heads * d->head_dim;
  const int64_t begin = LEAD * width, end = first_query_of(c, d, d->batch) * width;
  const double gain = c->mode == CHECK_NORMAL && !c->timing ? gains[GAIN] : 1;
  for (int64_t i = 0; i < n; i++)
    values[i] = c->timing || (i >= begin && i < end) ? gain * ga_rng_normal(&c->rng) : (double)NAN;
}

/* A row of codes, scales and bf16, byte by byte. With is_bad an element, or a block by its scale, is NaN. */
static void fill_codes(check_case *c, const ga_mla_desc *d, double *bytes, bool is_bad) {
  GA_ALIGNED(4) uint8_t row[2048];
  const int blocks = d->v_dim / GA_MLA_BLOCK, bad = check_pick(c, d->head_dim);
  for (int i = 0; i < d->v_dim; i++) ga_ref_store(GA_E4M3, row, i, 32 * ga_rng_normal(&c->rng));
  for (int i = 0; i < blocks; i++)
    ga_ref_store(GA_F32, row + d->v_dim, i, is_bad && check_pick(c, 4) == 0 ? NAN : ldexp(1, check_pick(c, 3) - 6));
  for (int i = d->v_dim; i < d->head_dim; i++)
    ga_ref_store(GA_BF16, row + ga_mla_rotated_at(d->v_dim, 0), i - d->v_dim, ga_rng_normal(&c->rng));
  if (is_bad && bad < d->v_dim) row[bad] = 0x7f;
  if (is_bad && bad >= d->v_dim)
    ga_ref_store(GA_BF16, row + ga_mla_rotated_at(d->v_dim, 0), bad - d->v_dim, (double)INFINITY);
  for (int64_t i = 0; i < latent_row_bytes(d); i++) bytes[i] = row[i];
}

/* Rows of pages: normal where a sequence has tokens, else NaN. In hostile draws the last sequence has a bad token. */
static void fill_latents(check_case *c, const ga_mla_desc *d, double *values, int64_t n) {
  static const double special[] = {NAN, INFINITY, -INFINITY, 1e-41};
  const bool codes = d->kv_dtype == GA_E4M3;
  for (int64_t i = 0; i < n; i++) values[i] = codes ? 255 : c->timing ? ga_rng_normal(&c->rng) : (double)NAN;
  for (int64_t i = 0; codes && c->timing && i + latent_row_bytes(d) <= n; i += latent_row_bytes(d))
    fill_codes(c, d, values + i, false);
  for (int64_t b = 0; b < d->batch && !c->timing; b++) {
    const int64_t length = cached_of(c, d, b);
    for (int64_t j = 0; j < length; j++) {
      double *x = values + drawn_row_of(d, b, j) * (codes ? latent_row_bytes(d) : d->head_dim);
      const bool is_bad = c->mode == CHECK_HOSTILE && b == d->batch - 1 && j == length / 2;
      if (codes) {
        fill_codes(c, d, x, is_bad);
        continue;
      }
      for (int i = 0; i < d->head_dim; i++) x[i] = ga_rng_normal(&c->rng);
      if (is_bad) x[check_pick(c, d->head_dim)] = special[check_pick(c, (int32_t)GA_COUNT_OF(special))];
    }
  }
}

static double index_value(const check_case *c, const ga_mla_desc *d, const check_arg *arg, int64_t i) {
  const int64_t stride = table_row(d) + 1, b = i / stride, entry = i % stride;
  if (!strcmp(arg->name, "q_start")) return (double)first_query_of(c, d, i);
  if (!strcmp(arg->name, "kv_len")) return (double)cached_of(c, d, i);
  /* entries past a sequence's tokens are no pages */
  return entry * d->page_size < cached_of(c, d, b) ? (double)page_of_latents(d, b, entry) : 1e9;
}

static void fill(check_case *c, const check_arg *arg, double *values, int64_t n) {
  const ga_mla_desc *d = c->desc;
  if (!strcmp(arg->name, "q"))
    fill_absorbed(c, d, values, n);
  else if (!strcmp(arg->name, "cache"))
    fill_latents(c, d, values, n);
  else
    for (int64_t i = 0; i < n; i++) values[i] = index_value(c, d, arg, i);
}

static void oracle_types(void *desc) { ((ga_mla_desc *)desc)->o_dtype = GA_F64; }

/* --- plain evaluation --- */

typedef struct plain_row {
  const ga_mla_desc *d;
  const ga_mla_io *a;
  int64_t b, token, n_seen;
  int h;
  bool tensor, as_kv, rounds; /* the row's GA_KERNEL_TENSOR, GA_MLA_ROW_AS_KV and GA_MLA_ROW_WEIGHTS_16 */
  float *logits, *o;          /* scratch: [max_kv], [v_dim] */
  float *q, *latent;          /* scratch: [head_dim] each */
  double *row;                /* scratch: [head_dim] */
} plain_row;

/* The type to which a row rounds Q and weights: codes are multiplied as bf16. */
static ga_dtype products_type(const ga_mla_desc *d) { return d->kv_dtype == GA_E4M3 ? GA_BF16 : (ga_dtype)d->kv_dtype; }

static void load_plain_query(const plain_row *r) {
  const ga_mla_desc *d = r->d;
  ga_ref_load_row((ga_dtype)d->q_dtype, r->a->q, r->token * d->q_stride + r->h * d->head_dim, 1, d->head_dim, r->row);
  for (int i = 0; i < d->head_dim; i++)
    r->q[i] = (float)(r->as_kv ? check_round(products_type(d), r->row[i]) : r->row[i]);
}

static void load_cached(const plain_row *r, int64_t j) {
  const ga_mla_desc *d = r->d;
  const int64_t page = r->a->page_table[r->b * r->a->page_table_stride + j / d->page_size];
  decode_latents(d, r->a->cache, page * d->page_size + j % d->page_size, r->row);
  for (int i = 0; i < d->head_dim; i++) r->latent[i] = (float)r->row[i];
}

static float plain_logit(const plain_row *r, int64_t j) {
  float x = 0;
  load_cached(r, j);
  if (r->tensor) return check_tensor_dot(r->q, r->latent, r->d->head_dim) * r->d->scale;
  for (int i = 0; i < r->d->head_dim; i++) x += r->q[i] * r->latent[i];
  return x * r->d->scale;
}

static void plain_one(const plain_row *r) {
  const ga_mla_desc *d = r->d;
  float most = -INFINITY, sum = 0;
  bool none = true; /* a logit that is no number is one of a token */
  load_plain_query(r);
  memset(r->o, 0, (size_t)d->v_dim * sizeof *r->o);
  for (int64_t j = 0; j < r->n_seen; j++) {
    most = fmaxf(most, r->logits[j] = plain_logit(r, j));
    none = none && r->logits[j] == -INFINITY;
  }
  for (int64_t j = 0; j < r->n_seen && !none; j++) {
    const float exact = expf(r->logits[j] - most),
                weight = r->rounds ? (float)check_round(products_type(d), (double)exact) : exact;
    load_cached(r, j);
    sum += exact;
    for (int i = 0; i < d->v_dim; i++) r->o[i] += weight * r->latent[i];
  }
  for (int i = 0; i < d->v_dim; i++)
    ga_ref_store((ga_dtype)d->o_dtype, r->a->o, r->token * d->o_stride + r->h * d->v_dim + i,
                 none ? 0 : (double)(r->o[i] / sum));
  if (d->flags & GA_MLA_LSE) r->a->lse[r->h * d->lse_stride + r->token] = none ? -INFINITY : most + logf(sum);
}

static ga_status plain(const ga_kernel *kernel, const void *desc, const void *io) {
  const ga_mla_desc *d = desc;
  plain_row r = {.d = d,
                 .a = io,
                 .tensor = kernel->flags & GA_KERNEL_TENSOR,
                 .as_kv = kernel->op_flags & GA_MLA_ROW_AS_KV,
                 .rounds = kernel->op_flags & GA_MLA_ROW_WEIGHTS_16};
  void *memory;
  GA_TRY(ga_mem_alloc((size_t)d->head_dim * sizeof(double) +
                          (size_t)(2 * d->head_dim + d->max_kv + d->v_dim) * sizeof(float),
                      "logits", &memory));
  r.row = memory;
  r.q = (float *)(r.row + d->head_dim);
  r.latent = r.q + d->head_dim;
  r.o = r.latent + d->head_dim;
  r.logits = r.o + d->v_dim;
  for (r.b = 0; r.b < d->batch; r.b++) {
    const int64_t first = r.a->q_start[r.b], n_q = r.a->q_start[r.b + 1] - first;
    for (int64_t i = 0; i < n_q; i++)
      for (r.h = 0; r.h < d->q_heads; r.h++) {
        r.token = first + i;
        r.n_seen = ga_max_i64(0, i + r.a->kv_len[r.b] - n_q + 1);
        plain_one(&r);
      }
  }
  ga_mem_free(memory);
  return GA_OK;
}

/* --- comparing --- */

static double mean_size(const check_arg *arg) {
  double sum = 0;
  int64_t n = check_count(arg), finite = 0;
  for (int64_t i = 0; i < n; i++) {
    const double x = fabs(ga_ref_load(arg->dtype, arg->before + arg->at, check_at(arg, i)));
    if (!isfinite(x)) continue;
    sum += x;
    finite++;
  }
  return finite ? sum / (double)finite : 0;
}

/* Mean of the sizes of the elements of all tokens, as mean_size has it. */
static double mean_latent(const check_case *c) {
  const ga_mla_desc *d = c->oracle_desc;
  const check_arg *cache = check_find(&c->oracle, "cache");
  double sum = 0, x[1024];
  int64_t finite = 0;
  if (d->kv_dtype != GA_E4M3) return mean_size(cache);
  for (int64_t b = 0; b < d->batch; b++)
    for (int64_t j = 0; j < cached_of(c, d, b); j++) {
      decode_latents(d, cache->before + cache->at, drawn_row_of(d, b, j), x);
      for (int i = 0; i < d->head_dim; i++) {
        if (!isfinite(x[i])) continue;
        sum += fabs(x[i]);
        finite++;
      }
    }
  return finite ? sum / (double)finite : 0;
}

/* Rounding a logit of size L moves a weight by L spacings of f32; O is a mean of the cache's rows, to their size. A log
 * sum exp is rounded to the spacing at its own size. 1.6: root mean square by mean of normal numbers, squared. */
static void unit(const check_case *c, const check_arg *arg, const void *io, double *unit, int64_t n) {
  const ga_mla_desc *d = c->oracle_desc;
  const double rows = mean_latent(c);
  const double logit =
      1.6 * mean_size(check_find(&c->oracle, "q")) * rows * sqrt((double)d->head_dim) * (double)d->scale;
  const check_arg *out = check_find(&c->oracle, arg->name);
  const void *want = *(void *const *)(const void *)((const char *)io + arg->io_at);
  const bool is_lse = !strcmp(arg->name, "lse");
  for (int64_t i = 0; i < n; i++) {
    const double own = is_lse ? fabs(ga_ref_load(out->dtype, want, check_at(out, i))) : rows;
    const double at = isfinite(own) ? fmax(own, is_lse ? 1 : rows) : 1;
    unit[i] = check_ulp(arg->dtype, at) + check_ulp(GA_F32, at) * logit + 1e-44;
  }
}

/* With one token O is its latent vector, rounded to the type of O. */
static bool is_exact(const check_case *c, const check_arg *arg) {
  return c->mode == CHECK_NORMAL && !strcmp(arg->name, "o") && ((const ga_mla_desc *)c->desc)->max_kv == 1;
}

static void describe(const void *desc, char *text, size_t capacity) {
  const ga_mla_desc *d = desc;
  (void)snprintf(text, capacity, "batch=%lld q=%lld kv=%lld heads=%d dims=%d/%d page_size=%d flags=%u",
                 (long long)d->batch, (long long)d->max_q, (long long)d->max_kv, d->q_heads, d->head_dim, d->v_dim,
                 d->page_size, d->flags);
}

const check_op check_mla = {
    .modes = CHECK_NORMAL | CHECK_HOSTILE,
    .specials = CHECK_NAN,
    .ulps = 4,
    .draw = draw,
    .args = args,
    .fill = fill,
    .oracle_types = oracle_types,
    .plain = plain,
    .unit = unit,
    .exact = is_exact,
    .describe = describe,
};
