/* GPT-NeoX (arXiv 2204.06745) and Pythia (arXiv 2304.01373): layer norms and biases as GPT-2 has them, rotation of a
 * part of each head; both blocks read the x that the layer began with, each through a norm of its own. */
#include <string.h>

#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

/* GGUF files do not say which gelu: those that GA has converted do. */
static ga_status read_activation(const ga_model_file *file, ga_hparams *p) {
  static const char *const tanh_forms[] = {"gelu_fast", "gelu_new", "gelu_pytorch_tanh"};
  ga_text act;
  GA_TRY(ga_model_file_text_or(file, "ga.activation", "gelu", &act));
  p->act = GA_ACT_GELU_ERF;
  if (act.bytes == 4 && !memcmp(act.data, "gelu", 4)) return GA_OK;
  p->act = GA_ACT_GELU_TANH;
  for (size_t i = 0; i < GA_COUNT_OF(tanh_forms); i++)
    if (act.bytes == strlen(tanh_forms[i]) && !memcmp(act.data, tanh_forms[i], act.bytes)) return GA_OK;
  return ga_fail(GA_ERR_UNSUPPORTED, "ga.activation is '%s'; gptneox has gelu, gelu_fast, gelu_new, gelu_pytorch_tanh",
                 ga_quote(act.data, act.bytes).text);
}

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  char text[GA_HPARAM_KEY_BYTES];
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(ga_model_file_bool_or(file, hparams_key(p, "use_parallel_residual", text), true, &p->is_parallel));
  GA_TRY(read_activation(file, p));
  return hparams_eps(file, "attention.layer_norm_epsilon", p);
}

static value_id build_layer(graph_builder *b, value_id x) {
  const ga_hparams *p = &b->model->hparams;
  value_id h = NO_VALUE;
  block_qkv t = block_joined_qkv_of(b, build_layer_norm(b, x, W_ATTN_NORM, W_ATTN_NORM_B));
  block_rotate(b, &t, false);
  if (p->is_parallel) h = build_layer_norm(b, x, W_FFN_NORM, W_FFN_NORM_B);
  x = build_add(b, x, block_attention(b, t, 0, 1));
  if (!p->is_parallel) h = build_layer_norm(b, x, W_FFN_NORM, W_FFN_NORM_B);
  return build_add(b, x, block_ffn(b, h, p->act));
}

static void build(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1); /* x [T, d] = E[ids] */
  block_layer_norm_head(b, block_layers(b, x, build_layer), 1);
}

static const weight_use weights[] = {
    {W_TOKEN_EMBD, REQUIRED}, {W_OUTPUT_NORM, REQUIRED}, {W_OUTPUT_NORM_B, REQUIRED}, {W_OUTPUT, OPTIONAL},
    {W_ATTN_NORM, REQUIRED},  {W_ATTN_NORM_B, REQUIRED}, {W_QKV, REQUIRED},           {W_QKV_B, OPTIONAL},
    {W_O, REQUIRED},          {W_O_B, OPTIONAL},         {W_FFN_NORM, REQUIRED},      {W_FFN_NORM_B, REQUIRED},
    {W_UP, REQUIRED},         {W_DOWN, REQUIRED},        {W_UP_B, REQUIRED},          {W_DOWN_B, REQUIRED},
};
const ga_arch_desc ga_arch_gptneox = {
    .name = "gptneox", .weights = weights, .n_weights = GA_COUNT_OF(weights), .read = read, .build = build};
