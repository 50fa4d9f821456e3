/* Quantiser of attention's inputs. The verdict is on each number: nearest e4m3 or i8 to x / scale, as far as f32 sums
 * can tell; the error bounds of other ops would hide small numbers behind large ones. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ga/layer.h"
#include "opdef/attn_fp8.h"
#include "ref/ref.h"
#include "verify/check/check.h"

static void draw(check_case *c) {
  static const int32_t tokens[] = {0, 64, 128, 1};
  static const ga_dtype types[] = {GA_E4M3, GA_I8};
  ga_attn_quant_desc *d = c->desc;
  *d = (ga_attn_quant_desc)GA_ATTN_QUANT_DESC_INIT;
  d->batch = check_extent(c, 0, 3);
  d->tokens = check_extent(c, 0, 300);
  d->heads = 1 + check_pick(c, 4);
  d->dim = check_pick(c, 4) ? 64 << check_pick(c, 3) : 1 + check_pick(c, 300);
  d->x_dtype = check_dtype(c, 0);
  d->y_dtype = check_dtype_of(c, 1, types, 2);
  d->kind = d->y_dtype == GA_I8 ? GA_ATTN_QUANT_ROWS : check_pick(c, 2);
  d->scale_tokens = tokens[check_pick(c, d->y_dtype == GA_I8 ? 4 : 3)];
  d->seed = (uint32_t)check_pick(c, 1000);
  d->centre = d->kind == GA_ATTN_QUANT_VALUES && check_pick(c, 2);
  if (d->centre && check_pick(c, 8) == 0) { /* several rounds of a block over the tokens */
    d->tokens = 1000 + check_pick(c, 1200);
    d->batch = d->heads = 1;
  }
  if (d->kind == GA_ATTN_QUANT_VALUES) return;
  d->hadamard = (d->dim & (d->dim - 1)) == 0 && check_pick(c, 2);
  if (check_pick(c, 2) == 0) d->rot_dim = (check_pick(c, 2) ? d->dim : check_pick(c, d->dim + 1)) / 2 * 2;
  d->pairs = check_pick(c, 2);
  d->magnitude = check_pick(c, 2) ? 1.0f : 1.1386294f;
}

static check_arg *tensor(check_args *a, const char *name, size_t at, check_role role, int32_t dtype,
                         const int64_t dim[4], const int64_t stride[4], size_t align) {
  check_arg *t = check_arg_add(a, name, at, role, dtype);
  t->n_dims = 4;
  t->align = align;
  memcpy(t->dim, dim, 4 * sizeof *dim);
  memcpy(t->stride, stride, 4 * sizeof *stride);
  return t;
}

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_attn_quant_desc *d = desc;
  ga_attn_quant_io *io = (ga_attn_quant_io *)(void *)a->io;
  const int64_t align = ga_max_i64(c->kernel->align, 1), room = c->bits & 1 ? align * (c->bits >> 4 & 3) : 0;
  const int64_t padded = ga_attn_fp8_padded(d->tokens);
  ga_attn_strides *x = &io->x_stride, *y = &io->y_stride;
  x->head = d->dim + room;
  x->token = d->heads * x->head + room;
  x->batch = d->tokens * x->token + room;
  const int64_t x_dim[4] = {d->batch, d->tokens, d->heads, d->dim}, x_step[4] = {x->batch, x->token, x->head, 1};
  tensor(a, "x", offsetof(ga_attn_quant_io, x), CHECK_IN, d->x_dtype, x_dim, x_step, (size_t)c->kernel->align);
  if (d->kind == GA_ATTN_QUANT_ROWS) {
    *y = *x;
    tensor(a, "y", offsetof(ga_attn_quant_io, y), CHECK_OUT, d->y_dtype, x_dim, x_step, (size_t)c->kernel->align);
  } else {
    y->token = padded + (c->bits & 1 ? 16 : 0);
    y->head = d->dim * y->token + room;
    y->batch = d->heads * y->head;
    const int64_t y_dim[4] = {d->batch, d->heads, d->dim, padded}, y_step[4] = {y->batch, y->head, y->token, 1};
    tensor(a, "y", offsetof(ga_attn_quant_io, y), CHECK_OUT, d->y_dtype, y_dim, y_step, (size_t)c->kernel->align);
  }
  if (d->scale_tokens) {
    const int64_t blocks = ga_div_up(d->tokens, d->scale_tokens);
    check_out(a, "scale", offsetof(ga_attn_quant_io, scale), GA_F32, d->batch * d->heads, blocks, blocks);
  } else {
    const bool whole = c->bits & 2;
    io->given = (ga_attn_scale){.batch = whole ? 0 : d->heads, .head = !whole};
    check_arg *s = check_in(a, "given", offsetof(ga_attn_quant_io, given.data), GA_F32, 1,
                            whole ? 1 : d->batch * d->heads, d->batch * d->heads);
    s->fill = CHECK_FILL_RANGE, s->lo = 0.002, s->hi = 0.1;
  }
  if (d->centre && d->tokens)
    check_out(a, "mean", offsetof(ga_attn_quant_io, mean), GA_F32, d->batch * d->heads, d->dim, d->dim);
  if (!d->rot_dim) return;
  check_index(a, "positions", offsetof(ga_attn_quant_io, positions), d->batch * d->tokens, 0,
              c->bits & 4 ? 1 << 20 : 4096);
  check_in(a, "inv_freq", offsetof(ga_attn_quant_io, inv_freq), GA_F32, 1, d->rot_dim / 2, d->rot_dim / 2)->fill =
      CHECK_FILL_OP;
}

