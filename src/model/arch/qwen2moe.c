/* Qwen 1.5 and 2 with experts (arXiv 2407.10671): attention as Qwen2's, with biases of q, k and v; experts beside a
 * feed-forward that all tokens take, multiplied by the sigmoid of a gate. A token's weights are the softmax over all
 * experts, which do not sum to 1 over the chosen ones. */
#include "base/status.h"
#include "ga/experts.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

static value_id qwen2moe_layer(graph_builder *b, value_id x) {
  block_qkv t = block_qkv_of(b, build_rms_norm(b, x, W_ATTN_NORM));
  block_rotate(b, &t, false);
  x = build_add(b, x, block_attention(b, t, 0, 1));
  return build_add(b, x, block_expert_layer(b, build_rms_norm(b, x, W_FFN_NORM), GA_ACT_SILU));
}

static void build_qwen2moe(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1); /* x [T, d] = E[ids] */
  block_rms_head(b, block_layers(b, x, qwen2moe_layer), 1);
}

/* The first files state neither width: then experts share feed_forward_length, and the other feed-forward has it. */
static ga_status read_qwen2moe(const ga_model_file *file, ga_hparams *p) {
  static const ga_router router = {.scores = GA_ROUTE_SOFTMAX, .scale = 1};
  char text[GA_HPARAM_KEY_BYTES];
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(hparams_router(file, &router, p));
  GA_TRY(hparams_expert_layers(file, p));
  if (!ga_model_file_meta(file, hparams_key(p, "expert_feed_forward_length", text)))
    p->expert_ff_width = p->ff_width / p->n_experts_used;
  GA_REQUIRE(p->expert_ff_width >= 1, GA_ERR_FORMAT, "%s is %d, which %d experts share; must be at least 1 each",
             hparams_key(p, "feed_forward_length", text), p->ff_width, p->n_experts_used);
  if (!p->shared_ff_width) p->shared_ff_width = p->ff_width;
  return hparams_eps(file, "attention.layer_norm_rms_epsilon", p);
}

static const weight_use qwen2moe_weights[] = {
    {W_TOKEN_EMBD, REQUIRED},
    {W_OUTPUT_NORM, REQUIRED},
    {W_OUTPUT, OPTIONAL},
    {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},
    {W_K, REQUIRED},
    {W_V, REQUIRED},
    {W_O, REQUIRED},
    {W_Q_B, OPTIONAL},
    {W_K_B, OPTIONAL},
    {W_V_B, OPTIONAL},
    {W_FFN_NORM, REQUIRED},
    {W_GATE, REQUIRED},
    {W_UP, REQUIRED},
    {W_DOWN, REQUIRED},
    {W_ROUTER, REQUIRED},
    {W_GATE_EXPERTS, REQUIRED},
    {W_UP_EXPERTS, REQUIRED},
    {W_DOWN_EXPERTS, REQUIRED},
    {W_SHARED_GATE, REQUIRED},
    {W_GATE_SHARED, REQUIRED},
    {W_UP_SHARED, REQUIRED},
    {W_DOWN_SHARED, REQUIRED},
};
const ga_arch_desc ga_arch_qwen2moe = {.name = "qwen2moe",
                                       .weights = qwen2moe_weights,
                                       .n_weights = GA_COUNT_OF(qwen2moe_weights),
                                       .has_weight = block_has_weight,
                                       .read = read_qwen2moe,
                                       .build = build_qwen2moe};
