/* What a safetensors folder says in other words, and lays out in other ways, than a GGUF file: see ga/model_file.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "cpu/cpu_gemm.h"
#include "file/hf_modules.h"
#include "file/model_store.h"
#include "quant/rewrite.h"

/* --- metadata ---------------------------------------------------------------------------------------------------- */

static bool has_prefix(const char *text, const char *prefix) { return !strncmp(text, prefix, strlen(prefix)); }

static bool text_meta_is(const rewrite *r, const char *key, const char *want) {
  ga_text text;
  return ga_model_file_text_or(r->file, key, "", &text) == GA_OK && text.bytes == strlen(want) &&
         !memcmp(text.data, want, text.bytes);
}

static bool bool_meta_is_false(const rewrite *r, const char *key) {
  bool flag;
  return ga_model_file_bool_or(r->file, key, true, &flag) == GA_OK && !flag;
}

static bool arch_meta_is(const rewrite *r, const char *key, const char *want) {
  char full[128];
  (void)snprintf(full, sizeof full, "%s.%s", r->model.arch, key);
  return text_meta_is(r, full, want);
}

/* Keys of ours that tell how a folder is laid out: the new file is laid out as GGUF files are. Frequencies of llama3
 * become a tensor, and what is "none" need not be said; longrope's factor is that of its magnitude alone. */
static bool is_folders_own(const rewrite *r, const char *key) {
  static const char *const own[] = {"ga.",
                                    "safetensors.",
                                    "tokenizer.ggml.bos",
                                    "tokenizer.ggml.eos",
                                    "tokenizer.ggml.padding",
                                    "tokenizer.chat_template"};
  for (size_t i = 0; i < GA_COUNT_OF(own); i++)
    if (has_prefix(key, own[i])) return true;
  if (ga_ends_with(key, ".rope.scaling.factor") && arch_meta_is(r, "rope.scaling.type", "longrope")) return true;
  return strstr(key, ".rope.scaling.") &&
         (arch_meta_is(r, "rope.scaling.type", "llama3") || arch_meta_is(r, "rope.scaling.type", "none"));
}

static ga_status put_int_meta(rewrite *r, const ga_meta *meta) {
  int64_t v;
  GA_TRY(ga_meta_int(meta, 0, &v));
  ga_gguf_put_int(r->writer, ga_meta_key(meta), v < 0 || v > UINT32_MAX ? GA_META_I64 : GA_META_U32, v);
  return GA_OK;
}

static ga_status put_ints_meta(rewrite *r, const ga_meta *meta) {
  const int64_t n = ga_meta_count(meta);
  void *p;
  GA_TRY(ga_arena_alloc(&r->arena, (size_t)n * sizeof(int32_t), &p));
  for (int64_t i = 0; i < n; i++) {
    int64_t v;
    GA_TRY(ga_meta_int(meta, i, &v));
    GA_REQUIRE(v >= INT32_MIN && v <= INT32_MAX, GA_ERR_FORMAT, "'%s': element %lld is %lld; must fit in 32 bits",
               ga_meta_key(meta), (long long)i, (long long)v);
    ((int32_t *)p)[i] = (int32_t)v;
  }
  ga_gguf_put_array(r->writer, ga_meta_key(meta), GA_META_I32, n, p);
  return GA_OK;
}

/* A flag for each layer, as layer_types gives it. llama.cpp wants the number n that makes every n-th layer global, and
 * so it is written where there is one; else the flags. modern-bert counts from its first layer. */
static ga_status put_window_pattern(rewrite *r, const ga_meta *meta) {
  const int64_t layers = ga_meta_count(meta), first = strcmp(r->model.arch, "modern-bert") ? 1 : 0;
  const bool has_flags = !strcmp(r->model.arch, "gemma4"); /* always */
  for (int64_t n = 1; n <= layers && !has_flags; n++) {
    bool fits = true, flag = false;
    for (int64_t il = 0; il < layers && fits; il++) {
      GA_TRY(ga_meta_bool(meta, il, &flag));
      fits = flag == ((il + first) % n != 0);
    }
    if (!fits) continue;
    ga_gguf_put_int(r->writer, ga_meta_key(meta), GA_META_U32, n);
    return GA_OK;
  }
  ga_gguf_put_meta(r->writer, meta);
  return GA_OK;
}

