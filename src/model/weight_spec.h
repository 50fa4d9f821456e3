/* The tensors that GA knows: name in the file and shape. The architectures' files (arch/) list which of them each has.
 * Code that reads models and code that writes them share this table. */
#ifndef GA_MODEL_WEIGHT_SPEC_H
#define GA_MODEL_WEIGHT_SPEC_H

#include "model/model.h"

typedef enum weight_kind { KIND_MATRIX, KIND_VECTOR, KIND_TABLE } weight_kind;

/* Sizes that shapes are made of. */
typedef enum weight_dim {
  DIM_ONE,
  DIM_WIDTH,
  DIM_FF,
  DIM_FF_TWICE,
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

/* Tensors of the whole model: id, name, kind, rows, columns (vectors: columns only), norm? */
#define GA_MODEL_WEIGHTS(X)                                                           \
  X(TOKEN_EMBD, "token_embd.weight", KIND_TABLE, DIM_VOCAB, DIM_WIDTH, false)         \
  X(POSITION_EMBD, "position_embd.weight", KIND_TABLE, DIM_CONTEXT, DIM_WIDTH, false) \
  X(TYPE_EMBD, "token_types.weight", KIND_TABLE, DIM_TYPES, DIM_WIDTH, false)         \
  X(EMBD_NORM, "token_embd_norm.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)      \
  X(EMBD_NORM_B, "token_embd_norm.bias", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)      \
  X(OUTPUT_NORM, "output_norm.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, true)         \
  X(OUTPUT_NORM_B, "output_norm.bias", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)        \
  X(OUTPUT, "output.weight", KIND_MATRIX, DIM_VOCAB, DIM_WIDTH, false)                \
  X(OUTPUT_B, "output.bias", KIND_VECTOR, DIM_ONE, DIM_VOCAB, false)

/* Tensors of each layer; their names follow "blk.N.". A vector of DIM_HEAD rows may be a matrix with a row for each
 * head. */
#define GA_LAYER_WEIGHTS(X)                                                              \
  X(ATTN_NORM, "attn_norm.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, true)                \
  X(ATTN_NORM_B, "attn_norm.bias", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)               \
  X(Q, "attn_q.weight", KIND_MATRIX, DIM_Q, DIM_WIDTH, false)                            \
  X(K, "attn_k.weight", KIND_MATRIX, DIM_K, DIM_WIDTH, false)                            \
  X(V, "attn_v.weight", KIND_MATRIX, DIM_V, DIM_WIDTH, false)                            \
  X(Q_B, "attn_q.bias", KIND_VECTOR, DIM_ONE, DIM_Q, false)                              \
  X(K_B, "attn_k.bias", KIND_VECTOR, DIM_ONE, DIM_K, false)                              \
  X(V_B, "attn_v.bias", KIND_VECTOR, DIM_ONE, DIM_V, false)                              \
  X(QKV, "attn_qkv.weight", KIND_MATRIX, DIM_QKV, DIM_WIDTH, false)                      \
  X(QKV_B, "attn_qkv.bias", KIND_VECTOR, DIM_ONE, DIM_QKV, false)                        \
  X(Q_NORM, "attn_q_norm.weight", KIND_VECTOR, DIM_ONE, DIM_HEAD, true)                  \
  X(K_NORM, "attn_k_norm.weight", KIND_VECTOR, DIM_ONE, DIM_HEAD, true)                  \
  X(Q_ROW_NORM, "attn_q_norm.weight", KIND_VECTOR, DIM_ONE, DIM_Q, true)                 \
  X(K_ROW_NORM, "attn_k_norm.weight", KIND_VECTOR, DIM_ONE, DIM_K, true)                 \
  X(Q_HEADS_NORM, "attn_q_norm.weight", KIND_VECTOR, DIM_HEAD, DIM_Q, true)              \
  X(K_HEADS_NORM, "attn_k_norm.weight", KIND_VECTOR, DIM_HEAD, DIM_K, true)              \
  X(O, "attn_output.weight", KIND_MATRIX, DIM_WIDTH, DIM_O, false)                       \
  X(O_B, "attn_output.bias", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)                     \
  X(ATTN_OUT_NORM, "attn_output_norm.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)    \
  X(ATTN_OUT_NORM_B, "attn_output_norm.bias", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)    \
  X(POST_ATTN_NORM, "post_attention_norm.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, true) \
  X(FFN_NORM, "ffn_norm.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, true)                  \
  X(FFN_NORM_B, "ffn_norm.bias", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)                 \
  X(GATE, "ffn_gate.weight", KIND_MATRIX, DIM_FF, DIM_WIDTH, false)                      \
  X(UP, "ffn_up.weight", KIND_MATRIX, DIM_FF, DIM_WIDTH, false)                          \
  X(GATE_UP, "ffn_up.weight", KIND_MATRIX, DIM_FF_TWICE, DIM_WIDTH, false)               \
  X(DOWN, "ffn_down.weight", KIND_MATRIX, DIM_WIDTH, DIM_FF, false)                      \
  X(GATE_B, "ffn_gate.bias", KIND_VECTOR, DIM_ONE, DIM_FF, false)                        \
  X(UP_B, "ffn_up.bias", KIND_VECTOR, DIM_ONE, DIM_FF, false)                            \
  X(DOWN_B, "ffn_down.bias", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)                     \
  X(LAYER_OUT_NORM, "layer_output_norm.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)  \
  X(LAYER_OUT_NORM_B, "layer_output_norm.bias", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)  \
  X(POST_FFN_NORM, "post_ffw_norm.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, true)

typedef enum weight_id {
  W_NONE = -1,
#define X(id, ...) W_##id,
  GA_MODEL_WEIGHTS(X) GA_LAYER_WEIGHTS(X)
#undef X
      W_COUNT
} weight_id;

typedef struct weight_spec {
  const char *name; /* layer tensors: what follows "blk.N." */
  weight_kind kind;
  bool of_layer;
  weight_dim rows, cols;
  bool is_norm; /* 1 + w when the file says ga.norm_plus_one */
} weight_spec;

/* By weight_id. */
extern const weight_spec ga_weight_specs[W_COUNT];

int64_t ga_weight_dim(const ga_hparams *p, weight_dim dim);
/* The tensor's name in the file; il counts for layer tensors only. */
#define GA_WEIGHT_NAME_BYTES 64
const char *ga_weight_name(weight_id id, int32_t il, char text[GA_WEIGHT_NAME_BYTES]);

/* Tensors of a place in the model's table: the weight, and those of its attachment. */
typedef enum weight_part { PART_WEIGHT, PART_A, PART_B } weight_part;

/* A tensor of the model's table: a role and a layer. Tensors of the whole model ignore the layer. */
typedef struct weight_ref {
  weight_id id; /* W_NONE: none */
  int32_t layer;
  weight_part part;
} weight_ref;

/* Makes an empty table for a model of n_layers layers; released with ga_mem_free. */
GA_NODISCARD ga_status ga_weights_create(int32_t n_layers, ga_weight **out);
/* The model's tensor; its data is NULL where the model lacks it. */
ga_weight *ga_weight_slot(ga_model *model, weight_id id, int32_t il);
const ga_weight *ga_weight_at(const ga_model *model, weight_ref w);

#endif
