#include "model/graph.h"

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

/* --- checks: each fails in the builder, and is true where all is well --- */

static bool require(graph_builder *b, bool holds, const char *what) {
  if (b->status == GA_OK && !holds)
    b->status = ga_fail(GA_ERR_INTERNAL, "graph of %s, layer %d, node %d: %s", b->model->hparams.arch->name, b->layer,
                        b->graph->n_nodes, what);
  return b->status == GA_OK;
}

/* Is x still where it was written? */
static bool readable(graph_builder *b, ga_value_id x) {
  if (!require(b, x >= 0 && x < b->graph->n_values, "reads no value")) return false;
  const ga_value *v = &b->graph->values[x];
  return require(b, !v->overwritten && b->holder[v->buffer] == v->root, "reads a value that was overwritten");
}

static int64_t cols_of(const graph_builder *b, ga_value_id x) { return b->graph->values[x].cols; }

/* Does the architecture have this tensor, and are its columns as many as x has? */
static bool weight_fits(graph_builder *b, weight_id w, int64_t cols) {
  return require(b, ga_arch_weight(b->model->hparams.arch, w), "has a weight that the architecture does not list") &&
         require(b, ga_weight_dim(&b->model->hparams, ga_weight_specs[w].cols) == cols,
                 "has a weight of other columns than its input");
}

static bool fits_or_none(graph_builder *b, weight_id w, int64_t cols) { return w == W_NONE || weight_fits(b, w, cols); }

/* --- values and nodes --- */

static ga_value_id append_value(graph_builder *b, ga_value value) {
  ga_model_graph *g = b->graph;
  void *values = g->values;
  b->status = grow_list(&values, sizeof *g->values, g->n_values, &b->value_room);
  g->values = values;
  if (b->status != GA_OK) return NO_VALUE;
  if (value.root == NO_VALUE) value.root = g->n_values;
  g->values[g->n_values] = value;
  return g->n_values++;
}

/* A value that fills the rows of a buffer. */
static ga_value_id write_to(graph_builder *b, ga_buffer_name buffer, ga_rows rows, int64_t cols) {
  const ga_value_id y =
      append_value(b, (ga_value){.buffer = buffer, .rows = rows, .cols = cols, .stride = cols, .root = NO_VALUE});
  if (y == NO_VALUE) return y;
  b->holder[buffer] = y;
  if (cols > b->graph->cols[buffer]) b->graph->cols[buffer] = cols;
  return y;
}

/* x's successor in the same memory. */
static ga_value_id write_in_place(graph_builder *b, ga_value_id x) {
  ga_value next = b->graph->values[x];
  const bool is_view = next.root != x;
  next.uses = 0;
  if (!is_view) next.root = NO_VALUE;
  const ga_value_id y = append_value(b, next);
  if (y == NO_VALUE) return y;
  b->graph->values[x].overwritten = true;
  if (!is_view) b->holder[next.buffer] = y;
  return y;
}

static ga_value_id append_node(graph_builder *b, ga_node node) {
  ga_model_graph *g = b->graph;
  void *nodes = g->nodes;
  if (b->status != GA_OK) return NO_VALUE;
  b->status = grow_list(&nodes, sizeof *g->nodes, g->n_nodes, &b->node_room);
  g->nodes = nodes;
  if (b->status != GA_OK) return NO_VALUE;
  node.layer = b->layer;
  for (int i = 0; i < GA_NODE_INPUTS; i++)
    if (node.in[i] != NO_VALUE) g->values[node.in[i]].uses++;
  g->nodes[g->n_nodes++] = node;
  return node.out;
}

static ga_node node_of(ga_node_kind kind, ga_value_id x) {
  return (ga_node){.kind = kind, .in = {x, NO_VALUE, NO_VALUE}, .out = NO_VALUE, .weight = W_NONE, .bias = W_NONE};
}

/* --- words --- */

weight_id build_if_present(const graph_builder *b, weight_id id) {
  char name[GA_WEIGHT_NAME_BYTES];
  if (!ga_arch_weight(b->model->hparams.arch, id)) return W_NONE;
  return ga_model_file_find(b->model->file, ga_weight_name(id, b->layer, name)) ? id : W_NONE;
}

ga_value_id build_embed(graph_builder *b, weight_id table, embed_ids ids, float scale, ga_buffer_name to) {
  ga_node node = node_of(NODE_EMBED, NO_VALUE);
  const int64_t width = b->model->hparams.width;
  if (!weight_fits(b, table, width)) return NO_VALUE;
  node.weight = table;
  node.ids = (int32_t)ids;
  node.scale = scale;
  node.out = write_to(b, to, ROWS_TOKENS, width);
  return append_node(b, node);
}

