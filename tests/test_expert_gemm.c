/* A layer with experts: ga_route, then products into and out of the chosen experts, against loops over tokens in
 * double, with the activations of families. Then NaN, batches, shared stacks, and what is refused. */
#include <math.h>

#include "ga/experts.h"
#include "tests/op_rig.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

enum { TOKENS = 9, EXPERTS = 6, USED = 2, WIDTH = 20, FF = 12, SLOTS = TOKENS * USED };

/* One layer and its numbers; experts 4 and 5 are never chosen and hold NaN. */
typedef struct layer {
  float x[TOKENS][WIDTH], logits[TOKENS][EXPERTS];
  float gate[EXPERTS][FF][WIDTH], up[EXPERTS][FF][WIDTH], down[EXPERTS][WIDTH][FF];
  float bias_gate[EXPERTS][FF], bias_up[EXPERTS][FF], bias_down[EXPERTS][WIDTH], residual[TOKENS][WIDTH];
} layer;

/* An activation as a family states it: of a gate g and u. */
typedef double (*expert_activation)(double g, double u);

typedef struct family {
  const char *name;
  expert_activation act;
  ga_expert_gemm_desc in; /* fields that the family sets */
  bool weighs_input;
} family;

static double sigmoid_of(double x) { return 1 / (1 + exp(-x)); }
static double plain_silu(double g, double u) { return g * sigmoid_of(g) * u; }
static double gpt_oss(double g, double u) {
  const double a = fmin(g, 7), b = fmax(-7, fmin(u, 7));
  return (b + 1) * a * sigmoid_of(1.702 * a);
}
static double deepseek_v4(double g, double u) {
  const double a = fmin(g, 0.5), b = fmax(-0.5, fmin(u, 0.5));
  return a * sigmoid_of(a) * b;
}
static double step_3_5(double g, double u) { return fmin(g * sigmoid_of(g), 0.5) * fmax(-0.5, fmin(u, 0.5)); }
static double squared_relu(double g, double u) {
  (void)g;
  return u > 0 ? u * u : 0;
}

static const family families[] = {
    {"silu", plain_silu, {.act = GA_ACT_SILU, .act_alpha = 1, .flags = GA_EXPERT_GATED}, false},
    {"llama 4", plain_silu, {.act = GA_ACT_SILU, .act_alpha = 1, .flags = GA_EXPERT_GATED}, true},
    {"gpt-oss",
     gpt_oss,
     {.act = GA_ACT_SILU,
      .act_alpha = 1.702f,
      .clamp = GA_EXPERT_CLAMP_BEFORE,
      .limit = 7,
      .up_offset = 1,
      .flags = GA_EXPERT_GATED | GA_EXPERT_BIAS},
     false},
    {"deepseek v4",
     deepseek_v4,
     {.act = GA_ACT_SILU, .act_alpha = 1, .clamp = GA_EXPERT_CLAMP_BEFORE, .limit = 0.5f, .flags = GA_EXPERT_GATED},
     false},
    {"step 3.5",
     step_3_5,
     {.act = GA_ACT_SILU, .act_alpha = 1, .clamp = GA_EXPERT_CLAMP_AFTER, .limit = 0.5f, .flags = GA_EXPERT_GATED},
     false},
    {"nemotron", squared_relu, {.act = GA_ACT_RELU2, .act_alpha = 1}, false},
};

static float wave_at(int i) { return sinf((float)(37 * i % 1009) + 0.1f * (float)i); }

static void fill_waves(float *x, size_t n, int seed, float size) {
  for (size_t i = 0; i < n; i++) x[i] = size * wave_at((int)i + seed);
}

/* All ones are a NaN. */
static void spoil_numbers(void *x, size_t bytes) { memset(x, 0xff, bytes); }

#define FILL(l, field, seed, size) fill_waves((float *)(void *)(l)->field, sizeof(l)->field / sizeof(float), seed, size)

