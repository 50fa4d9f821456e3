/* A model as a graph of pure values, as its architecture file (arch/) wrote it.
 *
 * A node computes one value from others. A value never changes and has no address. So the only order that matters is
 * that of uses: a node follows the nodes whose values it reads. Once built, a graph does not change. Passes (pass/)
 * make the launches of a device from it: fuse.h chooses them, memory.h gives values their addresses.
 *
 * Shapes in comments: T tokens of the step, d width, Hq and Hkv heads, D head_dim, Dv v_dim, F ff_width, V vocabulary,
 * n_out rows whose logits are wanted. */
#ifndef GA_MODEL_GRAPH_H
#define GA_MODEL_GRAPH_H

#include "model/weight_spec.h"

/* The rows that a value has in one step. */
typedef enum ga_row_space {
  ROWS_TOKENS, /* T: tokens of the step */
  ROWS_WANTED, /* n_out: tokens whose logits are wanted */
  ROWS_CHOSEN  /* T * n_chosen: a row for each expert that a token has chosen, sorted by expert */
} ga_row_space;

#define NO_VALUE (-1)
typedef int32_t value_id; /* index of ga_model_graph.values */

typedef struct ga_value {
  ga_row_space rows;
  int64_t cols;
  ga_dtype dtype;
  int32_t producer; /* index of the node that computes the value */
  /* slices: the value whose columns the slice shows, never a slice itself; other values: their own index */
  value_id root;
  int64_t first; /* slices: index of the slice's first column in the root */
} ga_value;

typedef enum ga_node_kind {
  NODE_EMBED,      /* y [T, d] = scale * table[ids] */
  NODE_ADD,        /* y = a + b */
  NODE_NORM,       /* y = RMS norm or layer norm of each row of x, or of each head of it */
  NODE_LINEAR,     /* y = scale W x + bias */
  NODE_ACT,        /* y = act(x), or act(gate) * x */
  NODE_SCALE,      /* y = scale f x + b, with a factor f for each row */
  NODE_ROPE,       /* y = heads of x rotated by their positions */
  NODE_ATTENTION,  /* y = attention(q, k, v) */
  NODE_SLICE,      /* y = columns [first, first + columns of y) of x */
  NODE_WANTED,     /* y [n_out, columns of x] = the rows of x whose logits are wanted */
  NODE_ALL_REDUCE, /* y = the sum of all ranks' x */
  NODE_ROUTE,      /* y = the experts that each token has chosen by its logits, and their weights */
  NODE_EXPERT_IN,  /* y [T * n_chosen, columns] = act(W_gate x) * (W_up x), by the matrices of the chosen experts */
  NODE_EXPERT_OUT, /* y [T, d] = the weighted sum of W_down x over a token's chosen experts */
  NODE_OP          /* y = a declared op of x, weights and the layer's memory (graph_op.h) */
} ga_node_kind;

/* The ids that select rows of an embedding table. */
typedef enum embed_ids { IDS_TOKENS, IDS_POSITIONS, IDS_TYPES } embed_ids;

typedef struct node_embed {
  weight_ref table;
  embed_ids ids;
  float scale;
} node_embed;

typedef struct node_add {
  value_id a, b;
} node_add;

typedef struct node_norm {
  value_id x;
  weight_ref weight, bias;
  int32_t form;  /* a ga_norm_kind */
  int32_t heads; /* number of heads of x, each of which is normed separately; 0: whole rows are normed */
  bool by_head;  /* each head has its own weights; else all heads share them */
  float eps;
} node_norm;

typedef struct node_linear {
  value_id x;
  weight_ref weight, bias;
  float scale;
} node_linear;

typedef struct node_act {
  value_id x, gate; /* gate NO_VALUE: y = act(x) */
  int32_t act;      /* activation, a ga_act_kind */
} node_act;

/* y = scale f x + b. The factor f of a row is an element of `factors`, or follows from the token's position. */
typedef struct node_scale {
  value_id x;
  value_id b;       /* NO_VALUE: nothing is added */
  value_id factors; /* one column; NO_VALUE: the factors are 1, or follow from positions */
  bool by_position; /* factors of hparams.temperature */
  float scale;
} node_scale;

typedef struct node_rope {
  value_id x;
  int32_t heads;
  bool is_local; /* rotates by the frequencies of local layers */
} node_rope;

/* Attention. With has_memory, k and v of the step are appended to the layer's memory, and q attends causally to the
 * whole memory of its sequence. Without, q attends to k and v of the step's own tokens in both directions. */
typedef struct node_attention {
  value_id q, k, v; /* k and v NO_VALUE: q attends to the memory of an earlier layer (ga_hparams.kv_distance) */
  int32_t window;   /* a query sees keys at distances below this; 0: all keys */
  float scale;
  bool has_memory;
  bool has_alibi;   /* logits fall by the head's slope for each token of distance */
  weight_ref sinks; /* with has_memory: a sink logit for each head of q */
} node_attention;

typedef struct node_slice {
  value_id x;
} node_slice;

typedef struct node_wanted {
  value_id x;
} node_wanted;

typedef struct node_all_reduce {
  value_id x;
} node_all_reduce;

/* By which rules a route chooses. */
typedef enum route_kind {
  ROUTE_EXPERTS, /* n_chosen of n_experts, as hparams.router says */
  ROUTE_GATE     /* one expert for all tokens; its weight is the sigmoid of its logit */
} route_kind;

/* The value of a route holds 4-byte words of several arrays of ga_route, one after the other (graph_route_words). Only
 * nodes of experts read it. */
