/* Makes a graph from another one, for a pass that inserts nodes. Nodes are copied in order; the copies read values of
 * the new graph. */
#ifndef GA_MODEL_PASS_REWRITE_H
#define GA_MODEL_PASS_REWRITE_H

#include "model/graph.h"

typedef struct graph_rewrite {
  const ga_model_graph *from;
  ga_model_graph *to;
  value_id *now; /* [values of from] the value in `to` that replaces each value */
} graph_rewrite;

/* Begins a rewrite. most: largest number of nodes that replace one node. The caller calls rewrite_end, also after a
 * failure. */
GA_NODISCARD ga_status rewrite_begin(const ga_model_graph *from, int32_t most, graph_rewrite *out);
/* Appends a copy of a node of the old graph, which the caller may have changed. Returns its value. */
value_id rewrite_copy(graph_rewrite *r, const ga_node *node);
/* Appends a new node, which reads values of the new graph. Its value has as many rows as `rows_of`, and `cols`
 * columns. */
value_id rewrite_put(graph_rewrite *r, ga_node node, value_id rows_of, int64_t cols);
/* Makes `with` the value that later nodes read in place of `old`, a value of the old graph. */
void rewrite_replace(graph_rewrite *r, value_id old, value_id with);
/* Ends the rewrite: replaces *graph by the new graph and frees the old one. If status is a failure, or indexing
 * fails, the new graph is freed and *graph stays. */
GA_NODISCARD ga_status rewrite_end(graph_rewrite *r, ga_status status, ga_model_graph **graph);

#endif
