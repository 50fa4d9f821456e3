#include "model/build.h"

#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "ga/layer.h"
#include "model/arch/arch.h"

/* --- room --- */

static ga_status grow_list(void **list, size_t bytes, int32_t used, int32_t *room) {
  void *bigger;
  const int32_t more = *room ? *room * 2 : 64;
  if (used < *room) return GA_OK;
  GA_TRY(ga_mem_zalloc((size_t)more, bytes, "graph", &bigger));
  if (used) memcpy(bigger, *list, (size_t)used * bytes);
  ga_mem_free(*list);
  *list = bigger;
  *room = more;
  return GA_OK;
}

/* --- checks: each leaves its failure in the builder, and is true where all is well --- */

static bool require(graph_builder *b, bool holds, const char *what) {
  if (b->status == GA_OK && !holds)
    b->status = ga_fail(GA_ERR_INTERNAL, "graph of %s, layer %d, node %d: %s", b->model->hparams.arch->name, b->layer,
                        b->graph->n_nodes, what);
  return b->status == GA_OK;
}

static bool is_value(graph_builder *b, value_id x) {
  return require(b, x >= 0 && x < b->graph->n_values, "reads no value");
}

static int64_t value_cols(const graph_builder *b, value_id x) { return b->graph->values[x].cols; }

/* A size of tensors of the layer that is built. */
static int64_t dim_here(const graph_builder *b, weight_dim dim) {
  return ga_weight_dim(&b->model->hparams, dim, b->layer);
}

/* Both have the same shape. */
static bool same_shape(graph_builder *b, value_id x, value_id y, const char *what) {
  const ga_value *v = b->graph->values;
  return is_value(b, x) && is_value(b, y) && require(b, v[x].cols == v[y].cols && v[x].rows == v[y].rows, what);
}

/* The architecture lists the tensor, and it has as many columns as x. */
static bool weight_fits(graph_builder *b, weight_id w, int64_t cols) {
  return require(b, ga_arch_has_weight(&b->model->hparams, w, b->layer),
                 "has a weight that the architecture does not list") &&
         require(b, !weight_is_stack(ga_weight_specs[w].kind), "has a stack of matrices, which ops alone take") &&
         require(b, dim_here(b, ga_weight_specs[w].cols) == cols, "has a weight of other columns than its input");
}

static bool fits_or_none(graph_builder *b, weight_id w, int64_t cols) { return w == W_NONE || weight_fits(b, w, cols); }

/* --- values and nodes --- */

static value_id append_value(graph_builder *b, ga_value value) {
  ga_model_graph *g = b->graph;
  void *values = g->values;
  if (b->status != GA_OK) return NO_VALUE;
  b->status = grow_list(&values, sizeof *g->values, g->n_values, &b->value_room);
  g->values = values;
  if (b->status != GA_OK) return NO_VALUE;
  value.producer = g->n_nodes;
  if (value.root == NO_VALUE) value.root = g->n_values;
  g->values[g->n_values] = value;
  return g->n_values++;
}

/* Appends the node with a new value of the given shape. */
static value_id append_node(graph_builder *b, ga_node node, ga_row_space rows, int64_t cols) {
  ga_model_graph *g = b->graph;
  void *nodes = g->nodes;
  const value_id y = append_value(b, (ga_value){.rows = rows, .cols = cols, .dtype = GA_F32, .root = NO_VALUE});
  if (y == NO_VALUE) return NO_VALUE;
  b->status = grow_list(&nodes, sizeof *g->nodes, g->n_nodes, &b->node_room);
  g->nodes = nodes;
  if (b->status != GA_OK) return NO_VALUE;
  node.layer = b->layer;
  node.y = y;
  g->nodes[g->n_nodes++] = node;
  return y;
}

/* A node whose value has the shape of x. */
static value_id append_like(graph_builder *b, ga_node node, value_id x) {
  const ga_value *v = &b->graph->values[x];
  return append_node(b, node, v->rows, v->cols);
}

static weight_ref weight_here(const graph_builder *b, weight_id id) {
  return (weight_ref){.id = id, .layer = b->layer};
}

/* --- words --- */

