/* ERNIE 4.5 with experts (Baidu 2025): attention as Llama's; dense layers first, then experts in every n-th layer. A
 * token's weights are the softmax over all experts, divided by their sum over the chosen ones, which a bias helps to
 * choose. */
#include "base/status.h"
#include "ga/experts.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

static value_id ernie4_5_moe_layer(graph_builder *b, value_id x) {
  block_qkv t = block_qkv_of(b, build_rms_norm(b, x, W_ATTN_NORM));
  block_rotate(b, &t, false);
  x = build_add(b, x, block_attention(b, t, 0, 1));
  return build_add(b, x, block_expert_layer(b, build_rms_norm(b, x, W_FFN_NORM), GA_ACT_SILU));
}

static void build_ernie4_5_moe(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1); /* x [T, d] = E[ids] */
  block_rms_head(b, block_layers(b, x, ernie4_5_moe_layer), 1);
}

static ga_status read_ernie4_5_moe(const ga_model_file *file, ga_hparams *p) {
  static const ga_router router = {
      .scores = GA_ROUTE_SOFTMAX, .renorm = GA_ROUTE_RENORM_BOUND, .norm_eps = 1e-12f, .scale = 1};
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "norm", p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(hparams_router(file, &router, p));
  GA_TRY(hparams_expert_layers(file, p));
  return hparams_eps(file, "attention.layer_norm_rms_epsilon", p);
}

static const weight_use ernie4_5_moe_weights[] = {
    {W_TOKEN_EMBD, REQUIRED},
    {W_OUTPUT_NORM, REQUIRED},
    {W_OUTPUT, OPTIONAL},
    {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},
    {W_K, REQUIRED},
    {W_V, REQUIRED},
    {W_O, REQUIRED},
    {W_FFN_NORM, REQUIRED},
    {W_ROUTER_CHOICE_B, OPTIONAL},
    {W_Q_B, OPTIONAL},
    {W_K_B, OPTIONAL},
    {W_V_B, OPTIONAL},
    {W_O_B, OPTIONAL},
    {W_GATE, REQUIRED},
    {W_UP, REQUIRED},
    {W_DOWN, REQUIRED},
    {W_ROUTER, REQUIRED},
    {W_GATE_EXPERTS, REQUIRED},
    {W_UP_EXPERTS, REQUIRED},
    {W_DOWN_EXPERTS, REQUIRED},
    {W_GATE_SHARED, REQUIRED},
    {W_UP_SHARED, REQUIRED},
    {W_DOWN_SHARED, REQUIRED},
};
const ga_arch_desc ga_arch_ernie4_5_moe = {.name = "ernie4_5-moe",
                                           .weights = ernie4_5_moe_weights,
                                           .n_weights = GA_COUNT_OF(ernie4_5_moe_weights),
                                           .has_weight = block_has_weight,
                                           .read = read_ernie4_5_moe,
                                           .build = build_ernie4_5_moe};
