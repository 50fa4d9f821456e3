/* The launches of layers with experts: routes, and products by the matrices of the chosen experts. */
#include "base/clock.h"
#include "base/status.h"
#include "model/exec_impl.h"
#include "model/expert_cache.h"
#include "model/expert_trace.h"

/* Returns whether rows of chosen experts are sorted by expert. Few tokens on a GPU are not: sorting them, and adding
 * the sorted results of slots, takes a launch each. */
static bool sorts_experts(const ga_ctx *ctx, int32_t tokens) {
  enum { UNSORTED = 4 /* tokens: experts that two of them choose are read twice */ };
  return ga_device_works_in_calls(ctx->device) || tokens > UNSORTED;
}

ga_route_desc exec_route_desc(const ga_hparams *p, ga_ctx *ctx, route_kind kind, int32_t tokens,
                              int64_t logits_stride) {
  ga_route_desc d = GA_ROUTE_DESC_INIT;
  d.tokens = tokens;
  d.logits_stride = logits_stride;
  d.flags = sorts_experts(ctx, tokens) ? GA_ROUTE_SORT : 0;
  if (kind == ROUTE_GATE) {
    d.n_experts = d.top_k = 1;
    d.scores = GA_ROUTE_SIGMOID;
    return d;
  }
  d.n_experts = p->n_experts;
  d.top_k = p->n_experts_used;
  d.scores = p->router.scores;
  d.n_groups = p->router.n_groups;
  d.top_k_groups = p->router.top_k_groups;
  d.group_score = p->router.group_score;
  d.renorm = p->router.renorm;
  d.norm_eps = p->router.norm_eps;
  d.scale = p->router.scale;
  return d;
}

ga_expert_gemm_desc exec_expert_desc(const ga_hparams *p, ga_ctx *ctx, route_kind kind, const ga_weight *w,
                                     int32_t tokens, ga_expert_form form) {
  ga_expert_gemm_desc d = GA_EXPERT_GEMM_DESC_INIT;
  d.tokens = tokens;
  d.n = ga_weight_rows(w);
  d.k = ga_weight_cols(w);
  d.n_experts = kind == ROUTE_GATE ? 1 : p->n_experts;
  d.top_k = kind == ROUTE_GATE ? 1 : p->n_experts_used;
  d.form = form;
  d.w_dtype = (int32_t)w->dtype;
  d.w_layout = (int32_t)w->layout;
  const bool weighs_input = kind == ROUTE_EXPERTS && p->expert_act.weighs_input;
  d.flags = (sorts_experts(ctx, tokens) ? GA_EXPERT_SORTED : 0) | (form == GA_EXPERT_IN ? GA_EXPERT_GATED : 0);
  if (weighs_input == (form == GA_EXPERT_IN)) d.flags |= GA_EXPERT_WEIGHTS;
  return d;
}

/* Returns the arrays of a route of `tokens` tokens, as they lie in its value. */
static ga_route_io route_arrays(const ga_hparams *p, route_kind kind, int32_t tokens, void *value) {
  int32_t *words = value;
  const int64_t chosen = (int64_t)tokens * (kind == ROUTE_GATE ? 1 : p->n_experts_used);
  return (ga_route_io){.experts = words,
                       .weights = (float *)value + chosen,
                       .order = words + 2 * chosen,
                       .place = words + 3 * chosen,
                       .counts = words + 4 * chosen,
                       .offsets = words + 4 * chosen + (kind == ROUTE_GATE ? 1 : p->n_experts)};
}

/* Returns whether the CPU multiplies by the experts of the launch's layer. */
static bool is_on_host(const ga_exec *e, const launch *l, route_kind kind) {
  return e->host && kind == ROUTE_EXPERTS && place_has_host_experts(e->model, e->placement, l->layer);
}

ga_status exec_route(const ga_exec *e, const launch *l) {
  const node_route *n = &l->as.route.node;
  ga_route_desc d = exec_route_desc(&e->model->hparams, e->ctx, n->kind, e->step->n_tokens, exec_stride(e, n->x));
  /* watch_experts tells of sorted rows; a CPU multiplies them */
  if (e->watch || is_on_host(e, l, n->kind)) d.flags |= GA_ROUTE_SORT;
  ga_route_io io = route_arrays(&e->model->hparams, n->kind, e->step->n_tokens, exec_rows(e, l->as.route.y));
  io.logits = exec_rows(e, n->x);
  io.bias = exec_vector(e, n->bias);
  io.expert_scale = exec_vector(e, n->expert_scale);
  GA_TRY(ga_route(e->ctx, &d, &io, NULL));
  if (!e->model->trace || n->kind != ROUTE_EXPERTS) return GA_OK;
  return expert_trace_put(e->model->trace, e->ctx, l->layer, e->step->n_tokens, io.experts);
}

