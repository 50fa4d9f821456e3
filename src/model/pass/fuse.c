#include "model/pass/fuse.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"

#define GROUP_NODES 8

/* Nodes that are run together, by one launch or a few. */
typedef struct group {
  int32_t nodes[GROUP_NODES], n_nodes;
  launch launches[PRODUCT_MATRICES];
  int32_t n_launches;
  bool is_emitted;
} group;

typedef struct fuser {
  const fuse_target *target;
  const ga_model_graph *graph;
  ga_program *program;
  int32_t room;
  group *groups; /* [nodes of the target] */
  int32_t n_groups;
  int32_t *group_of;           /* [nodes of the target]; -1: none yet */
  bool *is_there;              /* [values] computed by what has been emitted, or before the target's first node */
  ga_gemm_fused_desc asked[4]; /* the planner's last answers: layers are weights_alike */
  bool answers[4];
  int32_t n_asked;
} fuser;

/* --- the graph around a node --- */

static const ga_node *graph_node_at(const fuser *f, int32_t i) { return &f->graph->nodes[i]; }
static int32_t node_index(const fuser *f, const ga_node *node) { return (int32_t)(node - f->graph->nodes); }

/* The node is the target's, and no group has it. */
static bool is_free(const fuser *f, const ga_node *node) {
  const int32_t i = node_index(f, node);
  return i >= f->target->first && i < f->target->end && f->group_of[i - f->target->first] < 0;
}

/* The free node of that kind that computes v; NULL: there is none. */
static const ga_node *maker_of(const fuser *f, value_id v, ga_node_kind kind) {
  const ga_node *node = graph_node_at(f, f->graph->values[v].producer);
  return node->kind == kind && is_free(f, node) ? node : NULL;
}

/* The free node of that kind that alone reads v; NULL: there is none. */
static const ga_node *only_user(const fuser *f, value_id v, ga_node_kind kind) {
  const ga_node *node = graph_only_user(f->graph, v);
  return node && node->kind == kind && is_free(f, node) ? node : NULL;
}

static const ga_weight *matrix_at(const fuser *f, const ga_node *linear) {
  return ga_weight_at(f->target->model, linear->as.linear.weight);
}

/* Weights that one launch may read. */
static bool weights_alike(const fuser *f, const ga_node *a, const ga_node *b) {
  const ga_weight *x = matrix_at(f, a), *y = matrix_at(f, b);
  return x->dtype == y->dtype && x->layout == y->layout &&
         (a->as.linear.bias.id == W_NONE) == (b->as.linear.bias.id == W_NONE) &&
         a->as.linear.scale == b->as.linear.scale;
}

static bool is_rms(const node_norm *norm) { return norm->form == GA_NORM_RMS && norm->bias.id == W_NONE; }

/* Rows of a value as fused_class has them. */
static int32_t class_of(const fuser *f, value_id v) {
  return (int32_t)graph_rows(f->graph, f->graph->values[v].rows, f->target->tokens, f->target->wanted);
}

/* --- groups --- */

static void join_group(const fuser *f, group *g, const ga_node *node) { g->nodes[g->n_nodes++] = node_index(f, node); }

static launch *group_launch(const fuser *f, group *g, launch_kind kind, const ga_node *node) {
  launch *l = &g->launches[g->n_launches++];
  *l = (launch){.kind = kind, .layer = node->layer, .rows = f->graph->values[node->y].rows};
  return l;
}

static launch_product *product_launch(const fuser *f, group *g, const ga_node *linear) {
  launch *l = group_launch(f, g, LAUNCH_PRODUCT, linear);
  l->as.product = (launch_product){.x = linear->as.linear.x,
                                   .gate = NO_VALUE,
                                   .residual = NO_VALUE,
                                   .sum = NO_VALUE,
                                   .norm = {.id = W_NONE},
                                   .add_norm = {.id = W_NONE},
                                   .scale = linear->as.linear.scale};
  return &l->as.product;
}