static void make_layer(layer *l) {
  FILL(l, x, 1, 1);
  FILL(l, logits, 2, 2);
  FILL(l, gate, 3, 1);
  FILL(l, up, 4, 1);
  FILL(l, down, 5, 1);
  FILL(l, bias_gate, 6, 1);
  FILL(l, bias_up, 7, 1);
  FILL(l, bias_down, 8, 1);
  FILL(l, residual, 9, 1);
  for (int t = 0; t < TOKENS; t++) l->logits[t][4] = l->logits[t][5] = -100;
  for (int e = 4; e < EXPERTS; e++) {
    spoil_numbers(l->gate[e][0], sizeof l->gate[e]);
    spoil_numbers(l->up[e][0], sizeof l->up[e]);
    spoil_numbers(l->down[e][0], sizeof l->down[e]);
    spoil_numbers(l->bias_gate[e], sizeof l->bias_gate[e]);
    spoil_numbers(l->bias_up[e], sizeof l->bias_up[e]);
    spoil_numbers(l->bias_down[e], sizeof l->bias_down[e]);
  }
}

typedef struct routing {
  int32_t experts[SLOTS], counts[EXPERTS], offsets[EXPERTS + 1], order[SLOTS], place[SLOTS];
  float weights[SLOTS];
} routing;