/* llama.cpp reads counts as u32 and numbers as f32. */
static ga_status put_folder_meta(rewrite *r, const ga_meta *meta) {
  double x;
  switch (ga_meta_elem_type(meta)) {
  case GA_META_I64: return ga_meta_type_of(meta) == GA_META_ARRAY ? put_ints_meta(r, meta) : put_int_meta(r, meta);
  case GA_META_F64:
    GA_TRY(ga_meta_float(meta, 0, &x));
    ga_gguf_put_f32(r->writer, ga_meta_key(meta), (float)x);
    return GA_OK;
  case GA_META_BOOL:
    if (ga_meta_type_of(meta) == GA_META_ARRAY && ga_ends_with(ga_meta_key(meta), ".sliding_window_pattern"))
      return put_window_pattern(r, meta);
    break;
  default: break;
  }
  ga_gguf_put_meta(r->writer, meta);
  return GA_OK;
}

/* "folder" of "/models/folder/": a name for a model that has none. */
static void put_folder_name(rewrite *r) {
  char path[1024];
  (void)snprintf(path, sizeof path, "%s", ga_model_file_shard_path(r->file, 0));
  char *slash = strrchr(path, '/');
  if (!slash) return;
  *slash = 0;
  const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
  if (*name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) ga_gguf_put_text(r->writer, "general.name", name);
}

/* Sizes of heads: how many there are, their elements, and how many of these are rotated. */
typedef struct folder_heads {
  int64_t n, dim, rotated;
} folder_heads;

static ga_status folder_heads_of(const rewrite *r, folder_heads *out) {
  int64_t width;
  double part;
  char key[128];
  (void)snprintf(key, sizeof key, "%s.attention.head_count", r->model.arch);
  GA_TRY(ga_model_file_int(r->file, key, 1, 1 << 20, &out->n));
  (void)snprintf(key, sizeof key, "%s.embedding_length", r->model.arch);
  GA_TRY(ga_model_file_int(r->file, key, 1, 1 << 24, &width));
  (void)snprintf(key, sizeof key, "%s.attention.key_length", r->model.arch);
  GA_TRY(ga_model_file_int_or(r->file, key, width / out->n, 1, 1 << 20, &out->dim));
  GA_TRY(ga_model_file_float_or(r->file, "ga.rope_fraction", 1, &part)); /* above 0, at most 1: file/hf_config.c */
  (void)snprintf(key, sizeof key, "%s.rope.dimension_count", r->model.arch);
  return ga_model_file_int_or(r->file, key, (int64_t)(part * (double)out->dim), 0, out->dim, &out->rotated);
}

/* GGUF states what longrope multiplies sine and cosine by; config.json may leave it to the lengths of contexts (arXiv
 * 2402.13753). */
static ga_status put_longrope_magnitude(rewrite *r) {
  char key[128], attn[128];
  int64_t context, original;
  double longer;
  (void)snprintf(attn, sizeof attn, "%s.rope.scaling.attn_factor", r->model.arch);
  if (!arch_meta_is(r, "rope.scaling.type", "longrope") || ga_model_file_meta(r->file, attn)) return GA_OK;
  (void)snprintf(key, sizeof key, "%s.context_length", r->model.arch);
  GA_TRY(ga_model_file_int(r->file, key, 1, 1 << 30, &context));
  (void)snprintf(key, sizeof key, "%s.rope.scaling.original_context_length", r->model.arch);
  GA_TRY(ga_model_file_int_or(r->file, key, context, 1, 1 << 30, &original));
  (void)snprintf(key, sizeof key, "%s.rope.scaling.factor", r->model.arch);
  GA_TRY(ga_model_file_float_or(r->file, key, (double)context / (double)original, &longer));
  const bool is_more = longer > 1 && original > 1;
  ga_gguf_put_f32(r->writer, attn, is_more ? (float)sqrt(1 + log(longer) / log((double)original)) : 1.0f);
  return GA_OK;
}