static void add_matrix(launch_product *p, const ga_node *linear) {
  p->matrix[p->n_matrices++] =
      (product_matrix){.weight = linear->as.linear.weight, .bias = linear->as.linear.bias, .y = linear->y};
}

/* --- what the planner says --- */

static ga_status is_planned(ga_status status, ga_plan *plan, bool *taken) {
  ga_plan_destroy(plan);
  *taken = status == GA_OK;
  return status == GA_ERR_UNSUPPORTED ? GA_OK : status;
}

static ga_status ctx_takes_product(void *ctx, const ga_gemm_fused_desc *desc, bool *taken) {
  ga_plan *plan;
  const ga_status status = ga_gemm_fused_plan(ctx, desc, &plan);
  return is_planned(status, plan, taken);
}

static ga_status ctx_takes_store(void *ctx, const ga_kv_store_fused_desc *desc, bool *taken) {
  ga_plan *plan;
  const ga_status status = ga_kv_store_fused_plan(ctx, desc, &plan);
  return is_planned(status, plan, taken);
}

fuse_planner fuse_planner_of(ga_ctx *ctx) {
  return (fuse_planner){.takes_product = ctx_takes_product, .takes_store = ctx_takes_store, .user = ctx};
}

static ga_status ask_product(fuser *f, const launch_product *p, int32_t rows, bool *taken) {
  const fuse_planner *planner = f->target->planner;
  const ga_gemm_fused_desc d = describe_product(f->target->model, f->program, p, rows);
  const int32_t kept = (int32_t)GA_COUNT_OF(f->asked);
  for (int32_t i = 0; i < f->n_asked && i < kept; i++)
    if (!memcmp(&f->asked[i], &d, sizeof d)) {
      *taken = f->answers[i];
      return GA_OK;
    }
  GA_TRY(planner->takes_product(planner->user, &d, taken));
  const int32_t at = f->n_asked++ % kept;
  memcpy(&f->asked[at], &d, sizeof d);
  f->answers[at] = *taken;
  return GA_OK;
}

/* --- pattern: products norm their X --- */

/* The nodes of RMS norm -> products, where nothing else reads the norm. */
typedef struct normed {
  const ga_node *norm, *linear[PRODUCT_MATRICES];
  int32_t n;
  const ga_node *act;              /* of a gated pair: act(linear[1]) * linear[0]; NULL: none */
  const ga_node *add, *inner_norm; /* the norm's x is add's, a + inner_norm; NULL: none */
  const ga_node *wanted;           /* between add and norm; NULL: none */
} normed;

/* Products' epilogues have these activations. */
static bool in_epilogue(const ga_node *act) { return act->as.act.act <= GA_ACT_GELU_ERF; }

static bool match_linears(const fuser *f, const ga_node *norm, normed *m) {
  const ga_model_graph *g = f->graph;
  *m = (normed){.norm = norm, .n = graph_n_users(g, norm->y)};
  if (norm->as.norm.heads || !is_rms(&norm->as.norm) || !m->n || m->n > PRODUCT_MATRICES || norm->y == g->result)
    return false;
  for (int32_t i = 0; i < m->n; i++) {
    m->linear[i] = graph_node_at(f, g->users[g->first_user[norm->y] + i]);
    if (m->linear[i]->kind != NODE_LINEAR || !is_free(f, m->linear[i])) return false;
  }
  return true;
}

/* Two products of which one gates the other: these are ordered as launch_product has them. */
static void match_gate(const fuser *f, normed *m) {
  const ga_node *act = m->n == 2 ? only_user(f, m->linear[0]->y, NODE_ACT) : NULL;
  if (!act || only_user(f, m->linear[1]->y, NODE_ACT) != act) return;
  if (act->as.act.x != m->linear[0]->y) {
    const ga_node *gate = m->linear[0];
    m->linear[0] = m->linear[1];
    m->linear[1] = gate;
  }
  m->act = act;
}

