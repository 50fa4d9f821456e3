/* StableLM 3B and StableLM 2 (arXiv 2402.17834): Llama with layer norms and rotation of a part of each head; q, k and v
 * may have biases. Files without a norm before the feed-forward have both blocks read one norm of x. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

static bool has(const ga_model_file *file, weight_id id, int32_t il) {
  char name[GA_WEIGHT_NAME_BYTES];
  return ga_model_file_find(file, ga_weight_name(id, il, name)) != NULL;
}

/* Parallel blocks have no norm before the feed-forward: in no layer. GGUF files are not asked for the key:
 * converters write true where config.json is silent. */
static ga_status read_parallel(const ga_model_file *file, ga_hparams *p) {
  char text[GA_HPARAM_KEY_BYTES];
  bool stated;
  p->is_parallel = !has(file, W_FFN_NORM, 0);
  for (int32_t il = 0; il < p->n_layers; il++)
    GA_REQUIRE(has(file, W_FFN_NORM, il) != p->is_parallel && has(file, W_FFN_NORM_B, il) != p->is_parallel,
               GA_ERR_FORMAT, "blk.%d.ffn_norm has %s weight and %s bias; must have %s, in every layer alike", il,
               has(file, W_FFN_NORM, il) ? "a" : "no", has(file, W_FFN_NORM_B, il) ? "a" : "no",
               p->is_parallel ? "neither" : "both");
  GA_TRY(ga_model_file_bool_or(file, hparams_key(p, "use_parallel_residual", text), p->is_parallel, &stated));
  GA_REQUIRE(ga_model_file_format(file) == GA_MODEL_GGUF || stated == p->is_parallel, GA_ERR_FORMAT,
             "use_parallel_residual is %s; must be %s: the layers have %s before the feed-forward",
             stated ? "true" : "false", stated ? "false" : "true", p->is_parallel ? "no norm" : "a norm");
  return GA_OK;
}

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(hparams_head_norms(file, p));
  GA_TRY(read_parallel(file, p));
  return hparams_eps(file, "attention.layer_norm_epsilon", p);
}

static value_id build_layer(graph_builder *b, value_id x) {
  const ga_hparams *p = &b->model->hparams;
  value_id h = build_layer_norm(b, x, W_ATTN_NORM, W_ATTN_NORM_B);
  block_qkv t = block_qkv_of(b, h);
  if (p->has_head_norms) block_layer_norm_heads(b, &t);
  block_rotate(b, &t, false);
  x = build_add(b, x, block_attention(b, t, 0, 1));
  if (!p->is_parallel) h = build_layer_norm(b, x, W_FFN_NORM, W_FFN_NORM_B);
  return build_add(b, x, block_gated_ffn(b, h, GA_ACT_SILU, 1));
}

static void build(graph_builder *b) {
  const value_id x = build_embed(b, W_TOKEN_EMBD, IDS_TOKENS, 1); /* x [T, d] = E[ids] */
  block_layer_norm_head(b, block_layers(b, x, build_layer), 1);
}

static const weight_use weights[] = {
    {W_TOKEN_EMBD, REQUIRED},
    {W_OUTPUT_NORM, REQUIRED},
    {W_OUTPUT_NORM_B, REQUIRED},
    {W_OUTPUT, OPTIONAL},
    {W_ATTN_NORM, REQUIRED},
    {W_ATTN_NORM_B, REQUIRED},
    {W_Q, REQUIRED},
    {W_K, REQUIRED},
    {W_V, REQUIRED},
    {W_Q_B, OPTIONAL},
    {W_K_B, OPTIONAL},
    {W_V_B, OPTIONAL},
    {W_O, REQUIRED},
    {W_FFN_NORM, OPTIONAL},
    {W_FFN_NORM_B, OPTIONAL},
    {W_GATE, REQUIRED},
    {W_UP, REQUIRED},
    {W_DOWN, REQUIRED},
    {W_Q_HEADS_NORM, OPTIONAL},
    {W_K_HEADS_NORM, OPTIONAL},
};
const ga_arch_desc ga_arch_stablelm = {
    .name = "stablelm", .weights = weights, .n_weights = GA_COUNT_OF(weights), .read = read, .build = build};
