/* Experts and the order of rows: equal to the oracle's. Weights: within rounding of them. Kinds of logits: random; k
 * equal experts; one expert that every token wants; biases as large as those of trained models, rounded to bf16; NaN in
 * one token; keys that differ by a step of f32; scores that f64 rounds to 0. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "ga/experts.h"
#include "verify/check/check.h"

typedef enum logit_kind { RANDOM, EQUAL, ONE_EXPERT, NAN_TOKEN, NEAR, FAR, N_LOGIT_KINDS } logit_kind;

#define LOGITS      ((logit_kind)(c->bits % 8 < N_LOGIT_KINDS ? c->bits % 8 : RANDOM))
#define WITH_BIAS   (c->bits >> 3 & 1)
#define WITH_SCALE  (c->bits >> 4 & 1)
#define LARGE_BIAS  (c->bits >> 5 & 1)
#define BAD_ID      ((c->bits >> 6 & 7) == 0)
#define SMALL_STEPS (c->bits >> 9 & 1)

static int32_t divisor_below(check_case *c, int32_t n, int32_t most) {
  int32_t d = 1 + check_pick(c, most);
  while (n % d) d--;
  return d;
}

/* Groups: a divisor of the number of experts. Those kept have top_k experts, and some are left out. */
static void draw_groups(check_case *c, ga_route_desc *d) {
  const int32_t n = divisor_below(c, d->n_experts, d->n_experts), size = d->n_experts / n;
  const int32_t least = (int32_t)ga_div_up(d->top_k, size);
  if (least >= n) return;
  d->n_groups = n;
  d->top_k_groups = least + check_pick(c, n - least);
  d->group_score = size > 1 ? check_pick(c, 2) : GA_ROUTE_GROUP_MAX;
}

static void draw(check_case *c) {
  ga_route_desc *d = c->desc;
  *d = (ga_route_desc)GA_ROUTE_DESC_INIT;
  d->tokens = check_extent(c, 0, 70);
  d->n_experts = (int32_t)check_dim(c, 1, check_pick(c, 4) ? 300 : 1024);
  d->top_k = (int32_t)check_dim(c, 1, ga_min_i64(d->n_experts, check_pick(c, 4) ? 10 : 64));
  d->logits_stride = check_stride(c, d->n_experts, 1);
  d->scores = check_pick(c, 4);
  d->n_groups = d->top_k_groups = 1;
  d->renorm = check_pick(c, 3);
  static const float eps[] = {0, 1e-20f, 1e-6f, 6.1e-5f};
  d->norm_eps = d->renorm == GA_ROUTE_RENORM_NONE ? 0 : eps[check_pick(c, 4)];
  d->scale = check_factor(c);
  d->flags = check_pick(c, 4) ? GA_ROUTE_SORT : 0;
  if (check_pick(c, 5) == 0)
    d->vocab = 1 + check_pick(c, 50);
  else if (check_pick(c, 2))
    draw_groups(c, d);
}

static void args(const check_case *c, const void *desc, check_args *a) {
  const ga_route_desc *d = desc;
  const int64_t n = d->tokens * d->top_k;
  check_arg *logits =
      check_in(a, "logits", offsetof(ga_route_io, logits), GA_F32, d->tokens, d->n_experts, d->logits_stride);
  if (LOGITS != RANDOM && !c->timing) logits->fill = CHECK_FILL_OP;
  if (WITH_BIAS && !d->vocab) {
    check_arg *bias = check_in(a, "bias", offsetof(ga_route_io, bias), GA_F32, 1, d->n_experts, d->n_experts);
    if (LARGE_BIAS) bias->fill = CHECK_FILL_OP;
  }
  if (WITH_SCALE)
    check_in(a, "expert_scale", offsetof(ga_route_io, expert_scale), GA_F32, 1, d->n_experts, d->n_experts);
  if (d->vocab) {
    check_index(a, "token_ids", offsetof(ga_route_io, token_ids), d->tokens, 0, d->vocab)->fill = CHECK_FILL_OP;
    check_index(a, "table", offsetof(ga_route_io, table), d->vocab * d->top_k, 0, d->n_experts);
  }
  check_out(a, "experts", offsetof(ga_route_io, experts), GA_I32, d->tokens, d->top_k, d->top_k);
  check_out(a, "weights", offsetof(ga_route_io, weights), GA_F32, d->tokens, d->top_k, d->top_k);
  if (!(d->flags & GA_ROUTE_SORT)) return;
  check_out(a, "counts", offsetof(ga_route_io, counts), GA_I32, 1, d->n_experts, d->n_experts);
  check_out(a, "offsets", offsetof(ga_route_io, offsets), GA_I32, 1, d->n_experts + 1, d->n_experts + 1);
  check_out(a, "order", offsetof(ga_route_io, order), GA_I32, 1, n, n);
  check_out(a, "place", offsetof(ga_route_io, place), GA_I32, 1, n, n);
}

