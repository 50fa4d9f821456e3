/* Which tensors each architecture has, and what shape they must be: one table for what reads models and what makes
 * them. */
#ifndef GA_MODEL_WEIGHT_SPEC_H
#define GA_MODEL_WEIGHT_SPEC_H

#include "model/model.h"

typedef enum weight_kind { KIND_MATRIX, KIND_VECTOR, KIND_TABLE } weight_kind;

/* Sizes that shapes are made of. */
typedef enum weight_dim {
  DIM_ONE,
  DIM_WIDTH,
  DIM_FF,
  DIM_Q,
  DIM_K,
  DIM_V,
  DIM_QKV,
  DIM_O,
  DIM_HEAD,
  DIM_VOCAB,
  DIM_CONTEXT,
  DIM_TYPES
} weight_dim;

typedef struct weight_spec {
  const char *name; /* layer tensors: what follows "blk.N." */
  weight_kind kind;
  size_t offset;               /* of the ga_matrix or ga_vector in ga_layer or ga_model */
  weight_dim rows, cols;       /* vectors: cols only */
  uint32_t required, optional; /* bits 1 << ga_model_arch */
  bool is_norm;                /* 1 + w when the file says ga.norm_plus_one */
} weight_spec;

/* Tensors of the whole model, and of each layer. */
extern const weight_spec ga_model_weights[], ga_layer_weights[];
extern const size_t ga_n_model_weights, ga_n_layer_weights;

int64_t ga_weight_dim(const ga_hparams *p, weight_dim dim);

#endif