weight_id build_if_present(const graph_builder *b, weight_id id) {
  char name[GA_WEIGHT_NAME_BYTES];
  if (!ga_arch_has_weight(&b->model->hparams, id, b->layer)) return W_NONE;
  return ga_model_file_find(b->model->file, ga_weight_name(id, b->layer, name)) ? id : W_NONE;
}

value_id build_embed(graph_builder *b, weight_id table, embed_ids ids, float scale) {
  const int64_t width = dim_here(b, ga_weight_specs[table].cols);
  if (!weight_fits(b, table, width)) return NO_VALUE;
  const node_embed as = {.table = weight_here(b, table), .ids = ids, .scale = scale};
  return append_node(b, (ga_node){.kind = NODE_EMBED, .as.embed = as}, ROWS_TOKENS, width);
}

value_id build_add(graph_builder *b, value_id a, value_id c) {
  if (!same_shape(b, a, c, "adds rows of two shapes")) return NO_VALUE;
  return append_like(b, (ga_node){.kind = NODE_ADD, .as.add = {.a = a, .b = c}}, a);
}

static value_id append_norm(graph_builder *b, node_norm as) {
  as.eps = b->model->hparams.norm_eps;
  return append_like(b, (ga_node){.kind = NODE_NORM, .as.norm = as}, as.x);
}

value_id build_rms_norm(graph_builder *b, value_id x, weight_id weight) {
  if (!is_value(b, x) || !weight_fits(b, weight, value_cols(b, x))) return NO_VALUE;
  return append_norm(
      b, (node_norm){.x = x, .weight = weight_here(b, weight), .bias = weight_here(b, W_NONE), .form = GA_NORM_RMS});
}

value_id build_latent_norm(graph_builder *b, value_id x, weight_id weight) {
  const value_id y = build_rms_norm(b, x, weight);
  if (y != NO_VALUE) b->graph->nodes[b->graph->values[y].producer].as.norm.eps = b->model->hparams.latent_eps;
  return y;
}

value_id build_layer_norm(graph_builder *b, value_id x, weight_id weight, weight_id bias) {
  if (!is_value(b, x) || !weight_fits(b, weight, value_cols(b, x)) || !fits_or_none(b, bias, value_cols(b, x)))
    return NO_VALUE;
  return append_norm(
      b, (node_norm){.x = x, .weight = weight_here(b, weight), .bias = weight_here(b, bias), .form = GA_NORM_LAYER});
}

value_id build_group_norm(graph_builder *b, value_id x, weight_id weight) {
  const int64_t cols = dim_here(b, ga_weight_specs[weight].cols);
  if (!is_value(b, x) || !weight_fits(b, weight, cols) ||
      !require(b, cols > 0 && value_cols(b, x) % cols == 0, "norms no whole number of groups"))
    return NO_VALUE;
  return append_norm(b, (node_norm){.x = x,
                                    .weight = weight_here(b, weight),
                                    .bias = weight_here(b, W_NONE),
                                    .form = GA_NORM_RMS,
                                    .heads = (int32_t)(value_cols(b, x) / cols)});
}

/* Heads that x consists of; 0 after a failure. */
static int32_t heads_in_rows(graph_builder *b, value_id x) {
  const int64_t dim = dim_here(b, DIM_HEAD);
  if (!is_value(b, x) || !require(b, value_cols(b, x) % dim == 0, "works on no whole number of heads")) return 0;
  return (int32_t)(value_cols(b, x) / dim);
}

value_id build_head_norm(graph_builder *b, value_id x, weight_id weight) {
  const int32_t heads = heads_in_rows(b, x);
  if (!heads || !fits_or_none(b, weight, dim_here(b, DIM_HEAD))) return NO_VALUE;
  return append_norm(b, (node_norm){.x = x,
                                    .weight = weight_here(b, weight),
                                    .bias = weight_here(b, W_NONE),
                                    .form = GA_NORM_RMS,
                                    .heads = heads});
}

value_id build_head_layer_norm(graph_builder *b, value_id x, weight_id weight) {
  const int32_t heads = heads_in_rows(b, x);
  if (!heads || !weight_fits(b, weight, value_cols(b, x))) return NO_VALUE;
  return append_norm(b, (node_norm){.x = x,
                                    .weight = weight_here(b, weight),
                                    .bias = weight_here(b, W_NONE),
                                    .form = GA_NORM_LAYER,
                                    .heads = heads,
                                    .by_head = true});
}