/* Of one token, the norm and the addition before the norm may join as well. */
static void match_sum(const fuser *f, normed *m) {
  value_id x = m->norm->as.norm.x;
  const ga_node *wanted = maker_of(f, x, NODE_WANTED);
  if (f->target->tokens != 1) return;
  if (wanted && !only_user(f, x, NODE_NORM)) return;
  if (wanted) x = wanted->as.wanted.x;
  const ga_node *add = maker_of(f, x, NODE_ADD), *inner = add ? maker_of(f, add->as.add.b, NODE_NORM) : NULL;
  if (!inner || only_user(f, inner->y, NODE_ADD) != add || add->as.add.a == inner->y) return;
  if (inner->as.norm.heads || !is_rms(&inner->as.norm) || inner->as.norm.eps != m->norm->as.norm.eps) return;
  m->wanted = wanted;
  m->add = add;
  m->inner_norm = inner;
}

/* Sets what all launches of the products share. last: it writes the sum. */
static void set_norms(launch_product *p, const normed *m, bool last) {
  p->x = m->norm->as.norm.x;
  p->norm = m->norm->as.norm.weight;
  p->eps = m->norm->as.norm.eps;
  if (!m->add) return;
  p->x = m->inner_norm->as.norm.x;
  p->residual = m->add->as.add.a;
  p->add_norm = m->inner_norm->as.norm.weight;
  if (last) p->sum = m->add->y;
}

/* act(gate) * up in one launch. */
static void put_gated(const fuser *f, const normed *m, group *g) {
  launch_product *p = product_launch(f, g, m->linear[0]);
  add_matrix(p, m->linear[0]);
  add_matrix(p, m->linear[1]);
  p->matrix[0].y = m->act->y;
  p->matrix[1].y = NO_VALUE;
  p->is_gated = true;
  p->act = m->act->as.act.act;
  set_norms(p, m, true);
}

/* A launch for each run of products whose weights are weights_alike. */
static void put_products(const fuser *f, const normed *m, group *g) {
  for (int32_t first = 0, end; first < m->n; first = end) {
    launch_product *p = product_launch(f, g, m->linear[first]);
    for (end = first; end < m->n && weights_alike(f, m->linear[first], m->linear[end]);)
      add_matrix(p, m->linear[end++]);
    set_norms(p, m, end == m->n);
  }
}

/* Makes the group, which stays empty where a launch is not taken: then none is. */
static ga_status try_normed(fuser *f, const normed *m, int32_t rows, group *g) {
  *g = (group){.n_nodes = 0};
  if (m->act && (!weights_alike(f, m->linear[0], m->linear[1]) || m->linear[1]->as.linear.bias.id != W_NONE ||
                 !in_epilogue(m->act)))
    return GA_OK;
  if (m->act)
    put_gated(f, m, g);
  else
    put_products(f, m, g);
  for (int32_t i = 0; i < g->n_launches; i++) {
    bool taken;
    GA_TRY(ask_product(f, &g->launches[i].as.product, rows, &taken));
    if (!taken) return GA_OK;
  }
  if (m->inner_norm) join_group(f, g, m->inner_norm);
  if (m->add) join_group(f, g, m->add);
  if (m->wanted) join_group(f, g, m->wanted);
  join_group(f, g, m->norm);
  for (int32_t i = 0; i < m->n; i++) join_group(f, g, m->linear[i]);
  if (m->act) join_group(f, g, m->act);
  return GA_OK;
}

static ga_status match_normed_products(fuser *f, const ga_node *norm, group *g) {
  const int32_t rows = class_of(f, norm->y);
  normed m;
  if (!f->target->planner || !rows || !match_linears(f, norm, &m)) return GA_OK;
  match_gate(f, &m);
  match_sum(f, &m);
  if (m.add) GA_TRY(try_normed(f, &m, rows, g));
  if (g->n_nodes) return GA_OK;
  m.add = m.inner_norm = m.wanted = NULL;
  return try_normed(f, &m, rows, g);
}

/* --- pattern: q and k are rotated on the way into the layer's memory --- */

