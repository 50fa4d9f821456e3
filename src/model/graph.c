#include "model/graph.h"
#include "model/graph_op.h"

#include "base/mem.h"
#include "base/status.h"

void graph_destroy(ga_model_graph *graph) {
  if (!graph) return;
  ga_mem_free(graph->nodes);
  ga_mem_free(graph->values);
  ga_mem_free(graph->first_user);
  ga_mem_free(graph);
}

void graph_range(const ga_model_graph *graph, int32_t first_layer, int32_t end_layer, int32_t *first, int32_t *end) {
  int32_t i = 0;
  while (i < graph->n_nodes && graph->nodes[i].layer < first_layer) i++;
  *first = i;
  while (i < graph->n_nodes && graph->nodes[i].layer < end_layer) i++;
  *end = i;
}

int32_t node_input_places(ga_node *node, value_id *in[NODE_INPUTS]) {
  int32_t n = 0;
  switch (node->kind) {
  case NODE_EMBED: return 0;
  case NODE_ADD:
    in[n++] = &node->as.add.a;
    in[n++] = &node->as.add.b;
    return n;
  case NODE_NORM: in[n++] = &node->as.norm.x; return n;
  case NODE_LINEAR: in[n++] = &node->as.linear.x; return n;
  case NODE_ACT:
    in[n++] = &node->as.act.x;
    if (node->as.act.gate != NO_VALUE) in[n++] = &node->as.act.gate;
    return n;
  case NODE_SCALE:
    in[n++] = &node->as.scale.x;
    if (node->as.scale.b != NO_VALUE) in[n++] = &node->as.scale.b;
    if (node->as.scale.factors != NO_VALUE) in[n++] = &node->as.scale.factors;
    return n;
  case NODE_ROPE: in[n++] = &node->as.rope.x; return n;
  case NODE_ATTENTION:
    in[n++] = &node->as.attention.q;
    if (node->as.attention.k != NO_VALUE) in[n++] = &node->as.attention.k;
    if (node->as.attention.v != NO_VALUE) in[n++] = &node->as.attention.v;
    return n;
  case NODE_SLICE: in[n++] = &node->as.slice.x; return n;
  case NODE_WANTED: in[n++] = &node->as.wanted.x; return n;
  case NODE_ALL_REDUCE: in[n++] = &node->as.all_reduce.x; return n;
  case NODE_ROUTE: in[n++] = &node->as.route.x; return n;
  case NODE_EXPERT_IN:
    in[n++] = &node->as.expert_in.x;
    in[n++] = &node->as.expert_in.route;
    return n;
  case NODE_EXPERT_OUT:
    in[n++] = &node->as.expert_out.x;
    in[n++] = &node->as.expert_out.route;
    return n;
  case NODE_OP:
    while (n < node->as.op.op->n_inputs) in[n] = &node->as.op.x[n], n++;
    return n;
  }
  return 0;
}

int32_t node_inputs(const ga_node *node, value_id in[NODE_INPUTS]) {
  value_id *places[NODE_INPUTS];
  ga_node copy = *node;
  const int32_t n = node_input_places(&copy, places);
  for (int32_t i = 0; i < n; i++) in[i] = *places[i];
  return n;
}

/* Lists the users of each value, by counting sort. */
ga_status graph_index_users(ga_model_graph *g) {
  value_id in[NODE_INPUTS];
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)g->n_values + 2 + (size_t)g->n_nodes * NODE_INPUTS, sizeof(int32_t), "graph", &p));
  int32_t *end =
      (int32_t *)p + 1; /* end[v]: while filling, where the next user of v goes; afterwards, where they end */
  g->first_user = p;
  g->users = g->first_user + g->n_values + 2;
  for (int32_t i = 0; i < g->n_nodes; i++)
    for (int32_t n = node_inputs(&g->nodes[i], in); n > 0; n--) end[in[n - 1] + 1]++;
  for (int32_t v = 0; v < g->n_values; v++) end[v + 1] += end[v];
  for (int32_t i = 0; i < g->n_nodes; i++) {
    const int32_t n = node_inputs(&g->nodes[i], in);
    for (int32_t j = 0; j < n; j++) g->users[end[in[j]]++] = i;
  }
  return GA_OK;
}

const ga_node *graph_only_user(const ga_model_graph *g, value_id v) {
  return graph_n_users(g, v) == 1 && v != g->result ? &g->nodes[g->users[g->first_user[v]]] : NULL;
}