/* GGUF has no key for the layers that do not rotate; its readers take every fourth (smollm3). */
static ga_status check_layers_that_rotate(const rewrite *r) {
  int64_t every;
  const ga_meta *list;
  GA_TRY(ga_model_file_int_or(r->file, "ga.no_rope_every", 4, 1, 1 << 20, &every));
  GA_TRY(ga_model_file_array_or_null(r->file, "ga.rope_layers", GA_META_INTS, &list));
  for (int64_t il = 0; list && il < ga_meta_count(list); il++) {
    int64_t rotates;
    GA_TRY(ga_meta_int(list, il, &rotates));
    GA_REQUIRE(rotates == ((il + 1) % 4 != 0), GA_ERR_UNSUPPORTED,
               "'no_rope_layers': layer %lld is %lld; GGUF files can have only 0 at every fourth layer, else 1",
               (long long)il, (long long)rotates);
  }
  GA_REQUIRE((list && ga_meta_count(list)) || every == 4, GA_ERR_UNSUPPORTED,
             "'no_rope_layer_interval' is %lld; GGUF files can have only 4", (long long)every);
  return GA_OK;
}

/* GGUF has no key for it: readers norm heads of Llama 4 unless the model has 128 experts. */
static ga_status check_norms_of_heads(const rewrite *r) {
  const bool usual = r->model.experts != 128;
  bool norms;
  if (strcmp(r->model.arch, "llama4") != 0) return GA_OK;
  GA_TRY(ga_model_file_bool_or(r->file, "ga.head_norms", usual, &norms));
  GA_REQUIRE(norms == usual, GA_ERR_UNSUPPORTED, "'use_qk_norm' is %s with %lld experts; GGUF files can have only %s",
             norms ? "true" : "false", (long long)r->model.experts, usual ? "true" : "false");
  return GA_OK;
}

/* GGUF states how many elements of a head are rotated. */
static ga_status put_rotated(rewrite *r) {
  folder_heads heads;
  char base[128], key[128];
  (void)snprintf(base, sizeof base, "%s.rope.freq_base", r->model.arch);
  (void)snprintf(key, sizeof key, "%s.rope.dimension_count", r->model.arch);
  if (!ga_model_file_meta(r->file, base) || ga_model_file_meta(r->file, key)) return GA_OK;
  GA_TRY(folder_heads_of(r, &heads));
  ga_gguf_put_int(r->writer, key, GA_META_U32, heads.rotated);
  return GA_OK;
}

ga_status rewrite_put_folder_keys(rewrite *r) {
  GA_REQUIRE(ga_model_file_side_path(r->file, "config.json"), GA_ERR_UNSUPPORTED,
             "%s: no config.json beside the weights; must be there",
             ga_path_label(ga_model_file_shard_path(r->file, 0)));
  GA_REQUIRE(!ga_model_file_meta(r->file, GA_EMBEDDING_MODULES), GA_ERR_UNSUPPORTED,
             "modules.json: GGUF files have pooling by mean, CLS or last token alone, and no Dense or Normalize before "
             "one");
  for (int64_t i = 0; i < ga_model_file_meta_count(r->file); i++) {
    const ga_meta *meta = ga_model_file_meta_at(r->file, i);
    bool is_own;
    GA_TRY(rewrite_is_latents_own(r, ga_meta_key(meta), &is_own));
    if (!is_own && !is_folders_own(r, ga_meta_key(meta))) GA_TRY(put_folder_meta(r, meta));
  }
  GA_TRY(rewrite_put_latent_keys(r));
  if (text_meta_is(r, "ga.activation", "gelu_fast")) ga_gguf_put_text(r->writer, "ga.activation", "gelu_fast");
  const ga_meta *dense = ga_model_file_meta(r->file, "ga.dense_layers");
  if (dense && ga_meta_count(dense)) GA_TRY(put_folder_meta(r, dense));
  if (bool_meta_is_false(r, "ga.rope_truncate")) ga_gguf_put_bool(r->writer, "ga.rope_truncate", false);
  ga_gguf_put_text(r->writer, "general.type", "model");
  if (!ga_model_file_meta(r->file, "general.name")) put_folder_name(r);
  GA_TRY(put_rotated(r));
  GA_TRY(put_longrope_magnitude(r));
  GA_TRY(check_layers_that_rotate(r));
  GA_TRY(check_norms_of_heads(r));
  const ga_model_tensor *embd = ga_model_file_find(r->file, "token_embd.weight");
  GA_REQUIRE(embd && embd->view.n_dims == 2, GA_ERR_FORMAT, "token_embd.weight is %s; must be a matrix",
             embd ? "no matrix" : "missing");
  return rewrite_put_tokens(r, embd->view.dim[0]);
}

/* --- tensors ----------------------------------------------------------------------------------------------------- */