/* The norm of heads that alone feeds the rotation, of a form that the store has. */
static const ga_node *head_norm_of(const fuser *f, const ga_node *rope) {
  const ga_node *norm = maker_of(f, rope->as.rope.x, NODE_NORM);
  if (!norm || only_user(f, norm->y, NODE_ROPE) != rope) return NULL;
  return norm->as.norm.heads && !norm->as.norm.by_head && is_rms(&norm->as.norm) ? norm : NULL;
}

static ga_status match_rotated_store(fuser *f, const ga_node *attention, group *g) {
  const fuse_target *t = f->target;
  const node_attention *a = &attention->as.attention;
  bool taken;
  if (!a->has_memory || a->k == NO_VALUE || !t->planner || !t->kv || !t->model->hparams.rot_dim) return GA_OK;
  const ga_node *q = maker_of(f, a->q, NODE_ROPE), *k = maker_of(f, a->k, NODE_ROPE);
  if (!q || !k || !only_user(f, a->q, NODE_ATTENTION) || !only_user(f, a->k, NODE_ATTENTION) ||
      q->as.rope.is_local != k->as.rope.is_local)
    return GA_OK;
  const ga_node *q_norm = head_norm_of(f, q), *k_norm = head_norm_of(f, k);
  if (!q_norm || !k_norm) q_norm = k_norm = NULL;
  launch *store = group_launch(f, g, LAUNCH_STORE, attention);
  store->as.store = (launch_store){.k = k_norm ? k_norm->as.norm.x : k->as.rope.x,
                                   .v = a->v,
                                   .rotates = true,
                                   .is_local = q->as.rope.is_local,
                                   .q = q_norm ? q_norm->as.norm.x : q->as.rope.x,
                                   .q_rotated = a->q,
                                   .q_norm = q_norm ? q_norm->as.norm.weight : (weight_ref){.id = W_NONE},
                                   .k_norm = k_norm ? k_norm->as.norm.weight : (weight_ref){.id = W_NONE},
                                   .eps = t->model->hparams.norm_eps};
  const ga_kv_store_fused_desc d =
      describe_store(t->model, f->program, &store->as.store, attention->layer, *t->kv, 1, 1);
  GA_TRY(t->planner->takes_store(t->planner->user, &d, &taken));
  if (!taken) {
    *g = (group){.n_nodes = 0};
    return GA_OK;
  }
  group_launch(f, g, LAUNCH_ATTENTION, attention)->as.attention = (launch_attention){.node = *a, .y = attention->y};
  if (q_norm) join_group(f, g, q_norm), join_group(f, g, k_norm);
  join_group(f, g, q);
  join_group(f, g, k);
  join_group(f, g, attention);
  return GA_OK;
}

/* --- pattern: a norm adds its result to something --- */

static ga_status match_norm_add(fuser *f, const ga_node *norm, group *g) {
  const ga_node *add = norm->as.norm.heads ? NULL : only_user(f, norm->y, NODE_ADD);
  if (!add || add->as.add.b != norm->y) return GA_OK;
  group_launch(f, g, LAUNCH_NORM, norm)->as.norm =
      (launch_norm){.node = norm->as.norm, .residual = add->as.add.a, .y = add->y};
  join_group(f, g, norm);
  join_group(f, g, add);
  return GA_OK;
}

/* --- pattern: experts add their sums to something --- */

static ga_status match_experts_add(fuser *f, const ga_node *experts, group *g) {
  const ga_node *add = only_user(f, experts->y, NODE_ADD);
  if (!add || add->as.add.b != experts->y) return GA_OK;
  group_launch(f, g, LAUNCH_EXPERT_OUT, experts)->as.expert_out =
      (launch_expert_out){.node = experts->as.expert_out, .residual = add->as.add.a, .y = add->y};
  join_group(f, g, experts);
  join_group(f, g, add);
  return GA_OK;
}

/* --- pattern: a product with the activation and the addition after it --- */

