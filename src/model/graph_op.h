/* Declared ops: ops that a graph calls by a declaration, without a node kind for each. So the code of graphs and passes
 * has no case for each op.
 *
 * A declared op computes one value from others, with weights and with memory of its layer. Nodes that passes rewrite
 * have kinds of their own (graph.h). */
#ifndef GA_MODEL_GRAPH_OP_H
#define GA_MODEL_GRAPH_OP_H

#include "model/graph.h"
#include "model/memory_kind.h"

/* Sizes of a step, from which the descriptions of declared ops are made. Planning and running use the same sizes. */
typedef struct op_shape {
  const ga_hparams *hparams;
  int32_t n_tokens, n_seqs;
  int32_t n_decode;  /* number of sequences with one token each, which come first */
  int32_t max_q;     /* largest number of new tokens of any sequence */
  bool is_invariant; /* a token's numbers do not depend on the step's other tokens */
  int64_t max_kv;    /* bound of the largest number of tokens of any sequence after the step */
  ga_dtype kv_dtype; /* element type of the layers' memory */
  /* [n_weights] weights with shapes, types and layouts, without data when planning. NULL: the model has no such
   * weight */
  const ga_weight *const *w;
} op_shape;

/* A layer's memory of one form (pages or a state), as a step uses it. Arrays are on the device. */
typedef struct op_memory {
  void *tensors[MEMORY_TENSORS_MAX];
  int64_t n_units;
  /* states: [n_seqs] unit of each sequence, -1: none; pages: [n_seqs, stride] units of each sequence */
  const int32_t *units;
  /* pages: [n_tokens] slot of each token, unit * GA_KV_PAGE + place in the page; -1: the token is not stored */
  const int32_t *slots;
  int64_t stride; /* pages: elements between rows of units */
} op_memory;

/* The arguments of a declared op in a step. Values are f32 rows on the device, one for each token. */
typedef struct op_call {
  ga_ctx *ctx;
  op_shape shape;
  const float *x[OP_INPUTS]; /* inputs [n_tokens, x_cols] */
  int64_t x_cols[OP_INPUTS], x_stride[OP_INPUTS];
  const ga_weight *w[OP_WEIGHTS]; /* [n_weights] weights; NULL: the model has no such weight */
  float *y;                       /* output [n_tokens, y_cols]; overlaps no input */
  int64_t y_cols, y_stride;
  const int32_t *positions; /* [n_tokens] position of each token */
  const float *rope_freq;   /* [rot_dim / 2] frequencies of RoPE in global layers; NULL: the model has no RoPE */
  float rope_magnitude;     /* factor of its sine and cosine */
  const int32_t *q_start;   /* [n_seqs + 1] first token of each sequence */
  /* [n_seqs - n_decode + 1] first token of each sequence after the first n_decode, counted from their first token */
  const int32_t *q_start_prompts;
  const int32_t *kv_len; /* [n_seqs] tokens of the sequence after this step */
  op_memory memory;      /* all zeros if the op has no memory */
} op_call;

struct graph_op {
  const char *name; /* name of the op in logs and error texts */
  int32_t n_inputs, n_weights;
  bool has_memory;
  memory_form memory; /* with has_memory: form of the layer's memory that the op uses */
  /* Computes the bytes of workspace that the op needs in a step. GA_ERR_UNSUPPORTED: the context has no kernel for it.
   * NULL: the op needs no workspace, and has kernels for all steps. */
  ga_status (*plan)(ga_ctx *ctx, const op_shape *shape, uint64_t *workspace);
  ga_status (*run)(const op_call *call); /* enqueues the op; its launches can be recorded */
};

#endif