value_id build_rope(graph_builder *b, value_id x, bool is_local) {
  const int32_t heads = heads_in_rows(b, x);
  if (!heads) return NO_VALUE;
  const node_rope as = {.x = x, .heads = heads, .is_local = is_local};
  return append_like(b, (ga_node){.kind = NODE_ROPE, .as.rope = as}, x);
}

value_id build_linear(graph_builder *b, value_id x, weight_id w, weight_id bias) {
  return build_scaled_linear(b, x, w, bias, 1);
}

value_id build_scaled_linear(graph_builder *b, value_id x, weight_id w, weight_id bias, float scale) {
  if (!is_value(b, x) || !weight_fits(b, w, value_cols(b, x))) return NO_VALUE;
  const int64_t rows = dim_here(b, ga_weight_specs[w].rows);
  if (!fits_or_none(b, bias, rows)) return NO_VALUE;
  const node_linear as = {.x = x, .weight = weight_here(b, w), .bias = weight_here(b, bias), .scale = scale};
  return append_node(b, (ga_node){.kind = NODE_LINEAR, .as.linear = as}, b->graph->values[x].rows, rows);
}

value_id build_scale(graph_builder *b, value_id x, float scale) {
  if (!is_value(b, x)) return NO_VALUE;
  const node_scale as = {.x = x, .b = NO_VALUE, .factors = NO_VALUE, .scale = scale};
  return append_like(b, (ga_node){.kind = NODE_SCALE, .as.scale = as}, x);
}

value_id build_scaled_add(graph_builder *b, value_id x, value_id factors, value_id added) {
  if (!is_value(b, x) || !is_value(b, factors) ||
      !require(b, value_cols(b, factors) == 1 && b->graph->values[factors].rows == b->graph->values[x].rows,
               "has other factors than one for each row") ||
      (added != NO_VALUE && !same_shape(b, x, added, "adds rows of two shapes")))
    return NO_VALUE;
  const node_scale as = {.x = x, .b = added, .factors = factors, .scale = 1};
  return append_like(b, (ga_node){.kind = NODE_SCALE, .as.scale = as}, x);
}

value_id build_scale_by_position(graph_builder *b, value_id x) {
  if (!is_value(b, x) || !require(b, b->graph->values[x].rows == ROWS_TOKENS && b->model->hparams.temperature.length,
                                  "scales rows without positions, or without a rule for them"))
    return NO_VALUE;
  const node_scale as = {.x = x, .b = NO_VALUE, .factors = NO_VALUE, .by_position = true, .scale = 1};
  return append_like(b, (ga_node){.kind = NODE_SCALE, .as.scale = as}, x);
}

/* Reads the file's tensor of one number. */
static ga_status read_stored_number(const graph_builder *b, weight_id id, float *out) {
  char name[GA_WEIGHT_NAME_BYTES];
  unsigned char raw[sizeof(double)];
  const ga_model_tensor *t = ga_model_file_find(b->model->file, ga_weight_name(id, b->layer, name));
  GA_REQUIRE(t, GA_ERR_FORMAT, "tensor %s is missing; %s needs it", name, b->model->hparams.arch->name);
  GA_REQUIRE(t->view.n_dims == 1 && t->view.dim[0] == 1 && t->bytes <= sizeof raw, GA_ERR_SHAPE,
             "%s has %d dimensions and %llu bytes; must be one number", name, t->view.n_dims,
             (unsigned long long)t->bytes);
  GA_TRY(ga_model_file_read(b->model->file, t, 0, raw, t->bytes));
  return ga_vector_to_f32(t, raw, 0, out);
}

value_id build_stored_scale(graph_builder *b, value_id x, weight_id scale) {
  float s = 1;
  if (!is_value(b, x) || !weight_fits(b, scale, 1)) return NO_VALUE;
  b->status = read_stored_number(b, scale, &s);
  return b->status == GA_OK ? build_scale(b, x, s) : NO_VALUE;
}