ga_value_id build_add(graph_builder *b, ga_value_id x, ga_value_id y) {
  ga_node node = node_of(NODE_ADD, x);
  if (!readable(b, x) || !readable(b, y) || !require(b, cols_of(b, x) == cols_of(b, y), "adds rows of two lengths"))
    return NO_VALUE;
  node.in[1] = y;
  node.scale = 1;
  node.out = write_in_place(b, x);
  return append_node(b, node);
}

static ga_value_id append_norm(graph_builder *b, ga_node node, ga_buffer_name to) {
  const ga_value_id x = node.in[0];
  if (!readable(b, x) || !weight_fits(b, node.weight, cols_of(b, x)) || !fits_or_none(b, node.bias, cols_of(b, x)))
    return NO_VALUE;
  node.eps = b->model->hparams.norm_eps;
  node.out = write_to(b, to, b->graph->values[x].rows, cols_of(b, x));
  return append_node(b, node);
}

ga_value_id build_rms_norm(graph_builder *b, ga_value_id x, weight_id weight, ga_buffer_name to) {
  ga_node node = node_of(NODE_NORM, x);
  node.norm_kind = GA_NORM_RMS;
  node.weight = weight;
  return append_norm(b, node, to);
}

ga_value_id build_layer_norm(graph_builder *b, ga_value_id x, weight_id weight, weight_id bias, ga_buffer_name to) {
  ga_node node = node_of(NODE_NORM, x);
  node.norm_kind = GA_NORM_LAYER;
  node.weight = weight;
  node.bias = bias;
  return append_norm(b, node, to);
}

/* A node that works on each head of x in place. */
static ga_value_id on_heads(graph_builder *b, ga_node node) {
  const ga_value_id x = node.in[0];
  const int32_t dim = b->model->hparams.head_dim;
  if (!readable(b, x) || !require(b, cols_of(b, x) % dim == 0, "works on no whole number of heads")) return NO_VALUE;
  node.heads = (int32_t)(cols_of(b, x) / dim);
  node.out = write_in_place(b, x);
  return append_node(b, node);
}

ga_value_id build_head_norm(graph_builder *b, ga_value_id x, weight_id weight) {
  ga_node node = node_of(NODE_HEAD_NORM, x);
  if (!weight_fits(b, weight, b->model->hparams.head_dim)) return NO_VALUE;
  node.norm_kind = GA_NORM_RMS;
  node.weight = weight;
  node.eps = b->model->hparams.norm_eps;
  return on_heads(b, node);
}

ga_value_id build_head_layer_norm(graph_builder *b, ga_value_id x, weight_id weight) {
  ga_node node = node_of(NODE_HEAD_NORM, x);
  if (!readable(b, x) || !weight_fits(b, weight, cols_of(b, x))) return NO_VALUE;
  node.norm_kind = GA_NORM_LAYER;
  node.by_head = true;
  node.weight = weight;
  node.eps = b->model->hparams.norm_eps;
  return on_heads(b, node);
}

ga_value_id build_rope(graph_builder *b, ga_value_id x, bool local) {
  ga_node node = node_of(NODE_ROPE, x);
  node.local = local;
  return on_heads(b, node);
}

ga_value_id build_linear(graph_builder *b, ga_value_id x, weight_id w, weight_id bias, ga_buffer_name to) {
  return build_scaled_linear(b, x, w, bias, 1, to);
}

ga_value_id build_scaled_linear(graph_builder *b, ga_value_id x, weight_id w, weight_id bias, float scale,
                                ga_buffer_name to) {
  ga_node node = node_of(NODE_LINEAR, x);
  const ga_hparams *p = &b->model->hparams;
  if (!readable(b, x) || !weight_fits(b, w, cols_of(b, x))) return NO_VALUE;
  const int64_t rows = ga_weight_dim(p, ga_weight_specs[w].rows);
  if (!fits_or_none(b, bias, rows) || !require(b, to != b->graph->values[x].buffer, "writes over its input"))
    return NO_VALUE;
  node.weight = w;
  node.bias = bias;
  node.scale = scale;
  node.out = write_to(b, to, b->graph->values[x].rows, rows);
  return append_node(b, node);
}

ga_value_id build_scale(graph_builder *b, ga_value_id x, float scale) {
  ga_node node = node_of(NODE_SCALE, x);
  if (!readable(b, x)) return NO_VALUE;
  node.scale = scale;
  node.out = write_in_place(b, x);
  return append_node(b, node);
}

ga_value_id build_act(graph_builder *b, int32_t act, ga_value_id x) { return build_gated_act(b, act, NO_VALUE, x); }

