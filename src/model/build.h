/* The words that architecture files write graphs with. Each appends a node and returns its value.
 *
 * A failure stays in the builder: all later words do nothing, and graph_create returns it. */
#ifndef GA_MODEL_BUILD_H
#define GA_MODEL_BUILD_H

#include "model/graph_op.h"

typedef struct graph_builder {
  const ga_model *model;
  ga_model_graph *graph;
  int32_t layer; /* layer of the nodes that are added next */
  int32_t node_room, value_room;
  ga_status status;
} graph_builder;

/* Returns id, or W_NONE where the file lacks the tensor or the architecture does not list it. */
weight_id build_if_present(const graph_builder *b, weight_id id);
/* y [T, d] = scale * table[ids] */
value_id build_embed(graph_builder *b, weight_id table, embed_ids ids, float scale);
/* y = a + b */
value_id build_add(graph_builder *b, value_id a, value_id c);
value_id build_rms_norm(graph_builder *b, value_id x, weight_id weight);
value_id build_layer_norm(graph_builder *b, value_id x, weight_id weight, weight_id bias);
/* RMS norm of each head of x [T, heads * D]; all heads share the weights [D]. */
value_id build_head_norm(graph_builder *b, value_id x, weight_id weight);
/* Layer norm of each head of x [T, heads * D]; each head has weights of its own: [heads * D]. */
value_id build_head_layer_norm(graph_builder *b, value_id x, weight_id weight);
/* y [rows of x, rows of w] = w x + bias */
value_id build_linear(graph_builder *b, value_id x, weight_id w, weight_id bias);
/* y = scale * (w x) + bias */
value_id build_scaled_linear(graph_builder *b, value_id x, weight_id w, weight_id bias, float scale);
value_id build_scale(graph_builder *b, value_id x, float scale);
value_id build_act(graph_builder *b, int32_t act, value_id x);
/* y = act(gate) * x */
value_id build_gated_act(graph_builder *b, int32_t act, value_id gate, value_id x);
/* Rotates the heads of x [T, heads * D]; local layers have frequencies of their own. */
value_id build_rope(graph_builder *b, value_id x, bool is_local);
/* o [T, Hq Dv] = causal attention of q to the layer's memory, which k and v join. window 0: none. */
value_id build_attention(graph_builder *b, value_id q, value_id k, value_id v, int32_t window);
/* o [T, Hq Dv] = attention among the step's own tokens, in both directions. window w: tokens nearer than w on either
 * side; 0: all. has_alibi: logits fall by the head's slope with each token of distance. */
value_id build_attention_bidirectional(graph_builder *b, value_id q, value_id k, value_id v, int32_t window,
                                       bool has_alibi);
/* y [T, cols] = op(x, w): op->n_inputs values of the step's tokens, and op->n_weights tensors of the layer. W_NONE: the
 * model lacks one. */
value_id build_op(graph_builder *b, const graph_op *op, const value_id *x, const weight_id *w, int64_t cols);
/* Columns [first, first + cols) of x. */
value_id build_slice(graph_builder *b, value_id x, int64_t first, int64_t cols);
/* [n_out, columns of x]: the rows of x whose logits are wanted. */
value_id build_wanted(graph_builder *b, value_id x);
/* Makes x the result of the graph. */
void build_result(graph_builder *b, value_id x, ga_pooling pooling);

#endif
