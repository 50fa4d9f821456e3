#include "verify/check/check_attn_fp8.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/status.h"
#include "opdef/attn_fp8.h"
#include "ref/ref.h"
#include "verify/check/tensor_sum.h"

#define BLOCK       GA_ATTN_FP8_BLOCK
#define HALF        (BLOCK / 2)
#define STEP        CHECK_E4M3_STEP
#define WEIGHT      16.f /* of a row's largest logit */
#define FAST_WEIGHT 32.f /* the largest of a row that is summed fast */
#define I8_SIZE     32   /* of q and k of i8: root mean square */

/* --- description and arguments --- */

/* Long sums show what they lose. */
static bool many_keys(const check_case *c) { return (c->bits >> 20 & 7) == 0; }

void check_attn_fp8_draw(check_case *c, ga_attn_desc *d) {
  static const int32_t tokens[] = {0, 64, 128, 1};
  d->q_scale_tokens = tokens[check_pick(c, d->q_dtype == GA_I8 ? 4 : 3)];
  d->kv_scale_tokens = tokens[check_pick(c, 3)];
  if (check_pick(c, 20) == 0) return; /* what a row must refuse */
  d->head_dim = d->v_dim = 64 << check_pick(c, 3);
  d->scale = 1.0f / sqrtf((float)d->head_dim);
  d->flags &= GA_ATTN_CAUSAL | GA_ATTN_LSE;
  d->window = d->page_size = d->kv_segments = 0;
  d->softcap = 0;
  if (d->q_heads > 6) d->q_heads = d->kv_heads * 2;
  if (c->kernel->op_flags & GA_ATTN_ROW_FAST_SUM || check_pick(c, 4) == 0) d->flags |= GA_ATTN_FAST_SUM;
  if (c->kernel->op_flags & GA_ATTN_ROW_FAST_SUM && many_keys(c)) {
    d->batch = d->q_heads = d->kv_heads = 1;
    d->max_q = ga_min_i64(d->max_q, 8);
    d->max_kv = 1500 + check_pick(c, 1500);
  }
}

static void scale_arg(const ga_attn_desc *d, check_args *a, const char *name, size_t at, int64_t heads, int64_t tokens,
                      int32_t scale_tokens, bool whole, ga_attn_scale *s) {
  const int64_t blocks = scale_tokens ? ga_div_up(tokens, scale_tokens) : 1;
  check_arg *arg = check_arg_add(a, name, at + offsetof(ga_attn_scale, data), CHECK_IN, GA_F32);
  const int64_t dim[3] = {whole ? 1 : d->batch, whole ? 1 : heads, whole ? 1 : blocks},
                stride[3] = {dim[1] * dim[2], dim[2], 1};
  arg->n_dims = 3;
  memcpy(arg->dim, dim, sizeof dim);
  memcpy(arg->stride, stride, sizeof stride);
  arg->fill = CHECK_FILL_OP;
  *s = (ga_attn_scale){.batch = whole ? 0 : stride[0], .head = whole ? 0 : stride[1], .block = whole ? 0 : 1};
}

void check_attn_fp8_args(const check_case *c, const ga_attn_desc *d, check_args *a, ga_attn_io *io) {
  const int64_t padded = ga_attn_fp8_padded(d->max_kv), room = c->bits & 1 ? 16 * (c->bits >> 10 & 3) : 0;
  check_arg *v = check_arg_add(a, "v", offsetof(ga_attn_io, v), CHECK_IN, GA_E4M3);
  io->v_stride.token = padded + room;
  io->v_stride.head = d->v_dim * io->v_stride.token + room;
  io->v_stride.batch = d->kv_heads * io->v_stride.head;
  const int64_t dim[4] = {d->batch, d->kv_heads, d->v_dim, padded};
  const int64_t stride[4] = {io->v_stride.batch, io->v_stride.head, io->v_stride.token, 1};
  v->n_dims = 4;
  v->align = (size_t)c->kernel->align;
  memcpy(v->dim, dim, sizeof dim);
  memcpy(v->stride, stride, sizeof stride);
  if (!c->timing) v->fill = CHECK_FILL_OP;
  const uint32_t whole = d->q_scale_tokens || d->kv_scale_tokens ? 0 : c->bits >> 12;
  scale_arg(d, a, "q_scale", offsetof(ga_attn_io, q_scale), d->q_heads, d->max_q, d->q_scale_tokens, whole & 1,
            &io->q_scale);
  scale_arg(d, a, "k_scale", offsetof(ga_attn_io, k_scale), d->kv_heads, d->max_kv, d->kv_scale_tokens, whole & 2,
            &io->k_scale);
  scale_arg(d, a, "v_scale", offsetof(ga_attn_io, v_scale), d->kv_heads, d->max_kv, d->kv_scale_tokens, whole & 4,
            &io->v_scale);
  if (c->bits >> 17 & 1)
    check_in(a, "means", offsetof(ga_attn_io, v_mean), GA_F32, d->batch * d->kv_heads, d->v_dim, d->v_dim)->align = 16;
}

