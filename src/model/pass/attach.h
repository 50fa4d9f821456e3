/* The pass that puts adapters into a graph. After each product whose weight has an attachment it inserts the two
 * products of the adapter and an addition. Later passes treat these like all other nodes. */
#ifndef GA_MODEL_PASS_ATTACH_H
#define GA_MODEL_PASS_ATTACH_H

#include "model/graph.h"

/* Replaces *graph, a graph of the model, and frees the old one. A failure changes nothing. */
GA_NODISCARD ga_status attach_graph(const ga_model *model, ga_model_graph **graph);

#endif