/* The arrays of products by experts, in the memory of ctx. */
typedef struct expert_call {
  ga_ctx *ctx;
  ga_route_io route;
  const float *x, *residual;
  float *y;
  int64_t x_stride, y_stride;
  /* stacks and biases: IN has all of them, OUT has w and bias. Biases may be NULL */
  const ga_weight *w, *gate;
  const float *bias, *bias_gate;
  /* with n_matrices, as ga_expert_gemm has them: each expert's matrix in the stacks */
  int64_t n_matrices;
  const int32_t *matrices;
} expert_call;

/* The input of products by stacks, in rows of tokens for IN, in sorted rows for OUT. */
static ga_status watch_experts(const ga_exec *e, int32_t layer, const expert_call *c, bool is_in, int64_t cols,
                               const weight_ref *stacks, int n) {
  const ga_hparams *p = &e->model->hparams;
  exec_watched w = {.layer = layer, .x = c->x, .cols = cols, .stride = c->x_stride};
  w.n_experts = p->n_experts;
  w.top_k = p->n_experts_used;
  w.rows = e->step->n_tokens * (int64_t)(is_in ? 1 : w.top_k);
  w.offsets = c->route.offsets;
  w.order = is_in ? c->route.order : NULL;
  for (int i = 0; i < n; i++) {
    w.matrix = stacks[i].id;
    GA_TRY(e->watch(e->watch_user, c->ctx, &w));
  }
  return GA_OK;
}

/* A gate's only expert takes all tokens: its matrix is watched as one of a plain product. */
static ga_status watch_gated(const ga_exec *e, const launch *l, const node_expert_out *n) {
  exec_watched w = exec_watched_input(e, l, n->x);
  w.rows = e->step->n_tokens;
  w.matrix = n->down.id;
  return e->watch(e->watch_user, e->ctx, &w);
}

static ga_expert_gemm_desc call_desc(const ga_exec *e, route_kind kind, const expert_call *c, ga_expert_form form) {
  ga_expert_gemm_desc d = exec_expert_desc(&e->model->hparams, c->ctx, kind, c->w, e->step->n_tokens, form);
  if (e->watch) d.flags |= GA_EXPERT_SORTED;
  if (c->bias) d.flags |= GA_EXPERT_BIAS;
  if (c->residual) d.flags |= GA_EXPERT_RESIDUAL;
  d.x_stride = c->x_stride;
  d.y_stride = c->y_stride;
  d.n_matrices = c->n_matrices;
  return d;
}

static ga_status run_call(const ga_expert_gemm_desc *d, const expert_call *c) {
  const ga_expert_gemm_io io = {.x = c->x,
                                .w = c->w->data,
                                .w_gate = c->gate ? c->gate->data : NULL,
                                .bias = c->bias,
                                .bias_gate = c->bias_gate,
                                .y = c->y,
                                .residual = c->residual,
                                .weights = d->flags & GA_EXPERT_WEIGHTS ? c->route.weights : NULL,
                                .experts = c->route.experts,
                                .offsets = c->route.offsets,
                                .order = c->route.order,
                                .place = c->route.place,
                                .matrices = c->matrices};
  return ga_expert_gemm(c->ctx, d, &io, NULL);
}

static void set_call_in(const ga_exec *e, const node_expert_in *n, expert_call *c) {
  c->w = ga_weight_at(e->model, n->up);
  c->gate = ga_weight_at(e->model, n->gate);
  c->bias = exec_vector(e, n->up_bias);
  c->bias_gate = exec_vector(e, n->gate_bias);
}

static void set_call_out(const ga_exec *e, const node_expert_out *n, expert_call *c) {
  c->w = ga_weight_at(e->model, n->down);
  c->gate = NULL;
  c->bias = exec_vector(e, n->bias);
  c->bias_gate = NULL;
}

static ga_status multiply_in(const ga_exec *e, const node_expert_in *n, const expert_call *c) {
  const ga_expert_act *act = &e->model->hparams.expert_act;
  ga_expert_gemm_desc d = call_desc(e, ROUTE_EXPERTS, c, GA_EXPERT_IN);
  if (e->watch)
    GA_TRY(watch_experts(e, n->up.layer, c, true, exec_cols(e, n->x), (const weight_ref[]){n->gate, n->up}, 2));
  d.act = n->act;
  d.clamp = act->clamp;
  d.limit = act->limit;
  d.act_alpha = act->act_alpha;
  d.up_offset = act->up_offset;
  return run_call(&d, c);
}