value_id build_act(graph_builder *b, int32_t act, value_id x) {
  if (!is_value(b, x)) return NO_VALUE;
  return append_like(b, (ga_node){.kind = NODE_ACT, .as.act = {.x = x, .gate = NO_VALUE, .act = act}}, x);
}

value_id build_gated_act(graph_builder *b, int32_t act, value_id gate, value_id x) {
  if (!same_shape(b, x, gate, "is gated by rows of another shape")) return NO_VALUE;
  return append_like(b, (ga_node){.kind = NODE_ACT, .as.act = {.x = x, .gate = gate, .act = act}}, x);
}

/* The layer remembers something of that form. */
static bool has_memory_here(graph_builder *b, memory_form form) {
  const ga_hparams *p = &b->model->hparams;
  return require(b, b->layer >= 0 && b->layer < p->n_layers && memory_layer_has(p, b->layer, form),
                 form == MEMORY_STATE ? "has an op with a state, and the layer has none"
                                      : "has an op with pages, and the layer has none");
}

/* q, k and v have the columns of the layer's heads. Without k and v an earlier layer with like heads has a memory. */
static bool attention_fits(graph_builder *b, const node_attention *as) {
  const ga_hparams *p = &b->model->hparams;
  if (!is_value(b, as->q) ||
      !require(b, value_cols(b, as->q) == dim_here(b, DIM_Q), "has a q of other columns than its heads"))
    return false;
  if (as->k == NO_VALUE) {
    const int32_t from = ga_kv_layer(p, b->layer);
    return require(b,
                   as->v == NO_VALUE && from >= 0 && from < b->layer && memory_layer_has(p, from, MEMORY_PAGES) &&
                       p->is_local[from] == p->is_local[b->layer],
                   "reads the memory of no earlier layer with like heads");
  }
  return is_value(b, as->k) && is_value(b, as->v) &&
         require(b, value_cols(b, as->k) == dim_here(b, DIM_K) && value_cols(b, as->v) == dim_here(b, DIM_V),
                 "has a k or v of other columns than the layer's memory") &&
         (!as->has_memory || has_memory_here(b, MEMORY_PAGES));
}

static value_id append_attention(graph_builder *b, node_attention as) {
  if (!attention_fits(b, &as)) return NO_VALUE;
  as.scale = b->model->hparams.attn_scale;
  return append_node(b, (ga_node){.kind = NODE_ATTENTION, .as.attention = as}, ROWS_TOKENS, dim_here(b, DIM_O));
}

/* Attention to a memory: of the layer, or of an earlier one where k and v are NO_VALUE. */
static value_id append_causal(graph_builder *b, value_id q, value_id k, value_id v, int32_t window) {
  const weight_ref sinks = weight_here(b, b->model->hparams.has_sinks ? W_SINKS : W_NONE);
  return append_attention(
      b, (node_attention){.q = q, .k = k, .v = v, .window = window, .has_memory = true, .sinks = sinks});
}

value_id build_attention(graph_builder *b, value_id q, value_id k, value_id v, int32_t window) {
  return append_causal(b, q, k, v, window);
}

value_id build_attention_shared(graph_builder *b, value_id q, int32_t window) {
  return append_causal(b, q, NO_VALUE, NO_VALUE, window);
}

value_id build_attention_bidirectional(graph_builder *b, value_id q, value_id k, value_id v, int32_t window,
                                       bool has_alibi) {
  return append_attention(
      b, (node_attention){
             .q = q, .k = k, .v = v, .window = window, .has_alibi = has_alibi, .sinks = weight_here(b, W_NONE)});
}

value_id build_route(graph_builder *b, value_id x, weight_id bias) {
  const ga_hparams *p = &b->model->hparams;
  if (!is_value(b, x) || !require(b, value_cols(b, x) == p->n_experts, "chooses among other columns than experts") ||
      !require(b, b->graph->values[x].rows == ROWS_TOKENS, "chooses experts for some tokens alone") ||
      !fits_or_none(b, bias, p->n_experts))
    return NO_VALUE;
  const node_route as = {.kind = ROUTE_EXPERTS,
                         .x = x,
                         .bias = weight_here(b, bias),
                         .expert_scale = weight_here(b, build_if_present(b, W_EXPERT_SCALE))};
  b->graph->n_chosen = p->n_experts_used;
  return append_node(b, (ga_node){.kind = NODE_ROUTE, .as.route = as}, ROWS_TOKENS,
                     graph_route_words(p->n_experts, p->n_experts_used));
}

