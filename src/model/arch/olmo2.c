/* OLMo 2 (arXiv 2501.00656): no norms before the blocks but behind them, on what a block adds; q and k are normalised
 * as whole rows before rotation. OLMo 3 has the same name in files: a sliding window in all layers but every fourth,
 * and in those no scaling of the rotation. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

enum { GLOBAL_EVERY = 4 };

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  p->rope_base_local = p->rope_base;
  GA_TRY(hparams_windows(file, 0, GLOBAL_EVERY, p));
  return hparams_eps(file, "attention.layer_norm_rms_epsilon", p);
}

static value_id build_layer(graph_builder *b, value_id x) {
  const ga_hparams *p = &b->model->hparams;
  const bool local = p->is_local[b->layer];
  block_qkv t = block_qkv_of(b, x);
  t.q = build_rms_norm(b, t.q, W_Q_ROW_NORM); /* over Hq D */
  t.k = build_rms_norm(b, t.k, W_K_ROW_NORM); /* over Hkv D */
  block_rotate(b, &t, local);
  value_id h = block_attention(b, t, local ? p->window : 0, 1);
  x = build_add(b, x, build_rms_norm(b, h, W_POST_ATTN_NORM));
  h = block_gated_ffn(b, x, GA_ACT_SILU, 1);
  return build_add(b, x, build_rms_norm(b, h, W_POST_FFN_NORM));
}

static void build(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1); /* x [T, d] = E[ids] */
  block_rms_head(b, block_layers(b, x, build_layer), 1);
}

static const weight_use weights[] = {
    {W_TOKEN_EMBD, REQUIRED}, {W_OUTPUT_NORM, REQUIRED},
    {W_OUTPUT, OPTIONAL},     {W_Q, REQUIRED},
    {W_K, REQUIRED},          {W_V, REQUIRED},
    {W_Q_ROW_NORM, REQUIRED}, {W_K_ROW_NORM, REQUIRED},
    {W_O, REQUIRED},          {W_POST_ATTN_NORM, REQUIRED},
    {W_GATE, REQUIRED},       {W_UP, REQUIRED},
    {W_DOWN, REQUIRED},       {W_POST_FFN_NORM, REQUIRED},
};
const ga_arch_desc ga_arch_olmo2 = {
    .name = "olmo2", .weights = weights, .n_weights = GA_COUNT_OF(weights), .read = read, .build = build};
