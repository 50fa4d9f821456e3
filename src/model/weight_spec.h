/* The table of all tensors that GA knows, with their names in files and their shapes. The files of architectures
 * (arch/) list which tensors each architecture has. Code that reads models and code that writes them share this
 * table. */
#ifndef GA_MODEL_WEIGHT_SPEC_H
#define GA_MODEL_WEIGHT_SPEC_H

#include "model/model.h"

typedef enum weight_kind {
  KIND_MATRIX,
  KIND_VECTOR,
  KIND_TABLE,
  /* a stack of matrices, one for each expert: [n_experts, rows, columns]; only declared ops read stacks */
  KIND_STACK,
  /* a stack of matrices, one for each head: [n_heads, rows, columns]; only declared ops read it */
  KIND_HEADS
} weight_kind;

static inline bool weight_is_stack(weight_kind kind) { return kind == KIND_STACK || kind == KIND_HEADS; }

/* The sizes that occur in shapes of tensors. */
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
  DIM_HEADS,
  DIM_VOCAB,
  DIM_CONTEXT,
  DIM_TYPES,
  DIM_EXPERTS,
  DIM_EXPERT_FF,
  DIM_SHARED_FF,
  DIM_LATENT,     /* the latent vector of keys and values */
  DIM_LATENT_ROW, /* the same, and the rotated key that heads share */
  DIM_Q_LATENT,   /* the latent vector of queries */
  DIM_NOPE,       /* the elements of a head of q that do not rotate */
  DIM_V_HEAD,     /* a head of v */
  DIM_LAYER_EMBD, /* the embedding of a token that a layer has of its own */
  DIM_LAYER_EMBDS /* the same, of all layers */
} weight_dim;

/* Tensors of the whole model. X has the id, name, kind, rows, columns (vectors have columns only), and whether the
 * tensor is a norm's weight. */
#define GA_MODEL_WEIGHTS(X)                                                                         \
  X(TOKEN_EMBD, "token_embd.weight", KIND_TABLE, DIM_VOCAB, DIM_WIDTH, false)                       \
  X(POSITION_EMBD, "position_embd.weight", KIND_TABLE, DIM_CONTEXT, DIM_WIDTH, false)               \
  X(TYPE_EMBD, "token_types.weight", KIND_TABLE, DIM_TYPES, DIM_WIDTH, false)                       \
  X(EMBD_NORM, "token_embd_norm.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)                    \
  X(EMBD_NORM_B, "token_embd_norm.bias", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)                    \
  X(OUTPUT_NORM, "output_norm.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, true)                       \
  X(OUTPUT_NORM_B, "output_norm.bias", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)                      \
  X(OUTPUT, "output.weight", KIND_MATRIX, DIM_VOCAB, DIM_WIDTH, false)                              \
  X(OUTPUT_B, "output.bias", KIND_VECTOR, DIM_ONE, DIM_VOCAB, false)                                \
  X(LAYER_EMBD, "per_layer_token_embd.weight", KIND_TABLE, DIM_VOCAB, DIM_LAYER_EMBDS, false)       \
  X(LAYER_EMBD_PROJ, "per_layer_model_proj.weight", KIND_MATRIX, DIM_LAYER_EMBDS, DIM_WIDTH, false) \
  X(LAYER_EMBD_NORM, "per_layer_proj_norm.weight", KIND_VECTOR, DIM_ONE, DIM_LAYER_EMBD, true)

/* Tensors of each layer N, whose names begin with "blk.N.". X has the id, name, kind, rows, columns, and whether the
 * tensor is a norm's weight. A vector with DIM_HEAD rows may be a matrix in the file, with one row for each head. A
 * vector with DIM_EXPERTS rows is a matrix in the file, whose rows follow each other in the vector. */