value_id build_gate(graph_builder *b, value_id x) {
  if (!is_value(b, x) || !require(b, value_cols(b, x) == 1, "has a gate of more columns than one") ||
      !require(b, b->graph->values[x].rows == ROWS_TOKENS, "has a gate of some tokens alone"))
    return NO_VALUE;
  const weight_ref none = weight_here(b, W_NONE);
  const node_route as = {.kind = ROUTE_GATE, .x = x, .bias = none, .expert_scale = none};
  return append_node(b, (ga_node){.kind = NODE_ROUTE, .as.route = as}, ROWS_TOKENS, graph_route_words(1, 1));
}

/* The architecture lists the stack, whose matrices have as many columns as x. */
static bool stack_fits(graph_builder *b, weight_id w, int64_t cols) {
  return require(b, ga_arch_has_weight(&b->model->hparams, w, b->layer) && ga_weight_specs[w].kind == KIND_STACK,
                 "has experts of a tensor that is no stack of the architecture") &&
         require(b, dim_here(b, ga_weight_specs[w].cols) == cols, "has experts of other columns than their input");
}

static bool is_route(const graph_builder *b, value_id v, route_kind kind) {
  const ga_node *node = &b->graph->nodes[b->graph->values[v].producer];
  return node->kind == NODE_ROUTE && node->as.route.kind == kind;
}

/* x has rows of that space, and route is a route. */
static bool takes_route(graph_builder *b, value_id x, ga_row_space rows, value_id route) {
  return is_value(b, x) && is_value(b, route) &&
         require(b, is_route(b, route, ROUTE_EXPERTS), "has experts without a route") &&
         require(b, b->graph->values[x].rows == rows, "has experts of other rows than theirs");
}

/* The bias of experts, with a row of `cols` columns for each, if the file has it. */
static weight_ref expert_bias(const graph_builder *b, weight_id id) { return weight_here(b, build_if_present(b, id)); }

value_id build_expert_in(graph_builder *b, value_id x, value_id route, int32_t act) {
  if (!takes_route(b, x, ROWS_TOKENS, route) || !stack_fits(b, W_UP_EXPERTS, value_cols(b, x)) ||
      !stack_fits(b, W_GATE_EXPERTS, value_cols(b, x)))
    return NO_VALUE;
  const node_expert_in as = {.x = x,
                             .route = route,
                             .gate = weight_here(b, W_GATE_EXPERTS),
                             .up = weight_here(b, W_UP_EXPERTS),
                             .gate_bias = expert_bias(b, W_GATE_EXPERTS_B),
                             .up_bias = expert_bias(b, W_UP_EXPERTS_B),
                             .act = act};
  if (!require(b, (as.gate_bias.id == W_NONE) == (as.up_bias.id == W_NONE), "has one of two biases of experts"))
    return NO_VALUE;
  return append_node(b, (ga_node){.kind = NODE_EXPERT_IN, .as.expert_in = as}, ROWS_CHOSEN, dim_here(b, DIM_EXPERT_FF));
}

value_id build_expert_out(graph_builder *b, value_id x, value_id route) {
  if (!takes_route(b, x, ROWS_CHOSEN, route) || !stack_fits(b, W_DOWN_EXPERTS, value_cols(b, x))) return NO_VALUE;
  const node_expert_out as = {
      .x = x, .route = route, .down = weight_here(b, W_DOWN_EXPERTS), .bias = expert_bias(b, W_DOWN_EXPERTS_B)};
  return append_node(b, (ga_node){.kind = NODE_EXPERT_OUT, .as.expert_out = as}, ROWS_TOKENS, dim_here(b, DIM_WIDTH));
}