static ga_status match_epilogue(fuser *f, const ga_node *linear, group *g) {
  value_id y = linear->y;
  launch_product *p = product_launch(f, g, linear);
  add_matrix(p, linear);
  join_group(f, g, linear);
  const ga_node *act = only_user(f, y, NODE_ACT);
  if (act && act->as.act.x == y && in_epilogue(act)) {
    p->act = act->as.act.act;
    p->gate = act->as.act.gate;
    y = act->y;
    join_group(f, g, act);
  }
  const ga_node *add = only_user(f, y, NODE_ADD);
  if (add && add->as.add.b == y) {
    p->residual = add->as.add.a;
    y = add->y;
    join_group(f, g, add);
  }
  p->matrix[0].y = y;
  return GA_OK;
}

/* --- nodes by themselves --- */

static ga_status match_alone(fuser *f, const ga_node *node, group *g) {
  join_group(f, g, node);
  switch (node->kind) {
  case NODE_SLICE: return GA_OK;
  case NODE_EMBED:
    group_launch(f, g, LAUNCH_EMBED, node)->as.embed = (struct launch_embed){.node = node->as.embed, .y = node->y};
    return GA_OK;
  case NODE_ADD:
    group_launch(f, g, LAUNCH_ADD, node)->as.add =
        (launch_add){.x = node->as.add.a, .b = node->as.add.b, .y = node->y, .factors = NO_VALUE, .scale = 1};
    return GA_OK;
  case NODE_SCALE:
    group_launch(f, g, LAUNCH_ADD, node)->as.add = (launch_add){.x = node->as.scale.x,
                                                                .b = node->as.scale.b,
                                                                .y = node->y,
                                                                .factors = node->as.scale.factors,
                                                                .by_position = node->as.scale.by_position,
                                                                .scale = node->as.scale.scale};
    return GA_OK;
  case NODE_NORM:
    group_launch(f, g, LAUNCH_NORM, node)->as.norm =
        (launch_norm){.node = node->as.norm, .residual = NO_VALUE, .y = node->y};
    return GA_OK;
  case NODE_ACT:
    group_launch(f, g, LAUNCH_ACT, node)->as.act =
        (launch_act){.x = node->as.act.x, .gate = node->as.act.gate, .y = node->y, .act = node->as.act.act};
    return GA_OK;
  case NODE_ROPE:
    group_launch(f, g, LAUNCH_ROPE, node)->as.rope = (launch_rope){.node = node->as.rope, .y = node->y};
    return GA_OK;
  case NODE_ATTENTION:
    if (node->as.attention.has_memory && node->as.attention.k != NO_VALUE)
      group_launch(f, g, LAUNCH_STORE, node)->as.store = (launch_store){.k = node->as.attention.k,
                                                                        .v = node->as.attention.v,
                                                                        .q = NO_VALUE,
                                                                        .q_rotated = NO_VALUE,
                                                                        .q_norm = {.id = W_NONE},
                                                                        .k_norm = {.id = W_NONE}};
    group_launch(f, g, LAUNCH_ATTENTION, node)->as.attention =
        (launch_attention){.node = node->as.attention, .y = node->y};
    return GA_OK;
  case NODE_WANTED:
    group_launch(f, g, LAUNCH_WANTED, node)->as.wanted = (launch_wanted){.x = node->as.wanted.x, .y = node->y};
    return GA_OK;
  case NODE_ALL_REDUCE:
    group_launch(f, g, LAUNCH_ALL_REDUCE, node)->as.all_reduce =
        (launch_all_reduce){.x = node->as.all_reduce.x, .y = node->y};
    return GA_OK;
  case NODE_ROUTE:
    group_launch(f, g, LAUNCH_ROUTE, node)->as.route = (launch_route){.node = node->as.route, .y = node->y};
    return GA_OK;
  case NODE_EXPERT_IN:
    group_launch(f, g, LAUNCH_EXPERT_IN, node)->as.expert_in =
        (launch_expert_in){.node = node->as.expert_in, .y = node->y};
    return GA_OK;
  case NODE_EXPERT_OUT:
    group_launch(f, g, LAUNCH_EXPERT_OUT, node)->as.expert_out =
        (launch_expert_out){.node = node->as.expert_out, .residual = NO_VALUE, .y = node->y};
    return GA_OK;
  case NODE_OP:
    group_launch(f, g, LAUNCH_OP, node)->as.op = (launch_op){.node = node->as.op, .y = node->y};
    return GA_OK;
  case NODE_LINEAR: break; /* match_epilogue takes all of them */
  }
  return ga_fail(GA_ERR_INTERNAL, "no launch for a node of kind %d", (int)node->kind);
}

