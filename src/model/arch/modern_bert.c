/* ModernBERT (arXiv 2412.13663): norms before blocks, q, k, v in one matrix, a gated block with gelu, no biases. Every
 * n-th layer from the first on sees all tokens; the others have a window that looks both ways and rotate by another
 * base. The first layer has no norm before attention: the embedding's serves. */
#include "base/status.h"
#include "ga/gemm.h"
#include "model/arch/arch.h"
#include "model/arch/blocks.h"

enum { USUAL_WINDOW = 128, USUAL_EVERY = 3 };

/* Where the file has a number n: layers 0, n, 2 n ... see all tokens. An array says it of each layer. */
static ga_status read_local_layers(const ga_model_file *file, ga_hparams *p) {
  static const char key[] = "attention.sliding_window_pattern";
  char text[GA_HPARAM_KEY_BYTES];
  int32_t every;
  GA_TRY(hparams_windows(file, USUAL_WINDOW, USUAL_EVERY, p));
  GA_REQUIRE(p->window >= 1, GA_ERR_FORMAT, "%s.attention.sliding_window is 0; must be 1 or more", p->arch->name);
  const ga_meta *meta = ga_model_file_meta(file, hparams_key(p, key, text));
  if (meta && ga_meta_type_of(meta) == GA_META_ARRAY) return GA_OK;
  GA_TRY(hparams_int(file, p, key, USUAL_EVERY, 1, GA_MODEL_MAX_LAYERS, &every));
  for (int32_t il = 0; il < p->n_layers; il++) p->is_local[il] = il % every != 0;
  return GA_OK;
}

static ga_status read(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(hparams_sizes(file, p));
  GA_TRY(hparams_rope(file, "neox", p));
  GA_TRY(hparams_vocab(file, p));
  GA_TRY(read_local_layers(file, p));
  GA_TRY(hparams_pooling(file, p));
  return hparams_eps(file, "attention.layer_norm_epsilon", p);
}

static value_id build_layer(graph_builder *b, value_id x) {
  const ga_hparams *p = &b->model->hparams;
  const bool local = p->is_local[b->layer];
  const bool has_norm = build_if_present(b, W_ATTN_NORM) != W_NONE;
  block_qkv t = block_joined_qkv_of(b, has_norm ? build_layer_norm(b, x, W_ATTN_NORM, W_NONE) : x);
  block_rotate(b, &t, local);
  const int32_t nearer = local ? p->window / 2 + 1 : 0; /* half of the window on either side */
  x = build_add(b, x, block_attention_bidirectional(b, t, nearer, false));
  return build_add(b, x, block_joined_ffn(b, build_layer_norm(b, x, W_FFN_NORM, W_NONE), GA_ACT_GELU_ERF));
}

static void build(graph_builder *b) {
  value_id x = block_layers(b, block_bert_embedding(b), build_layer);
  x = build_layer_norm(b, x, W_OUTPUT_NORM, W_NONE);
  build_result(b, x, (ga_pooling)b->model->hparams.pooling); /* [d], of x [T, d] */
}

static const weight_use weights[] = {
    {W_TOKEN_EMBD, REQUIRED}, {W_EMBD_NORM, REQUIRED}, {W_OUTPUT_NORM, REQUIRED},
    {W_ATTN_NORM, OPTIONAL},  {W_QKV, REQUIRED},       {W_O, REQUIRED},
    {W_FFN_NORM, REQUIRED},   {W_GATE_UP, REQUIRED},   {W_DOWN, REQUIRED},
};
const ga_arch_desc ga_arch_modern_bert = {.name = "modern-bert",
                                          .is_encoder = true,
                                          .weights = weights,
                                          .n_weights = GA_COUNT_OF(weights),
                                          .read = read,
                                          .build = build};
