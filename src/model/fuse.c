#include "model/fuse.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"

typedef struct fuser {
  const fuse_target *target;
  const ga_model_graph *graph;
  fused_program *program;
  int32_t room, end;   /* end: of the nodes that are the placement's */
  ga_buffer_name x_at; /* where the residual stream is: a sum is left in the other of its two rows */
  fused_op pending;    /* the norm and residual that the next product may do; of one token */
  bool is_pending;
  ga_gemm_fused_desc asked[4]; /* the last answers: layers are alike */
  bool answers[4];
  int32_t n_asked;
} fuser;

/* --- operations --- */

static ga_status emit(fuser *f, const fused_op *op) {
  fused_program *p = f->program;
  if (p->n_ops == f->room) {
    void *bigger;
    const int32_t room = f->room ? f->room * 2 : 64;
    GA_TRY(ga_mem_zalloc((size_t)room, sizeof *p->ops, "program", &bigger));
    if (p->n_ops) memcpy(bigger, p->ops, (size_t)p->n_ops * sizeof *p->ops);
    ga_mem_free(p->ops);
    p->ops = bigger;
    f->room = room;
  }
  p->ops[p->n_ops++] = *op;
  return GA_OK;
}

static fused_rows rows_of_value(const ga_value *v, ga_buffer_name buffer) {
  return (fused_rows){.buffer = buffer,
                      .cols = v->cols,
                      .offset = v->offset,
                      .stride = v->stride,
                      .from_out = v->from_out,
                      .is_set = true};
}

/* A value where it is now. */
static fused_rows read_of(const fuser *f, ga_value_id id) {
  const ga_value *v = &f->graph->values[id];
  return rows_of_value(v, v->buffer == BUF_X ? f->x_at : v->buffer);
}

/* A value where its graph has it; what reads the residual stream is to be asked for before what writes it. */
static fused_rows write_of(fuser *f, ga_value_id id) {
  const ga_value *v = &f->graph->values[id];
  if (v->buffer == BUF_X) f->x_at = BUF_X;
  return rows_of_value(v, v->buffer);
}

static fused_op fused_op_of(const fuser *f, const ga_node *node, fused_kind kind) {
  fused_op op = {.kind = kind,
                 .layer = node->layer,
                 .add_layer = node->layer,
                 .norm = W_NONE,
                 .norm_b = W_NONE,
                 .add_norm = W_NONE,
                 .q_norm = W_NONE,
                 .k_norm = W_NONE,
                 .norm_kind = node->norm_kind,
                 .act = node->act,
                 .ids = node->ids,
                 .heads = 1,
                 .window = node->window,
                 .local = node->local,
                 .alibi = node->alibi,
                 .by_head = node->by_head,
                 .is_invariant = f->target->is_invariant,
                 .rounds_x = f->target->rounds_x,
                 .scale = node->scale,
                 .eps = node->eps};
  for (int i = 0; i < FUSED_MATRICES; i++) op.matrix[i] = (fused_matrix){.weight = W_NONE, .bias = W_NONE};
  return op;
}

/* --- the graph around a node --- */

/* Node i, if it is the placement's, of that kind and of that layer; else NULL. */
static const ga_node *node_if(const fuser *f, int32_t i, ga_node_kind kind, int32_t layer) {
  if (i >= f->end) return NULL;
  const ga_node *node = &f->graph->nodes[i];
  return node->kind == kind && node->layer == layer ? node : NULL;
}

static bool used_once(const fuser *f, ga_value_id id) { return f->graph->values[id].uses == 1; }

/* Node i, if it adds to something what nothing else reads; else NULL. */
static const ga_node *add_node_of(const fuser *f, int32_t i, ga_value_id added, int32_t layer) {
  const ga_node *add = node_if(f, i, NODE_ADD, layer);
  return add && add->in[1] == added && used_once(f, added) ? add : NULL;
}

static const ga_weight *matrix_at(const fuser *f, const ga_node *linear) {
  return ga_weight_at(f->target->model, (weight_ref){linear->weight, linear->layer});
}