/* --- the table of patterns --- */

/* Finds the nodes that go with a free node of kind `anchor`, and their launches. The group stays empty where the
 * pattern does not fit. */
typedef struct fuse_pattern {
  ga_node_kind anchor;
  ga_status (*match)(fuser *f, const ga_node *anchor, group *g);
} fuse_pattern;

/* The earlier ones choose first. */
static const fuse_pattern patterns[] = {
    {NODE_NORM, match_normed_products}, /* RMS norm -> 1 to 3 products, or a gated pair; of one token with the norm and
                                           the addition before it */
    {NODE_ATTENTION, match_rotated_store}, /* (norms of heads ->) rotations of q and k -> attention with memory */
    {NODE_NORM, match_norm_add},           /* norm -> addition */
    {NODE_EXPERT_OUT, match_experts_add},  /* sums over experts -> addition */
    {NODE_LINEAR, match_epilogue},         /* product (-> activation) (-> addition) */
};

static ga_status take_matches(fuser *f, ga_status (*match)(fuser *f, const ga_node *anchor, group *g), int32_t i) {
  group *g = &f->groups[f->n_groups];
  *g = (group){.n_nodes = 0};
  GA_TRY(match(f, graph_node_at(f, i), g));
  if (!g->n_nodes) return GA_OK;
  for (int32_t n = 0; n < g->n_nodes; n++) f->group_of[g->nodes[n] - f->target->first] = f->n_groups;
  f->n_groups++;
  return GA_OK;
}

static ga_status group_nodes(fuser *f) {
  const int32_t first = f->target->first, end = f->target->end;
  for (size_t p = 0; p < GA_COUNT_OF(patterns); p++)
    for (int32_t i = first; i < end; i++)
      if (graph_node_at(f, i)->kind == patterns[p].anchor && is_free(f, graph_node_at(f, i)))
        GA_TRY(take_matches(f, patterns[p].match, i));
  for (int32_t i = first; i < end; i++)
    if (is_free(f, graph_node_at(f, i))) GA_TRY(take_matches(f, match_alone, i));
  return GA_OK;
}

/* --- programs --- */

static ga_status emit(fuser *f, const launch *l) {
  ga_program *p = f->program;
  if (p->n_launches == f->room) {
    void *bigger;
    const int32_t room = f->room ? f->room * 2 : 64;
    GA_TRY(ga_mem_zalloc((size_t)room, sizeof *p->launches, "program", &bigger));
    if (p->n_launches) memcpy(bigger, p->launches, (size_t)p->n_launches * sizeof *p->launches);
    ga_mem_free(p->launches);
    p->launches = bigger;
    f->room = room;
  }
  p->launches[p->n_launches++] = *l;
  return GA_OK;
}

/* Slices are there when their root is. */
static bool is_computed(const fuser *f, value_id v) { return f->is_there[f->graph->values[v].root]; }

/* All that the group reads is there, or computed by an earlier launch of its own. */
static bool is_ready(const fuser *f, const group *g) {
  value_id read[LAUNCH_READS], written[PRODUCT_MATRICES * LAUNCH_WRITES];
  int32_t n_written = 0;
  for (int32_t i = 0; i < g->n_launches; i++) {
    const int32_t n = launch_reads(&g->launches[i], read);
    for (int32_t j = 0; j < n; j++) {
      bool own = false;
      for (int32_t w = 0; w < n_written; w++) own = own || written[w] == read[j];
      if (!own && !is_computed(f, read[j])) return false;
    }
    n_written += launch_writes(&g->launches[i], written + n_written);
  }
  return true;
}

