/* Qwen3 with experts (Qwen3-30B-A3B, Qwen3-Coder): arXiv 2505.09388. Attention is Qwen3's. Layers have experts in place
 * of one feed-forward, all but those that a folder names. A token's weights are the softmax over all experts, divided
 * by their sum over the chosen ones. */
#include "base/status.h"
#include "ga/experts.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

static value_id qwen3moe_layer(graph_builder *b, value_id x) {
  block_qkv t = block_qkv_of(b, build_rms_norm(b, x, W_ATTN_NORM));
  block_norm_heads(b, &t);
  block_rotate(b, &t, false);
  x = build_add(b, x, block_attention(b, t, b->model->hparams.window, 1));
  return build_add(b, x, block_expert_layer(b, build_rms_norm(b, x, W_FFN_NORM), GA_ACT_SILU));
}

static void build_qwen3moe(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1); /* x [T, d] = E[ids] */
  block_rms_head(b, block_layers(b, x, qwen3moe_layer), 1);
}

static ga_status read_qwen3moe(const ga_model_file *file, ga_hparams *p) {
  static const ga_router router = {.scores = GA_ROUTE_SOFTMAX, .renorm = GA_ROUTE_RENORM_SUM, .scale = 1};
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(hparams_router(file, &router, p));
  GA_TRY(hparams_expert_layers(file, p));
  p->shared_ff_width = 0;
  GA_TRY(hparams_int(file, p, "attention.sliding_window", 0, 0, 1 << 20, &p->window));
  return hparams_eps(file, "attention.layer_norm_rms_epsilon", p);
}

static const weight_use qwen3moe_weights[] = {
    {W_TOKEN_EMBD, REQUIRED}, {W_OUTPUT_NORM, REQUIRED},
    {W_OUTPUT, OPTIONAL},     {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},          {W_K, REQUIRED},
    {W_V, REQUIRED},          {W_Q_NORM, REQUIRED},
    {W_K_NORM, REQUIRED},     {W_O, REQUIRED},
    {W_FFN_NORM, REQUIRED},   {W_GATE, REQUIRED},
    {W_UP, REQUIRED},         {W_DOWN, REQUIRED},
    {W_ROUTER, REQUIRED},     {W_GATE_EXPERTS, REQUIRED},
    {W_UP_EXPERTS, REQUIRED}, {W_DOWN_EXPERTS, REQUIRED},
};
const ga_arch_desc ga_arch_qwen3moe = {.name = "qwen3moe",
                                       .weights = qwen3moe_weights,
                                       .n_weights = GA_COUNT_OF(qwen3moe_weights),
                                       .has_weight = block_has_weight,
                                       .read = read_qwen3moe,
                                       .build = build_qwen3moe};