void check_attn_fp8_key(const check_case *c, check_arg *arg) {
  if (arg->dtype != GA_I8) return;
  arg->fill = c->timing ? CHECK_FILL_RANGE : CHECK_FILL_OP;
  arg->lo = -1.73 * I8_SIZE, arg->hi = 1.73 * I8_SIZE;
}

/* q and k of i8: normal, with the ends of the type among hostile values; in every fourth draw the first column rises or
 * falls along the tokens of k, so that maxima come late. */
static void fill_i8(check_case *c, const check_arg *arg, double *values, int64_t n) {
  const int64_t width = arg->dim[3], row = arg->dim[2] * width, tokens = arg->dim[1];
  const bool ramp = (c->bits >> 12 & 3) == 0, falls = c->bits >> 14 & 1, query = arg->name[0] == 'q';
  for (int64_t i = 0; i < n; i++) {
    double x = I8_SIZE * ga_rng_normal(&c->rng);
    if (c->mode == CHECK_HOSTILE && check_pick(c, 23) == 0) x = check_pick(c, 2) ? 127 : -128;
    if (ramp && i % width == 0)
      x = query ? 127 : (falls ? -1 : 1) * (127 - 254 * (double)(i / row % tokens) / (double)tokens);
    values[i] = rint(fmax(-128, fmin(127, x)));
  }
}

/* V without signs: what sums lose by being cut off shows in the size of O. */
static bool same_sign(const check_case *c) { return (c->bits >> 18 & 3) == 0 || (c->bits >> 20 & 7) == 0; }

/* Scales over four doublings, of V now and then next to nothing; V behind the last key is anything finite. */
void check_attn_fp8_fill(check_case *c, const check_arg *arg, double *values, int64_t n) {
  const ga_attn_desc *d = c->desc;
  const int64_t padded = ga_attn_fp8_padded(d->max_kv);
  const bool value = arg->name[0] == 'v', scale = arg->n_dims == 3;
  if (arg->dtype == GA_I8) {
    fill_i8(c, arg, values, n);
    return;
  }
  double size = 1;
  if (scale && !value && d->q_dtype == GA_I8) size /= I8_SIZE;
  if (size < 1 && arg->name[0] == 'q' && check_pick(c, 4) == 0)
    size *= exp2(check_pick(c, 9) - 4); /* logits of all sizes */
  for (int64_t i = 0; i < n; i++) {
    if (scale)
      values[i] = size * exp2(4 * ga_rng_unit(&c->rng) - 3);
    else
      values[i] = same_sign(c) ? fabs(ga_rng_normal(&c->rng)) : ga_rng_normal(&c->rng);
    if (scale && value && check_pick(c, 12) == 0) values[i] *= 0x1p-50;
    if (!scale && padded - i % padded > BLOCK && c->mode == CHECK_HOSTILE && check_pick(c, 300) == 0)
      values[i] = (double)NAN;
  }
}

/* --- the plain evaluation --- */

