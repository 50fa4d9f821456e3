/* Ops that graphs name by a declaration: the graph, its passes and texts have no case for each of them.
 *
 * Such an op computes one value from others, with weights and with memory of its layer. Nodes that passes rewrite have
 * kinds of their own (graph.h). */
#ifndef GA_MODEL_GRAPH_OP_H
#define GA_MODEL_GRAPH_OP_H

#include "model/graph.h"
#include "model/memory_kind.h"

/* Sizes of a step, which descriptions of ops are made from. Planning and running use the same. */
typedef struct op_shape {
  const ga_hparams *hparams;
  int32_t n_tokens, n_seqs;
  int32_t n_decode;          /* the first so many sequences have one token each */
  int32_t max_q;             /* most tokens of a sequence */
  bool is_invariant;         /* a token's numbers do not depend on the step's other tokens */
  const ga_weight *const *w; /* [n_weights] shapes, types, layouts; without data in plans. NULL: the model lacks it */
} op_shape;

/* A layer's memory of one form in a step. Arrays are on the device. */
typedef struct op_memory {
  void *tensors[MEMORY_TENSORS_MAX];
  int64_t n_units;
  const int32_t *units; /* states: [n_seqs] a unit each, -1: none; pages: [n_seqs, stride] tables */
  const int32_t *slots; /* pages: [n_tokens] where a token goes, unit * GA_KV_PAGE + place in the page; -1: nowhere */
  int64_t stride;
} op_memory;

/* Values are f32 rows, one for each token of the step. */
typedef struct op_call {
  ga_ctx *ctx;
  op_shape shape;
  const float *x[OP_INPUTS]; /* [n_tokens, x_cols] */
  int64_t x_cols[OP_INPUTS], x_stride[OP_INPUTS];
  const ga_weight *w[OP_WEIGHTS]; /* NULL: the model lacks it */
  float *y;                       /* [n_tokens, y_cols]; overlaps no x */
  int64_t y_cols, y_stride;
  const int32_t *positions;       /* [n_tokens] */
  const int32_t *q_start;         /* [n_seqs + 1] first token of each sequence */
  const int32_t *q_start_prompts; /* [n_seqs - n_decode + 1] of those with several, counted from their first token */
  const int32_t *kv_len;          /* [n_seqs] tokens of the sequence after this step */
  op_memory memory;               /* all zeros for an op without */
} op_call;

struct graph_op {
  const char *name; /* in texts */
  int32_t n_inputs, n_weights;
  bool has_memory;
  memory_form memory; /* with has_memory: which of its layer's */
  /* Finds out how much workspace a step needs. GA_ERR_UNSUPPORTED: the context has no row for it. NULL: the op needs
   * none, and has rows for all steps. */
  ga_status (*plan)(ga_ctx *ctx, const op_shape *shape, uint64_t *workspace);
  ga_status (*run)(const op_call *call); /* enqueues; can be recorded */
};

#endif