/* Frequencies of base 10000. */
static void fill(check_case *c, const check_arg *arg, double *values, int64_t n) {
  (void)c, (void)arg;
  for (int64_t i = 0; i < n; i++) values[i] = pow(10000, -(double)i / (double)n);
}

static void oracle_types(void *desc) {
  ga_attn_quant_desc *d = desc;
  d->y_dtype = ga_attn_quant_is_i8(d->y_dtype) ? GA_F32 : GA_F64;
}

/* Half a spacing, and what f32 leaves open: sums of 10 steps, a scale, a product, of numbers up to 448. Results are
 * compared with x / scale in double: an i8 has no NaN, so 0 stands for it there. */
static bool near_code(const check_case *c, const check_arg *arg, double got, double want) {
  if (isnan(want) && arg->dtype == GA_I8) return got == 0;
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
  if (!strcmp(arg->name, "mean") && fabs(got - want) <= 4e-6)
    return true; /* of up to 2200 normal numbers, whose mean is near 0 */
  if (arg->dtype == GA_F32) return got == want || fabs(got - want) <= 4e-6 * fabs(want);
  const double most = ga_attn_quant_largest((int32_t)arg->dtype),
               x = fmax(fmin(want, most), -most - (arg->dtype == GA_I8));
  (void)c;
  return fabs(got - x) <= 0.5 * check_ulp(arg->dtype, x) + 1e-3;
}

static const char *judge(const check_case *c, const check_arg *arg, const double *got, const double *want, int64_t n) {
  static GA_THREAD_LOCAL char text[96];
  for (int64_t i = 0; i < n; i++) {
    if (near_code(c, arg, got[i], want[i])) continue;
    (void)snprintf(text, sizeof text, "[%lld] is %.9g instead of %.9g", (long long)i, got[i], want[i]);
    return text;
  }
  return NULL;
}

static void describe(const void *desc, char *text, size_t capacity) {
  const ga_attn_quant_desc *d = desc;
  (void)snprintf(text, capacity, "kind=%d to %s scale_tokens=%d hadamard=%d seed=%u rot_dim=%d pairs=%d centre=%d",
                 d->kind, ga_dtype_name((ga_dtype)d->y_dtype), d->scale_tokens, d->hadamard, d->seed, d->rot_dim,
                 d->pairs, d->centre);
}

const check_op check_attn_quant = {
    .modes = CHECK_NORMAL | CHECK_HOSTILE,
    .specials = CHECK_NAN | CHECK_TINY,
    .ulps = 4,
    .draw = draw,
    .args = args,
    .fill = fill,
    .oracle_types = oracle_types,
    .judge = judge,
    .describe = describe,
};