typedef struct row {
  const ga_attn_desc *d;
  const ga_attn_io *a;
  int64_t b, i;
  int h, kv_head;
  const void *q; /* its Q */
  float *s;      /* logits, then weights: [max_kv rounded up] */
  check_e4m3 *p; /* weights in e4m3, by steps */
  const check_e4m3_codes *t;
  bool fast; /* GA_ATTN_ROW_FAST_SUM */
} row;

static float logit(const row *r, const check_e4m3 *q, int64_t j) {
  const ga_attn_desc *d = r->d;
  const ga_attn_io *a = r->a;
  const uint8_t *k =
      (const uint8_t *)a->k + r->b * a->k_stride.batch + j * a->k_stride.token + r->kv_head * a->k_stride.head;
  float sum = 0;
  if (d->flags & GA_ATTN_CAUSAL && j > r->i + d->max_kv - d->max_q) return -INFINITY;
  for (int at = 0; at < d->head_dim && d->q_dtype == GA_I8; at++)
    sum += (float)(((const int8_t *)r->q)[at] * ((const int8_t *)k)[at]); /* exact */
  for (int at = 0; at < d->head_dim && d->q_dtype == GA_E4M3; at += STEP) {
    check_e4m3 x;
    check_e4m3_load(&x, r->t, k + at);
    sum = check_e4m3_add(sum, &q[at / STEP], &x);
  }
  return sum * (d->scale * ga_attn_scale_at(&a->q_scale, r->b, r->h, r->i, d->q_scale_tokens) *
                ga_attn_scale_at(&a->k_scale, r->b, r->kv_head, j, d->kv_scale_tokens));
}

static float scale_v(const row *r, int64_t j) {
  return ga_attn_scale_at(&r->a->v_scale, r->b, r->kv_head, j, r->d->kv_scale_tokens);
}

/* Of a row that is summed fast: all of them, times V's scales; returns what they were multiplied by to have the largest
 * at FAST_WEIGHT. */
static float all_weights(const row *r) {
  float most = 0;
  for (int64_t j = 0; j < r->d->max_kv; j++) most = fmaxf(most, r->s[j] * scale_v(r, j));
  for (int64_t j = 0; j < ga_attn_fp8_padded(r->d->max_kv); j += STEP) {
    uint8_t codes[STEP] = {0};
    for (int64_t i = j; i < ga_min_i64(j + STEP, r->d->max_kv); i++)
      codes[i - j] = ga_f32_to_e4m3(r->s[i] * scale_v(r, i) / most * FAST_WEIGHT);
    check_e4m3_load(&r->p[j / STEP], r->t, codes);
  }
  return FAST_WEIGHT / most;
}

/* Weights in e4m3, as they are: a half block has one scale of V, by which its sum is multiplied. With a scale in them
 * they would fall elsewhere on the type's grid than a row's do. Where all weights are near the largest, all are rounded
 * in one direction, which the sum of unrounded ones does not follow: a gain of up to 3 %. */
static void half_weights(const row *r, int64_t j0) {
  const int64_t end = ga_min_i64(j0 + HALF, r->d->max_kv);
  for (int64_t j = j0; j < j0 + HALF; j += STEP) {
    uint8_t codes[STEP] = {0};
    for (int64_t i = j; i < ga_min_i64(j + STEP, end); i++) codes[i - j] = ga_f32_to_e4m3(r->s[i]);
    check_e4m3_load(&r->p[j / STEP], r->t, codes);
  }
}

/* scale: of the weights of a row that is summed fast. */
static float plain_value(const row *r, int c, float scale) {
  const ga_attn_io *a = r->a;
  const uint8_t *v =
      (const uint8_t *)a->v + r->b * a->v_stride.batch + r->kv_head * a->v_stride.head + c * a->v_stride.token;
  const int64_t size = r->fast ? BLOCK : HALF, n = ga_attn_fp8_padded(r->d->max_kv) / size;
  float o = 0, sum = 0;
  for (int64_t b = 0; b < n; b++) {
    const int64_t j0 =
        size * (r->fast ? n - 1 - b : b); /* what a long sum loses depends on its order: the last keys come first */
    for (int64_t j = j0; j < j0 + size; j += STEP) {
      check_e4m3 x;
      uint8_t codes[STEP];
      for (int e = 0; e < STEP; e++) codes[e] = v[ga_attn_fp8_slot(j + e)];
      check_e4m3_load(&x, r->t, codes);
      sum = check_e4m3_add(sum, &r->p[j / STEP], &x);
    }
    if (r->fast || j0 >= r->d->max_kv) continue;
    o += sum * scale_v(r, j0);
    sum = 0;
  }
  return r->fast ? sum / scale : o;
}

