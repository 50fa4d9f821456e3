/* Partial results of attention, merged by their LSE. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "ga/layer.h"
#include "ref/ref.h"
#include "verify/check/check.h"

#define EMPTY 1u /* bits of c->bits: some rows of either side have seen no key */
#define LN2   0.69314718f

static void draw(check_case *c) {
  static const ga_dtype types[] = {GA_F32, GA_F16, GA_BF16};
  ga_attn_merge_desc *d = c->desc;
  *d = (ga_attn_merge_desc)GA_ATTN_MERGE_DESC_INIT;
  d->rows = check_extent(c, 0, 40);
  d->heads = 1 + (int32_t)check_pick(c, 5);
  d->dim = 1 + (int32_t)check_pick(c, 160);
  d->kind = check_pick(c, 2) ? GA_ATTN_MERGE_STATE : GA_ATTN_MERGE_LSE;
  if (d->kind == GA_ATTN_MERGE_LSE) d->part_dtype = types[check_pick(c, GA_COUNT_OF(types))];
  if (check_pick(c, 2)) d->dim = (int32_t)ga_round_up((uint64_t)d->dim, 8); /* wide accesses */
  const int64_t width = (int64_t)d->heads * d->dim;
  const bool head_major = d->kind == GA_ATTN_MERGE_STATE; /* as ga_attn leaves it */
  d->o_token = check_stride(c, width, 1);
  d->o_head = d->dim;
  d->lse_head = ga_max_i64(1, d->rows);
  d->part_token = head_major ? d->dim : width;
  d->part_head = head_major ? d->dim * ga_max_i64(1, d->rows) : d->dim;
  d->part_lse_head = ga_max_i64(1, d->rows);
}

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_attn_merge_desc *d = desc;
  (void)c;
  const int64_t width = (int64_t)d->heads * d->dim, stats = d->heads * d->rows;
  check_inout(a, "o", offsetof(ga_attn_merge_io, o), GA_F32, d->rows, width, d->o_token);
  check_inout(a, "lse", offsetof(ga_attn_merge_io, lse), GA_F32, 1, stats, stats)->fill = CHECK_FILL_OP;
  check_in(a, "part", offsetof(ga_attn_merge_io, part), d->part_dtype, 1, d->rows * width, d->rows * width);
  check_in(a, "part_lse", offsetof(ga_attn_merge_io, part_lse), GA_F32, 1, stats, stats)->fill = CHECK_FILL_OP;
  if (d->kind == GA_ATTN_MERGE_STATE)
    check_in(a, "part_l", offsetof(ga_attn_merge_io, part_l), GA_F32, 1, stats, stats)->fill = CHECK_FILL_OP;
}

/* An LSE or m near 0, now and then of no keys; l as ga_attn leaves it: 1 or more, 0 where m is -infinity. */
static void fill(check_case *c, const check_arg *arg, double *values, int64_t n) {
  const ga_attn_merge_desc *d = c->desc;
  const bool is_l = !strcmp(arg->name, "part_l"), is_state = d->kind == GA_ATTN_MERGE_STATE;
  const check_arg *m = is_l ? check_find(&c->row, "part_lse") : NULL;
  for (int64_t i = 0; i < n; i++) {
    values[i] = is_l ? 1 + fabs(20 * ga_rng_normal(&c->rng)) : 4 * ga_rng_normal(&c->rng);
    if (!is_l && c->bits & EMPTY && (is_state ? i % 5 == 0 : check_pick(c, 4) == 0)) values[i] = -(double)INFINITY;
    if (m && c->bits & EMPTY && i % 5 == 0) values[i] = 0;
  }
}

static ga_status plain(const ga_kernel *kernel, const void *desc, const void *io) {
  (void)kernel;
  const ga_attn_merge_desc *d = desc;
  const ga_attn_merge_io *a = io;
  for (int64_t row = 0; row < d->rows; row++)
    for (int32_t h = 0; h < d->heads; h++) {
      float *o = a->o + row * d->o_token + h * d->o_head, *lse = a->lse + h * d->lse_head + row;
      const int64_t part = row * d->part_token + h * d->part_head, at = h * d->part_lse_head + row;
      const float l = a->part_l ? a->part_l[at] : 1,
                  more = a->part_l ? LN2 * (a->part_lse[at] + log2f(l)) : a->part_lse[at];
      if (more == -INFINITY) continue;
      const float old = *lse, top = fmaxf(old, more), w = expf(old - top), x = expf(more - top), sum = w + x;
      for (int32_t i = 0; i < d->dim; i++) {
        const float theirs = (float)ga_ref_load((ga_dtype)d->part_dtype, a->part, part + i);
        o[i] = (old == -INFINITY ? 0 : w / sum * o[i]) + x / sum * (theirs / l);
      }
      *lse = top + logf(sum);
    }
  return GA_OK;
}

/* A weight has the error of its exponent, which is that of the LSE: a spacing at 16 moves it by 2 spacings. */
static void unit(const check_case *c, const check_arg *arg, const void *io, double *unit, int64_t n) {
  const ga_attn_merge_desc *d = c->oracle_desc;
  const ga_attn_merge_io *a = io;
  const bool is_o = !strcmp(arg->name, "o");
  const ga_dtype part_type = (ga_dtype)d->part_dtype;
  const int64_t width = (int64_t)d->heads * d->dim;
  for (int64_t i = 0; i < n; i++) {
    double size = 32; /* of an LSE: the largest that fill draws, and the spacing of logarithms */
    if (is_o) {
      const int64_t row = i / width, h = i % width / d->dim, k = i % d->dim;
      size = 16 * (fabs((double)a->o[row * d->o_token + h * d->o_head + k]) +
                   fabs(ga_ref_load(part_type, a->part, row * d->part_token + h * d->part_head + k)));
    }
    unit[i] = check_ulp(arg->dtype, size);
  }
}

const check_op check_attn_merge = {
    .modes = CHECK_NORMAL,
    .ulps = 2,
    .draw = draw,
    .args = args,
    .fill = fill,
    .plain = plain,
    .unit = unit,
};
