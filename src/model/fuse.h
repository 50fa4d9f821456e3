/* A graph as launches of a device: what can be one launch is one, where the planner finds a row for it.
 *
 * Always, since every row of these ops does it: an activation, a gate and a residual in the epilogue of a product, a
 * residual in a norm. If a row takes it: the RMS norm of X in the products that read X, several of them in one launch,
 * a gated pair in one, the norm of what is added to X before that; and rotation, with the norms of heads, on k's way
 * into the cache. What is decided here holds for a whole session; running asks no more. */
#ifndef GA_MODEL_FUSE_H
#define GA_MODEL_FUSE_H

#include "model/graph.h"
#include "opdef/fused.h"

typedef enum fused_kind {
  FUSED_EMBED,
  FUSED_ADD,
  FUSED_NORM,
  FUSED_PRODUCT,
  FUSED_ACT,
  FUSED_ROPE,
  FUSED_KV_STORE,
  FUSED_ATTENTION
} fused_kind;

/* Rows in a buffer. */
typedef struct fused_rows {
  ga_buffer_name buffer;
  int64_t cols, offset, stride; /* elements */
  bool from_out;                /* begins at the first row whose logits are wanted */
  bool is_set;
} fused_rows;

/* A matrix by X. */
typedef struct fused_matrix {
  weight_id weight, bias;
  fused_rows y;
} fused_matrix;

#define FUSED_MATRICES 3

/* One launch. What a kind does not name is not set, or W_NONE. */
typedef struct fused_op {
  fused_kind kind;
  int32_t layer;
  ga_rows rows;
  fused_rows x, y;                     /* what it reads and writes; KV_STORE: x is q, where it is rotated */
  fused_rows k, v;                     /* KV_STORE; ATTENTION among the step's own tokens */
  fused_rows gate;                     /* ACT; PRODUCT: act(gate) * product */
  fused_rows residual;                 /* ADD, NORM, PRODUCT: added; with add_norm: that is added to */
  fused_rows sum;                      /* PRODUCT with add_norm: where the sum is left, if at all */
  fused_matrix matrix[FUSED_MATRICES]; /* EMBED: the table */
  int32_t n_matrices;
  bool is_gated;            /* PRODUCT: act(matrix[1] x) * (matrix[0] x), one y */
  weight_id norm, norm_b;   /* NORM; PRODUCT: of x first */
  weight_id add_norm;       /* PRODUCT: x is residual + RMS norm of x, before norm */
  int32_t add_layer;        /* whose weights add_norm are */
  weight_id q_norm, k_norm; /* KV_STORE */
  int32_t norm_kind, act, ids;
  int32_t heads, window; /* NORM of heads: how many a row has, else 1; ROPE, ATTENTION */
  bool rotates, local;   /* KV_STORE; ROPE, KV_STORE */
  bool by_head;          /* NORM of heads, each with weights of its own */
  bool alibi;            /* ATTENTION */
  bool is_invariant;     /* PRODUCT, ATTENTION */
  bool rounds_x;         /* PRODUCT: as in fuse_target */
  float scale, eps;
} fused_op;

/* How many rows a launch has, as far as rows of the table care: 1 to FUSED_FEW, or 0: more. */
enum { FUSED_FEW = 8 };
static inline int32_t fused_class(int32_t rows) { return rows <= FUSED_FEW ? rows : 0; }

typedef struct fused_program {
  fused_op *ops;
  int32_t n_ops, n_body; /* [n_body, n_ops): the head, of the rows whose logits are wanted */
} fused_program;

/* What a program is made for. */
typedef struct fuse_target {
  const ga_model *model;
  const ga_placement *placement; /* its layers; embedding and head where it has them */
  const ga_dtype *kv;            /* NULL: no cache */
  int32_t tokens, out;           /* fused_class of the step's tokens and of the rows whose logits are wanted */
  bool is_invariant;             /* a token's numbers must not depend on the step's others; then tokens and out are 0 */
  bool rounds_x; /* to e4m3, in products by e4m3_128 of more than FUSED_FEW rows, or batch-invariant ones */
} fuse_target;

/* Asks the planner of the placement's context; runs nothing. Release with fused_destroy. */
GA_NODISCARD ga_status fuse(const fuse_target *target, fused_program **out);
void fused_destroy(fused_program *program);

/* Descriptions of launches, as both asking and running have them. */
ga_gemm_fused_desc fused_gemm_desc(const ga_model *model, const fused_op *op, int64_t rows);
/* Does it round X where it has enough rows? */
bool fused_rounds_x(const ga_model *model, const fused_op *op);
ga_kv_store_fused_desc fused_store_desc(const ga_model *model, const fused_op *op, ga_dtype kv, int64_t tokens,
                                        int64_t slots);

#endif