ga_value_id build_gated_act(graph_builder *b, int32_t act, ga_value_id gate, ga_value_id x) {
  ga_node node = node_of(NODE_ACT, x);
  if (!readable(b, x)) return NO_VALUE;
  if (gate != NO_VALUE &&
      (!readable(b, gate) || !require(b, cols_of(b, x) == cols_of(b, gate), "is gated by rows of another length")))
    return NO_VALUE;
  node.in[1] = gate;
  node.act = act;
  node.out = write_in_place(b, x);
  return append_node(b, node);
}

void build_kv_store(graph_builder *b, ga_value_id k, ga_value_id v) {
  ga_node node = node_of(NODE_KV_STORE, k);
  const ga_hparams *p = &b->model->hparams;
  if (!readable(b, k) || !readable(b, v) ||
      !require(b, cols_of(b, k) == ga_weight_dim(p, DIM_K) && cols_of(b, v) == ga_weight_dim(p, DIM_V),
               "stores rows of another length than the cache has"))
    return;
  node.in[1] = v;
  (void)append_node(b, node);
}

static ga_value_id attention(graph_builder *b, ga_node node) {
  const ga_hparams *p = &b->model->hparams;
  if (!readable(b, node.in[0]) || !require(b, cols_of(b, node.in[0]) == ga_weight_dim(p, DIM_Q), "has a q of no heads"))
    return NO_VALUE;
  node.scale = p->attn_scale;
  node.out = write_to(b, BUF_O, ROWS_TOKENS, ga_weight_dim(p, DIM_O));
  return append_node(b, node);
}

ga_value_id build_attention(graph_builder *b, ga_value_id q, int32_t window) {
  ga_node node = node_of(NODE_ATTENTION, q);
  node.window = window;
  return attention(b, node);
}

ga_value_id build_attention_bidirectional(graph_builder *b, ga_value_id q, ga_value_id k, ga_value_id v, int32_t window,
                                          bool alibi) {
  ga_node node = node_of(NODE_ATTENTION, q);
  node.window = window;
  node.alibi = alibi;
  if (!readable(b, k) || !readable(b, v)) return NO_VALUE;
  node.in[1] = k;
  node.in[2] = v;
  return attention(b, node);
}

/* A view is a value of its own, in the memory of its root. */
static ga_value_id view(graph_builder *b, ga_node_kind kind, ga_value_id x, ga_value value) {
  ga_node node = node_of(kind, x);
  value.uses = 0;
  node.out = append_value(b, value);
  return append_node(b, node);
}

ga_value_id build_slice(graph_builder *b, ga_value_id x, int64_t first, int64_t cols) {
  if (!readable(b, x) || !require(b, first >= 0 && cols >= 0 && first + cols <= cols_of(b, x), "slices too much"))
    return NO_VALUE;
  ga_value value = b->graph->values[x];
  value.offset += first;
  value.cols = cols;
  return view(b, NODE_SLICE, x, value);
}

ga_value_id build_out_rows(graph_builder *b, ga_value_id x) {
  if (!readable(b, x) || !require(b, b->graph->values[x].rows == ROWS_TOKENS, "takes rows of rows")) return NO_VALUE;
  ga_value value = b->graph->values[x];
  value.rows = ROWS_OUT;
  value.from_out = true;
  return view(b, NODE_OUT_ROWS, x, value);
}

void build_result(graph_builder *b, ga_value_id x, ga_pooling pooling) {
  if (!readable(b, x)) return;
  b->graph->result = x;
  b->graph->values[x].uses++;
  b->graph->pooling = pooling;
}

/* --- graphs --- */

ga_status graph_create(const ga_model *model, ga_model_graph **out) {
  graph_builder b = {.model = model, .layer = -1};
  void *p;
  *out = NULL;
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_model_graph), "graph", &p));
  b.graph = p;
  b.graph->n_layers = model->hparams.n_layers;
  b.graph->result = NO_VALUE;
  for (int i = 0; i < BUF_COUNT; i++) b.holder[i] = NO_VALUE;
  model->hparams.arch->build(&b);
  (void)require(&b, b.graph->result != NO_VALUE, "has no result");
  b.graph->cols[BUF_X_SPARE] = b.graph->cols[BUF_X];
  if (b.status != GA_OK) {
    graph_destroy(b.graph);
    return b.status;
  }
  *out = b.graph;
  return GA_OK;
}

void graph_destroy(ga_model_graph *graph) {
  if (!graph) return;
  ga_mem_free(graph->nodes);
  ga_mem_free(graph->values);
  ga_mem_free(graph);
}

void graph_range(const ga_model_graph *graph, int32_t first_layer, int32_t end_layer, int32_t *first, int32_t *end) {
  int32_t i = 0;
  while (i < graph->n_nodes && graph->nodes[i].layer < first_layer) i++;
  *first = i;
  while (i < graph->n_nodes && graph->nodes[i].layer < end_layer) i++;
  *end = i;
}