static void route_layer(ga_ctx *ctx, const layer *l, int64_t tokens, routing *r) {
  ga_route_desc d = GA_ROUTE_DESC_INIT;
  d.tokens = tokens, d.n_experts = EXPERTS, d.top_k = USED;
  d.renorm = GA_ROUTE_RENORM_SUM;
  d.flags = GA_ROUTE_SORT;
  const ga_route_io io = {.logits = l->logits[0],
                          .experts = r->experts,
                          .weights = r->weights,
                          .counts = r->counts,
                          .offsets = r->offsets,
                          .order = r->order,
                          .place = r->place};
  if (ga_route(ctx, &d, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
}

static ga_expert_gemm_desc expert_desc_of(int64_t tokens, ga_expert_form form, uint32_t flags) {
  ga_expert_gemm_desc d = GA_EXPERT_GEMM_DESC_INIT;
  const bool in = form == GA_EXPERT_IN;
  d.tokens = tokens, d.n_experts = EXPERTS, d.top_k = USED;
  d.n = in ? FF : WIDTH, d.k = in ? WIDTH : FF;
  d.form = form;
  d.flags = flags;
  return d;
}

static void multiply_experts(ga_ctx *ctx, const ga_expert_gemm_desc *d, ga_expert_gemm_io io, const routing *r) {
  io.experts = r->experts, io.weights = r->weights;
  io.offsets = r->offsets, io.order = r->order, io.place = r->place;
  if (ga_expert_gemm(ctx, d, &io, NULL) != GA_OK) fail_msg("%s", ga_error_text());
}

/* Computes the first `tokens` tokens of a layer. */
static void run_layer(ga_ctx *ctx, const layer *l, const family *f, bool sorted, int64_t tokens,
                      float y[TOKENS][WIDTH]) {
  routing r;
  float h[SLOTS][FF];
  const uint32_t order = sorted ? GA_EXPERT_SORTED : 0;
  ga_expert_gemm_desc in = expert_desc_of(tokens, GA_EXPERT_IN, f->in.flags | order);
  in.act = f->in.act, in.act_alpha = f->in.act_alpha, in.clamp = f->in.clamp;
  in.limit = f->in.limit, in.up_offset = f->in.up_offset;
  in.flags |= f->weighs_input ? GA_EXPERT_WEIGHTS : 0;
  ga_expert_gemm_desc out = expert_desc_of(tokens, GA_EXPERT_OUT, GA_EXPERT_BIAS | GA_EXPERT_RESIDUAL | order);
  out.flags |= f->weighs_input ? 0 : GA_EXPERT_WEIGHTS;
  route_layer(ctx, l, tokens, &r);
  multiply_experts(
      ctx, &in,
      (ga_expert_gemm_io){
          .x = l->x, .w = l->up, .w_gate = l->gate, .bias = l->bias_up[0], .bias_gate = l->bias_gate[0], .y = h},
      &r);
  multiply_experts(ctx, &out,
                   (ga_expert_gemm_io){.x = h, .w = l->down, .bias = l->bias_down[0], .residual = l->residual, .y = y},
                   &r);
}

/* The two largest logits, and the softmax over them. */
static void choose_two(const float *z, int *best, double *w) {
  best[0] = best[1] = -1;
  for (int j = 0; j < 2; j++)
    for (int e = 0; e < EXPERTS; e++)
      if (e != best[0] && (best[j] < 0 || z[e] > z[best[j]])) best[j] = e;
  w[0] = 1 / (1 + exp((double)z[best[1]] - (double)z[best[0]]));
  w[1] = 1 - w[0];
}

static double row_product(const float *a, const float *b, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)a[i] * (double)b[i];
  return sum;
}

static void expect_token(const layer *l, const family *f, int t, double y[WIDTH]) {
  int best[2];
  double w[2], h[FF];
  const bool bias = f->in.flags & GA_EXPERT_BIAS;
  choose_two(l->logits[t], best, w);
  for (int c = 0; c < WIDTH; c++) y[c] = (double)l->residual[t][c];
  for (int j = 0; j < 2; j++) {
    const int e = best[j];
    const double in = f->weighs_input ? w[j] : 1, out = f->weighs_input ? 1 : w[j];
    for (int i = 0; i < FF; i++)
      h[i] = f->act(in * row_product(l->x[t], l->gate[e][i], WIDTH) + (bias ? (double)l->bias_gate[e][i] : 0),
                    in * row_product(l->x[t], l->up[e][i], WIDTH) + (bias ? (double)l->bias_up[e][i] : 0));
    for (int c = 0; c < WIDTH; c++) {
      double sum = (double)l->bias_down[e][c];
      for (int i = 0; i < FF; i++) sum += h[i] * (double)l->down[e][c][i];
      y[c] += out * sum;
    }
  }
}

static void look_at_families(ga_ctx *ctx) {
  static layer l;
  make_layer(&l);
  for (size_t i = 0; i < 2 * COUNT(families); i++) {
    const family *f = &families[i / 2];
    float y[TOKENS][WIDTH];
    run_layer(ctx, &l, f, i % 2, TOKENS, y);
    for (int t = 0; t < TOKENS; t++) {
      double want[WIDTH];
      expect_token(&l, f, t, want);
      for (int c = 0; c < WIDTH; c++)
        if (!(fabs((double)y[t][c] - want[c]) <= 1e-5 * (1 + fabs(want[c]))))
          fail_msg("%s: y[%d][%d] is %.9g instead of %.9g", f->name, t, c, (double)y[t][c], want[c]);
    }
  }
}

/* A NaN in one token's row of X stays there; rows are the same bits in a batch and beside fewer tokens. */
static void look_at_rows(ga_ctx *ctx) {
  static layer l;
  float y[TOKENS][WIDTH], z[TOKENS][WIDTH];
  make_layer(&l);
  run_layer(ctx, &l, &families[0], true, TOKENS, y);
  run_layer(ctx, &l, &families[0], true, 3, z);
  assert_memory_equal(y, z, 3 * sizeof y[0]);
  l.x[4][7] = NAN;
  run_layer(ctx, &l, &families[0], true, TOKENS, z);
  for (int t = 0; t < TOKENS; t++)
    for (int c = 0; c < WIDTH; c++) assert_true(t == 4 ? isnan(z[t][c]) : z[t][c] == y[t][c]);
}

/* Gate and up in one stack, gate first. */
static void look_at_stacks(ga_ctx *ctx) {
  static layer l;
  static float both[EXPERTS][2][FF][WIDTH], h[2][SLOTS][FF];
  routing r;
  make_layer(&l);
  for (int e = 0; e < EXPERTS; e++) {
    memcpy(both[e][0], l.gate[e], sizeof l.gate[e]);
    memcpy(both[e][1], l.up[e], sizeof l.up[e]);
  }
  route_layer(ctx, &l, TOKENS, &r);
  ga_expert_gemm_desc d = expert_desc_of(TOKENS, GA_EXPERT_IN, GA_EXPERT_GATED);
  d.act = GA_ACT_SILU;
  multiply_experts(ctx, &d, (ga_expert_gemm_io){.x = l.x, .w = l.up, .w_gate = l.gate, .y = h[0]}, &r);
  d.expert_rows = (int64_t)2 * FF;
  multiply_experts(ctx, &d, (ga_expert_gemm_io){.x = l.x, .w = both[0][1], .w_gate = both[0][0], .y = h[1]}, &r);
  assert_memory_equal(h[0], h[1], sizeof h[0]);
}

/* A packed stack of matrices that begin every 16 rows, beside the same numbers in native layout. Devices that pack
 * nothing, or multiply by nothing packed, are passed over. */
static void look_at_packed(ga_ctx *ctx) {
  static layer l;
  static float stack[EXPERTS][16][WIDTH], h[2][SLOTS][FF];
  void *packed;
  uint64_t bytes;
  routing r;
  ga_plan *plan;
  make_layer(&l);
  for (int e = 0; e < EXPERTS; e++) memcpy(stack[e], l.up[e], sizeof l.up[e]);
  route_layer(ctx, &l, TOKENS, &r);
  ga_expert_gemm_desc d = expert_desc_of(TOKENS, GA_EXPERT_IN, GA_EXPERT_SORTED);
  d.expert_rows = 16;
  multiply_experts(ctx, &d, (ga_expert_gemm_io){.x = l.x, .w = stack, .y = h[0]}, &r);
  ga_pack_desc pack = GA_PACK_DESC_INIT;
  pack.n = (int64_t)EXPERTS * 16, pack.k = WIDTH;
  pack.w_dtype = GA_F32, pack.w_layout = d.w_layout = GA_LAYOUT_X16;
  if (ga_pack_bytes(ctx, &pack, &bytes) == GA_ERR_UNSUPPORTED) return;
  if (ga_expert_gemm_plan(ctx, &d, &plan) == GA_ERR_UNSUPPORTED) return;
  ga_plan_destroy(plan);
  assert_int_equal(ga_buffer_alloc(ctx, bytes, &packed), GA_OK);
  assert_int_equal(ga_pack(ctx, &pack, stack, packed, NULL), GA_OK);
  multiply_experts(ctx, &d, (ga_expert_gemm_io){.x = l.x, .w = packed, .y = h[1]}, &r);
  for (int i = 0; i < SLOTS; i++)
    for (int c = 0; c < FF; c++) assert_true(fabsf(h[0][i][c] - h[1][i][c]) <= 1e-5f * (1 + fabsf(h[0][i][c])));
  ga_buffer_free(ctx, packed);
}

static void refused_expert_plan(ga_ctx *ctx, ga_expert_gemm_desc d, ga_status want, const char *text) {
  ga_plan *plan;
  const ga_status got = ga_expert_gemm_plan(ctx, &d, &plan);
  assert_plan_refused(got, plan, want, text);
}

static void look_at_refusals(ga_ctx *ctx) {
  const ga_expert_gemm_desc in = expert_desc_of(2, GA_EXPERT_IN, 0), out = expert_desc_of(2, GA_EXPERT_OUT, 0);
  ga_expert_gemm_desc d = in;
  d.n_experts = 1025;
  refused_expert_plan(ctx, d, GA_ERR_SHAPE, "expert_gemm: n_experts is 1025; must be 1 to 1024");
  d = in, d.w_dtype = GA_Q4_K;
  refused_expert_plan(ctx, d, GA_ERR_SHAPE, "expert_gemm: k is 20; q4_k needs a multiple of 256");
  d = in, d.w_dtype = GA_I32;
  refused_expert_plan(ctx, d, GA_ERR_DTYPE, "is no weight type");
  d = in, d.expert_rows = FF - 1;
  refused_expert_plan(ctx, d, GA_ERR_SHAPE, "expert_gemm: expert_rows is 11; must be 0, or at least n (12)");
  d = in, d.w_layout = GA_LAYOUT_X16;
  refused_expert_plan(ctx, d, GA_ERR_SHAPE, "expert_gemm: expert_rows is 12; packed stacks need a multiple of 16");
  d = in, d.clamp = GA_EXPERT_CLAMP_AFTER, d.limit = 1;
  refused_expert_plan(ctx, d, GA_ERR_ARG, "expert_gemm: clamp is 2; must be 0 without GATED");
  d = in, d.flags = GA_EXPERT_GATED, d.clamp = GA_EXPERT_CLAMP_BEFORE;
  refused_expert_plan(ctx, d, GA_ERR_ARG, "expert_gemm: limit is 0; must be above 0 with clamp");
  d = in, d.limit = 3;
  refused_expert_plan(ctx, d, GA_ERR_ARG, "expert_gemm: limit is 3; must be 0 without clamp");
  d = in, d.up_offset = 1;
  refused_expert_plan(ctx, d, GA_ERR_ARG, "expert_gemm: up_offset is 1; must be 0 without GATED");
  d = in, d.act = GA_ACT_GELU_ERF, d.act_alpha = 2;
  refused_expert_plan(ctx, d, GA_ERR_ARG, "expert_gemm: act_alpha is 2; must be 1 without SILU");
  d = in, d.act = GA_ACT_TANH;
  refused_expert_plan(ctx, d, GA_ERR_ARG, "expert_gemm: act is 5");
  d = in, d.flags = GA_EXPERT_RESIDUAL;
  refused_expert_plan(ctx, d, GA_ERR_ARG, "expert_gemm: flags 0x8: RESIDUAL goes with form OUT");
  d = out, d.flags = GA_EXPERT_GATED;
  refused_expert_plan(ctx, d, GA_ERR_ARG, "expert_gemm: flags 0x1: GATED goes with form IN");
  d = out, d.act = GA_ACT_SILU;
  refused_expert_plan(ctx, d, GA_ERR_ARG, "expert_gemm: act is 1; must be 0 in form OUT");
}

static void refused_product(ga_ctx *ctx, const ga_expert_gemm_desc *d, const ga_expert_gemm_io *io, const char *text) {
  assert_int_equal(ga_expert_gemm(ctx, d, io, NULL), GA_ERR_ARG);
  if (!strstr(ga_error_text(), text)) fail_msg("'%s' is not in '%s'", text, ga_error_text());
}

static void look_at_refused_calls(ga_ctx *ctx) {
  static layer l;
  static float h[SLOTS][FF];
  routing r;
  make_layer(&l);
  route_layer(ctx, &l, TOKENS, &r);
  ga_expert_gemm_desc d = expert_desc_of(TOKENS, GA_EXPERT_IN, 0);
  ga_expert_gemm_io io = {.x = l.x, .w = l.up, .y = h};
  refused_product(ctx, &d, &io, "expert_gemm: experts is null");
  r.experts[5] = EXPERTS;
  io.experts = r.experts;
  refused_product(ctx, &d, &io, "experts[5] is 6; must be in [0, 6)");
  d.flags = GA_EXPERT_SORTED | GA_EXPERT_GATED;
  refused_product(ctx, &d, &io, "expert_gemm: w_gate is null");
  d.flags = GA_EXPERT_SORTED;
  refused_product(ctx, &d, &io, "expert_gemm: offsets is null");
  io.offsets = r.offsets, io.order = r.order, io.place = r.place;
  r.order[3] = SLOTS;
  refused_product(ctx, &d, &io, "order[3] is 18; must be in [0, 18)");
  r.order[3] = r.order[4];
  refused_product(ctx, &d, &io, "must be 3, as order says");
  r.offsets[EXPERTS]--;
  refused_product(ctx, &d, &io, "offsets[6] is 17; must rise from 0 to 18");
}

static void look_at_experts(ga_ctx *ctx) {
  look_at_families(ctx);
  look_at_rows(ctx);
  look_at_stacks(ctx);
  look_at_packed(ctx);
  look_at_refusals(ctx);
  look_at_refused_calls(ctx);
}

static void test_layers_of_experts(void **state) {
  (void)state;
  on_ref_and_cpu(look_at_experts);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_layers_of_experts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