/* Architectures whose queries and keys GGUF has in other pairs than folders. */
static bool has_other_pairs(const char *arch) {
  static const char *const those[] = {"llama", "granite", "granitemoe", "smollm3", "mistral3"};
  for (size_t i = 0; i < GA_COUNT_OF(those); i++)
    if (!strcmp(arch, those[i])) return true;
  return false;
}

/* Rows of one head, when they are those of queries or keys in other pairs. */
static ga_status pairs_of(const rewrite *r, rewrite_tensor *t) {
  const bool is_q = strstr(t->name, ".attn_q.") != NULL, is_k = strstr(t->name, ".attn_k.") != NULL;
  int64_t heads;
  char key[128];
  if (!(is_q || is_k) || !has_other_pairs(r->model.arch) || !text_meta_is(r, "ga.rope_layout", "neox")) return GA_OK;
  (void)snprintf(key, sizeof key, "%s.attention.head_count_kv", r->model.arch);
  if (is_q || !ga_model_file_meta(r->file, key))
    (void)snprintf(key, sizeof key, "%s.attention.head_count", r->model.arch);
  GA_TRY(ga_model_file_int(r->file, key, 1, 1 << 20, &heads));
  const int64_t rows = t->view.dim[0];
  GA_REQUIRE(rows % (2 * heads) == 0, GA_ERR_SHAPE, "%lld rows of %lld heads; must be pairs of rows in each",
             (long long)rows, (long long)heads);
  t->change = CHANGE_PAIRS;
  t->head_rows = rows / heads;
  return GA_OK;
}

/* q, k and v of each head side by side, which GGUF has one behind the other. */
static ga_status qkv_of(const rewrite *r, rewrite_tensor *t) {
  bool flag = false;
  folder_heads heads;
  GA_TRY(ga_model_file_bool_or(r->file, "ga.qkv_by_head", false, &flag));
  if (!flag || !strstr(t->name, ".attn_qkv.")) return pairs_of(r, t);
  GA_TRY(folder_heads_of(r, &heads));
  GA_REQUIRE(t->view.dim[0] == 3 * heads.n * heads.dim, GA_ERR_SHAPE,
             "%lld rows; must be %lld: q, k and v of %lld heads", (long long)t->view.dim[0],
             (long long)(3 * heads.n * heads.dim), (long long)heads.n);
  t->change = CHANGE_SPLIT;
  t->head_rows = heads.dim;
  return GA_OK;
}

static bool is_transposed(const rewrite *r, const char *name) {
  static const char *const those[] = {".attn_qkv.weight", ".attn_output.weight", ".ffn_up.weight", ".ffn_down.weight"};
  bool flag = false;
  if (ga_model_file_bool_or(r->file, "ga.gpt2_transposed", false, &flag) != GA_OK || !flag) return false;
  for (size_t i = 0; i < GA_COUNT_OF(those); i++)
    if (ga_ends_with(name, those[i])) return true;
  return false;
}

/* Codes whose scales lie in other tensors, which are left out, would be written as if they were the weights. */
static ga_status check_weight_type(ga_dtype dtype) {
  if (dtype == GA_MXFP4) return GA_OK; /* made of codes and scales when the folder was opened */
  GA_REQUIRE(dtype != GA_E4M3 && dtype != GA_E5M2, GA_ERR_UNSUPPORTED,
             "is %s: weights in FP8 are not converted; take the model's files in bf16 or f16", ga_dtype_name(dtype));
  GA_REQUIRE(dtype == GA_F32 || dtype == GA_F16 || dtype == GA_BF16 || dtype == GA_F64, GA_ERR_UNSUPPORTED,
             "is %s: weights must be f32, f16, bf16 or f64; take the model's files in one of these",
             ga_dtype_name(dtype));
  return GA_OK;
}

/* Norms of heads, of which a folder may have a tensor for each head, and GGUF one for all. */
static const char *const head_norms[] = {"attn_q_norm", "attn_k_norm"};

static bool is_of_one_head(const char *name) {
  for (size_t i = 0; i < GA_COUNT_OF(head_norms); i++) {
    const char *at = strstr(name, head_norms[i]);
    if (at && at[strlen(head_norms[i])] == '.' && strchr("0123456789", at[strlen(head_norms[i]) + 1])) return true;
  }
  return false;
}