static ga_status emit_group(fuser *f, group *g) {
  value_id written[LAUNCH_WRITES];
  g->is_emitted = true;
  for (int32_t i = 0; i < g->n_launches; i++) {
    GA_TRY(emit(f, &g->launches[i]));
    for (int32_t n = launch_writes(&g->launches[i], written); n > 0; n--) f->is_there[written[n - 1]] = true;
  }
  return GA_OK;
}

/* A group runs at the first of its nodes at which its inputs are there. At its last node they are, since nodes stand in
 * an order of uses; what a launch writes early is read later alone. */
static ga_status emit_groups(fuser *f) {
  const ga_model_graph *graph = f->graph;
  const int32_t layers = graph->n_layers;
  const bool has_head = !f->target->model->info.is_encoder; /* an encoder's last norm is of all rows */
  f->program->n_body = -1;
  for (int32_t i = f->target->first; i < f->target->end; i++) {
    group *g = &f->groups[f->group_of[i - f->target->first]];
    if (g->is_emitted || !is_ready(f, g)) continue;
    const bool in_head = g->n_launches && g->launches[0].layer == layers;
    if (has_head && f->program->n_body < 0 && in_head) f->program->n_body = f->program->n_launches;
    GA_REQUIRE(in_head || f->program->n_body < 0 || !g->n_launches, GA_ERR_INTERNAL,
               "node %d of layer %d runs after the head has begun", i, graph->nodes[i].layer);
    GA_TRY(emit_group(f, g));
  }
  if (f->program->n_body < 0) f->program->n_body = f->program->n_launches;
  for (int32_t i = 0; i < f->n_groups; i++)
    GA_REQUIRE(f->groups[i].is_emitted, GA_ERR_INTERNAL, "the graph's node %d reads a value that is never computed",
               f->groups[i].nodes[0]);
  return GA_OK;
}

/* Rows of a value have no gaps, those of a slice the length of its root's. The memory pass may decide otherwise. */
static void set_strides(fuser *f) {
  for (value_id v = 0; v < f->graph->n_values; v++) {
    const value_id root = f->graph->values[v].root;
    f->program->places[v] = (value_place){.offset = -1, .stride = f->graph->values[root].cols};
    f->is_there[v] = f->graph->values[v].producer < f->target->first;
  }
}

static ga_status fuse_nodes(fuser *f) {
  const size_t nodes = (size_t)(f->target->end - f->target->first), values = (size_t)f->graph->n_values;
  void *p;
  GA_TRY(ga_mem_zalloc(nodes ? nodes : 1, sizeof *f->groups, "program", &p));
  f->groups = p;
  GA_TRY(ga_mem_zalloc(nodes ? nodes : 1, sizeof *f->group_of, "program", &p));
  f->group_of = p;
  GA_TRY(ga_mem_zalloc(values, sizeof *f->is_there, "program", &p));
  f->is_there = p;
  GA_TRY(ga_mem_zalloc(values, sizeof *f->program->places, "program", &p));
  f->program->places = p;
  for (size_t i = 0; i < nodes; i++) f->group_of[i] = -1;
  set_strides(f);
  GA_TRY(group_nodes(f));
  return emit_groups(f);
}

ga_status fuse(const fuse_target *target, ga_program **out) {
  fuser f = {.target = target, .graph = target->model->graph};
  void *p;
  *out = NULL;
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_program), "program", &p));
  f.program = p;
  f.program->is_invariant = target->is_invariant;
  f.program->rounds_x = target->rounds_x;
  const ga_status status = fuse_nodes(&f);
  ga_mem_free(f.groups);
  ga_mem_free(f.group_of);
  ga_mem_free(f.is_there);
  if (status == GA_OK)
    *out = f.program;
  else
    program_destroy(f.program);
  return status;
}