/* Weights that one launch may read. */
static bool alike(const fuser *f, const ga_node *a, const ga_node *b) {
  const ga_weight *x = matrix_at(f, a), *y = matrix_at(f, b);
  return x->dtype == y->dtype && x->layout == y->layout && (a->bias == W_NONE) == (b->bias == W_NONE) &&
         a->scale == b->scale;
}

/* --- what the planner says --- */

static ga_status is_planned(ga_status status, ga_plan *plan, bool *taken) {
  ga_plan_destroy(plan);
  *taken = status == GA_OK;
  return status == GA_ERR_UNSUPPORTED ? GA_OK : status;
}

static ga_status ask_product(fuser *f, const fused_op *op, int32_t rows, bool *taken) {
  const ga_gemm_fused_desc d = fused_gemm_desc(f->target->model, op, rows);
  const int32_t kept = (int32_t)GA_COUNT_OF(f->asked);
  for (int32_t i = 0; i < f->n_asked && i < kept; i++)
    if (!memcmp(&f->asked[i], &d, sizeof d)) {
      *taken = f->answers[i];
      return GA_OK;
    }
  ga_plan *plan;
  const ga_status status = ga_gemm_fused_plan(f->target->placement->ctx, &d, &plan);
  GA_TRY(is_planned(status, plan, taken));
  const int32_t at = f->n_asked++ % kept;
  memcpy(&f->asked[at], &d, sizeof d);
  f->answers[at] = *taken;
  return GA_OK;
}

static ga_status ask_store(const fuser *f, const fused_op *op, bool *taken) {
  const ga_kv_store_fused_desc d = fused_store_desc(f->target->model, op, *f->target->kv, 1, 1);
  ga_plan *plan;
  const ga_status status = ga_kv_store_fused_plan(f->target->placement->ctx, &d, &plan);
  return is_planned(status, plan, taken);
}

/* --- norms and the products behind them --- */

static ga_status emit_pending(fuser *f) {
  if (!f->is_pending) return GA_OK;
  f->is_pending = false;
  f->pending.residual.buffer = f->x_at;
  f->x_at = BUF_X;
  return emit(f, &f->pending);
}

/* The product with what is pending in it. last: of those that read this X; it leaves the sum, in the other row, since
 * all read the one that was. */
static fused_op with_pending(const fuser *f, const fused_op *op, bool last) {
  fused_op sum = *op;
  sum.residual = op->x;
  sum.x = f->pending.x;
  sum.add_norm = f->pending.norm;
  sum.add_layer = f->pending.layer;
  if (!last) return sum;
  sum.sum = sum.residual;
  sum.sum.buffer = f->x_at == BUF_X ? BUF_X_SPARE : BUF_X;
  return sum;
}

/* Emits a product that norms X itself, if a row takes that. */
static ga_status emit_normed(fuser *f, fused_op *op, ga_value_id x, int32_t rows, bool last, bool *taken) {
  op->x = read_of(f, x);
  if (f->is_pending) {
    const fused_op sum = with_pending(f, op, last);
    GA_TRY(ask_product(f, &sum, rows, taken));
    if (*taken && last) {
      f->x_at = sum.sum.buffer;
      f->is_pending = false;
    }
    if (*taken) return emit(f, &sum);
    GA_TRY(emit_pending(f));
    op->x = read_of(f, x);
  }
  GA_TRY(ask_product(f, op, rows, taken));
  return *taken ? emit(f, op) : GA_OK;
}

static fused_op normed_product(const fuser *f, const ga_node *norm, const ga_node *linear) {
  fused_op op = fused_op_of(f, linear, FUSED_PRODUCT);
  op.norm = norm->weight;
  op.eps = norm->eps;
  return op;
}

static void add_matrix(fuser *f, fused_op *op, const ga_node *linear) {
  op->matrix[op->n_matrices++] =
      (fused_matrix){.weight = linear->weight, .bias = linear->bias, .y = write_of(f, linear->out)};
}

