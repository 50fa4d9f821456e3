#include "model/weight_spec.h"

#define A(name) (1u << GA_MODEL_##name)
#define LLAMAS  (A(llama) | A(qwen2) | A(qwen3) | A(gemma3))
#define OLD     (A(gpt2) | A(bert))

#define M(field) offsetof(ga_model, field)
const weight_spec ga_model_weights[] = {
    {"token_embd.weight", KIND_TABLE, M(token_embd), DIM_VOCAB, DIM_WIDTH, LLAMAS | OLD, 0, false},
    {"position_embd.weight", KIND_TABLE, M(position_embd), DIM_CONTEXT, DIM_WIDTH, OLD, 0, false},
    {"token_types.weight", KIND_TABLE, M(type_embd), DIM_TYPES, DIM_WIDTH, 0, A(bert), false},
    {"token_embd_norm.weight", KIND_VECTOR, M(embd_norm), DIM_ONE, DIM_WIDTH, A(bert), 0, false},
    {"token_embd_norm.bias", KIND_VECTOR, M(embd_norm_b), DIM_ONE, DIM_WIDTH, A(bert), 0, false},
    {"output_norm.weight", KIND_VECTOR, M(output_norm), DIM_ONE, DIM_WIDTH, LLAMAS | A(gpt2), 0, true},
    {"output_norm.bias", KIND_VECTOR, M(output_norm_b), DIM_ONE, DIM_WIDTH, A(gpt2), 0, false},
    {"output.weight", KIND_MATRIX, M(output), DIM_VOCAB, DIM_WIDTH, 0, LLAMAS | A(gpt2), false},
};
#undef M

#define L(field) offsetof(ga_layer, field)
const weight_spec ga_layer_weights[] = {
    {"attn_norm.weight", KIND_VECTOR, L(attn_norm), DIM_ONE, DIM_WIDTH, LLAMAS | A(gpt2), 0, true},
    {"attn_norm.bias", KIND_VECTOR, L(attn_norm_b), DIM_ONE, DIM_WIDTH, A(gpt2), 0, false},
    {"attn_q.weight", KIND_MATRIX, L(q), DIM_Q, DIM_WIDTH, LLAMAS | A(bert), 0, false},
    {"attn_k.weight", KIND_MATRIX, L(k), DIM_K, DIM_WIDTH, LLAMAS | A(bert), 0, false},
    {"attn_v.weight", KIND_MATRIX, L(v), DIM_V, DIM_WIDTH, LLAMAS | A(bert), 0, false},
    {"attn_q.bias", KIND_VECTOR, L(q_b), DIM_ONE, DIM_Q, A(qwen2) | A(bert), A(llama), false},
    {"attn_k.bias", KIND_VECTOR, L(k_b), DIM_ONE, DIM_K, A(qwen2) | A(bert), A(llama), false},
    {"attn_v.bias", KIND_VECTOR, L(v_b), DIM_ONE, DIM_V, A(qwen2) | A(bert), A(llama), false},
    {"attn_qkv.weight", KIND_MATRIX, L(qkv), DIM_QKV, DIM_WIDTH, A(gpt2), 0, false},
    {"attn_qkv.bias", KIND_VECTOR, L(qkv_b), DIM_ONE, DIM_QKV, A(gpt2), 0, false},
    {"attn_q_norm.weight", KIND_VECTOR, L(q_norm), DIM_ONE, DIM_HEAD, A(qwen3) | A(gemma3), 0, true},
    {"attn_k_norm.weight", KIND_VECTOR, L(k_norm), DIM_ONE, DIM_HEAD, A(qwen3) | A(gemma3), 0, true},
    {"attn_output.weight", KIND_MATRIX, L(o), DIM_WIDTH, DIM_O, LLAMAS | OLD, 0, false},
    {"attn_output.bias", KIND_VECTOR, L(o_b), DIM_ONE, DIM_WIDTH, OLD, A(llama), false},
    {"attn_output_norm.weight", KIND_VECTOR, L(post_attn_norm), DIM_ONE, DIM_WIDTH, A(bert), 0, false},
    {"attn_output_norm.bias", KIND_VECTOR, L(post_attn_norm_b), DIM_ONE, DIM_WIDTH, A(bert), 0, false},
    {"post_attention_norm.weight", KIND_VECTOR, L(post_attn_norm), DIM_ONE, DIM_WIDTH, A(gemma3), 0, true},
    {"ffn_norm.weight", KIND_VECTOR, L(ffn_norm), DIM_ONE, DIM_WIDTH, LLAMAS | A(gpt2), 0, true},
    {"ffn_norm.bias", KIND_VECTOR, L(ffn_norm_b), DIM_ONE, DIM_WIDTH, A(gpt2), 0, false},
    {"ffn_gate.weight", KIND_MATRIX, L(gate), DIM_FF, DIM_WIDTH, LLAMAS, 0, false},
    {"ffn_up.weight", KIND_MATRIX, L(up), DIM_FF, DIM_WIDTH, LLAMAS | OLD, 0, false},
    {"ffn_down.weight", KIND_MATRIX, L(down), DIM_WIDTH, DIM_FF, LLAMAS | OLD, 0, false},
    {"ffn_gate.bias", KIND_VECTOR, L(gate_b), DIM_ONE, DIM_FF, 0, A(llama), false},
    {"ffn_up.bias", KIND_VECTOR, L(up_b), DIM_ONE, DIM_FF, OLD, A(llama), false},
    {"ffn_down.bias", KIND_VECTOR, L(down_b), DIM_ONE, DIM_WIDTH, OLD, A(llama), false},
    {"layer_output_norm.weight", KIND_VECTOR, L(post_ffn_norm), DIM_ONE, DIM_WIDTH, A(bert), 0, false},
    {"layer_output_norm.bias", KIND_VECTOR, L(post_ffn_norm_b), DIM_ONE, DIM_WIDTH, A(bert), 0, false},
    {"post_ffw_norm.weight", KIND_VECTOR, L(post_ffn_norm), DIM_ONE, DIM_WIDTH, A(gemma3), 0, true},
};
#undef L

const size_t ga_n_model_weights = GA_COUNT_OF(ga_model_weights), ga_n_layer_weights = GA_COUNT_OF(ga_layer_weights);

int64_t ga_weight_dim(const ga_hparams *p, weight_dim dim) {
  const int64_t heads = p->n_heads, kv = p->n_kv_heads, d = p->head_dim, dv = p->v_dim;
  switch (dim) {
  case DIM_ONE: return 1;
  case DIM_WIDTH: return p->width;
  case DIM_FF: return p->ff_width;
  case DIM_Q: return heads * d;
  case DIM_K: return kv * d;
  case DIM_V: return kv * dv;
  case DIM_QKV: return heads * d + kv * d + kv * dv;
  case DIM_O: return heads * dv;
  case DIM_HEAD: return d;
  case DIM_VOCAB: return p->vocab;
  case DIM_CONTEXT: return p->context;
  case DIM_TYPES: return 2;
  }
  return 0;
}
