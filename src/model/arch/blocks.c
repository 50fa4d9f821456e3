#include "model/arch/blocks.h"

#include <math.h>

#include "ga/gemm.h"
#include "model/arch/arch.h"

/* --- attention --- */

block_qkv block_qkv_of(graph_builder *b, value_id h) {
  block_qkv t;
  t.q = build_linear(b, h, W_Q, build_if_present(b, W_Q_B)); /* [T, Hq D] */
  t.k = build_linear(b, h, W_K, build_if_present(b, W_K_B)); /* [T, Hkv D] */
  t.v = build_linear(b, h, W_V, build_if_present(b, W_V_B)); /* [T, Hkv Dv] */
  return t;
}

block_qkv block_joined_qkv_of(graph_builder *b, value_id h) {
  const ga_hparams *p = &b->model->hparams;
  const int64_t n_q = ga_weight_dim(p, DIM_Q, b->layer), n_k = ga_weight_dim(p, DIM_K, b->layer),
                n_v = ga_weight_dim(p, DIM_V, b->layer);
  const value_id qkv = build_linear(b, h, W_QKV, build_if_present(b, W_QKV_B)); /* [T, Hq D + Hkv D + Hkv Dv] */
  block_qkv t;
  t.q = build_slice(b, qkv, 0, n_q);
  t.k = build_slice(b, qkv, n_q, n_k);
  t.v = build_slice(b, qkv, n_q + n_k, n_v);
  return t;
}

void block_norm_heads(graph_builder *b, block_qkv *t) {
  t->q = build_head_norm(b, t->q, W_Q_NORM); /* each [D] */
  t->k = build_head_norm(b, t->k, W_K_NORM); /* each [D] */
}

void block_layer_norm_heads(graph_builder *b, block_qkv *t) {
  t->q = build_head_layer_norm(b, t->q, W_Q_HEADS_NORM); /* each [D], with weights [Hq, D] */
  t->k = build_head_layer_norm(b, t->k, W_K_HEADS_NORM); /* each [D], with weights [Hkv, D] */
}

void block_rotate(graph_builder *b, block_qkv *t, bool is_local) {
  t->q = build_rope(b, t->q, is_local);
  t->k = build_rope(b, t->k, is_local);
}

value_id block_attention(graph_builder *b, block_qkv t, int32_t window, float scale) {
  const value_id o = build_attention(b, t.q, t.k, t.v, window); /* [T, Hq Dv] */
  return build_scaled_linear(b, o, W_O, build_if_present(b, W_O_B), scale);
}

value_id block_attention_bidirectional(graph_builder *b, block_qkv t, int32_t window, bool has_alibi) {
  const value_id o = build_attention_bidirectional(b, t.q, t.k, t.v, window, has_alibi); /* [T, H D] */
  return build_linear(b, o, W_O, build_if_present(b, W_O_B));
}

/* --- feed-forward --- */

value_id block_gated_ffn(graph_builder *b, value_id h, int32_t act, float scale) {
  const value_id gate = build_linear(b, h, W_GATE, build_if_present(b, W_GATE_B)); /* [T, F] */
  const value_id up = build_linear(b, h, W_UP, build_if_present(b, W_UP_B));       /* [T, F] */
  const value_id y = build_gated_act(b, act, gate, up);                            /* [T, F] = act(gate) * up */
  return build_scaled_linear(b, y, W_DOWN, build_if_present(b, W_DOWN_B), scale);
}

value_id block_joined_ffn(graph_builder *b, value_id h, int32_t act) {
  const int64_t width = b->model->hparams.ff_width;
  const value_id both = build_linear(b, h, W_GATE_UP, W_NONE); /* gate|up [T, 2 F] */
  const value_id gate = build_slice(b, both, 0, width);        /* [T, F] */
  const value_id up = build_slice(b, both, width, width);      /* [T, F] */
  const value_id y = build_gated_act(b, act, gate, up);        /* [T, F] = act(gate) * up */
  return build_linear(b, y, W_DOWN, build_if_present(b, W_DOWN_B));
}

value_id block_ffn(graph_builder *b, value_id h, int32_t act) {
  const value_id up = build_linear(b, h, W_UP, build_if_present(b, W_UP_B)); /* [T, F] */
  return build_linear(b, build_act(b, act, up), W_DOWN, build_if_present(b, W_DOWN_B));
}

static value_id route_of(graph_builder *b, value_id h) {
  const value_id logits = build_linear(b, h, W_ROUTER, build_if_present(b, W_ROUTER_B)); /* [T, n_experts] */
  return build_route(b, logits, build_if_present(b, W_ROUTER_CHOICE_B));
}

value_id block_experts(graph_builder *b, value_id h, int32_t act) {
  const value_id route = route_of(b, h);
  return build_expert_out(b, build_expert_in(b, h, route, act), route);
}

bool block_layer_has_experts(const ga_hparams *p, int32_t layer) {
  return p->n_experts > 0 && layer >= p->n_dense_layers && (layer + 1) % p->expert_step == 0 && !p->is_dense[layer];
}

bool block_has_weight(const ga_hparams *p, weight_id id, int32_t layer) {
  const bool has_experts = block_layer_has_experts(p, layer);
  switch (id) {
  case W_GATE:
  case W_UP:
  case W_DOWN: return !has_experts;
  case W_ROUTER:
  case W_ROUTER_CHOICE_B:
  case W_GATE_EXPERTS:
  case W_UP_EXPERTS:
  case W_DOWN_EXPERTS: return has_experts;
  case W_GATE_SHARED:
  case W_UP_SHARED:
  case W_DOWN_SHARED:
  case W_SHARED_GATE: return has_experts && p->shared_ff_width > 0;
  default: return true;
  }
}