static ga_status multiply_out(const ga_exec *e, const node_expert_out *n, const expert_call *c) {
  const ga_expert_gemm_desc d = call_desc(e, n->kind, c, GA_EXPERT_OUT);
  if (e->watch && n->kind == ROUTE_EXPERTS)
    GA_TRY(watch_experts(e, n->down.layer, c, false, exec_cols(e, n->x), &n->down, 1));
  return run_call(&d, c);
}

/* --- experts in host memory: host_experts.h, expert_cache.h --- */

/* Enqueues the copies of X and of the route to the host. */
static ga_status send_to_host(const ga_exec *e, const node_expert_in *n) {
  host_experts *h = e->host;
  const ga_hparams *p = &e->model->hparams;
  const int64_t tokens = e->step->n_tokens;
  GA_REQUIRE(exec_cols(e, n->x) == p->width && exec_stride(e, n->x) == p->width, GA_ERR_INTERNAL,
             "experts in host memory: rows of %lld, %lld apart", (long long)exec_cols(e, n->x),
             (long long)exec_stride(e, n->x));
  const size_t words =
      4 * (size_t)tokens * (size_t)p->n_experts_used + 2 * (size_t)p->n_experts + 1; /* graph_route_words */
  GA_TRY(ga_copy_to_host_later(e->ctx, h->route, exec_rows(e, n->route), words * sizeof(int32_t), NULL));
  GA_TRY(ga_copy_to_host_later(e->ctx, h->x, exec_rows(e, n->x), (size_t)(tokens * p->width) * sizeof(float), NULL));
  return ga_event_record(e->ctx, h->copied, NULL);
}

/* The cache that the step uses; NULL: none. Inputs that are watched are those of all experts. */
static expert_cache *cache_of(const ga_exec *e) { return e->watch ? NULL : e->placement->cache; }

static ga_route_io device_route(const ga_exec *e, value_id route) {
  return route_arrays(&e->model->hparams, ROUTE_EXPERTS, e->step->n_tokens, exec_rows(e, route));
}

static ga_route_io host_route(const ga_exec *e) {
  return route_arrays(&e->model->hparams, ROUTE_EXPERTS, e->step->n_tokens, e->host->route);
}

/* --- the GPU's part --- */

static ga_status multiply_hits_in(const ga_exec *e, const launch *l, const cached_stacks *s) {
  const node_expert_in *n = &l->as.expert_in.node;
  const value_id y = l->as.expert_in.y;
  const expert_call c = {.ctx = e->ctx,
                         .route = device_route(e, n->route),
                         .x = exec_rows(e, n->x),
                         .x_stride = exec_stride(e, n->x),
                         .y = exec_rows(e, y),
                         .y_stride = exec_stride(e, y),
                         .w = &s->up,
                         .gate = &s->gate,
                         .bias = s->up_bias,
                         .bias_gate = s->gate_bias,
                         .n_matrices = s->n_slots,
                         .matrices = s->slots};
  return multiply_in(e, n, &c);
}

static ga_status multiply_hits_out(const ga_exec *e, const launch_expert_out *o, const cached_stacks *s) {
  const expert_call c = {.ctx = e->ctx,
                         .route = device_route(e, o->node.route),
                         .x = exec_rows(e, o->node.x),
                         .x_stride = exec_stride(e, o->node.x),
                         .y = exec_rows(e, o->y),
                         .y_stride = exec_stride(e, o->y),
                         .residual = exec_rows(e, o->residual),
                         .w = &s->down,
                         .bias = s->down_bias,
                         .n_matrices = s->n_slots,
                         .matrices = s->slots};
  return multiply_out(e, &o->node, &c);
}

/* --- the CPU's part --- */

/* The products of the step's tokens on the CPU, from the copies of X and of the route. matrices: the experts by which
 * it multiplies, as expert_cache.h has them; NULL: all. */
static ga_status multiply_on_host(const ga_exec *e, const node_expert_out *n, const int32_t *matrices) {
  host_experts *h = e->host;
  const ga_model_graph *g = e->model->graph;
  const ga_hparams *p = &e->model->hparams;
  const node_expert_in *in = &g->nodes[g->values[n->x].producer].as.expert_in;
  expert_call c = {.ctx = e->model->cpu,
                   .route = host_route(e),
                   .x = h->x,
                   .x_stride = p->width,
                   .y = h->slots,
                   .y_stride = p->expert_ff_width,
                   .n_matrices = matrices ? p->n_experts : 0,
                   .matrices = matrices};
  set_call_in(e, in, &c);
  GA_TRY(multiply_in(e, in, &c));
  c.x = h->slots;
  c.x_stride = p->expert_ff_width;
  c.y = h->y;
  c.y_stride = p->width;
  set_call_out(e, n, &c);
  return multiply_out(e, n, &c);
}

