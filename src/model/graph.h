/* A model as a graph: what happens to the tokens of a step, in order, as its architecture file (arch/) wrote it down.
 *
 * Nodes make values from values. Each value says in which buffer it lies, so that a node may work in place; builders
 * fail when a node reads a value that another one has overwritten. Once built, a graph does not change. fuse.h makes
 * the operations of a device from it.
 *
 * Shapes in comments: T tokens of the step, d width, Hq and Hkv heads, D head_dim, Dv v_dim, F ff_width, V vocabulary,
 * n_out rows whose logits are wanted. All values are f32. */
#ifndef GA_MODEL_GRAPH_H
#define GA_MODEL_GRAPH_H

#include "model/weight_spec.h"

/* Memory that values share, one block of rows each. */
typedef enum ga_buffer_name {
  BUF_X,       /* residual stream */
  BUF_X_SPARE, /* its other row, of steps of one token: fuse.c */
  BUF_H,       /* normed copy of it, or what a block adds to it */
  BUF_Q,
  BUF_K,
  BUF_V,
  BUF_O, /* of attention */
  BUF_GATE,
  BUF_UP,
  BUF_LOGITS,
  BUF_COUNT
} ga_buffer_name;

const char *ga_buffer_text(ga_buffer_name buffer);

typedef enum ga_rows { ROWS_TOKENS /* T */, ROWS_OUT /* n_out */ } ga_rows;

#define NO_VALUE (-1)
typedef int32_t ga_value_id;

typedef struct ga_value {
  ga_buffer_name buffer;
  ga_rows rows;
  int64_t cols, offset, stride; /* elements: width, first one of a row, between rows */
  bool from_out;                /* begins at the first row whose logits are wanted */
  ga_value_id root;             /* of a view: the value that it is part of; else itself */
  int32_t uses;                 /* nodes that read it */
  bool overwritten;             /* by a node that worked in place */
} ga_value;

typedef enum ga_node_kind {
  NODE_EMBED,     /* y [T, d] = scale * table[ids] */
  NODE_ADD,       /* y = x + b */
  NODE_NORM,      /* y = RMS norm or layer norm of each row of x */
  NODE_HEAD_NORM, /* RMS norm or layer norm of each head of x by itself */
  NODE_LINEAR,    /* y = scale W x + bias */
  NODE_ACT,       /* y = act(x), or act(gate) * x */
  NODE_SCALE,     /* y = scale x */
  NODE_ROPE,      /* heads of x rotated by their positions */
  NODE_KV_STORE,  /* rows of k and v into the layer's cache */
  NODE_ATTENTION, /* of q over the layer's cache, causal; or, with k and v given, over the step's own tokens */
  NODE_SLICE,     /* some columns of x: no work */
  NODE_OUT_ROWS   /* the rows of x whose logits are wanted: no work */
} ga_node_kind;

typedef enum embed_ids { IDS_TOKENS, IDS_POSITIONS, IDS_TYPES } embed_ids;

#define GA_NODE_INPUTS 3

typedef struct ga_node {
  ga_node_kind kind;
  int32_t layer;                  /* -1: before the layers; n_layers: behind them */
  ga_value_id in[GA_NODE_INPUTS]; /* EMBED: none; ACT: x, gate; KV_STORE: k, v; ATTENTION: q, k, v */
  ga_value_id out;                /* NO_VALUE: KV_STORE */
  weight_id weight, bias;         /* of the node's layer; W_NONE: it has none */
  int32_t norm_kind, act, ids;    /* NORM, HEAD_NORM: ga_norm_kind; ga_act_kind; embed_ids */
  int32_t heads, window;          /* HEAD_NORM, ROPE; ATTENTION: 0 = no window */
  bool local;                     /* ROPE: by the frequencies of local layers */
  bool alibi;                     /* ATTENTION */
  bool by_head;                   /* HEAD_NORM: each head has weights of its own */
  float scale, eps;               /* EMBED, LINEAR, SCALE, ATTENTION; norms */
} ga_node;

typedef enum ga_pooling { POOL_NONE, POOL_MEAN, POOL_CLS, POOL_LAST } ga_pooling;

