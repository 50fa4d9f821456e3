/* The launches of layers with experts: routes, and products by the matrices of the chosen experts. */
#include "base/status.h"
#include "model/exec_impl.h"

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

/* The arrays of a route, as they lie in its value. */
static ga_route_io route_arrays(const ga_exec *e, route_kind kind, value_id v) {
  const ga_hparams *p = &e->model->hparams;
  int32_t *words = (int32_t *)(void *)exec_rows(e, v);
  const int64_t chosen = (int64_t)e->step->n_tokens * (kind == ROUTE_GATE ? 1 : p->n_experts_used);
  return (ga_route_io){.experts = words,
                       .weights = (float *)(void *)(words + chosen),
                       .order = words + 2 * chosen,
                       .place = words + 3 * chosen,
                       .counts = words + 4 * chosen,
                       .offsets = words + 4 * chosen + (kind == ROUTE_GATE ? 1 : p->n_experts)};
}

ga_status exec_route(const ga_exec *e, const launch *l) {
  const node_route *n = &l->as.route.node;
  ga_route_desc d = exec_route_desc(&e->model->hparams, e->ctx, n->kind, e->step->n_tokens, exec_stride(e, n->x));
  if (e->watch) d.flags |= GA_ROUTE_SORT; /* watch_experts tells of sorted rows */
  ga_route_io io = route_arrays(e, n->kind, l->as.route.y);
  io.logits = exec_rows(e, n->x);
  io.bias = exec_vector(e, n->bias);
  return ga_route(e->ctx, &d, &io, NULL);
}

/* The input of products by stacks, in rows of tokens for IN, in sorted rows for OUT. */
static ga_status watch_experts(const ga_exec *e, const launch *l, value_id x, const ga_route_io *route, bool is_in,
                               const weight_ref *stacks, int n) {
  const ga_hparams *p = &e->model->hparams;
  exec_watched w = exec_watched_input(e, l, x);
  w.n_experts = p->n_experts;
  w.top_k = p->n_experts_used;
  w.rows = e->step->n_tokens * (int64_t)(is_in ? 1 : w.top_k);
  w.offsets = route->offsets;
  w.order = is_in ? route->order : NULL;
  for (int i = 0; i < n; i++) {
    w.matrix = stacks[i].id;
    GA_TRY(e->watch(e->watch_user, e->ctx, &w));
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

ga_status exec_expert_in(const ga_exec *e, const launch *l) {
  const node_expert_in *n = &l->as.expert_in.node;
  const ga_weight *up = ga_weight_at(e->model, n->up), *gate = ga_weight_at(e->model, n->gate);
  const ga_route_io route = route_arrays(e, ROUTE_EXPERTS, n->route);
  ga_expert_gemm_desc d =
      exec_expert_desc(&e->model->hparams, e->ctx, ROUTE_EXPERTS, up, e->step->n_tokens, GA_EXPERT_IN);
  if (e->watch) d.flags |= GA_EXPERT_SORTED;
  if (e->watch) GA_TRY(watch_experts(e, l, n->x, &route, true, (const weight_ref[]){n->gate, n->up}, 2));
  d.act = n->act;
  d.clamp = e->model->hparams.expert_act.clamp;
  d.limit = e->model->hparams.expert_act.limit;
  d.act_alpha = e->model->hparams.expert_act.act_alpha;
  d.up_offset = e->model->hparams.expert_act.up_offset;
  if (n->up_bias.id != W_NONE) d.flags |= GA_EXPERT_BIAS;
  d.x_stride = exec_stride(e, n->x);
  d.y_stride = exec_stride(e, l->as.expert_in.y);
  const ga_expert_gemm_io io = {.x = exec_rows(e, n->x),
                                .w = up->data,
                                .w_gate = gate->data,
                                .bias = exec_vector(e, n->up_bias),
                                .bias_gate = exec_vector(e, n->gate_bias),
                                .y = exec_rows(e, l->as.expert_in.y),
                                .weights = d.flags & GA_EXPERT_WEIGHTS ? route.weights : NULL,
                                .experts = route.experts,
                                .offsets = route.offsets,
                                .order = route.order,
                                .place = route.place};
  return ga_expert_gemm(e->ctx, &d, &io, NULL);
}

ga_status exec_expert_out(const ga_exec *e, const launch *l) {
  const launch_expert_out *o = &l->as.expert_out;
  const ga_weight *down = ga_weight_at(e->model, o->node.down);
  const ga_route_io route = route_arrays(e, o->node.kind, o->node.route);
  ga_expert_gemm_desc d =
      exec_expert_desc(&e->model->hparams, e->ctx, o->node.kind, down, e->step->n_tokens, GA_EXPERT_OUT);
  if (e->watch) d.flags |= GA_EXPERT_SORTED;
  if (e->watch && o->node.kind == ROUTE_GATE) GA_TRY(watch_gated(e, l, &o->node));
  if (e->watch && o->node.kind == ROUTE_EXPERTS)
    GA_TRY(watch_experts(e, l, o->node.x, &route, false, &o->node.down, 1));
  if (o->residual != NO_VALUE) d.flags |= GA_EXPERT_RESIDUAL;
  if (o->node.bias.id != W_NONE) d.flags |= GA_EXPERT_BIAS;
  d.x_stride = exec_stride(e, o->node.x);
  d.y_stride = exec_stride(e, o->y);
  const ga_expert_gemm_io io = {.x = exec_rows(e, o->node.x),
                                .w = down->data,
                                .bias = exec_vector(e, o->node.bias),
                                .y = exec_rows(e, o->y),
                                .residual = exec_rows(e, o->residual),
                                .weights = d.flags & GA_EXPERT_WEIGHTS ? route.weights : NULL,
                                .experts = route.experts,
                                .offsets = route.offsets,
                                .order = route.order,
                                .place = route.place};
  return ga_expert_gemm(e->ctx, &d, &io, NULL);
}