/* n products of one normed X, those of weights alike in one launch. */
static ga_status fuse_products(fuser *f, const ga_node *norm, int32_t n, int32_t rows, bool *taken) {
  const ga_node *linear = norm + 1;
  *taken = true;
  for (int32_t first = 0, end; first < n && *taken; first = end) {
    fused_op op = normed_product(f, norm, linear + first);
    for (end = first; end < n && alike(f, linear + first, linear + end);) add_matrix(f, &op, linear + end++);
    op.rows = f->graph->values[norm->out].rows;
    GA_TRY(emit_normed(f, &op, norm->in[0], rows, end == n, taken));
  }
  return GA_OK;
}

/* Products' epilogues have these activations. */
static bool in_epilogue(const ga_node *act) { return act->act <= GA_ACT_GELU_ERF; }

/* act(gate h) * (up h), h normed. */
static ga_status gated_pair(fuser *f, const ga_node *norm, const ga_node *act, int32_t rows, bool *taken) {
  const ga_node *gate = norm + 1, *up = norm + 2;
  fused_op op = normed_product(f, norm, up);
  *taken = false;
  if (!alike(f, gate, up) || gate->bias != W_NONE || !in_epilogue(act)) return GA_OK;
  add_matrix(f, &op, up);
  add_matrix(f, &op, gate);
  op.matrix[0].y = write_of(f, act->out);
  op.is_gated = true;
  op.act = act->act;
  op.rows = f->graph->values[norm->out].rows;
  return emit_normed(f, &op, norm->in[0], rows, true, taken);
}

/* Is node i the gated activation of the two products before it? */
static const ga_node *gated_act(const fuser *f, int32_t i, int32_t layer) {
  const ga_node *act = node_if(f, i, NODE_ACT, layer);
  return act && act->in[0] == act[-1].out && act->in[1] == act[-2].out && used_once(f, act->in[0]) &&
                 used_once(f, act->in[1])
             ? act
             : NULL;
}

/* The norm at i with all products that read it; *next stays i where it is to be a launch of its own. */
static ga_status norm_into_products(fuser *f, int32_t i, int32_t *next) {
  const ga_node *norm = &f->graph->nodes[i], *act;
  const ga_value *h = &f->graph->values[norm->out];
  const int32_t rows = h->rows == ROWS_TOKENS ? f->target->tokens : f->target->out;
  int32_t n = 0;
  bool taken;
  *next = i;
  if (!rows || norm->norm_kind != GA_NORM_RMS || norm->bias != W_NONE) return GA_OK;
  for (const ga_node *l; n < FUSED_MATRICES && (l = node_if(f, i + 1 + n, NODE_LINEAR, norm->layer)) != NULL; n++)
    if (l->in[0] != norm->out) break;
  if (!n || n != h->uses) return GA_OK;
  const int32_t n_ops = f->program->n_ops;
  const ga_buffer_name x_at = f->x_at;
  const bool was_pending = f->is_pending;
  act = n == 2 ? gated_act(f, i + 3, norm->layer) : NULL;
  GA_TRY(act ? gated_pair(f, norm, act, rows, &taken) : fuse_products(f, norm, n, rows, &taken));
  if (taken) {
    *next = i + 1 + n + (act != NULL);
    return GA_OK;
  }
  f->program->n_ops = n_ops; /* if one is not taken, none is */
  f->x_at = x_at;
  f->is_pending = was_pending;
  return GA_OK;
}

