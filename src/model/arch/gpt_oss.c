/* gpt-oss (OpenAI 2025, arXiv 2508.10925): attention with a sink for each head, every second layer behind a window, and
 * experts with biases. A token's weights are the softmax over its chosen experts. The gated activation is (u + 1) g /
 * (1 + e^(-1.702 g)), with g at most 7 and u within 7. The norm before the experts has the name of a norm after
 * attention in files. */
#include "base/status.h"
#include "ga/experts.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

enum { GLOBAL_EVERY = 2 };

static value_id gpt_oss_layer(graph_builder *b, value_id x) {
  const ga_hparams *p = &b->model->hparams;
  block_qkv t = block_qkv_of(b, build_rms_norm(b, x, W_ATTN_NORM));
  block_rotate(b, &t, false);
  x = build_add(b, x, block_attention(b, t, p->is_local[b->layer] ? p->window : 0, 1));
  return build_add(b, x, block_experts(b, build_rms_norm(b, x, W_POST_ATTN_NORM), GA_ACT_SILU));
}

static void build_gpt_oss(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1); /* x [T, d] = E[ids] */
  block_rms_head(b, block_layers(b, x, gpt_oss_layer), 1);
}

static ga_status read_gpt_oss(const ga_model_file *file, ga_hparams *p) {
  static const ga_router router = {.scores = GA_ROUTE_SOFTMAX_CHOSEN, .scale = 1};
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(hparams_router(file, &router, p));
  p->expert_act = (ga_expert_act){.clamp = GA_EXPERT_CLAMP_BEFORE, .act_alpha = 1.702f, .limit = 7, .up_offset = 1};
  p->has_sinks = true;
  GA_TRY(hparams_windows(file, 0, GLOBAL_EVERY, p));
  return hparams_eps(file, "attention.layer_norm_rms_epsilon", p);
}

static const weight_use gpt_oss_weights[] = {
    {W_TOKEN_EMBD, REQUIRED},
    {W_OUTPUT_NORM, REQUIRED},
    {W_OUTPUT, OPTIONAL},
    {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},
    {W_K, REQUIRED},
    {W_V, REQUIRED},
    {W_O, REQUIRED},
    {W_Q_B, REQUIRED},
    {W_K_B, REQUIRED},
    {W_V_B, REQUIRED},
    {W_O_B, REQUIRED},
    {W_SINKS, REQUIRED},
    {W_POST_ATTN_NORM, REQUIRED},
    {W_ROUTER, REQUIRED},
    {W_ROUTER_B, REQUIRED},
    {W_GATE_EXPERTS, REQUIRED},
    {W_UP_EXPERTS, REQUIRED},
    {W_DOWN_EXPERTS, REQUIRED},
    {W_GATE_EXPERTS_B, REQUIRED},
    {W_UP_EXPERTS_B, REQUIRED},
    {W_DOWN_EXPERTS_B, REQUIRED},
};
const ga_arch_desc ga_arch_gpt_oss = {.name = "gpt-oss",
                                      .weights = gpt_oss_weights,
                                      .n_weights = GA_COUNT_OF(gpt_oss_weights),
                                      .read = read_gpt_oss,
                                      .build = build_gpt_oss};
