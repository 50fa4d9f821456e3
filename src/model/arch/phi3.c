/* Phi-3, 3.5 and 4 (arXiv 2404.14219, 2412.08905): Llama with q, k, v in one matrix and gate and up in another, a
 * sliding window in all layers where the file has one, and longrope (arXiv 2402.13753) in those for long contexts. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(hparams_int(file, p, "attention.sliding_window", 0, 0, 1 << 20, &p->window));
  return hparams_eps(file, "attention.layer_norm_rms_epsilon", p);
}

static void build_layer(graph_builder *b, ga_value_id *x) {
  const ga_hparams *p = &b->model->hparams;
  const int64_t n_q = ga_weight_dim(p, DIM_Q), n_k = ga_weight_dim(p, DIM_K), n_v = ga_weight_dim(p, DIM_V);
  ga_value_id h = build_rms_norm(b, *x, W_ATTN_NORM, BUF_H);        /* h [T, d] */
  const ga_value_id qkv = build_linear(b, h, W_QKV, W_NONE, BUF_Q); /* q|k|v [T, Hq D + Hkv D + Hkv Dv] */
  ga_value_id q = build_slice(b, qkv, 0, n_q);                      /* q [T, Hq D] */
  ga_value_id k = build_slice(b, qkv, n_q, n_k);                    /* k [T, Hkv D] */
  const ga_value_id v = build_slice(b, qkv, n_q + n_k, n_v);        /* v [T, Hkv Dv] */
  q = build_rope(b, q, false);
  k = build_rope(b, k, false);
  build_kv_store(b, k, v);
  const ga_value_id o = build_attention(b, q, p->window);                 /* o [T, Hq Dv] */
  h = build_linear(b, o, W_O, W_NONE, BUF_H);                             /* h [T, d] */
  *x = build_add(b, *x, h);                                               /* x [T, d] */
  h = build_rms_norm(b, *x, W_FFN_NORM, BUF_H);                           /* h [T, d] */
  const ga_value_id both = build_linear(b, h, W_GATE_UP, W_NONE, BUF_UP); /* gate|up [T, 2 F] */
  const ga_value_id gate = build_slice(b, both, 0, p->ff_width);          /* gate [T, F] */
  ga_value_id up = build_slice(b, both, p->ff_width, p->ff_width);        /* up [T, F] */
  up = build_gated_act(b, GA_ACT_SILU, gate, up);                         /* up [T, F] = silu(gate) * up */
  h = build_linear(b, up, W_DOWN, W_NONE, BUF_H);                         /* h [T, d] */
  *x = build_add(b, *x, h);                                               /* x [T, d] */
}

static void build(graph_builder *b) {
  b->layer = -1;
  ga_value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1, BUF_X); /* x [T, d] = E[ids] */
  for (b->layer = 0; b->layer < b->model->hparams.n_layers; b->layer++) build_layer(b, &x);
  const ga_value_id last = build_out_rows(b, x);                                /* [n_out, d] */
  const ga_value_id h = build_rms_norm(b, last, W_OUTPUT_NORM, BUF_H);          /* h [n_out, d] */
  build_result(b, build_linear(b, h, W_OUTPUT, W_NONE, BUF_LOGITS), POOL_NONE); /* logits [n_out, V] */
}

static const weight_use weights[] = {
    {W_TOKEN_EMBD, REQUIRED}, {W_OUTPUT_NORM, REQUIRED}, {W_OUTPUT, OPTIONAL},
    {W_ATTN_NORM, REQUIRED},  {W_QKV, REQUIRED},         {W_O, REQUIRED},
    {W_FFN_NORM, REQUIRED},   {W_GATE_UP, REQUIRED},     {W_DOWN, REQUIRED},
};
const ga_arch_desc ga_arch_phi3 = {
    .name = "phi3", .weights = weights, .n_weights = GA_COUNT_OF(weights), .read = read, .build = build};
