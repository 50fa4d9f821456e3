#include "model/pass/rewrite.h"

#include "base/mem.h"
#include "base/status.h"

ga_status rewrite_begin(const ga_model_graph *from, int32_t most, graph_rewrite *out) {
  const size_t nodes = (size_t)from->n_nodes * (size_t)most;
  void *p;
  *out = (graph_rewrite){.from = from};
  GA_TRY(ga_mem_zalloc(1, sizeof *out->to, "graph", &p));
  out->to = p;
  *out->to = (ga_model_graph){.n_layers = from->n_layers, .pooling = from->pooling};
  GA_TRY(ga_mem_zalloc(nodes, sizeof *out->to->nodes, "graph", &p));
  out->to->nodes = p;
  GA_TRY(ga_mem_zalloc(nodes, sizeof *out->to->values, "graph", &p));
  out->to->values = p;
  GA_TRY(ga_mem_zalloc((size_t)from->n_values, sizeof *out->now, "graph", &p));
  out->now = p;
  return GA_OK;
}

static value_id put_node_and_value(graph_rewrite *r, ga_node node, ga_value value) {
  ga_model_graph *g = r->to;
  value.producer = g->n_nodes;
  node.y = g->n_values;
  g->values[g->n_values++] = value;
  g->nodes[g->n_nodes++] = node;
  return node.y;
}

value_id rewrite_copy(graph_rewrite *r, const ga_node *node) {
  value_id *in[NODE_INPUTS];
  ga_node copy = *node;
  ga_value value = r->from->values[node->y];
  const int32_t n = node_input_places(&copy, in);
  for (int32_t i = 0; i < n; i++) *in[i] = r->now[*in[i]];
  value.root = value.root == node->y ? r->to->n_values : r->now[value.root];
  return r->now[node->y] = put_node_and_value(r, copy, value);
}

value_id rewrite_put(graph_rewrite *r, ga_node node, value_id rows_of, int64_t cols) {
  ga_value value = r->to->values[rows_of];
  value.cols = cols;
  value.first = 0;
  value.root = r->to->n_values;
  return put_node_and_value(r, node, value);
}

void rewrite_replace(graph_rewrite *r, value_id old, value_id with) { r->now[old] = with; }

ga_status rewrite_end(graph_rewrite *r, ga_status status, ga_model_graph **graph) {
  if (status == GA_OK) {
    r->to->result = r->now[r->from->result];
    status = graph_index_users(r->to);
  }
  ga_mem_free(r->now);
  graph_destroy(status == GA_OK ? *graph : r->to);
  if (status == GA_OK) *graph = r->to;
  return status;
}
