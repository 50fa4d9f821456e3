/* Functions with which architecture files (model/arch) build a model's graph. Each appends a node and returns the
 * node's value.
 *
 * A failure is kept in the builder: all later calls do nothing, and graph_create returns it. */
#ifndef GA_MODEL_BUILD_H
#define GA_MODEL_BUILD_H

#include "model/graph_op.h"

typedef struct graph_builder {
  const ga_model *model;
  ga_model_graph *graph;
  int32_t layer;                 /* layer of the nodes that are added next; -1 before the layers, n_layers after them */
  int32_t node_room, value_room; /* allocated sizes of graph->nodes and graph->values */
  value_id layer_values;         /* values that all layers read, if the architecture has such; NO_VALUE: none */
  ga_status status;
} graph_builder;

/* Returns id if the architecture lists the tensor and the file has it; else W_NONE. */
weight_id build_if_present(const graph_builder *b, weight_id id);
/* Looks up rows: y [T, d] = scale * table[ids]. */
value_id build_embed(graph_builder *b, weight_id table, embed_ids ids, float scale);
/* Adds two values: y = a + c. */
value_id build_add(graph_builder *b, value_id a, value_id c);
/* Divides each row of x by its root mean square and multiplies it by the weight. */
value_id build_rms_norm(graph_builder *b, value_id x, weight_id weight);
/* The same, with the epsilon of the norms of latent vectors. */
value_id build_latent_norm(graph_builder *b, value_id x, weight_id weight);
/* Normalises each row of x to mean 0 and variance 1, then applies weight and bias. */
value_id build_layer_norm(graph_builder *b, value_id x, weight_id weight, weight_id bias);
/* Applies the RMS norm to each group of columns of x, which are as many as the weights that all groups share. */
value_id build_group_norm(graph_builder *b, value_id x, weight_id weight);
/* Applies the RMS norm to each head of x [T, heads * D]; all heads share the weights [D], W_NONE: 1. */
value_id build_head_norm(graph_builder *b, value_id x, weight_id weight);
/* Applies the layer norm to each head of x [T, heads * D]; each head has its own weights: [heads * D]. */
value_id build_head_layer_norm(graph_builder *b, value_id x, weight_id weight);
/* Multiplies by a matrix: y [rows of x, rows of w] = w x + bias. bias W_NONE: none. */
value_id build_linear(graph_builder *b, value_id x, weight_id w, weight_id bias);
/* Multiplies by a matrix and a factor: y = scale * (w x) + bias. bias W_NONE: none. */
value_id build_scaled_linear(graph_builder *b, value_id x, weight_id w, weight_id bias, float scale);
value_id build_scale(graph_builder *b, value_id x, float scale); /* Multiplies by a factor: y = scale * x. */
/* Multiplies rows by factors [rows of x, 1], and adds to b: y = factor * x + b. b NO_VALUE: nothing is added. */
value_id build_scaled_add(graph_builder *b, value_id x, value_id factors, value_id added);
/* Multiplies the rows of x [T, ...] by the factors of hparams.temperature for the tokens' positions. */
value_id build_scale_by_position(graph_builder *b, value_id x);
/* Multiplies by the file's tensor of one number: y = s * x. */
value_id build_stored_scale(graph_builder *b, value_id x, weight_id scale);
value_id build_act(graph_builder *b, int32_t act, value_id x); /* Applies an activation (ga_act_kind): y = act(x). */
/* Applies a gated activation: y = act(gate) * x. */
value_id build_gated_act(graph_builder *b, int32_t act, value_id gate, value_id x);
/* Applies RoPE to the heads of x [T, heads * D]. is_local: with the frequencies of local layers. */
value_id build_rope(graph_builder *b, value_id x, bool is_local);
/* Appends k and v to the layer's memory, and computes o [T, Hq Dv], the causal attention of q to that memory. window:
 * number of last keys that a query sees; 0: all. */
value_id build_attention(graph_builder *b, value_id q, value_id k, value_id v, int32_t window);
/* Computes o [T, Hq Dv], the causal attention of q to the memory of the layer whose keys and values this layer reads
 * (ga_hparams.kv_distance). */
value_id build_attention_shared(graph_builder *b, value_id q, int32_t window);
/* Computes o [T, Hq Dv], attention among the step's own tokens in both directions. window w: a token sees tokens at
 * distances below w on either side; 0: all. has_alibi: logits fall by the head's slope for each token of distance. */
value_id build_attention_bidirectional(graph_builder *b, value_id q, value_id k, value_id v, int32_t window,
                                       bool has_alibi);
/* Chooses the experts of each token by its logits x [T, n_experts], as hparams.router says. bias W_NONE: none. The
 * weights are multiplied by W_EXPERT_SCALE where the file has it. Returns the route, which only nodes of experts
 * read. */
value_id build_route(graph_builder *b, value_id x, weight_id bias);
/* Returns a route of all tokens to one expert, whose weights are the sigmoids of x [T, 1]. */
value_id build_gate(graph_builder *b, value_id x);
/* Multiplies by a matrix and by the weights of a gate: y [T, rows of w] = weight * (w x). */
value_id build_gated_linear(graph_builder *b, value_id x, value_id gate, weight_id w);
/* Multiplies by the stacks W_GATE_EXPERTS and W_UP_EXPERTS of the chosen experts, and adds their biases where the file
 * has them: y [T * n_chosen, F] = act(gate) * up, as hparams.expert_act says. */
value_id build_expert_in(graph_builder *b, value_id x, value_id route, int32_t act);
/* Multiplies by the stack W_DOWN_EXPERTS of the chosen experts, adds their biases where the file has them, and adds up
 * each token's results by their weights: y [T, d]. */
value_id build_expert_out(graph_builder *b, value_id x, value_id route);
/* Applies a declared op: y [T, cols] = op(x, w). x has op->n_inputs values of the step's tokens; w has op->n_weights
 * tensors of the layer, W_NONE where the model has none. */
value_id build_op(graph_builder *b, const graph_op *op, const value_id *x, const weight_id *w, int64_t cols);
/* Returns columns [first, first + cols) of x. */
value_id build_slice(graph_builder *b, value_id x, int64_t first, int64_t cols);
/* Returns the rows of x whose logits are wanted: [n_out, columns of x]. */
value_id build_wanted(graph_builder *b, value_id x);
/* Makes x the result of the graph; pooling says how an encoder's rows become one. */
void build_result(graph_builder *b, value_id x, ga_pooling pooling);

#endif
