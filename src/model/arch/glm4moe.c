/* GLM 4.5, 4.6 and 4.7 (arXiv 2508.06471): biases of q, k and v, a part of each head rotates, norms of heads in the
 * larger models; dense layers first, then experts beside a feed-forward that tokens share. Scores are sigmoids; a bias
 * has a part in the choice alone. The norm before the experts has the name of a norm after attention in files. The last
 * layer, which predicts a further token, is left out. */
#include "base/status.h"
#include "ga/experts.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

static value_id glm4moe_layer(graph_builder *b, value_id x) {
  block_qkv t = block_qkv_of(b, build_rms_norm(b, x, W_ATTN_NORM));
  if (build_if_present(b, W_Q_NORM) != W_NONE) block_norm_heads(b, &t);
  block_rotate(b, &t, false);
  x = build_add(b, x, block_attention(b, t, 0, 1));
  return build_add(b, x, block_expert_layer(b, build_rms_norm(b, x, W_POST_ATTN_NORM), GA_ACT_SILU));
}

static void build_glm4moe(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1); /* x [T, d] = E[ids] */
  block_rms_head(b, block_layers(b, x, glm4moe_layer), 1);
}

static ga_status read_glm4moe(const ga_model_file *file, ga_hparams *p) {
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

static const weight_use glm4moe_weights[] = {
    {W_TOKEN_EMBD, REQUIRED},
    {W_OUTPUT_NORM, REQUIRED},
    {W_OUTPUT, OPTIONAL},
    {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},
    {W_K, REQUIRED},
    {W_V, REQUIRED},
    {W_O, REQUIRED},
    {W_POST_ATTN_NORM, REQUIRED},
    {W_Q_B, OPTIONAL},
    {W_K_B, OPTIONAL},
    {W_V_B, OPTIONAL},
    {W_Q_NORM, OPTIONAL},
    {W_K_NORM, OPTIONAL},
    {W_ROUTER_CHOICE_B, REQUIRED},
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
const ga_arch_desc ga_arch_glm4moe = {.name = "glm4moe",
                                      .weights = glm4moe_weights,
                                      .n_weights = GA_COUNT_OF(glm4moe_weights),
                                      .has_weight = block_has_weight,
                                      .read = read_glm4moe,
                                      .build = build_glm4moe};
