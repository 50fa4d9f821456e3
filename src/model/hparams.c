/* Hyper-parameters: the keys of the file, with the limits that make everything after safe to compute. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "ga/layer.h"
#include "model/model.h"

static const char *const arch_names[] = {
#define X(name) #name,
    GA_MODEL_ARCHS(X)
#undef X
};

const char *ga_model_arch_name(ga_model_arch arch) { return arch_names[arch]; }

static ga_status read_arch(const ga_model_file *file, ga_model_arch *out) {
  ga_text name;
  GA_TRY(ga_model_file_text(file, "general.architecture", &name));
  for (size_t i = 0; i < GA_COUNT_OF(arch_names); i++) {
    if (strlen(arch_names[i]) == name.bytes && !memcmp(arch_names[i], name.data, name.bytes)) {
      *out = (ga_model_arch)i;
      return GA_OK;
    }
  }
  return ga_fail(GA_ERR_UNSUPPORTED, "architecture '%.*s'; GA has llama, qwen2, qwen3, gemma3, gpt2, bert",
                 name.bytes < 64 ? (int)name.bytes : 64, name.data);
}

/* "<arch>.<key>" in a caller's buffer. */
static const char *key_of(const ga_hparams *p, const char *key, char text[96]) {
  (void)snprintf(text, 96, "%s.%s", arch_names[p->arch], key);
  return text;
}

static ga_status read_int(const ga_model_file *file, const ga_hparams *p, const char *key, int64_t least, int64_t most,
                          int32_t *out) {
  char text[96];
  int64_t v;
  GA_TRY(ga_model_file_int(file, key_of(p, key, text), least, most, &v));
  *out = (int32_t)v;
  return GA_OK;
}

static ga_status read_int_or(const ga_model_file *file, const ga_hparams *p, const char *key, int64_t fallback,
                             int64_t least, int64_t most, int32_t *out) {
  char text[96];
  int64_t v;
  GA_TRY(ga_model_file_int_or(file, key_of(p, key, text), fallback, least, most, &v));
  *out = (int32_t)v;
  return GA_OK;
}

static ga_status read_float_or(const ga_model_file *file, const ga_hparams *p, const char *key, double fallback,
                               double *out) {
  char text[96];
  return ga_model_file_float_or(file, key_of(p, key, text), fallback, out);
}

/* Head counts may be one number per layer; GA has architectures with one for all. */
static ga_status read_uniform(const ga_model_file *file, const ga_hparams *p, const char *key, int32_t *out) {
  char text[96];
  int64_t each[GA_MODEL_MAX_LAYERS];
  GA_TRY(ga_model_file_ints(file, key_of(p, key, text), p->n_layers, 1, 1024, each));
  for (int i = 1; i < p->n_layers; i++)
    GA_REQUIRE(each[i] == each[0], GA_ERR_UNSUPPORTED, "%s: layer %d has %lld, layer 0 has %lld; GA needs one for all",
               text, i, (long long)each[i], (long long)each[0]);
  *out = (int32_t)each[0];
  return GA_OK;
}

/* The vocabulary is as large as the embedding says; the file's own count is not always written. */
static ga_status read_vocab(const ga_model_file *file, ga_hparams *p) {
  const ga_model_tensor *t = ga_model_file_find(file, "token_embd.weight");
  GA_REQUIRE(t && t->view.n_dims == 2, GA_ERR_FORMAT, "token_embd.weight is %s", t ? "no matrix" : "missing");
  GA_REQUIRE(t->view.dim[1] == p->width && t->view.dim[0] >= 1 && t->view.dim[0] <= 1 << 24, GA_ERR_SHAPE,
             "token_embd.weight is [%lld, %lld]; must be [vocabulary, %d]", (long long)t->view.dim[0],
             (long long)t->view.dim[1], p->width);
  p->vocab = (int32_t)t->view.dim[0];
  return GA_OK;
}