struct ga_model_graph {
  ga_node *nodes;
  ga_value *values;
  int32_t n_nodes, n_values, n_layers;
  int64_t cols[BUF_COUNT]; /* of the widest row in each buffer; 0: not used */
  ga_value_id result;      /* logits [n_out, V]; of encoders [T, d], which pooling makes one row of */
  ga_pooling pooling;
};

/* Builds the graph of the model's architecture; needs its hyper-parameters and file. Release with graph_destroy. */
GA_NODISCARD ga_status graph_create(const ga_model *model, ga_model_graph **out);
void graph_destroy(ga_model_graph *graph);
/* Nodes [*first, *end) of layers [first_layer, end_layer): -1 is what stands before them, n_layers what is behind. */
void graph_range(const ga_model_graph *graph, int32_t first_layer, int32_t end_layer, int32_t *first, int32_t *end);
/* A line for each node, each with '\n'; the text is released with ga_mem_free. */
GA_NODISCARD ga_status graph_text(const ga_model_graph *graph, char **out);

/* --- words of the architecture files ---
 * Each appends a node. After a failure the others do nothing, and graph_create returns the failure. */

typedef struct graph_builder {
  const ga_model *model;
  ga_model_graph *graph;
  int32_t layer;                 /* of the nodes to come */
  ga_value_id holder[BUF_COUNT]; /* the value that is in each buffer */
  int32_t node_room, value_room;
  ga_status status;
} graph_builder;

/* The tensor, or W_NONE where the file lacks it. */
weight_id build_if_present(const graph_builder *b, weight_id id);
/* y [T, d] = scale * table[ids] */
ga_value_id build_embed(graph_builder *b, weight_id table, embed_ids ids, float scale, ga_buffer_name to);
/* x += y, where x is */
ga_value_id build_add(graph_builder *b, ga_value_id x, ga_value_id y);
ga_value_id build_rms_norm(graph_builder *b, ga_value_id x, weight_id weight, ga_buffer_name to);
ga_value_id build_layer_norm(graph_builder *b, ga_value_id x, weight_id weight, weight_id bias, ga_buffer_name to);
/* x [T, heads * D], each head by itself, in place */
ga_value_id build_head_norm(graph_builder *b, ga_value_id x, weight_id weight);
/* The same by layer norm, each head with weights of its own: [heads * D]. */
ga_value_id build_head_layer_norm(graph_builder *b, ga_value_id x, weight_id weight);
/* y [rows of x, rows of w] = w x + bias */
ga_value_id build_linear(graph_builder *b, ga_value_id x, weight_id w, weight_id bias, ga_buffer_name to);
/* The same, the product multiplied by scale. */
ga_value_id build_scaled_linear(graph_builder *b, ga_value_id x, weight_id w, weight_id bias, float scale,
                                ga_buffer_name to);
/* scale * x, in place */
ga_value_id build_scale(graph_builder *b, ga_value_id x, float scale);
/* act(x), in place */
ga_value_id build_act(graph_builder *b, int32_t act, ga_value_id x);
/* act(gate) * x, where x is */
ga_value_id build_gated_act(graph_builder *b, int32_t act, ga_value_id gate, ga_value_id x);
/* x [T, heads * D] rotated, in place; local layers have frequencies of their own. */
ga_value_id build_rope(graph_builder *b, ga_value_id x, bool local);
void build_kv_store(graph_builder *b, ga_value_id k, ga_value_id v);
/* o [T, Hq Dv] = attention(q, cache of the layer); window 0 = none. */
ga_value_id build_attention(graph_builder *b, ga_value_id q, int32_t window);
/* o [T, Hq Dv] = attention(q, k, v) among the step's own tokens, both directions. window w: tokens nearer than w on
 * either side; 0 = none. alibi: logits fall by the head's slope with each token of distance. */
ga_value_id build_attention_bidirectional(graph_builder *b, ga_value_id q, ga_value_id k, ga_value_id v, int32_t window,
                                          bool alibi);
/* Columns [first, first + cols) of x. */
ga_value_id build_slice(graph_builder *b, ga_value_id x, int64_t first, int64_t cols);
/* The rows of x whose logits are wanted: [n_out, columns of x]. */
ga_value_id build_out_rows(graph_builder *b, ga_value_id x);
/* What the graph is for. */
void build_result(graph_builder *b, ga_value_id x, ga_pooling pooling);

#endif