value_id block_expert_layer(graph_builder *b, value_id h, int32_t act) {
  const ga_hparams *p = &b->model->hparams;
  if (!block_layer_has_experts(p, b->layer)) return block_gated_ffn(b, h, act, 1);
  if (!p->shared_ff_width) return block_experts(b, h, act);
  /* The shared feed-forward stands between the experts' products: a GPU works on it while the CPU multiplies by experts
   * in host memory. */
  const value_id route = route_of(b, h), in = build_expert_in(b, h, route, act);
  const value_id gate = build_linear(b, h, W_GATE_SHARED, W_NONE), up = build_linear(b, h, W_UP_SHARED, W_NONE);
  const value_id shared = build_gated_act(b, act, gate, up); /* [T, F] */
  const value_id y = build_expert_out(b, in, route);
  if (build_if_present(b, W_SHARED_GATE) == W_NONE)
    return build_add(b, y, build_linear(b, shared, W_DOWN_SHARED, W_NONE));
  const value_id weight = build_gate(b, build_linear(b, h, W_SHARED_GATE, W_NONE)); /* sigmoid of [T, 1] */
  return build_add(b, y, build_gated_linear(b, shared, weight, W_DOWN_SHARED));
}

/* --- embeddings of layers --- */

value_id block_layer_embeddings(graph_builder *b, value_id x) {
  const ga_hparams *p = &b->model->hparams;
  const float each = sqrtf((float)p->layer_embed_width), width = sqrtf((float)p->width);
  const value_id looked_up = build_embed(b, W_LAYER_EMBD, IDS_TOKENS, each); /* [T, n_layers P] */
  const value_id made = build_scaled_linear(b, x, W_LAYER_EMBD_PROJ, W_NONE, 1 / width);
  return build_scale(b, build_add(b, build_group_norm(b, made, W_LAYER_EMBD_NORM), looked_up), sqrtf(0.5f));
}

value_id block_layer_embedding(graph_builder *b, value_id x) {
  const int32_t width = b->model->hparams.layer_embed_width;
  const value_id own = build_slice(b, b->layer_values, (int64_t)b->layer * width, width); /* [T, P] */
  const value_id gate = build_linear(b, x, W_LAYER_GATE, W_NONE);                         /* [T, P] */
  const value_id y = build_linear(b, build_gated_act(b, GA_ACT_GELU_TANH, gate, own), W_LAYER_PROJ, W_NONE);
  return build_rms_norm(b, y, W_POST_LAYER_NORM);
}

/* --- layers --- */

value_id block_layer_norm_decoder(graph_builder *b, value_id x, int32_t window, int32_t act) {
  block_qkv t = block_qkv_of(b, build_layer_norm(b, x, W_ATTN_NORM, W_ATTN_NORM_B));
  block_rotate(b, &t, false);
  x = build_add(b, x, block_attention(b, t, window, 1));
  return build_add(b, x, block_ffn(b, build_layer_norm(b, x, W_FFN_NORM, W_FFN_NORM_B), act));
}

value_id block_layers(graph_builder *b, value_id x, block_layer_fn layer) {
  for (b->layer = 0; b->layer < b->model->hparams.n_layers; b->layer++) x = layer(b, x);
  return x;
}

void block_rms_head(graph_builder *b, value_id x, float scale) {
  const value_id h = build_rms_norm(b, build_wanted(b, x), W_OUTPUT_NORM); /* [n_out, d] */
  build_result(b, build_scaled_linear(b, h, W_OUTPUT, W_NONE, scale), POOL_NONE);
}

void block_capped_head(graph_builder *b, value_id x) {
  const float cap = b->model->hparams.logit_softcap;
  const value_id h = build_rms_norm(b, build_wanted(b, x), W_OUTPUT_NORM);              /* [n_out, d] */
  value_id logits = build_scaled_linear(b, h, W_OUTPUT, W_NONE, cap > 0 ? 1 / cap : 1); /* [n_out, V] */
  if (cap > 0) logits = build_scale(b, build_act(b, GA_ACT_TANH, logits), cap);
  build_result(b, logits, POOL_NONE);
}

void block_layer_norm_head(graph_builder *b, value_id x, float scale) {
  const weight_id bias = build_if_present(b, W_OUTPUT_NORM_B);
  const value_id h = build_layer_norm(b, build_wanted(b, x), W_OUTPUT_NORM, bias); /* [n_out, d] */
  build_result(b, build_scaled_linear(b, h, W_OUTPUT, build_if_present(b, W_OUTPUT_B), scale), POOL_NONE);
}

/* --- BERT's kin --- */

value_id block_bert_embedding(graph_builder *b) {
  value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1); /* x [T, d] = E[ids] */
  if (ga_arch_weight(b->model->hparams.arch, W_POSITION_EMBD))
    x = build_add(b, x, build_embed(b, W_POSITION_EMBD, IDS_POSITIONS, 1));
  if (build_if_present(b, W_TYPE_EMBD) != W_NONE) x = build_add(b, x, build_embed(b, W_TYPE_EMBD, IDS_TYPES, 1));
  return build_layer_norm(b, x, W_EMBD_NORM, build_if_present(b, W_EMBD_NORM_B));
}

value_id block_bert_attn_norm(graph_builder *b, value_id x, value_id added) {
  return build_layer_norm(b, build_add(b, x, added), W_ATTN_OUT_NORM, W_ATTN_OUT_NORM_B);
}

value_id block_bert_ffn_norm(graph_builder *b, value_id x, value_id added) {
  return build_layer_norm(b, build_add(b, x, added), W_LAYER_OUT_NORM, W_LAYER_OUT_NORM_B);
}