/* Layers after the last predict further tokens: nothing here reads them. */
static bool is_past_layers(const rewrite *r, const char *name) {
  const int64_t il = !strncmp(name, "blk.", 4) ? strtol(name + 4, NULL, 10) : -1;
  return il >= 0 && r->model.layers > 0 && il >= r->model.layers;
}

ga_status rewrite_layout(const rewrite *r, rewrite_tensor *t) {
  bool plus_one = false;
  t->left_out = !strcmp(t->from->name, t->from->source_name); /* no table names it: nothing here reads it */
  t->left_out = t->left_out || is_of_one_head(t->name);       /* one for all heads is made of them */
  t->left_out = t->left_out || is_past_layers(r, t->name);
  if (t->left_out) return GA_OK;
  GA_TRY(check_weight_type(t->from->view.dtype));
  GA_TRY(ga_model_file_bool_or(r->file, "ga.norm_plus_one", false, &plus_one));
  if (plus_one && ga_ends_with(t->name, "_norm.weight")) t->change = CHANGE_PLUS_ONE;
  if (is_transposed(r, t->name) && t->view.n_dims == 2) {
    t->change = CHANGE_TRANSPOSE;
    const int64_t rows = t->view.dim[0];
    t->view.dim[0] = t->view.dim[1];
    t->view.dim[1] = rows;
  }
  return qkv_of(r, t);
}

/* Llama 3.1 divides low frequencies by a factor, and passes over smoothly: GGUF has the divisors as a tensor. What is
 * not stated is as ga_hparams_rope has it. */
static ga_status llama3_divisors(const rewrite *r, int64_t n, float *out) {
  static const char *const names[] = {"factor", "low_freq_factor", "high_freq_factor"};
  static const double usual[] = {1, 1, 4};
  double v[3], base;
  int64_t original;
  char key[128];
  for (int i = 0; i < 3; i++) {
    (void)snprintf(key, sizeof key, "%s.rope.scaling.%s", r->model.arch, names[i]);
    GA_TRY(ga_model_file_float_or(r->file, key, usual[i], &v[i]));
  }
  (void)snprintf(key, sizeof key, "%s.rope.freq_base", r->model.arch);
  GA_TRY(ga_model_file_float_or(r->file, key, 10000, &base));
  (void)snprintf(key, sizeof key, "%s.context_length", r->model.arch);
  GA_TRY(ga_model_file_int(r->file, key, 1, 1 << 30, &original));
  (void)snprintf(key, sizeof key, "%s.rope.scaling.original_context_length", r->model.arch);
  GA_TRY(ga_model_file_int_or(r->file, key, original, 1, 1 << 30, &original));
  GA_REQUIRE(v[0] >= 1 && v[1] > 0 && v[2] >= v[1], GA_ERR_FORMAT,
             "rope scaling llama3: factor %g, low %g, high %g; need factor at least 1, 0 < low <= high", v[0], v[1],
             v[2]);
  for (int64_t i = 0; i < n; i++) {
    const double turns = (double)original * pow(base, -(double)i / (double)n) / 6.283185307179586;
    double keep = v[2] > v[1] ? (turns - v[1]) / (v[2] - v[1]) : turns >= v[1];
    keep = keep < 0 ? 0 : keep > 1 ? 1 : keep;
    out[i] = (float)(1 / (keep + (1 - keep) / v[0]));
  }
  return GA_OK;
}

/* A vector that no tensor of the folder has. */
static ga_status add_vector(rewrite *r, const char *name, int64_t n, float **values) {
  void *p;
  GA_TRY(ga_arena_alloc(&r->arena, (size_t)n * sizeof(float), &p));
  *values = p;
  rewrite_tensor *t = &r->tensors[r->n_tensors++];
  *t = (rewrite_tensor){.all = r, .made = p, .name = name, .wanted = GA_F32, .rows = 1, .cols = n};
  t->view = ga_tensor_make(NULL, GA_F32, 1, &n);
  return ga_tensor_bytes(&t->view, &t->bytes_to);
}

static ga_status add_factors(rewrite *r, const char *key, const char *name) {
  const ga_meta *list;
  float *values;
  GA_TRY(ga_model_file_array_or_null(r->file, key, GA_META_FLOATS, &list));
  if (!list) return GA_OK;
  GA_TRY(add_vector(r, name, ga_meta_count(list), &values));
  for (int64_t i = 0; i < ga_meta_count(list); i++) {
    double x;
    GA_TRY(ga_meta_float(list, i, &x));
    values[i] = (float)x;
  }
  return GA_OK;
}

