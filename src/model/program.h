/* A program: a model's graph as the launches of one device, in order. pass/fuse.h makes programs, pass/memory.h gives
 * their values addresses, exec.h runs them.
 *
 * A launch may do the work of several nodes of the graph; it reads and writes values of the graph. */
#ifndef GA_MODEL_PROGRAM_H
#define GA_MODEL_PROGRAM_H

#include "model/graph.h"
#include "opdef/fused.h"

typedef enum launch_kind {
  LAUNCH_EMBED,
  LAUNCH_ADD,
  LAUNCH_NORM,
  LAUNCH_PRODUCT,
  LAUNCH_ACT,
  LAUNCH_ROPE,
  LAUNCH_STORE,
  LAUNCH_ATTENTION,
  LAUNCH_WANTED,
  LAUNCH_ALL_REDUCE,
  LAUNCH_ROUTE,
  LAUNCH_EXPERT_IN,
  LAUNCH_EXPERT_OUT,
  LAUNCH_OP
} launch_kind;

/* Computes y = scale f x + b, with the factors f of a node_scale. */
typedef struct launch_add {
  value_id x, b; /* b NO_VALUE: nothing is added */
  value_id y;
  value_id factors; /* NO_VALUE: the factors are 1, or follow from positions */
  bool by_position;
  float scale;
} launch_add;

/* Computes y = residual + norm(x). */
typedef struct launch_norm {
  node_norm node;
  value_id residual; /* NO_VALUE: nothing is added */
  value_id y;
} launch_norm;

/* A matrix that is multiplied by X, with its result. */
typedef struct product_matrix {
  weight_ref weight, bias;
  value_id y;
} product_matrix;

#define PRODUCT_MATRICES 3

/* Computes y = residual + act(scale W x + bias), for one or several matrices with the same X.
 * With `gate`, it computes y = residual + act(gate) * (W x).
 *
 * With `norm`, X is normed first. With `add_norm` as well, residual + RMS norm of x replaces X before that, and is
 * written to `sum`. With is_gated, y = act(matrix[1] x) * (matrix[0] x). */
typedef struct launch_product {
  value_id x;
  product_matrix matrix[PRODUCT_MATRICES];
  int32_t n_matrices;
  bool is_gated;
  int32_t act;             /* activation, a ga_act_kind */
  value_id gate, residual; /* gate NO_VALUE: no gate; residual NO_VALUE: nothing is added */
  weight_ref norm, add_norm;
  value_id sum; /* NO_VALUE: the sum is not written */
  float scale, eps;
} launch_product;

/* Computes y = act(x), or act(gate) * x. */
typedef struct launch_act {
  value_id x, gate, y;
  int32_t act;
} launch_act;

/* Applies RoPE to heads in place: x and y have the same address, or x is copied to y first. */
typedef struct launch_rope {
  node_rope node;
  value_id y;
} launch_rope;

/* Stores k and v of the step in the layer's memory. With `rotates`, RoPE is applied to k as it is stored, and to q in
 * place. If q_norm is set, the heads of both are RMS-normed first. */
typedef struct launch_store {
  value_id k, v;
  bool rotates, is_local;
  value_id q, q_rotated;
  weight_ref q_norm, k_norm;
  float eps;
} launch_store;

typedef struct launch_attention {
  node_attention node;
  value_id y;
} launch_attention;

/* Copies the wanted rows of x to y, unless they are a contiguous block of x. In that case y is read as a part of x. */
typedef struct launch_wanted {
  value_id x, y;
} launch_wanted;

/* Computes y = the sum of all ranks' x. */
typedef struct launch_all_reduce {
  value_id x, y;
} launch_all_reduce;

typedef struct launch_route {
  node_route node;
  value_id y;
} launch_route;

typedef struct launch_expert_in {
  node_expert_in node;
  value_id y;
} launch_expert_in;

/* Computes y = residual + the weighted sums of the node. */
typedef struct launch_expert_out {
  node_expert_out node;
  value_id residual; /* NO_VALUE: nothing is added */
  value_id y;
} launch_expert_out;

typedef struct launch_op {
  node_op node;
  value_id y;
} launch_op;

typedef struct launch {
  launch_kind kind;
  int32_t layer;
  ga_row_space rows; /* rows of the values that the launch writes */
  union {
    struct launch_embed {
      node_embed node;
      value_id y;
    } embed;
    launch_add add;
    launch_norm norm;
    launch_product product;
    launch_act act;
    launch_rope rope;
    launch_store store;
    launch_attention attention;
    launch_wanted wanted;
    launch_all_reduce all_reduce;
    launch_route route;
    launch_expert_in expert_in;
    launch_expert_out expert_out;
    launch_op op;
  } as;
} launch;

/* The place of a value in memory. Values that no launch writes or reads have no place. */
typedef struct value_place {
  int64_t offset; /* bytes from the arena's start; -1: no place */
  int64_t stride; /* elements between rows */
} value_place;

typedef struct ga_program {
  launch *launches;
  int32_t n_launches;
  int32_t n_body;    /* launches [n_body, n_launches) are the output head, for the rows whose logits are wanted */
  bool is_invariant; /* a token's numbers do not depend on the step's other tokens */
  /* products with e4m3_128 round X to e4m3 if they have more than FUSED_FEW rows, or are batch-invariant */
  bool rounds_x;
  value_place *places; /* [values of the graph] places of the values */
  uint64_t bytes;      /* bytes of the arena */
} ga_program;

#define LAUNCH_READS  OP_INPUTS /* largest number of values that a launch reads */
#define LAUNCH_WRITES 4         /* largest number of values that a launch writes */
/* Writes the values that a launch reads to v[]. Returns their number. */
int32_t launch_reads(const launch *l, value_id v[LAUNCH_READS]);
/* Writes the values that a launch writes to v[]. Returns their number. */
int32_t launch_writes(const launch *l, value_id v[LAUNCH_WRITES]);
/* Returns a value that l reads, in whose place in memory l may write y if no later launch reads that value. NO_VALUE:
 * there is none. Rotations and stores only work in place: exec_launch.c copies first if y has another place. */
value_id launch_in_place(const launch *l, value_id y);

/* Writes one line for each launch, with the places of the values that it writes. The caller releases the text with
 * ga_mem_free. */
GA_NODISCARD ga_status program_text(const ga_program *program, char **out);
void program_destroy(ga_program *program);

/* Makes the description of the op that a launch runs. Planning and running use the same description. */
ga_gemm_fused_desc describe_product(const ga_model *model, const ga_program *program, const launch_product *p,
                                    int64_t rows);
/* Returns whether the product rounds X to e4m3 if it has enough rows. */
bool product_rounds_x(const ga_model *model, const ga_program *program, const launch *l);
ga_kv_store_fused_desc describe_store(const ga_model *model, const ga_program *program, const launch_store *s,
                                      int32_t layer, ga_dtype kv, int64_t tokens, int64_t slots);

#endif
