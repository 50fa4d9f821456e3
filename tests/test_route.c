/* Routing by hand: choices and weights of each kind of score, groups, biases, ties, NaN, order of rows; descriptions
 * and calls that are refused. tests/route_families_test.py compares whole families with their formulas. */
#include <math.h>

#include "ga/experts.h"
#include "tests/op_rig.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { MOST_EXPERTS = 64, MOST_ROWS = 32 };

typedef struct routed {
  int32_t experts[MOST_ROWS], counts[MOST_EXPERTS], offsets[MOST_EXPERTS + 1], order[MOST_ROWS], place[MOST_ROWS];
  float weights[MOST_ROWS];
} routed;

static ga_route_desc route_desc_of(int64_t tokens, int32_t n_experts, int32_t top_k, int32_t scores) {
  ga_route_desc d = GA_ROUTE_DESC_INIT;
  d.tokens = tokens, d.n_experts = n_experts, d.top_k = top_k, d.scores = scores;
  return d;
}

static routed route_with(ga_ctx *ctx, const ga_route_desc *d, ga_route_io io) {
  routed r = {.experts = {0}};
  io.experts = r.experts, io.weights = r.weights;
  io.counts = r.counts, io.offsets = r.offsets, io.order = r.order, io.place = r.place;
  if (ga_route(ctx, d, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
  return r;
}

static void assert_routed(const routed *r, size_t n, const int32_t *experts, const double *weights) {
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(r->experts[i], experts[i]);
    const double got = (double)r->weights[i];
    if (isnan(weights[i]) ? !isnan(got) : !(fabs(got - weights[i]) <= 1e-6 * fabs(weights[i])))
      fail_msg("weight %zu is %.9g instead of %.9g", i, got, weights[i]);
  }
}

/* Logits are logarithms, so that their softmax is a fraction: 1, 8, 2, 5 of 16. */
static void score_kinds(ga_ctx *ctx) {
  const float z[4] = {0, logf(8), logf(2), logf(5)};
  static const int32_t best[2] = {1, 3};
  ga_route_desc d = route_desc_of(1, 4, 2, GA_ROUTE_SOFTMAX);
  routed r = route_with(ctx, &d, (ga_route_io){.logits = z});
  assert_routed(&r, 2, best, (const double[]){8 / 16.0, 5 / 16.0});
  d.renorm = GA_ROUTE_RENORM_SUM;
  d.scale = 2;
  r = route_with(ctx, &d, (ga_route_io){.logits = z});
  assert_routed(&r, 2, best, (const double[]){16 / 13.0, 10 / 13.0});
  d.renorm = GA_ROUTE_RENORM_BOUND;
  d.norm_eps = 1;
  r = route_with(ctx, &d, (ga_route_io){.logits = z});
  assert_routed(&r, 2, best, (const double[]){1, 10 / 16.0});
  d = route_desc_of(1, 4, 2, GA_ROUTE_SOFTMAX_CHOSEN);
  const float factor[4] = {NAN, 13, NAN, -26};
  r = route_with(ctx, &d, (ga_route_io){.logits = z, .expert_scale = factor});
  assert_routed(&r, 2, best, (const double[]){8, -10});
  d.scores = GA_ROUTE_SIGMOID;
  r = route_with(ctx, &d, (ga_route_io){.logits = z});
  assert_routed(&r, 2, best, (const double[]){8 / 9.0, 5 / 6.0});
  d.scores = GA_ROUTE_SQRT_SOFTPLUS;
  r = route_with(ctx, &d, (ga_route_io){.logits = z});
  assert_routed(&r, 2, best, (const double[]){sqrt(log(9)), sqrt(log(6))});
}

/* The bias chooses and weighs nothing: also where it is so large that (s + b) - b would be 0. */
static void biases(ga_ctx *ctx) {
  static const float z[4] = {-40, -41, 3, 2}, bias[4] = {35, 34, 12, 12};
  static const int32_t best[2] = {0, 1};
  ga_route_desc d = route_desc_of(1, 4, 2, GA_ROUTE_SIGMOID);
  d.renorm = GA_ROUTE_RENORM_SUM;
  const routed r = route_with(ctx, &d, (ga_route_io){.logits = z, .bias = bias});
  assert_routed(&r, 2, best, (const double[]){1 / (1 + exp(-1)), 1 / (1 + exp(1))});
}

/* Scores of 0 add up to 0: weights are 0, not 0 / 0. */
static void no_weight(ga_ctx *ctx) {
  static const float z[4] = {-2000, -3000, 3, 2}, bias[4] = {20, 20, 0, 0};
  static const int32_t best[2] = {0, 1};
  ga_route_desc d = route_desc_of(1, 4, 2, GA_ROUTE_SIGMOID);
  for (d.renorm = GA_ROUTE_RENORM_NONE; d.renorm <= GA_ROUTE_RENORM_BOUND; d.renorm++) {
    const routed r = route_with(ctx, &d, (ga_route_io){.logits = z, .bias = bias});
    assert_routed(&r, 2, best, (const double[]){0, 0});
  }
}

/* Groups {0, 1}, {2, 3}, {4, 5}: the largest logit is in the second, the largest sum of sigmoids in the third. */
static void kept_groups(ga_ctx *ctx) {
  static const float z[6] = {0, -9, 4, -9, 3, 3};
  ga_route_desc d = route_desc_of(1, 6, 2, GA_ROUTE_SIGMOID);
  d.n_groups = 3, d.top_k_groups = 1;
  routed r = route_with(ctx, &d, (ga_route_io){.logits = z});
  assert_routed(&r, 2, (const int32_t[]){2, 3}, (const double[]){1 / (1 + exp(-4)), 1 / (1 + exp(9))});
  d.group_score = GA_ROUTE_GROUP_SUM2;
  r = route_with(ctx, &d, (ga_route_io){.logits = z});
  assert_routed(&r, 2, (const int32_t[]){4, 5}, (const double[]){1 / (1 + exp(-3)), 1 / (1 + exp(-3))});
  const float bias[6] = {1, 1, 0, 0, 0, 0}; /* 1.5 + 1.0001 in the first group */
  r = route_with(ctx, &d, (ga_route_io){.logits = z, .bias = bias});
  assert_routed(&r, 2, (const int32_t[]){0, 1}, (const double[]){0.5, 1 / (1 + exp(9))});
  d.top_k_groups = 0; /* all of them: no group is left out */
  r = route_with(ctx, &d, (ga_route_io){.logits = z});
  assert_routed(&r, 2, (const int32_t[]){2, 4}, (const double[]){1 / (1 + exp(-4)), 1 / (1 + exp(-3))});
}

/* Of equal keys and of equal groups the first are taken, in rising order. */
static void ties(ga_ctx *ctx) {
  float z[2 * MOST_EXPERTS];
  for (int e = 0; e < 2 * MOST_EXPERTS; e++) z[e] = e == 7 || e == MOST_EXPERTS + 40 ? 2.0f : 1.0f;
  ga_route_desc d = route_desc_of(2, MOST_EXPERTS, 5, GA_ROUTE_SOFTMAX_CHOSEN);
  static const int32_t first[10] = {7, 0, 1, 2, 3, 40, 0, 1, 2, 3};
  routed r = route_with(ctx, &d, (ga_route_io){.logits = z});
  for (size_t i = 0; i < COUNT(first); i++) assert_int_equal(r.experts[i], first[i]);
  d.n_groups = 8, d.top_k_groups = 2; /* the group of the largest, and the first of the others */
  static const int32_t grouped[10] = {7, 0, 1, 2, 3, 40, 0, 1, 2, 3};
  r = route_with(ctx, &d, (ga_route_io){.logits = z});
  for (size_t i = 0; i < COUNT(grouped); i++) assert_int_equal(r.experts[i], grouped[i]);
  z[0] = -0.0f, z[1] = 0.0f, z[2] = -0.0f;
  d = route_desc_of(1, 3, 3, GA_ROUTE_SIGMOID);
  r = route_with(ctx, &d, (ga_route_io){.logits = z});
  assert_routed(&r, 3, (const int32_t[]){0, 1, 2}, (const double[]){0.5, 0.5, 0.5});
}

/* NaN and infinite softmaxes spoil their token's weights, and no other's; its experts stay within range. */
static void spoiled(ga_ctx *ctx) {
  const float z[4][3] = {{1, 3, 2}, {5, NAN, 6}, {-INFINITY, -INFINITY, -INFINITY}, {1, 2, INFINITY}};
  const double e = exp(-1), nan = (double)NAN;
  ga_route_desc d = route_desc_of(4, 3, 2, GA_ROUTE_SOFTMAX);
  d.renorm = GA_ROUTE_RENORM_SUM;
  routed r = route_with(ctx, &d, (ga_route_io){.logits = z[0]});
  assert_routed(&r, 8, (const int32_t[]){1, 2, 0, 1, 0, 1, 2, 1},
                (const double[]){1 / (1 + e), e / (1 + e), nan, nan, nan, nan, nan, nan});
  d.scores = GA_ROUTE_SIGMOID;
  d.tokens = 2;
  const float bias[3] = {0, 0, NAN}; /* a NaN of the bias is one of every token */
  r = route_with(ctx, &d, (ga_route_io){.logits = z[0], .bias = bias});
  assert_routed(&r, 4, (const int32_t[]){0, 1, 0, 1}, (const double[]){nan, nan, nan, nan});
}

/* Experts by token id keep the order of the table; their scores are the logits'. */
static void looked_up(ga_ctx *ctx) {
  static const float z[3][3] = {{0, 3, 3}, {0, 0, 0}, {0, NAN, 0}};
  static const int32_t ids[3] = {1, 0, 1}, table[4] = {1, 2, 2, 0};
  ga_route_desc d = route_desc_of(3, 3, 2, GA_ROUTE_SQRT_SOFTPLUS);
  d.vocab = 2;
  d.renorm = GA_ROUTE_RENORM_SUM;
  d.scale = 1.5f;
  const double a = sqrt(log1p(exp(3))), b = sqrt(log(2)), nan = (double)NAN;
  const routed r = route_with(ctx, &d, (ga_route_io){.logits = z[0], .token_ids = ids, .table = table});
  assert_routed(&r, 6, (const int32_t[]){2, 0, 1, 2, 2, 0},
                (const double[]){1.5 * a / (a + b), 1.5 * b / (a + b), 0.75, 0.75, nan, nan});
}

/* Four tokens of two slots; expert 1 has no rows. */
static void sorted(ga_ctx *ctx) {
  static const float z[4][4] = {{9, 0, 8, 0}, {0, 0, 1, 2}, {3, 0, 0, 1}, {1, 0, 2, 0}};
  static const int32_t counts[4] = {3, 0, 3, 2}, offsets[5] = {0, 3, 3, 6, 8};
  static const int32_t order[8] = {0, 4, 7, 1, 3, 6, 2, 5}, place[8] = {0, 3, 6, 4, 1, 7, 5, 2};
  ga_route_desc d = route_desc_of(4, 4, 2, GA_ROUTE_SOFTMAX_CHOSEN);
  d.flags = GA_ROUTE_SORT;
  routed r = route_with(ctx, &d, (ga_route_io){.logits = z[0]});
  assert_memory_equal(r.counts, counts, sizeof counts);
  assert_memory_equal(r.offsets, offsets, sizeof offsets);
  assert_memory_equal(r.order, order, sizeof order);
  assert_memory_equal(r.place, place, sizeof place);
  d.tokens = 0;
  r.counts[0] = 1;
  r = route_with(ctx, &d, (ga_route_io){.logits = z[0]});
  for (int e = 0; e < 4; e++) assert_int_equal(r.counts[e] + r.offsets[e + 1], 0);
}

static void refused_plan(ga_ctx *ctx, ga_route_desc d, ga_status want, const char *text) {
  ga_plan *plan;
  const ga_status got = ga_route_plan(ctx, &d, &plan);
  assert_plan_refused(got, plan, want, text);
}

static void refused_plans(ga_ctx *ctx) {
  ga_route_desc d = route_desc_of(1, 1025, 2, 0);
  refused_plan(ctx, d, GA_ERR_SHAPE, "route: n_experts is 1025; must be 1 to 1024");
  d.n_experts = 8, d.top_k = 0;
  refused_plan(ctx, d, GA_ERR_SHAPE, "route: top_k is 0; must be 1 to 64");
  d.top_k = 9;
  refused_plan(ctx, d, GA_ERR_SHAPE, "route: top_k is 9; must be at most 8, the experts of 1 groups of 8");
  d.top_k = 2, d.tokens = (int64_t)1 << 30;
  refused_plan(ctx, d, GA_ERR_SHAPE, "tokens is 1073741824; must be 0 to 1073741823 with top_k 2");
  d.tokens = 1, d.scores = 4;
  refused_plan(ctx, d, GA_ERR_ARG, "route: scores is 4");
  d.scores = 0, d.n_groups = 3;
  refused_plan(ctx, d, GA_ERR_SHAPE, "route: n_groups is 3; must divide n_experts (8)");
  d.n_groups = 4, d.top_k_groups = 5;
  refused_plan(ctx, d, GA_ERR_SHAPE, "route: top_k_groups is 5; must be 0 to n_groups (4)");
  d.top_k_groups = 1, d.top_k = 3;
  refused_plan(ctx, d, GA_ERR_SHAPE, "route: top_k is 3; must be at most 2, the experts of 1 groups of 2");
  d.top_k = 1, d.n_groups = 8, d.group_score = GA_ROUTE_GROUP_SUM2;
  refused_plan(ctx, d, GA_ERR_SHAPE, "groups by the sum of two need at least 2 of 8 experts each");
  d.n_groups = 2, d.vocab = 7;
  refused_plan(ctx, d, GA_ERR_ARG, "route: n_groups is 2 with vocab 7");
  d.n_groups = d.top_k_groups = 0, d.vocab = 0, d.norm_eps = 1e-6f;
  refused_plan(ctx, d, GA_ERR_ARG, "route: norm_eps is 1e-06; must be 0 without renorm");
  d.norm_eps = 0, d.logits_stride = 7;
  refused_plan(ctx, d, GA_ERR_SHAPE, "route: logits_stride is 7; must be 0, or 8 to 2^40");
}

static void refused_call(ga_ctx *ctx, const ga_route_desc *d, ga_route_io io, const char *text) {
  assert_int_equal(ga_route(ctx, d, &io, NULL), GA_ERR_ARG);
  if (!strstr(ga_error_text(), text)) fail_msg("'%s' is not in '%s'", text, ga_error_text());
}

static void refused_calls(ga_ctx *ctx) {
  static const float z[8] = {0};
  static const int32_t ids[2] = {1, 2}, table[4] = {9, 9, 3, 4};
  int32_t experts[4] = {7, 7, 7, 7};
  float weights[4];
  ga_route_desc d = route_desc_of(2, 4, 2, 0);
  ga_route_io io = {.logits = z, .experts = experts, .weights = weights};
  d.flags = GA_ROUTE_SORT;
  refused_call(ctx, &d, io, "route: counts is null");
  d.flags = 0, d.vocab = 2;
  refused_call(ctx, &d, io, "route: token_ids is null");
  io.token_ids = ids, io.table = table;
  refused_call(ctx, &d, io, "table[3] is 4; must be in [0, 4)"); /* entries that no token reads are not looked at */
  io.token_ids = ids + 1;
  d.tokens = 1;
  refused_call(ctx, &d, io, "token_ids[0] is 2; must be in [0, 2)");
  assert_int_equal(experts[0], 7); /* nothing is written */
  io.bias = z;
  refused_call(ctx, &d, io, "route: bias is given with vocab");
}

static void look_at_routes(ga_ctx *ctx) {
  score_kinds(ctx);
  biases(ctx);
  no_weight(ctx);
  kept_groups(ctx);
  ties(ctx);
  spoiled(ctx);
  looked_up(ctx);
  sorted(ctx);
  refused_plans(ctx);
  refused_calls(ctx);
}

static void test_tokens_are_routed(void **state) {
  (void)state;
  on_ref_and_cpu(look_at_routes);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tokens_are_routed)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