/* A norm as a launch of its own, with the addition behind it; of one token that may wait for the next product. */
static ga_status fuse_norm(fuser *f, int32_t i, int32_t *next) {
  const ga_node *node = &f->graph->nodes[i];
  fused_op op = fused_op_of(f, node, FUSED_NORM);
  GA_TRY(norm_into_products(f, i, next));
  if (*next != i) return GA_OK;
  GA_TRY(emit_pending(f));
  op.rows = f->graph->values[node->out].rows;
  op.norm = node->weight;
  op.norm_b = node->bias;
  op.x = read_of(f, node->in[0]);
  *next = i + 1;
  const ga_node *add = add_node_of(f, i + 1, node->out, node->layer);
  if (!add) {
    op.y = write_of(f, node->out);
    return emit(f, &op);
  }
  *next = i + 2;
  op.residual = read_of(f, add->in[0]);
  f->is_pending = f->target->tokens == 1 && node->norm_kind == GA_NORM_RMS && op.residual.buffer == f->x_at;
  if (f->is_pending) {
    op.y = rows_of_value(&f->graph->values[add->out], BUF_X);
    f->pending = op;
    return GA_OK;
  }
  op.y = write_of(f, add->out);
  return emit(f, &op);
}

/* A product, with the activation and the addition behind it. */
static ga_status fuse_linear(fuser *f, int32_t i, int32_t *next) {
  const ga_node *node = &f->graph->nodes[i], *act = node_if(f, i + 1, NODE_ACT, node->layer), *add;
  fused_op op = fused_op_of(f, node, FUSED_PRODUCT);
  ga_value_id y = node->out;
  op.rows = f->graph->values[y].rows;
  op.x = read_of(f, node->in[0]);
  *next = i + 1;
  if (act && act->in[0] == y && used_once(f, y) && in_epilogue(act)) {
    op.act = act->act;
    if (act->in[1] != NO_VALUE) op.gate = read_of(f, act->in[1]);
    y = act->out;
    (*next)++;
  }
  add = add_node_of(f, *next, y, node->layer);
  if (add) {
    op.residual = read_of(f, add->in[0]);
    y = add->out;
    (*next)++;
  }
  add_matrix(f, &op, node);
  op.matrix[0].y = write_of(f, y);
  return emit(f, &op);
}

/* --- keys on their way into the cache --- */

/* Rotation of q and k, the norms of their heads before that, and the store of k and v, as nodes from i on: 3 or 5 of
 * them, or 0. */
static int32_t match_store(const fuser *f, int32_t i, const ga_node **norms, const ga_node **ropes) {
  const ga_node *node = &f->graph->nodes[i];
  const int32_t layer = node->layer, at = node->kind == NODE_HEAD_NORM ? i + 2 : i;
  *norms = at > i ? node : NULL;
  if (*norms && node->by_head) return 0; /* no row norms heads so on the way */
  if (*norms && !node_if(f, i + 1, NODE_HEAD_NORM, layer)) return 0;
  const ga_node *q = node_if(f, at, NODE_ROPE, layer), *k = node_if(f, at + 1, NODE_ROPE, layer),
                *store = node_if(f, at + 2, NODE_KV_STORE, layer);
  if (!q || !k || !store || store->in[0] != k->out || !used_once(f, k->out) || q->local != k->local) return 0;
  if (*norms && (q->in[0] != node[0].out || k->in[0] != node[1].out)) return 0;
  *ropes = q;
  return at + 3 - i;
}

static ga_status fuse_store(fuser *f, int32_t i, int32_t *next) {
  const ga_node *norms, *ropes = NULL;
  const int32_t n = f->target->kv && f->target->model->hparams.rot_dim ? match_store(f, i, &norms, &ropes) : 0;
  bool taken;
  *next = i;
  if (!n) return GA_OK;
  const ga_node *q = norms ? norms : ropes, *k = q + 1, *store = ropes + 2;
  fused_op op = fused_op_of(f, store, FUSED_KV_STORE);
  op.rotates = true;
  op.local = ropes->local;
  op.eps = f->target->model->hparams.norm_eps;
  if (norms) op.q_norm = q->weight, op.k_norm = k->weight;
  op.x = read_of(f, q->in[0]);
  op.k = read_of(f, k->in[0]);
  op.v = read_of(f, store->in[1]);
  GA_TRY(ask_store(f, &op, &taken));
  if (!taken) return GA_OK;
  *next = i + n;
  return emit(f, &op);
}

/* --- launches of one node --- */