#define GA_LAYER_WEIGHTS(X)                                                               \
  X(ATTN_NORM, "attn_norm.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, true)                 \
  X(ATTN_NORM_B, "attn_norm.bias", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)                \
  X(Q, "attn_q.weight", KIND_MATRIX, DIM_Q, DIM_WIDTH, false)                             \
  X(K, "attn_k.weight", KIND_MATRIX, DIM_K, DIM_WIDTH, false)                             \
  X(V, "attn_v.weight", KIND_MATRIX, DIM_V, DIM_WIDTH, false)                             \
  X(Q_B, "attn_q.bias", KIND_VECTOR, DIM_ONE, DIM_Q, false)                               \
  X(K_B, "attn_k.bias", KIND_VECTOR, DIM_ONE, DIM_K, false)                               \
  X(V_B, "attn_v.bias", KIND_VECTOR, DIM_ONE, DIM_V, false)                               \
  X(QKV, "attn_qkv.weight", KIND_MATRIX, DIM_QKV, DIM_WIDTH, false)                       \
  X(QKV_B, "attn_qkv.bias", KIND_VECTOR, DIM_ONE, DIM_QKV, false)                         \
  X(Q_NORM, "attn_q_norm.weight", KIND_VECTOR, DIM_ONE, DIM_HEAD, true)                   \
  X(K_NORM, "attn_k_norm.weight", KIND_VECTOR, DIM_ONE, DIM_HEAD, true)                   \
  X(Q_ROW_NORM, "attn_q_norm.weight", KIND_VECTOR, DIM_ONE, DIM_Q, true)                  \
  X(K_ROW_NORM, "attn_k_norm.weight", KIND_VECTOR, DIM_ONE, DIM_K, true)                  \
  X(Q_HEADS_NORM, "attn_q_norm.weight", KIND_VECTOR, DIM_HEAD, DIM_Q, true)               \
  X(K_HEADS_NORM, "attn_k_norm.weight", KIND_VECTOR, DIM_HEAD, DIM_K, true)               \
  X(O, "attn_output.weight", KIND_MATRIX, DIM_WIDTH, DIM_O, false)                        \
  X(O_B, "attn_output.bias", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)                      \
  X(ATTN_OUT_NORM, "attn_output_norm.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)     \
  X(ATTN_OUT_NORM_B, "attn_output_norm.bias", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)     \
  X(POST_ATTN_NORM, "post_attention_norm.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, true)  \
  X(FFN_NORM, "ffn_norm.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, true)                   \
  X(FFN_NORM_B, "ffn_norm.bias", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)                  \
  X(GATE, "ffn_gate.weight", KIND_MATRIX, DIM_FF, DIM_WIDTH, false)                       \
  X(UP, "ffn_up.weight", KIND_MATRIX, DIM_FF, DIM_WIDTH, false)                           \
  X(GATE_UP, "ffn_up.weight", KIND_MATRIX, DIM_FF_TWICE, DIM_WIDTH, false)                \
  X(DOWN, "ffn_down.weight", KIND_MATRIX, DIM_WIDTH, DIM_FF, false)                       \
  X(GATE_B, "ffn_gate.bias", KIND_VECTOR, DIM_ONE, DIM_FF, false)                         \
  X(UP_B, "ffn_up.bias", KIND_VECTOR, DIM_ONE, DIM_FF, false)                             \
  X(DOWN_B, "ffn_down.bias", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)                      \
  X(Q_DOWN, "attn_q_a.weight", KIND_MATRIX, DIM_Q_LATENT, DIM_WIDTH, false)               \
  X(Q_DOWN_NORM, "attn_q_a_norm.weight", KIND_VECTOR, DIM_ONE, DIM_Q_LATENT, true)        \
  X(Q_UP, "attn_q_b.weight", KIND_MATRIX, DIM_Q, DIM_Q_LATENT, false)                     \
  X(KV_DOWN, "attn_kv_a_mqa.weight", KIND_MATRIX, DIM_LATENT_ROW, DIM_WIDTH, false)       \
  X(KV_DOWN_NORM, "attn_kv_a_norm.weight", KIND_VECTOR, DIM_ONE, DIM_LATENT, true)        \
  X(K_UP, "attn_k_b.weight", KIND_HEADS, DIM_LATENT, DIM_NOPE, false)                     \
  X(V_UP, "attn_v_b.weight", KIND_HEADS, DIM_V_HEAD, DIM_LATENT, false)                   \
  X(SINKS, "attn_sinks.weight", KIND_VECTOR, DIM_ONE, DIM_HEADS, false)                   \
  X(ROUTER, "ffn_gate_inp.weight", KIND_MATRIX, DIM_EXPERTS, DIM_WIDTH, false)            \
  X(ROUTER_B, "ffn_gate_inp.bias", KIND_VECTOR, DIM_ONE, DIM_EXPERTS, false)              \
  X(GATE_EXPERTS, "ffn_gate_exps.weight", KIND_STACK, DIM_EXPERT_FF, DIM_WIDTH, false)    \
  X(UP_EXPERTS, "ffn_up_exps.weight", KIND_STACK, DIM_EXPERT_FF, DIM_WIDTH, false)        \
  X(DOWN_EXPERTS, "ffn_down_exps.weight", KIND_STACK, DIM_WIDTH, DIM_EXPERT_FF, false)    \
  X(GATE_EXPERTS_B, "ffn_gate_exps.bias", KIND_VECTOR, DIM_EXPERTS, DIM_EXPERT_FF, false) \
  X(UP_EXPERTS_B, "ffn_up_exps.bias", KIND_VECTOR, DIM_EXPERTS, DIM_EXPERT_FF, false)     \
  X(DOWN_EXPERTS_B, "ffn_down_exps.bias", KIND_VECTOR, DIM_EXPERTS, DIM_WIDTH, false)     \
  X(ROUTER_CHOICE_B, "exp_probs_b.bias", KIND_VECTOR, DIM_ONE, DIM_EXPERTS, false)        \
  X(GATE_SHARED, "ffn_gate_shexp.weight", KIND_MATRIX, DIM_SHARED_FF, DIM_WIDTH, false)   \
  X(UP_SHARED, "ffn_up_shexp.weight", KIND_MATRIX, DIM_SHARED_FF, DIM_WIDTH, false)       \
  X(DOWN_SHARED, "ffn_down_shexp.weight", KIND_MATRIX, DIM_WIDTH, DIM_SHARED_FF, false)   \
  X(SHARED_GATE, "ffn_gate_inp_shexp.weight", KIND_MATRIX, DIM_ONE, DIM_WIDTH, false)     \
  X(LAYER_OUT_NORM, "layer_output_norm.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)   \
  X(LAYER_OUT_NORM_B, "layer_output_norm.bias", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)   \
  X(POST_FFN_NORM, "post_ffw_norm.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, true)         \
  X(ROUTER_SCALE, "ffn_gate_inp.scale", KIND_VECTOR, DIM_ONE, DIM_WIDTH, false)           \
  X(EXPERT_SCALE, "ffn_down_exps.scale", KIND_VECTOR, DIM_ONE, DIM_EXPERTS, false)        \
  X(EXPERTS_NORM, "pre_ffw_norm_2.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, true)         \
  X(POST_DENSE_NORM, "post_ffw_norm_1.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, true)     \
  X(POST_EXPERTS_NORM, "post_ffw_norm_2.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, true)   \
  X(LAYER_GATE, "inp_gate.weight", KIND_MATRIX, DIM_LAYER_EMBD, DIM_WIDTH, false)         \
  X(LAYER_PROJ, "proj.weight", KIND_MATRIX, DIM_WIDTH, DIM_LAYER_EMBD, false)             \
  X(POST_LAYER_NORM, "post_norm.weight", KIND_VECTOR, DIM_ONE, DIM_WIDTH, true)           \
  X(LAYER_SCALE, "layer_output_scale.weight", KIND_VECTOR, DIM_ONE, DIM_ONE, false)

typedef enum weight_id {
  W_NONE = -1,
#define X(id, ...) W_##id,
  GA_MODEL_WEIGHTS(X) GA_LAYER_WEIGHTS(X)
#undef X
      W_COUNT
} weight_id;

typedef struct weight_spec {
  const char *name; /* name in the file; tensors of a layer: the part after "blk.N." */
  weight_kind kind;
  bool of_layer; /* each layer has such a tensor; else the whole model has one */
  weight_dim rows, cols;
  bool is_norm; /* the tensor is the weight w of a norm, whose factor is 1 + w if the file has ga.norm_plus_one */
} weight_spec;

/* The specifications of all tensors, indexed by weight_id. */
extern const weight_spec ga_weight_specs[W_COUNT];

/* Returns whether the tensor is of experts: a stack of their matrices, or their biases. */
static inline bool weight_is_of_experts(weight_id id) {
  const weight_spec *s = &ga_weight_specs[id];
  return s->kind == KIND_STACK || (s->kind == KIND_VECTOR && s->rows == DIM_EXPERTS);
}

/* Returns a size of the layer's tensors. il: any number for sizes that all layers have in common. */
int64_t ga_weight_dim(const ga_hparams *p, weight_dim dim, int32_t il);
/* Writes the dimensions of the tensor of layer il, the outermost first. Returns their number. */
int32_t ga_weight_dims(const ga_hparams *p, weight_id id, int32_t il, int64_t dims[GA_WEIGHT_DIMS]);
#define GA_WEIGHT_NAME_BYTES 64 /* largest size of a tensor's name in bytes, with its NUL */
/* Writes the tensor's name in the file to `text` and returns it. il: the layer, for tensors of layers only. */
const char *ga_weight_name(weight_id id, int32_t il, char text[GA_WEIGHT_NAME_BYTES]);

/* The tensors of one entry of the model's table of weights: the weight, and matrices A and B of its adapter
 * (ga_attachment). */
typedef enum weight_part { PART_WEIGHT, PART_A, PART_B } weight_part;

/* Names a tensor of the model's table by role and layer. Tensors of the whole model ignore the layer. */
typedef struct weight_ref {
  weight_id id; /* role of the tensor; W_NONE: no tensor */
  int32_t layer;
  weight_part part;
} weight_ref;

/* Makes an empty table of weights for a model of n_layers layers. The caller releases it with ga_mem_free. */
GA_NODISCARD ga_status ga_weights_create(int32_t n_layers, ga_weight **out);
/* Returns the tensor's entry in the model's table. Its data is NULL if the model has no such tensor. */
ga_weight *ga_weight_slot(ga_model *model, weight_id id, int32_t il);
const ga_weight *ga_weight_at(const ga_model *model, weight_ref w);
/* Returns the description of a tensor of layer il, without data. A table of token types has only the rows that GA
 * reads (ga_hparams.n_types). */
ga_weight ga_weight_of(const ga_hparams *p, weight_id id, int32_t il, ga_dtype dtype);
/* Returns the type in which ctx stores tensor t of the file. */
ga_dtype ga_weight_dtype(const ga_model *model, ga_ctx *ctx, weight_kind kind, const ga_model_tensor *t);
/* Returns the number of rows that ga_pack takes for a matrix, or for a whole stack of matrices. 0: it stays native,
 * because a matrix of the stack has no whole number of packed groups of rows. */
int64_t ga_weight_pack_rows(const ga_weight *w);
/* Describes a tensor as it will be on ctx, before weights are loaded: without data. If the file has no such tensor,
 * *out has no dimensions. */
GA_NODISCARD ga_status ga_weight_describe(const ga_model *model, ga_ctx *ctx, weight_ref w, ga_weight *out);

#endif
