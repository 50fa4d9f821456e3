/* Command R (Cohere 2024; huggingface.co/CohereForAI/c4ai-command-r-v01): one layer norm without bias before attention
 * and feed-forward, which both add to the same x; logits scaled. Command R7B (c4ai-command-r7b-12-2024, cohere2 in
 * files) has three layers with a sliding window and rotation, then a global one without rotation. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

enum { GLOBAL_EVERY = 4 };

static ga_status read_command_r(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "norm", p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(hparams_head_norms(file, p));
  GA_TRY(hparams_float(file, p, "logit_scale", 1, 1e-6, 1e6, &p->logit_scale));
  return hparams_eps(file, "attention.layer_norm_epsilon", p);
}

static ga_status read_cohere2(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(read_command_r(file, p));
  GA_REQUIRE(!p->has_head_norms, GA_ERR_UNSUPPORTED,
             "cohere2 with norms of heads (blk.0.attn_q_norm.weight); GA has it without");
  GA_TRY(hparams_windows(file, 0, GLOBAL_EVERY, p));
  for (int32_t il = 0; il < p->n_layers; il++) p->no_rope[il] = !p->is_local[il];
  return GA_OK;
}

static value_id build_layer(graph_builder *b, value_id x) {
  const ga_hparams *p = &b->model->hparams;
  const value_id h = build_layer_norm(b, x, W_ATTN_NORM, W_NONE);
  block_qkv t = block_qkv_of(b, h);
  if (p->has_head_norms) block_layer_norm_heads(b, &t);
  if (!p->no_rope[b->layer]) block_rotate(b, &t, false);
  x = build_add(b, x, block_attention(b, t, p->is_local[b->layer] ? p->window : 0, 1));
  return build_add(b, x, block_gated_ffn(b, h, GA_ACT_SILU, 1));
}

static void build(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1); /* x [T, d] = E[ids] */
  block_layer_norm_head(b, block_layers(b, x, build_layer), b->model->hparams.logit_scale);
}

static const weight_use weights[] = {
    {W_TOKEN_EMBD, REQUIRED},
    {W_OUTPUT_NORM, REQUIRED},
    {W_OUTPUT, OPTIONAL},
    {W_ATTN_NORM, REQUIRED},
    {W_Q, REQUIRED},
    {W_K, REQUIRED},
    {W_V, REQUIRED},
    {W_O, REQUIRED},
    {W_GATE, REQUIRED},
    {W_UP, REQUIRED},
    {W_DOWN, REQUIRED},
    {W_Q_HEADS_NORM, OPTIONAL},
    {W_K_HEADS_NORM, OPTIONAL},
};
const ga_arch_desc ga_arch_command_r = {
    .name = "command-r", .weights = weights, .n_weights = GA_COUNT_OF(weights), .read = read_command_r, .build = build};
const ga_arch_desc ga_arch_cohere2 = {
    .name = "cohere2", .weights = weights, .n_weights = GA_COUNT_OF(weights), .read = read_cohere2, .build = build};
