#include "model/graph.h"

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

int32_t node_inputs(const ga_node *node, value_id in[NODE_INPUTS]) {
  int32_t n = 0;
  switch (node->kind) {
  case NODE_EMBED: return 0;
  case NODE_ADD:
    in[n++] = node->as.add.a;
    in[n++] = node->as.add.b;
    return n;
  case NODE_NORM: in[n++] = node->as.norm.x; return n;
  case NODE_LINEAR: in[n++] = node->as.linear.x; return n;
  case NODE_ACT:
    in[n++] = node->as.act.x;
    if (node->as.act.gate != NO_VALUE) in[n++] = node->as.act.gate;
    return n;
  case NODE_SCALE: in[n++] = node->as.scale.x; return n;
  case NODE_ROPE: in[n++] = node->as.rope.x; return n;
  case NODE_ATTENTION:
    in[n++] = node->as.attention.q;
    in[n++] = node->as.attention.k;
    in[n++] = node->as.attention.v;
    return n;
  case NODE_SLICE: in[n++] = node->as.slice.x; return n;
  case NODE_WANTED: in[n++] = node->as.wanted.x; return n;
  }
  return 0;
}

const ga_node *graph_only_user(const ga_model_graph *g, value_id v) {
  return graph_n_users(g, v) == 1 && v != g->result ? &g->nodes[g->users[g->first_user[v]]] : NULL;
}
