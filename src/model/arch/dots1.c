/* dots.llm1 (arXiv 2506.05767): attention as Qwen3's, one dense layer, then experts beside a feed-forward that tokens
 * share. Scores are sigmoids; a bias has a part in the choice alone. */
#include "base/status.h"
#include "ga/experts.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

static value_id dots1_layer(graph_builder *b, value_id x) {
  block_qkv t = block_qkv_of(b, build_rms_norm(b, x, W_ATTN_NORM));
  block_norm_heads(b, &t);
  block_rotate(b, &t, false);
  x = build_add(b, x, block_attention(b, t, 0, 1));
  return build_add(b, x, block_expert_layer(b, build_rms_norm(b, x, W_FFN_NORM), GA_ACT_SILU));
}

static void build_dots1(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1); /* x [T, d] = E[ids] */
  block_rms_head(b, block_layers(b, x, dots1_layer), 1);
}

static ga_status read_dots1(const ga_model_file *file, ga_hparams *p) {
  static const ga_router router = {.scores = GA_ROUTE_SIGMOID,
                                   .group_score = GA_ROUTE_GROUP_SUM2,
                                   .renorm = GA_ROUTE_RENORM_SUM,
                                   .norm_eps = 1e-20f,
                                   .scale = 1};
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(hparams_router(file, &router, p));
  GA_TRY(hparams_expert_layers(file, p));
  return hparams_eps(file, "attention.layer_norm_rms_epsilon", p);
}

static const weight_use dots1_weights[] = {
    {W_TOKEN_EMBD, REQUIRED},
    {W_OUTPUT_NORM, REQUIRED},
    {W_OUTPUT, OPTIONAL},
    {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},
    {W_K, REQUIRED},
    {W_V, REQUIRED},
    {W_O, REQUIRED},
    {W_FFN_NORM, REQUIRED},
    {W_Q_NORM, REQUIRED},
    {W_K_NORM, REQUIRED},
    {W_ROUTER_CHOICE_B, OPTIONAL},
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
const ga_arch_desc ga_arch_dots1 = {.name = "dots1",
                                    .weights = dots1_weights,
                                    .n_weights = GA_COUNT_OF(dots1_weights),
                                    .has_weight = block_has_weight,
                                    .read = read_dots1,
                                    .build = build_dots1};