typedef struct node_route {
  route_kind kind;
  value_id x;              /* logits [T, n_experts]; ROUTE_GATE: [T, 1] */
  weight_ref bias;         /* addends of scores, for the choice alone */
  weight_ref expert_scale; /* factors of each expert's weights */
} node_route;

typedef struct node_expert_in {
  value_id x, route;
  weight_ref up, gate;           /* stacks of matrices [n_experts, columns of y, columns of x] */
  weight_ref up_bias, gate_bias; /* [n_experts, columns of y]; both or none */
  int32_t act;                   /* activation, a ga_act_kind */
} node_expert_in;

typedef struct node_expert_out {
  route_kind kind; /* kind of the route */
  value_id x, route;
  weight_ref down; /* stack of matrices [n_experts, columns of y, columns of x]; ROUTE_GATE: a matrix */
  weight_ref bias; /* [n_experts, columns of y] */
} node_expert_out;

#define OP_INPUTS  6
#define OP_WEIGHTS 4
typedef struct graph_op graph_op;

typedef struct node_op {
  const graph_op *op;
  value_id x[OP_INPUTS];    /* [op->n_inputs] values that the op reads */
  weight_ref w[OP_WEIGHTS]; /* [op->n_weights] weights of the op */
} node_op;

typedef struct ga_node {
  ga_node_kind kind;
  int32_t layer; /* layer of the node; -1: before the first layer; n_layers: after the last one */
  value_id y;
  union {
    node_embed embed;
    node_add add;
    node_norm norm;
    node_linear linear;
    node_act act;
    node_scale scale;
    node_rope rope;
    node_attention attention;
    node_slice slice;
    node_wanted wanted;
    node_all_reduce all_reduce;
    node_route route;
    node_expert_in expert_in;
    node_expert_out expert_out;
    node_op op;
  } as;
} ga_node;

/* How an encoder's rows [T, d] become one row. Values 0 to 3 are the numbers that GGUF files use. */
typedef enum ga_pooling {
  POOL_NONE,
  POOL_MEAN,
  POOL_CLS,           /* the first row */
  POOL_LAST,          /* the last row */
  POOL_MAX,           /* the largest element of each column */
  POOL_WEIGHTED_MEAN, /* the mean in which row i, counted from 0, has the weight i + 1 */
  POOL_MEAN_SQRT      /* the sum of the rows, divided by the square root of their number */
} ga_pooling;

struct ga_model_graph {
  ga_node *nodes;
  ga_value *values;
  int32_t n_nodes, n_values, n_layers;
  int32_t n_chosen; /* number of experts that each token chooses; 0: the model has no experts */
  /* [n_values + 1] the nodes that read value v are users[first_user[v]] to users[first_user[v + 1] - 1] */
  int32_t *first_user;
  int32_t *users;  /* indices of nodes, in rising order for each value; a node that reads a value twice occurs twice */
  value_id result; /* logits [n_out, V]; encoders: [T, d], from which pooling makes one row */
  ga_pooling pooling;
};

/* Builds the graph of the model's architecture. The model's file and hyper-parameters must have been read. Release
 * with graph_destroy. */
GA_NODISCARD ga_status graph_create(const ga_model *model, ga_model_graph **out);
void graph_destroy(ga_model_graph *graph);
/* Finds the nodes [*first, *end) of layers [first_layer, end_layer). -1 is the part before the layers, n_layers the
 * part after them. */
void graph_range(const ga_model_graph *graph, int32_t first_layer, int32_t end_layer, int32_t *first, int32_t *end);

/* Returns the number of rows of values in a row space, for a step of so many tokens and wanted rows. */
static inline int64_t graph_rows(const ga_model_graph *g, ga_row_space rows, int64_t tokens, int64_t wanted) {
  return rows == ROWS_TOKENS ? tokens : rows == ROWS_WANTED ? wanted : tokens * g->n_chosen;
}
/* Returns the number of 4-byte words that a route needs for each token of a step, of one token at least:
 *
 *   experts, weights, order, place [tokens, n_chosen]   counts [n_experts]   offsets [n_experts + 1] */
static inline int64_t graph_route_words(int32_t n_experts, int32_t n_chosen) {
  return 4 * (int64_t)n_chosen + 2 * (int64_t)n_experts + 1;
}

/* Returns whether stacks of matrices may be packed: nodes of experts read them, which take packed stacks. Declared ops
 * read them as they are in the file. */
static inline bool graph_packs_stacks(const ga_model_graph *g) { return g && g->n_chosen > 0; }

#define NODE_INPUTS OP_INPUTS
/* Writes the values that a node reads to in[]. Returns their number. */
int32_t node_inputs(const ga_node *node, value_id in[NODE_INPUTS]);
/* Writes to in[] pointers to the places in the node that name the values it reads, so that passes can replace them.
 * Returns their number. */
int32_t node_input_places(ga_node *node, value_id *in[NODE_INPUTS]);
/* Computes graph->first_user and graph->users, the lists of nodes that read each value. */
GA_NODISCARD ga_status graph_index_users(ga_model_graph *graph);

/* Returns the number of nodes that read v. */
static inline int32_t graph_n_users(const ga_model_graph *g, value_id v) {
  return g->first_user[v + 1] - g->first_user[v];
}
/* Returns the only node that reads v. NULL: no node or several read it, or v is also the graph's result. */
const ga_node *graph_only_user(const ga_model_graph *g, value_id v);

/* Writes one line for each node, each ended by '\n'. The caller releases the text with ga_mem_free. */
GA_NODISCARD ga_status graph_text(const ga_model_graph *graph, char **out);

#endif
