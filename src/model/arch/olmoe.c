/* OLMoE (arXiv 2409.02060): OLMo with experts in place of one feed-forward. q and k are normalised as whole rows before
 * rotation. A token's weights are the softmax over all experts, which do not sum to 1 over the chosen ones. */
#include "base/status.h"
#include "ga/experts.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

static value_id olmoe_layer(graph_builder *b, value_id x) {
  block_qkv t = block_qkv_of(b, build_rms_norm(b, x, W_ATTN_NORM));
  t.q = build_rms_norm(b, t.q, W_Q_ROW_NORM); /* over Hq D */
  t.k = build_rms_norm(b, t.k, W_K_ROW_NORM); /* over Hkv D */
  block_rotate(b, &t, false);
  x = build_add(b, x, block_attention(b, t, 0, 1));
  return build_add(b, x, block_experts(b, build_rms_norm(b, x, W_FFN_NORM), GA_ACT_SILU));
}

static void build_olmoe(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1); /* x [T, d] = E[ids] */
  block_rms_head(b, block_layers(b, x, olmoe_layer), 1);
}

static ga_status read_olmoe(const ga_model_file *file, ga_hparams *p) {
  static const ga_router router = {.scores = GA_ROUTE_SOFTMAX, .scale = 1};
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(hparams_router(file, &router, p));
  return hparams_eps(file, "attention.layer_norm_rms_epsilon", p);
}

static const weight_use olmoe_weights[] = {
    {W_TOKEN_EMBD, REQUIRED},
    {W_OUTPUT_NORM, REQUIRED},
    {W_OUTPUT, OPTIONAL},
    {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},
    {W_K, REQUIRED},
    {W_V, REQUIRED},
    {W_Q_ROW_NORM, REQUIRED},
    {W_K_ROW_NORM, REQUIRED},
    {W_O, REQUIRED},
    {W_FFN_NORM, REQUIRED},
    {W_ROUTER, REQUIRED},
    {W_GATE_EXPERTS, REQUIRED},
    {W_UP_EXPERTS, REQUIRED},
    {W_DOWN_EXPERTS, REQUIRED},
};
const ga_arch_desc ga_arch_olmoe = {.name = "olmoe",
                                    .weights = olmoe_weights,
                                    .n_weights = GA_COUNT_OF(olmoe_weights),
                                    .read = read_olmoe,
                                    .build = build_olmoe};