/* Biases of 12 to 35 in bf16, as of vllm issue 47367; and what shows whether one is subtracted again: tiny scores. */
static void fill_bias(check_case *c, double *values, int64_t n) {
  for (int64_t e = 0; e < n; e++)
    values[e] = (double)ga_bf16_to_f32(ga_f32_to_bf16((float)(12 + 23 * ga_rng_unit(&c->rng))));
}

/* One bad id among them now and then, which CPU contexts refuse. */
static void fill_token_ids(check_case *c, double *values, int64_t n) {
  const ga_route_desc *d = c->desc;
  for (int64_t t = 0; t < n; t++) values[t] = check_pick(c, (int32_t)d->vocab);
  if (n == 0 || !BAD_ID || c->timing || !ga_device_works_in_calls(c->ctx->device)) return;
  values[check_pick(c, (int32_t)n)] = check_pick(c, 2) ? (double)d->vocab : -1;
  c->expect = GA_ERR_ARG;
}

static double logit_of_kind(check_case *c, int64_t t, int64_t e, int64_t special) {
  switch (LOGITS) {
  case EQUAL: return SMALL_STEPS ? (double)(e % 3) : 0.25 * (double)(t % 5);
  case ONE_EXPERT: return e == special ? 9 : ga_rng_normal(&c->rng);
  case NAN_TOKEN: return t == special && check_pick(c, 3) == 0 ? (double)NAN : ga_rng_normal(&c->rng);
  case FAR: return check_pick(c, 20) ? -2000 - 100 * ga_rng_unit(&c->rng) : ga_rng_normal(&c->rng);
  default: return 1 + (SMALL_STEPS ? 0x1p-23 : 0x1p-20) * check_pick(c, 4);
  }
}

static void fill(check_case *c, const check_arg *arg, double *values, int64_t n) {
  if (!strcmp(arg->name, "bias")) {
    fill_bias(c, values, n);
    return;
  }
  if (!strcmp(arg->name, "token_ids")) {
    fill_token_ids(c, values, n);
    return;
  }
  const int64_t experts = arg->dim[1], of = LOGITS == NAN_TOKEN ? arg->dim[0] : experts;
  const int64_t special = of ? check_pick(c, (int32_t)of) : 0;
  for (int64_t i = 0; i < n; i++) values[i] = logit_of_kind(c, i / experts, i % experts, special);
}

/* Both are rounded from f64 values that differ by less than 1e-12 of themselves. */
static const char *judge(const check_case *c, const check_arg *arg, const double *got, const double *want, int64_t n) {
  (void)c;
  for (int64_t i = 0; i < n; i++) {
    if (got[i] == want[i] || (isnan(got[i]) && isnan(want[i]))) continue;
    if (arg->dtype == GA_I32) return "differs from the oracle's";
    if (!(fabs(got[i] - want[i]) <= 1.01 * check_ulp(GA_F32, want[i])))
      return "a weight is off by more than a step of f32";
  }
  return NULL;
}

static void describe(const void *desc, char *text, size_t capacity) {
  const ga_route_desc *d = desc;
  (void)snprintf(text, capacity, "scores=%d groups=%d of %d by %d renorm=%d eps=%g vocab=%lld flags=%u", d->scores,
                 d->top_k_groups, d->n_groups, d->group_score, d->renorm, (double)d->norm_eps, (long long)d->vocab,
                 d->flags);
}

const check_op check_route = {
    .modes = CHECK_EXACT | CHECK_NORMAL | CHECK_HOSTILE,
    .specials = CHECK_INF | CHECK_NAN | CHECK_HUGE | CHECK_TINY,
    .draw = draw,
    .args = args,
    .fill = fill,
    .judge = judge,
    .describe = describe,
};
