/* Command R (Cohere 2024; huggingface.co/CohereForAI/c4ai-command-r-v01): one layer norm without bias before attention
 * and feed-forward, which both add to the same x; logits scaled. Command R7B (c4ai-command-r7b-12-2024, cohere2 in
 * files) has three layers with a sliding window and rotation, then a global one without rotation. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"

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

static void build_layer(graph_builder *b, ga_value_id *x) {
  const ga_hparams *p = &b->model->hparams;
  const ga_value_id h = build_layer_norm(b, *x, W_ATTN_NORM, W_NONE, BUF_H); /* h [T, d] */
  ga_value_id q = build_linear(b, h, W_Q, W_NONE, BUF_Q);                    /* q [T, Hq D] */
  ga_value_id k = build_linear(b, h, W_K, W_NONE, BUF_K);                    /* k [T, Hkv D] */
  const ga_value_id v = build_linear(b, h, W_V, W_NONE, BUF_V);              /* v [T, Hkv Dv] */
  if (p->has_head_norms) {
    q = build_head_layer_norm(b, q, W_Q_HEADS_NORM); /* each [D], with weights [Hq, D] */
    k = build_head_layer_norm(b, k, W_K_HEADS_NORM); /* each [D], with weights [Hkv, D] */
  }
  if (!p->no_rope[b->layer]) {
    q = build_rope(b, q, false);
    k = build_rope(b, k, false);
  }
  build_kv_store(b, k, v);
  const ga_value_id o = build_attention(b, q, p->is_local[b->layer] ? p->window : 0); /* o [T, Hq Dv] */
  *x = build_add(b, *x, build_linear(b, o, W_O, W_NONE, BUF_Q));                      /* x [T, d] */
  const ga_value_id gate = build_linear(b, h, W_GATE, W_NONE, BUF_GATE);              /* gate [T, F] */
  ga_value_id up = build_linear(b, h, W_UP, W_NONE, BUF_UP);                          /* up [T, F] */
  up = build_gated_act(b, GA_ACT_SILU, gate, up);                                     /* up [T, F] = silu(gate) * up */
  *x = build_add(b, *x, build_linear(b, up, W_DOWN, W_NONE, BUF_H));                  /* x [T, d] */
}

static void build(graph_builder *b) {
  const ga_hparams *p = &b->model->hparams;
  b->layer = -1;
  ga_value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1, BUF_X); /* x [T, d] = E[ids] */
  for (b->layer = 0; b->layer < p->n_layers; b->layer++) build_layer(b, &x);
  const ga_value_id last = build_out_rows(b, x);                                 /* [n_out, d] */
  const ga_value_id h = build_layer_norm(b, last, W_OUTPUT_NORM, W_NONE, BUF_H); /* h [n_out, d] */
  build_result(b, build_scaled_linear(b, h, W_OUTPUT, W_NONE, p->logit_scale, BUF_LOGITS), POOL_NONE); /* [n_out, V] */
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