/* The norms of a layer's heads, one behind the other: [heads, elements of a head]. */
static ga_status stack_heads(rewrite *r, int64_t il, const char *norm) {
  char name[64], *copy;
  const ga_model_tensor *t;
  float *values;
  int64_t heads = 0, dim = 0;
  for (;; heads++) {
    (void)snprintf(name, sizeof name, "blk.%lld.%s.%lld.weight", (long long)il, norm, (long long)heads);
    if (!(t = ga_model_file_find(r->file, name))) break;
    if (heads == 0) dim = t->view.dim[0];
    GA_REQUIRE(t->view.n_dims == 1 && t->view.dim[0] == dim && dim >= 1, GA_ERR_SHAPE,
               "%s has %d dimensions, the first %lld; must be a vector as the first head's", name, t->view.n_dims,
               (long long)t->view.dim[0]);
    GA_TRY(check_weight_type(t->view.dtype));
  }
  if (!heads) return GA_OK;
  (void)snprintf(name, sizeof name, "blk.%lld.%s.weight", (long long)il, norm);
  GA_TRY(ga_arena_strndup(&r->arena, name, strlen(name), &copy));
  GA_TRY(add_vector(r, copy, heads * dim, &values));
  rewrite_tensor *made = &r->tensors[r->n_tensors - 1];
  made->view = ga_tensor_make(NULL, GA_F32, 2, (const int64_t[]){heads, dim});
  made->rows = heads;
  made->cols = dim;
  for (int64_t h = 0; h < heads; h++) {
    void *raw;
    (void)snprintf(name, sizeof name, "blk.%lld.%s.%lld.weight", (long long)il, norm, (long long)h);
    t = ga_model_file_find(r->file, name);
    GA_TRY(ga_arena_alloc(&r->arena, t->bytes, &raw));
    GA_TRY(ga_model_file_read(r->file, t, 0, raw, t->bytes));
    ga_cpu_dequantise(t->view.dtype, raw, dim, values + h * dim);
  }
  return GA_OK;
}

static ga_status add_head_norms(rewrite *r) {
  int64_t layers;
  char key[128];
  (void)snprintf(key, sizeof key, "%s.block_count", r->model.arch);
  GA_TRY(ga_model_file_int(r->file, key, 1, 1 << 20, &layers));
  for (int64_t il = 0; il < layers; il++)
    for (size_t i = 0; i < GA_COUNT_OF(head_norms); i++) GA_TRY(stack_heads(r, il, head_norms[i]));
  return GA_OK;
}

/* Gemma 4 rotates the first part of a global head's pairs: GGUF has divisors that leave no angle of the others. */
static ga_status add_proportion(rewrite *r) {
  folder_heads heads;
  double part;
  float *values;
  if (!ga_model_file_meta(r->file, "ga.rope_proportion")) return GA_OK;
  GA_TRY(ga_model_file_float(r->file, "ga.rope_proportion", &part));
  GA_TRY(folder_heads_of(r, &heads));
  const int64_t pairs = heads.dim / 2;
  GA_TRY(add_vector(r, "rope_freqs.weight", pairs, &values));
  for (int64_t i = 0; i < pairs; i++) values[i] = i < (int64_t)(part * (double)pairs) ? 1 : 1e30f;
  return GA_OK;
}

ga_status rewrite_add_made(rewrite *r) {
  folder_heads heads;
  float *values;
  GA_TRY(add_head_norms(r));
  GA_TRY(add_factors(r, "ga.rope_short_factors", "rope_factors_short.weight"));
  GA_TRY(add_factors(r, "ga.rope_long_factors", "rope_factors_long.weight"));
  GA_TRY(add_proportion(r));
  if (!arch_meta_is(r, "rope.scaling.type", "llama3")) return GA_OK;
  GA_TRY(folder_heads_of(r, &heads));
  GA_REQUIRE(heads.rotated >= 2, GA_ERR_SHAPE, "rope scaling llama3 of heads of %lld; at least 2 elements must rotate",
             (long long)heads.rotated);
  GA_TRY(add_vector(r, "rope_freqs.weight", heads.rotated / 2, &values));
  return llama3_divisors(r, heads.rotated / 2, values);
}
