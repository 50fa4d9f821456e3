/* The tensors that GA knows: name in the file, shape, and where a model keeps it. Which of them an architecture has
 * stands in its file (arch/). One table for what reads models and what makes them. */
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

/* Tensors of the whole model: id, name, kind, field of ga_model, rows, columns (vectors: columns only), norm? */
#define GA_MODEL_WEIGHTS(X)                                                                          \
  X(TOKEN_EMBD, "token_embd.weight", KIND_TABLE, token_embd, DIM_VOCAB, DIM_WIDTH, false)            \
  X(POSITION_EMBD, "position_embd.weight", KIND_TABLE, position_embd, DIM_CONTEXT, DIM_WIDTH, false) \
  X(TYPE_EMBD, "token_types.weight", KIND_TABLE, type_embd, DIM_TYPES, DIM_WIDTH, false)             \
  X(EMBD_NORM, "token_embd_norm.weight", KIND_VECTOR, embd_norm, DIM_ONE, DIM_WIDTH, false)          \
  X(EMBD_NORM_B, "token_embd_norm.bias", KIND_VECTOR, embd_norm_b, DIM_ONE, DIM_WIDTH, false)        \
  X(OUTPUT_NORM, "output_norm.weight", KIND_VECTOR, output_norm, DIM_ONE, DIM_WIDTH, true)           \
  X(OUTPUT_NORM_B, "output_norm.bias", KIND_VECTOR, output_norm_b, DIM_ONE, DIM_WIDTH, false)        \
  X(OUTPUT, "output.weight", KIND_MATRIX, output, DIM_VOCAB, DIM_WIDTH, false)                       \
  X(OUTPUT_B, "output.bias", KIND_VECTOR, output_b, DIM_ONE, DIM_VOCAB, false)

/* Tensors of each layer, behind "blk.N."; fields of ga_layer. A vector of DIM_HEAD rows may lie as a matrix with a row
 * for each head. */