static ga_status fuse_one(fuser *f, const ga_node *node) {
  static const fused_kind kinds[] = {[NODE_EMBED] = FUSED_EMBED,       [NODE_ADD] = FUSED_ADD,
                                     [NODE_HEAD_NORM] = FUSED_NORM,    [NODE_ACT] = FUSED_ACT,
                                     [NODE_SCALE] = FUSED_ADD,         [NODE_ROPE] = FUSED_ROPE,
                                     [NODE_KV_STORE] = FUSED_KV_STORE, [NODE_ATTENTION] = FUSED_ATTENTION};
  const ga_value_id *in = node->in;
  fused_op op = fused_op_of(f, node, kinds[node->kind]);
  if (node->kind == NODE_HEAD_NORM) op.norm = node->weight;
  if (node->heads) op.heads = node->heads;
  if (node->kind == NODE_EMBED) op.matrix[op.n_matrices++].weight = node->weight;
  if (node->kind == NODE_KV_STORE) {
    op.k = read_of(f, in[0]);
    op.v = read_of(f, in[1]);
    return emit(f, &op);
  }
  if (in[0] != NO_VALUE) op.x = read_of(f, in[0]);
  if (node->kind == NODE_ADD) op.residual = read_of(f, in[1]);
  if (node->kind == NODE_ACT && in[1] != NO_VALUE) op.gate = read_of(f, in[1]);
  if (node->kind == NODE_ATTENTION && in[1] != NO_VALUE) {
    op.k = read_of(f, in[1]);
    op.v = read_of(f, in[2]);
  }
  op.rows = f->graph->values[node->out].rows;
  op.y = write_of(f, node->out);
  return emit(f, &op);
}

static ga_status fuse_node(fuser *f, int32_t i, int32_t *next) {
  const ga_node *node = &f->graph->nodes[i];
  *next = i + 1;
  switch (node->kind) {
  case NODE_SLICE:
  case NODE_OUT_ROWS: return GA_OK;
  case NODE_NORM: return fuse_norm(f, i, next);
  default: break;
  }
  GA_TRY(emit_pending(f));
  if (node->kind == NODE_LINEAR) return fuse_linear(f, i, next);
  GA_TRY(fuse_store(f, i, next));
  if (*next != i) return GA_OK;
  *next = i + 1;
  return fuse_one(f, node);
}

/* --- programs --- */

static ga_status fuse_range(fuser *f) {
  const fuse_target *t = f->target;
  const int32_t layers = t->model->hparams.n_layers;
  const bool ends = place_ends(t->model, t->placement);
  int32_t first, next;
  graph_range(f->graph, place_begins(t->model, t->placement) ? -1 : t->placement->first,
              ends ? layers + 1 : t->placement->end, &first, &f->end);
  const bool has_head = !f->target->model->info.is_encoder; /* an encoder's last norm is of all rows */
  f->program->n_body = -1;
  for (int32_t i = first; i < f->end; i = next) {
    if (has_head && f->program->n_body < 0 && f->graph->nodes[i].layer == layers)
      f->program->n_body = f->program->n_ops;
    GA_TRY(fuse_node(f, i, &next));
  }
  if (!ends) GA_TRY(emit_pending(f)); /* the next placement reads it */
  if (f->program->n_body < 0) f->program->n_body = f->program->n_ops;
  GA_REQUIRE(ends || f->x_at == BUF_X, GA_ERR_INTERNAL, "%s leaves a placement with its residual in the spare row",
             ga_ctx_device_name(t->placement->ctx));
  return GA_OK;
}

ga_status fuse(const fuse_target *target, fused_program **out) {
  fuser f = {.target = target, .graph = target->model->graph, .x_at = BUF_X};
  void *p;
  *out = NULL;
  GA_TRY(ga_mem_zalloc(1, sizeof(fused_program), "program", &p));
  f.program = p;
  const ga_status status = fuse_range(&f);
  if (status == GA_OK)
    *out = f.program;
  else
    fused_destroy(f.program);
  return status;
}

void fused_destroy(fused_program *program) {
  if (!program) return;
  ga_mem_free(program->ops);
  ga_mem_free(program);
}