/* Adds the CPU's results to `to` [tokens, width], rows `stride` elements apart; NULL: nothing is added. */
static ga_status take_from_host(const ga_exec *e, const float *to, int64_t stride, value_id y) {
  const host_experts *h = e->host;
  const ga_hparams *p = &e->model->hparams;
  const size_t bytes = (size_t)e->step->n_tokens * (size_t)p->width * sizeof(float);
  ga_add_desc d = GA_ADD_DESC_INIT;
  d.rows = e->step->n_tokens;
  d.width = p->width;
  d.y_stride = exec_stride(e, y);
  if (!to && d.y_stride == d.width) return ga_copy_to_device_later(e->ctx, exec_rows(e, y), h->y, bytes, NULL);
  GA_TRY(ga_copy_to_device_later(e->ctx, h->sum, h->y, bytes, NULL));
  d.x_stride = to ? stride : p->width;
  d.b_stride = to ? p->width : 0;
  const ga_add_io io = {.x = to ? to : h->sum, .b = to ? h->sum : NULL, .y = exec_rows(e, y)};
  return ga_add(e->ctx, &d, &io, NULL);
}

/* --- both --- */

/* Copies X and the route to the host. With a cache, the GPU begins with the products by the experts that it has. */
static ga_status run_host_in(const ga_exec *e, const launch *l) {
  expert_cache *cache = cache_of(e);
  cached_stacks *s = &e->host->stacks;
  GA_TRY(send_to_host(e, &l->as.expert_in.node));
  *s = (cached_stacks){.n_misses = 1};
  if (!cache) return GA_OK;
  GA_TRY(ga_event_sync(e->host->copied));
  GA_TRY(expert_cache_begin(cache, l->layer, host_route(e).offsets, s));
  return s->n_hits ? multiply_hits_in(e, l, s) : GA_OK;
}

/* Computes the products by the other experts on the CPU, and adds all up: (residual + the GPU's experts) + the CPU's,
 * each in the order of their numbers. */
static ga_status run_host_out(const ga_exec *e, const launch *l) {
  const launch_expert_out *o = &l->as.expert_out;
  const cached_stacks *s = &e->host->stacks;
  if (s->n_hits) GA_TRY(multiply_hits_out(e, o, s));
  if (!s->n_misses) return GA_OK;
  GA_TRY(ga_event_sync(e->host->copied));
  const double began = ga_seconds();
  GA_TRY(multiply_on_host(e, &o->node, s->n_hits ? s->on_host : NULL));
  if (cache_of(e)) expert_cache_note_cpu(cache_of(e), s, ga_seconds() - began);
  if (cache_of(e)) GA_TRY(expert_cache_want(cache_of(e), l->layer, host_route(e).offsets));
  if (s->n_hits) return take_from_host(e, exec_rows(e, o->y), exec_stride(e, o->y), o->y);
  return take_from_host(e, exec_rows(e, o->residual), o->residual == NO_VALUE ? 0 : exec_stride(e, o->residual), o->y);
}

/* --- launches --- */

ga_status exec_expert_in(const ga_exec *e, const launch *l) {
  const node_expert_in *n = &l->as.expert_in.node;
  if (is_on_host(e, l, ROUTE_EXPERTS)) return run_host_in(e, l);
  expert_call c = {.ctx = e->ctx,
                   .route = route_arrays(&e->model->hparams, ROUTE_EXPERTS, e->step->n_tokens, exec_rows(e, n->route)),
                   .x = exec_rows(e, n->x),
                   .x_stride = exec_stride(e, n->x),
                   .y = exec_rows(e, l->as.expert_in.y),
                   .y_stride = exec_stride(e, l->as.expert_in.y)};
  set_call_in(e, n, &c);
  return multiply_in(e, n, &c);
}

ga_status exec_expert_out(const ga_exec *e, const launch *l) {
  const launch_expert_out *o = &l->as.expert_out;
  if (is_on_host(e, l, o->node.kind)) return run_host_out(e, l);
  expert_call c = {.ctx = e->ctx,
                   .route =
                       route_arrays(&e->model->hparams, o->node.kind, e->step->n_tokens, exec_rows(e, o->node.route)),
                   .x = exec_rows(e, o->node.x),
                   .x_stride = exec_stride(e, o->node.x),
                   .y = exec_rows(e, o->y),
                   .y_stride = exec_stride(e, o->y),
                   .residual = exec_rows(e, o->residual)};
  if (e->watch && o->node.kind == ROUTE_GATE) GA_TRY(watch_gated(e, l, &o->node));
  set_call_out(e, &o->node, &c);
  return multiply_out(e, &o->node, &c);
}