#define GA_LAYER_WEIGHTS(X)                                                                              \
  X(ATTN_NORM, "attn_norm.weight", KIND_VECTOR, attn_norm, DIM_ONE, DIM_WIDTH, true)                     \
  X(ATTN_NORM_B, "attn_norm.bias", KIND_VECTOR, attn_norm_b, DIM_ONE, DIM_WIDTH, false)                  \
  X(Q, "attn_q.weight", KIND_MATRIX, q, DIM_Q, DIM_WIDTH, false)                                         \
  X(K, "attn_k.weight", KIND_MATRIX, k, DIM_K, DIM_WIDTH, false)                                         \
  X(V, "attn_v.weight", KIND_MATRIX, v, DIM_V, DIM_WIDTH, false)                                         \
  X(Q_B, "attn_q.bias", KIND_VECTOR, q_b, DIM_ONE, DIM_Q, false)                                         \
  X(K_B, "attn_k.bias", KIND_VECTOR, k_b, DIM_ONE, DIM_K, false)                                         \
  X(V_B, "attn_v.bias", KIND_VECTOR, v_b, DIM_ONE, DIM_V, false)                                         \
  X(QKV, "attn_qkv.weight", KIND_MATRIX, qkv, DIM_QKV, DIM_WIDTH, false)                                 \
  X(QKV_B, "attn_qkv.bias", KIND_VECTOR, qkv_b, DIM_ONE, DIM_QKV, false)                                 \
  X(Q_NORM, "attn_q_norm.weight", KIND_VECTOR, q_norm, DIM_ONE, DIM_HEAD, true)                          \
  X(K_NORM, "attn_k_norm.weight", KIND_VECTOR, k_norm, DIM_ONE, DIM_HEAD, true)                          \
  X(Q_ROW_NORM, "attn_q_norm.weight", KIND_VECTOR, q_norm, DIM_ONE, DIM_Q, true)                         \
  X(K_ROW_NORM, "attn_k_norm.weight", KIND_VECTOR, k_norm, DIM_ONE, DIM_K, true)                         \
  X(Q_HEADS_NORM, "attn_q_norm.weight", KIND_VECTOR, q_norm, DIM_HEAD, DIM_Q, true)                      \
  X(K_HEADS_NORM, "attn_k_norm.weight", KIND_VECTOR, k_norm, DIM_HEAD, DIM_K, true)                      \
  X(O, "attn_output.weight", KIND_MATRIX, o, DIM_WIDTH, DIM_O, false)                                    \
  X(O_B, "attn_output.bias", KIND_VECTOR, o_b, DIM_ONE, DIM_WIDTH, false)                                \
  X(ATTN_OUT_NORM, "attn_output_norm.weight", KIND_VECTOR, post_attn_norm, DIM_ONE, DIM_WIDTH, false)    \
  X(ATTN_OUT_NORM_B, "attn_output_norm.bias", KIND_VECTOR, post_attn_norm_b, DIM_ONE, DIM_WIDTH, false)  \
  X(POST_ATTN_NORM, "post_attention_norm.weight", KIND_VECTOR, post_attn_norm, DIM_ONE, DIM_WIDTH, true) \
  X(FFN_NORM, "ffn_norm.weight", KIND_VECTOR, ffn_norm, DIM_ONE, DIM_WIDTH, true)                        \
  X(FFN_NORM_B, "ffn_norm.bias", KIND_VECTOR, ffn_norm_b, DIM_ONE, DIM_WIDTH, false)                     \
  X(GATE, "ffn_gate.weight", KIND_MATRIX, gate, DIM_FF, DIM_WIDTH, false)                                \
  X(UP, "ffn_up.weight", KIND_MATRIX, up, DIM_FF, DIM_WIDTH, false)                                      \
  X(GATE_UP, "ffn_up.weight", KIND_MATRIX, up, DIM_FF_TWICE, DIM_WIDTH, false)                           \
  X(DOWN, "ffn_down.weight", KIND_MATRIX, down, DIM_WIDTH, DIM_FF, false)                                \
  X(GATE_B, "ffn_gate.bias", KIND_VECTOR, gate_b, DIM_ONE, DIM_FF, false)                                \
  X(UP_B, "ffn_up.bias", KIND_VECTOR, up_b, DIM_ONE, DIM_FF, false)                                      \
  X(DOWN_B, "ffn_down.bias", KIND_VECTOR, down_b, DIM_ONE, DIM_WIDTH, false)                             \
  X(LAYER_OUT_NORM, "layer_output_norm.weight", KIND_VECTOR, post_ffn_norm, DIM_ONE, DIM_WIDTH, false)   \
  X(LAYER_OUT_NORM_B, "layer_output_norm.bias", KIND_VECTOR, post_ffn_norm_b, DIM_ONE, DIM_WIDTH, false) \
  X(POST_FFN_NORM, "post_ffw_norm.weight", KIND_VECTOR, post_ffn_norm, DIM_ONE, DIM_WIDTH, true)

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
  size_t offset; /* of the ga_matrix or ga_vector in ga_layer or ga_model */
  weight_dim rows, cols;
  bool is_norm; /* 1 + w when the file says ga.norm_plus_one */
} weight_spec;

/* By weight_id. */
extern const weight_spec ga_weight_specs[W_COUNT];

int64_t ga_weight_dim(const ga_hparams *p, weight_dim dim);
/* The tensor's name in the file; il counts for layer tensors only. */
#define GA_WEIGHT_NAME_BYTES 64
const char *ga_weight_name(weight_id id, int32_t il, char text[GA_WEIGHT_NAME_BYTES]);
/* Where the model keeps it: a ga_matrix or a ga_vector. */
void *ga_weight_field(ga_model *model, weight_id id, int32_t il);
const void *ga_weight_at(const ga_model *model, weight_id id, int32_t il);

#endif