static void plain_row(row *r) {
  const ga_attn_desc *d = r->d;
  const ga_attn_io *a = r->a;
  check_e4m3 q[32];
  float most = -INFINITY, sum = 0, scale = 1;
  const uint8_t *at =
      (const uint8_t *)a->q + r->b * a->q_stride.batch + r->i * a->q_stride.token + r->h * a->q_stride.head;
  r->q = at;
  for (int e = 0; e < d->head_dim; e += STEP) check_e4m3_load(&q[e / STEP], r->t, at + e);
  for (int64_t j = 0; j < d->max_kv; j++) most = fmaxf(most, r->s[j] = logit(r, q, j));
  for (int64_t j = 0; j < d->max_kv; j++) {
    r->s[j] = r->s[j] == -INFINITY ? 0 : WEIGHT * expf(r->s[j] - most);
    sum += r->s[j];
  }
  if (r->fast) scale = all_weights(r);
  for (int64_t j = 0; j < d->max_kv && !r->fast; j += HALF) half_weights(r, j);
  const float *mean = a->v_mean ? a->v_mean + (r->b * d->kv_heads + r->kv_head) * d->v_dim : NULL;
  for (int c = 0; c < d->v_dim; c++)
    ga_ref_store((ga_dtype)d->o_dtype, a->o,
                 r->b * a->o_stride.batch + r->i * a->o_stride.token + r->h * a->o_stride.head + c,
                 most == -INFINITY && sum == 0 ? 0 : (double)(plain_value(r, c, scale) / sum + (mean ? mean[c] : 0)));
  if (d->flags & GA_ATTN_LSE) a->lse[(r->b * d->q_heads + r->h) * d->max_q + r->i] = most + logf(sum / WEIGHT);
}

ga_status check_attn_fp8_plain(const ga_kernel *kernel, const ga_attn_desc *d, const ga_attn_io *a) {
  const size_t padded = (size_t)ga_attn_fp8_padded(d->max_kv) + 1, steps = padded / STEP + 1;
  check_e4m3_codes table;
  void *p;
  GA_REQUIRE(d->head_dim % STEP == 0 && d->head_dim <= 32 * STEP, GA_ERR_SHAPE, "check: head_dim is %d", d->head_dim);
  GA_TRY(ga_mem_zalloc(1, steps * sizeof(check_e4m3) + padded * sizeof(float), "a row of attention", &p));
  check_e4m3_tabulate(&table);
  row r = {.d = d, .a = a, .p = p, .t = &table, .fast = kernel->op_flags & GA_ATTN_ROW_FAST_SUM};
  r.s = (float *)(void *)(r.p + steps);
  for (r.b = 0; r.b < d->batch; r.b++)
    for (r.i = 0; r.i < d->max_q; r.i++)
      for (r.h = 0; r.h < d->q_heads; r.h++) {
        r.kv_head = r.h / (d->q_heads / d->kv_heads);
        plain_row(&r);
      }
  ga_mem_free(p);
  return GA_OK;
}

/* --- comparing --- */

void check_attn_fp8_mark(const ga_attn_desc *d, const ga_attn_io *a, bool *bad) {
  for (int64_t b = 0; b < d->batch; b++)
    for (int64_t h = 0; h < d->kv_heads; h++)
      for (int64_t c = 0; c < d->v_dim; c++)
        for (int64_t j = 0; j < d->max_kv; j++) {
          const int64_t at = b * a->v_stride.batch + h * a->v_stride.head + c * a->v_stride.token + ga_attn_fp8_slot(j);
          if (isnan(ga_ref_load(GA_E4M3, a->v, at))) bad[(b * d->kv_heads + h) * d->v_dim + c] = true;
        }
}