value_id build_gated_linear(graph_builder *b, value_id x, value_id gate, weight_id w) {
  const ga_hparams *p = &b->model->hparams;
  if (!is_value(b, x) || !is_value(b, gate) ||
      !require(b, is_route(b, gate, ROUTE_GATE), "has a product without a gate") ||
      !require(b, b->graph->values[x].rows == ROWS_TOKENS, "has a gated product of some tokens alone") ||
      !require(b, ga_arch_has_weight(p, w, b->layer) && ga_weight_specs[w].kind == KIND_MATRIX,
               "has a gated product by no matrix of the architecture") ||
      !require(b, dim_here(b, ga_weight_specs[w].cols) == value_cols(b, x),
               "has a gated product of other columns than its input"))
    return NO_VALUE;
  const node_expert_out as = {
      .kind = ROUTE_GATE, .x = x, .route = gate, .down = weight_here(b, w), .bias = weight_here(b, W_NONE)};
  return append_node(b, (ga_node){.kind = NODE_EXPERT_OUT, .as.expert_out = as}, ROWS_TOKENS,
                     dim_here(b, ga_weight_specs[w].rows));
}

/* Copies inputs and weights into the node, and checks that all are there. */
static bool take_op_inputs(graph_builder *b, const value_id *x, const weight_id *w, node_op *as) {
  for (int32_t i = 0; i < as->op->n_inputs; i++) {
    if (!is_value(b, x[i]) || !require(b, b->graph->values[x[i]].rows == ROWS_TOKENS, "has an op on some rows alone"))
      return false;
    as->x[i] = x[i];
  }
  for (int32_t i = 0; i < as->op->n_weights; i++) {
    if (w[i] != W_NONE && !require(b, ga_arch_has_weight(&b->model->hparams, w[i], b->layer),
                                   "has a weight that the architecture does not list"))
      return false;
    as->w[i] = weight_here(b, w[i]);
  }
  return true;
}

value_id build_op(graph_builder *b, const graph_op *op, const value_id *x, const weight_id *w, int64_t cols) {
  node_op as = {.op = op};
  if (!require(b, op->n_inputs >= 1 && op->n_inputs <= OP_INPUTS && op->n_weights <= OP_WEIGHTS,
               "has an op of too many inputs") ||
      !take_op_inputs(b, x, w, &as) || (op->has_memory && !has_memory_here(b, op->memory)))
    return NO_VALUE;
  return append_node(b, (ga_node){.kind = NODE_OP, .as.op = as}, ROWS_TOKENS, cols);
}

value_id build_slice(graph_builder *b, value_id x, int64_t first, int64_t cols) {
  if (!is_value(b, x) || !require(b, first >= 0 && cols >= 0 && first + cols <= value_cols(b, x), "slices too much"))
    return NO_VALUE;
  const ga_value from = b->graph->values[x];
  const value_id y = append_node(b, (ga_node){.kind = NODE_SLICE, .as.slice = {.x = x}}, from.rows, cols);
  if (y == NO_VALUE) return NO_VALUE;
  b->graph->values[y].root = from.root;
  b->graph->values[y].first = from.first + first;
  return y;
}

value_id build_wanted(graph_builder *b, value_id x) {
  if (!is_value(b, x) || !require(b, b->graph->values[x].rows == ROWS_TOKENS, "takes rows of rows") ||
      !require(b, b->graph->values[x].root == x, "takes rows of some columns"))
    return NO_VALUE;
  return append_node(b, (ga_node){.kind = NODE_WANTED, .as.wanted = {.x = x}}, ROWS_WANTED, value_cols(b, x));
}

void build_result(graph_builder *b, value_id x, ga_pooling pooling) {
  if (!is_value(b, x) || !require(b, b->graph->values[x].root == x, "has some columns for its result")) return;
  b->graph->result = x;
  b->graph->pooling = pooling;
}

/* --- graphs --- */

ga_status graph_create(const ga_model *model, ga_model_graph **out) {
  graph_builder b = {.model = model, .layer = -1, .layer_values = NO_VALUE};
  void *p;
  *out = NULL;
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_model_graph), "graph", &p));
  b.graph = p;
  b.graph->n_layers = model->hparams.n_layers;
  b.graph->result = NO_VALUE;
  model->hparams.arch->build(&b);
  (void)require(&b, b.graph->result != NO_VALUE, "has no result");
  if (b.status == GA_OK) b.status = graph_index_users(b.graph);
  if (b.status != GA_OK) {
    graph_destroy(b.graph);
    return b.status;
  }
  *out = b.graph;
  return GA_OK;
}