static ga_status read_heads(const ga_model_file *file, ga_hparams *p) {
  GA_TRY(read_uniform(file, p, "attention.head_count", &p->n_heads));
  char text[96];
  if (ga_model_file_meta(file, key_of(p, "attention.head_count_kv", text)))
    GA_TRY(read_uniform(file, p, "attention.head_count_kv", &p->n_kv_heads));
  else
    p->n_kv_heads = p->n_heads;
  GA_REQUIRE(p->n_heads % p->n_kv_heads == 0, GA_ERR_SHAPE, "%d heads over %d kv heads; must divide", p->n_heads,
             p->n_kv_heads);
  GA_REQUIRE(p->n_heads <= p->width || ga_model_file_meta(file, key_of(p, "attention.key_length", text)), GA_ERR_SHAPE,
             "%d heads share a width of %d; at most one each", p->n_heads, p->width);
  GA_TRY(read_int_or(file, p, "attention.key_length", p->width / p->n_heads, 1, 1024, &p->head_dim));
  return read_int_or(file, p, "attention.value_length", p->head_dim, 1, 1024, &p->v_dim);
}

static ga_status read_rope(const ga_model_file *file, ga_hparams *p) {
  if (p->arch == GA_MODEL_gpt2 || p->arch == GA_MODEL_bert) return GA_OK;
  GA_TRY(read_int_or(file, p, "rope.dimension_count", p->head_dim, 0, p->head_dim, &p->rot_dim));
  GA_REQUIRE(p->rot_dim % 2 == 0, GA_ERR_SHAPE, "rope.dimension_count is %d; must be even", p->rot_dim);
  GA_TRY(read_float_or(file, p, "rope.freq_base", 10000, &p->rope_base));
  GA_TRY(read_float_or(file, p, "rope.freq_base_swa", 10000, &p->rope_base_local));
  ga_text layout;
  GA_TRY(ga_model_file_text_or(file, "ga.rope_layout", p->arch == GA_MODEL_llama ? "norm" : "neox", &layout));
  p->rope_pairs = layout.bytes == 4 && !memcmp(layout.data, "norm", 4) ? GA_ROPE_NORM : GA_ROPE_NEOX;
  return GA_OK;
}

/* Which layers are local: a flag for each layer, or a number n that makes every n-th layer global (Gemma 3: 6). */
static ga_status read_pattern(const ga_model_file *file, ga_hparams *p) {
  char text[96];
  const ga_meta *meta = ga_model_file_meta(file, key_of(p, "attention.sliding_window_pattern", text));
  int32_t every = 6;
  if (meta && ga_meta_type_of(meta) == GA_META_ARRAY) {
    int64_t each[GA_MODEL_MAX_LAYERS];
    GA_TRY(ga_model_file_ints(file, text, p->n_layers, 0, 1, each));
    for (int il = 0; il < p->n_layers; il++) p->is_local[il] = each[il] != 0;
    return GA_OK;
  }
  GA_TRY(read_int_or(file, p, "attention.sliding_window_pattern", every, 1, GA_MODEL_MAX_LAYERS, &every));
  for (int il = 0; il < p->n_layers; il++) p->is_local[il] = (il + 1) % every != 0;
  return GA_OK;
}

static ga_status read_arch_own(const ga_model_file *file, ga_hparams *p) {
  p->embed_scale = 1;
  p->attn_scale = 1.0f / sqrtf((float)p->head_dim);
  p->pooling = 1;
  if (p->arch == GA_MODEL_gemma3) {
    p->embed_scale = sqrtf((float)p->width);
    /* Gemma 3 27B (62 layers) scales queries by width / heads instead of head_dim. */
    if (p->n_layers == 62) p->attn_scale = 1.0f / sqrtf((float)p->width / (float)p->n_heads);
    GA_TRY(read_int_or(file, p, "attention.sliding_window", 0, 0, 1 << 20, &p->window));
    return p->window ? read_pattern(file, p) : GA_OK;
  }
  if (p->arch == GA_MODEL_bert) return read_int_or(file, p, "pooling_type", 1, 0, 3, &p->pooling);
  return GA_OK;
}

