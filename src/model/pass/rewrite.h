/* A graph made of another one by a pass that puts nodes in: nodes are copied in order, and read new values for old. */
#ifndef GA_MODEL_PASS_REWRITE_H
#define GA_MODEL_PASS_REWRITE_H

#include "model/graph.h"

typedef struct graph_rewrite {
  const ga_model_graph *from;
  ga_model_graph *to;
  value_id *now; /* [values of from] their names in `to` */
} graph_rewrite;

/* most: nodes that take the place of one, at most. rewrite_end follows, also after a failure. */
GA_NODISCARD ga_status rewrite_begin(const ga_model_graph *from, int32_t most, graph_rewrite *out);
/* Appends a node of the old graph, as it is or changed. Returns its value. */
value_id rewrite_copy(graph_rewrite *r, const ga_node *node);
/* Appends a new node, which reads values of the new graph, with a value of as many rows as `rows_of` and `cols`
 * columns. */
value_id rewrite_put(graph_rewrite *r, ga_node node, value_id rows_of, int64_t cols);
/* Makes `with` the value that later nodes read in place of `old`, a value of the old graph. */
void rewrite_replace(graph_rewrite *r, value_id old, value_id with);
/* Replaces *graph, the old one, which is freed; if status is a failure, or indexing fails, the new one is. */
GA_NODISCARD ga_status rewrite_end(graph_rewrite *r, ga_status status, ga_model_graph **graph);

#endif