ga_status ga_hparams_read(const ga_model_file *file, ga_hparams *p) {
  *p = (ga_hparams){0};
  GA_TRY(read_arch(file, &p->arch));
  GA_TRY(read_int(file, p, "block_count", 1, GA_MODEL_MAX_LAYERS, &p->n_layers));
  GA_TRY(read_int(file, p, "embedding_length", 1, 1 << 20, &p->width));
  GA_TRY(read_int(file, p, "feed_forward_length", 1, 1 << 22, &p->ff_width));
  GA_TRY(read_int(file, p, "context_length", 1, 1 << 30, &p->context));
  GA_TRY(read_heads(file, p));
  GA_TRY(read_rope(file, p));
  GA_TRY(read_vocab(file, p));
  GA_TRY(read_arch_own(file, p));
  const bool layer_norm = p->arch == GA_MODEL_gpt2 || p->arch == GA_MODEL_bert;
  double eps;
  GA_TRY(read_float_or(file, p, layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 1e-5,
                       &eps));
  GA_REQUIRE(eps > 0 && eps < 1, GA_ERR_FORMAT, "norm epsilon is %g; must be in (0, 1)", eps);
  p->norm_eps = (float)eps;
  return GA_OK;
}

/* Llama 3.1's division of low frequencies, as config.json states it (GGUF bakes it into rope_freqs.weight). */
static ga_status llama3_factors(const ga_model_file *file, const ga_hparams *p, const ga_rope_params *r,
                                float *factors) {
  double low, high;
  GA_TRY(read_float_or(file, p, "rope.scaling.low_freq_factor", 1, &low));
  GA_TRY(read_float_or(file, p, "rope.scaling.high_freq_factor", 4, &high));
  GA_REQUIRE(low > 0 && high > low && r->factor >= 1, GA_ERR_FORMAT,
             "rope scaling llama3: low %g, high %g, factor %g; need 0 < low < high, factor at least 1", low, high,
             r->factor);
  for (int i = 0; i < p->rot_dim / 2; i++) {
    double turns = r->original_context * pow(r->base, -2.0 * i / p->rot_dim) / 6.283185307179586;
    double keep = (turns - low) / (high - low);
    keep = keep < 0 ? 0 : keep > 1 ? 1 : keep;
    factors[i] = (float)(1 / (keep + (1 - keep) / r->factor));
  }
  return GA_OK;
}

ga_status ga_hparams_rope(const ga_model_file *file, const ga_hparams *p, bool local, const float *factors,
                          float *inv_freq, float *magnitude) {
  ga_rope_params r = GA_ROPE_PARAMS_INIT;
  r.rot_dim = p->rot_dim;
  r.freq_factors = factors;
  float own_factors[512];
  char text[96];
  ga_text type = {"none", 4};
  r.base = local ? p->rope_base_local : p->rope_base;
  if (!local) {
    GA_TRY(ga_model_file_text_or(file, key_of(p, "rope.scaling.type", text), "none", &type));
    GA_TRY(read_float_or(file, p, "rope.scaling.factor", 1, &r.factor));
    GA_TRY(read_float_or(file, p, "rope.scaling.attn_factor", 1, &r.attn_factor));
    int32_t original;
    GA_TRY(read_int_or(file, p, "rope.scaling.original_context_length", p->context, 1, 1 << 30, &original));
    r.original_context = original;
    GA_TRY(read_float_or(file, p, "rope.scaling.yarn_beta_fast", 32, &r.beta_fast));
    GA_TRY(read_float_or(file, p, "rope.scaling.yarn_beta_slow", 1, &r.beta_slow));
  }
  if (type.bytes == 6 && !memcmp(type.data, "linear", 6))
    r.scaling = GA_ROPE_SCALE_LINEAR;
  else if (type.bytes == 4 && !memcmp(type.data, "yarn", 4))
    r.scaling = GA_ROPE_SCALE_YARN;
  else if (type.bytes == 6 && !memcmp(type.data, "llama3", 6)) {
    GA_TRY(llama3_factors(file, p, &r, own_factors));
    r.freq_factors = own_factors;
  } else if (!(type.bytes == 4 && !memcmp(type.data, "none", 4))) {
    return ga_fail(GA_ERR_UNSUPPORTED, "rope scaling '%.*s'; GA has none, linear, yarn, llama3",
                   type.bytes < 32 ? (int)type.bytes : 32, type.data);
  }
  return ga_rope_freqs(&r, inv_freq, magnitude);
}
