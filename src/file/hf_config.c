/* config.json to metadata, row by row of the architecture's table. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/locale.h"
#include "base/status.h"
#include "file/byte_reader.h"
#include "file/hf.h"
#include "file/hf_layers.h"
#include "file/hf_parts.h"
#include "file/hf_rope.h"
#include "file/limits.h"
#include "text/json_io.h"

typedef struct hf_sink {
  ga_arena *arena;
  ga_meta_list *list;
  const ga_hf_arch *arch;
  const json_t *rope; /* result of ga_hf_rope_view for the config that is read */
} hf_sink;

#define MUST_BE(cond, value, allowed) \
  GA_REQUIRE(cond, GA_ERR_FORMAT, "is %s; must be %s", ga_json_type_name(value), allowed)

static ga_status put_ints(const hf_sink *s, const char *key, const json_t *value) {
  size_t n = json_is_array(value) ? json_array_size(value) : 1;
  void *le;
  GA_TRY(ga_arena_alloc(s->arena, n * 8, &le)); /* n is bounded by the bytes of the JSON */
  for (size_t i = 0; i < n; i++) {
    const json_t *element = json_is_array(value) ? json_array_get(value, i) : value;
    MUST_BE(json_is_integer(element), element, "an integer or an array of integers");
    ga_store_le((uint8_t *)le + 8 * i, 8, (uint64_t)json_integer_value(element));
  }
  return ga_meta_list_add_array(s->arena, s->list, key, GA_META_I64, (int64_t)n, le);
}

/* Ids below 0 mean that there is no such token. */
static ga_status put_token_ids(const hf_sink *s, const char *key, bool all, const json_t *value) {
  const size_t n = json_array_size(value) ? json_array_size(value) : 1; /* an empty array has no first element */
  int64_t kept = 0;
  void *le;
  GA_TRY(ga_arena_alloc(s->arena, n * 8, &le)); /* n is bounded by the bytes of the JSON */
  for (size_t i = 0; i < n; i++) {
    const json_t *element = json_is_array(value) ? json_array_get(value, i) : value;
    MUST_BE(json_is_integer(element), element, "an integer or an array of integers");
    if (json_integer_value(element) < 0 || (kept && !all)) continue;
    ga_store_le((uint8_t *)le + 8 * kept++, 8, (uint64_t)json_integer_value(element));
  }
  if (!kept) return GA_OK;
  if (all) return ga_meta_list_add_array(s->arena, s->list, key, GA_META_I64, kept, le);
  return ga_meta_list_add_int(s->arena, s->list, key, (int64_t)ga_load_le(le, 8));
}

static ga_status put_rsqrt(const hf_sink *s, const char *key, const json_t *value) {
  MUST_BE(json_is_number(value), value, "a number");
  double x = json_number_value(value);
  GA_REQUIRE(x > 0, GA_ERR_FORMAT, "is %g; must be above 0", x);
  return ga_meta_list_add_float(s->arena, s->list, key, 1 / sqrt(x));
}

static ga_status put_floats(const hf_sink *s, const char *key, const json_t *value) {
  const size_t n = json_array_size(value);
  void *le;
  MUST_BE(json_is_array(value), value, "an array of numbers");
  GA_TRY(ga_arena_alloc(s->arena, n * 8, &le)); /* n is bounded by the bytes of the JSON */
  for (size_t i = 0; i < n; i++) {
    const json_t *element = json_array_get(value, i);
    MUST_BE(json_is_number(element), element, "an array of numbers");
    const double x = json_number_value(element);
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    ga_store_le((uint8_t *)le + 8 * i, 8, bits);
  }
  return ga_meta_list_add_array(s->arena, s->list, key, GA_META_F64, (int64_t)n, le);
}

static ga_status put_fraction(const hf_sink *s, const char *key, const json_t *value) {
  MUST_BE(json_is_number(value), value, "a number");
  const double x = json_number_value(value);
  GA_REQUIRE(x > 0 && x <= 1, GA_ERR_FORMAT, "is %g; must be above 0 and at most 1", x);
  return ga_meta_list_add_float(s->arena, s->list, key, x);
}

static ga_status put_meta_text(const hf_sink *s, const char *key, const json_t *value) {
  MUST_BE(json_is_string(value), value, "a text");
  return ga_meta_list_add_text(s->arena, s->list, key, json_string_value(value), json_string_length(value));
}

/* "su": its name in the first files. */
static bool is_longrope(const char *type) { return !strcmp(type, "longrope") || !strcmp(type, "su"); }

static ga_status put_rope_type(const hf_sink *s, const char *key, const json_t *value) {
  static const char *const known[] = {"none", "linear", "yarn", "llama3", "longrope"};
  MUST_BE(json_is_string(value), value, "a text");
  const char *type = json_string_value(value);
  if (!strcmp(type, "default")) type = "none";
  if (is_longrope(type)) type = "longrope";
  for (size_t i = 0; i < GA_COUNT_OF(known); i++)
    if (!strcmp(type, known[i])) return ga_meta_list_add_text(s->arena, s->list, key, type, strlen(type));
  return ga_fail(GA_ERR_UNSUPPORTED, "is '%s'; must be default, none, linear, yarn, llama3 or longrope",
                 ga_quote(type, strlen(type)).text);
}

static ga_status put_layer_types(const hf_sink *s, const char *key, const json_t *value) {
  void *bools;
  size_t n = json_array_size(value);
  MUST_BE(json_is_array(value), value, "an array of texts");
  GA_TRY(ga_arena_alloc(s->arena, n, &bools));
  for (size_t i = 0; i < n; i++) {
    const char *type = json_string_value(json_array_get(value, i));
    bool sliding = type && !strcmp(type, "sliding_attention");
    GA_REQUIRE(sliding || (type && !strcmp(type, "full_attention")), GA_ERR_UNSUPPORTED,
               "element %zu is '%s'; must be full_attention or sliding_attention", i,
               type ? ga_quote(type, strlen(type)).text : "no text");
    ((uint8_t *)bools)[i] = sliding;
  }
  return ga_meta_list_add_array(s->arena, s->list, key, GA_META_BOOL, (int64_t)n, bools);
}

/* Weights of e4m3: scales are tensors beside them, one for each block of 128 x 128 where they are not of tensors or
 * rows. Activations stay what they are here, whatever scheme is named. */
static ga_status check_fp8(const json_t *value) {
  const char *method = json_string_value(json_object_get(value, "quant_method")),
             *format = json_string_value(json_object_get(value, "fmt"));
  const json_t *block = ga_json_at(value, "weight_block_size");
  GA_REQUIRE(json_is_object(value) && method && !strcmp(method, "fp8"), GA_ERR_UNSUPPORTED,
             "is %s with 'quant_method' '%s'; GA has only models where it is absent, null, false or of method fp8",
             ga_json_type_name(value), method ? ga_quote(method, strlen(method)).text : "");
  GA_REQUIRE(!format || !strcmp(format, "e4m3"), GA_ERR_UNSUPPORTED, "has 'fmt' '%s'; must be absent or e4m3",
             ga_quote(format, strlen(format)).text);
  const json_int_t rows = json_integer_value(json_array_get(block, 0)),
                   cols = json_integer_value(json_array_get(block, 1));
  GA_REQUIRE(!block || (json_array_size(block) == 2 && rows == 128 && cols == 128), GA_ERR_UNSUPPORTED,
             "has 'weight_block_size' %s of %zu, %lld x %lld; must be absent, null or [128, 128]",
             ga_json_type_name(block), json_array_size(block), (long long)rows, (long long)cols);
  return GA_OK;
}

/* Are experts of the model type in MXFP4, in forms that are read? */
static bool has_mxfp4(const ga_hf_arch *arch) {
  for (const ga_hf_form *form = arch->forms; form && form->hf; form++)
    if (form->take & GA_HF_TAKE_MXFP4) return true;
  return false;
}

/* A matrix of e4m3 then needs a scale. In other files it may be without one. */
static ga_status put_quantization(const hf_sink *s, const json_t *value) {
  if (!value || json_is_false(value)) return GA_OK;
  const char *method = json_string_value(json_object_get(value, "quant_method"));
  if (method && !strcmp(method, "mxfp4") && has_mxfp4(s->arch)) return GA_OK;
  GA_TRY(check_fp8(value));
  if (ga_meta_list_find(s->list, "ga.fp8_scales")) return GA_OK;
  return ga_meta_list_add_bool(s->arena, s->list, "ga.fp8_scales", true);
}

/* 1 and 1.0 are the same here. */
static bool same_json(const json_t *a, const json_t *b) {
  return json_is_number(a) ? json_is_number(b) && json_number_value(a) == json_number_value(b) : json_equal(a, b) != 0;
}

static bool is_scalar_kind(ga_hf_kind kind) {
  switch (kind) {
  case GA_HF_INT:
  case GA_HF_FLOAT:
  case GA_HF_RSQRT:
  case GA_HF_FRACTION:
  case GA_HF_INT_OR_NULL:
  case GA_HF_FLOAT_OR_NULL:
  case GA_HF_INT_OR_NONE:
  case GA_HF_BOOL: return true;
  default: return false;
  }
}

/* One value for all layers may be written for each of them. */
static ga_status take_common(const json_t **value) {
  const size_t n = json_array_size(*value);
  if (!n) return GA_OK;
  for (size_t i = 1; i < n; i++)
    GA_REQUIRE(same_json(json_array_get(*value, 0), json_array_get(*value, i)), GA_ERR_UNSUPPORTED,
               "is an array whose elements 0 and %zu differ; GA needs one value for all layers", i);
  *value = json_array_get(*value, 0);
  return GA_OK;
}

static ga_status check_full_layers(const json_t *value) {
  MUST_BE(json_is_array(value), value, "an array of texts");
  for (size_t i = 0; i < json_array_size(value); i++) {
    const char *type = json_string_value(json_array_get(value, i));
    GA_REQUIRE(type && !strcmp(type, "full_attention"), GA_ERR_UNSUPPORTED,
               "element %zu is '%s'; must be full_attention", i, type ? ga_quote(type, strlen(type)).text : "no text");
  }
  return GA_OK;
}

/* Layers with one feed-forward, then layers with experts. The fallback is a number. */
static ga_status put_dense_first(const hf_sink *s, const char *key, const json_t *value) {
  const size_t n = json_array_size(value);
  size_t dense = 0;
  if (json_is_integer(value)) return ga_meta_list_add_int(s->arena, s->list, key, json_integer_value(value));
  MUST_BE(json_is_array(value), value, "an array of texts");
  for (size_t i = 0; i < n; i++) {
    const char *type = json_string_value(json_array_get(value, i));
    const bool is_dense = type && !strcmp(type, "dense");
    GA_REQUIRE(is_dense || (type && !strcmp(type, "sparse")), GA_ERR_UNSUPPORTED,
               "element %zu is '%s'; must be dense or sparse", i, type ? ga_quote(type, strlen(type)).text : "no text");
    GA_REQUIRE(!is_dense || dense == i, GA_ERR_UNSUPPORTED, "element %zu is dense behind sparse ones; must be first",
               i);
    dense += is_dense;
  }
  return ga_meta_list_add_int(s->arena, s->list, key, (int64_t)dense);
}

static ga_status put_meta_value(const hf_sink *s, ga_hf_kind kind, const char *key, const json_t *value) {
  if (is_scalar_kind(kind)) GA_TRY(take_common(&value));
  switch (kind) {
  case GA_HF_INT:
  case GA_HF_INT_OR_NULL:
  case GA_HF_INT_OR_NONE:
    MUST_BE(json_is_integer(value), value, "an integer");
    return ga_meta_list_add_int(s->arena, s->list, key, json_integer_value(value));
  case GA_HF_FLOAT:
  case GA_HF_FLOAT_OR_NULL:
    MUST_BE(json_is_number(value), value, "a number");
    return ga_meta_list_add_float(s->arena, s->list, key, json_number_value(value));
  case GA_HF_BOOL:
    MUST_BE(json_is_boolean(value), value, "true or false");
    return ga_meta_list_add_bool(s->arena, s->list, key, json_is_true(value));
  case GA_HF_INTS: return put_ints(s, key, value);
  case GA_HF_ID: return put_token_ids(s, key, false, value);
  case GA_HF_IDS: return put_token_ids(s, key, true, value);
  case GA_HF_FLOATS: return put_floats(s, key, value);
  case GA_HF_FRACTION: return put_fraction(s, key, value);
  case GA_HF_RSQRT: return put_rsqrt(s, key, value);
  case GA_HF_TEXT: return put_meta_text(s, key, value);
  case GA_HF_ROPE_TYPE: return put_rope_type(s, key, value);
  case GA_HF_LAYER_TYPES: return put_layer_types(s, key, value);
  case GA_HF_DENSE_FIRST: return put_dense_first(s, key, value);
  case GA_HF_FULL_LAYERS: return check_full_layers(value);
  case GA_HF_FP8: return put_quantization(s, value);
  case GA_HF_BY_CODE:
  case GA_HF_ONLY:
  case GA_HF_LAST_LAYER:
  case GA_HF_REFUSED: break;
  }
  return ga_fail(GA_ERR_UNSUPPORTED, "is %s; GA has only models where it is absent, null or false",
                 ga_json_type_name(value));
}

/* Our own text: only memory can fail. */
static ga_status parse_fallback(const ga_hf_key *row, json_t **out) {
  json_error_t error;
  ga_locale locale;
  GA_TRY(ga_locale_begin(&locale));
  *out = ga_json_load(row->fallback, strlen(row->fallback), JSON_DECODE_ANY, &error);
  ga_locale_end(&locale);
  GA_REQUIRE(*out, GA_ERR_NOMEM, "default '%s': %s", row->fallback, error.text);
  return GA_OK;
}

static ga_status check_only(const ga_hf_key *row, const json_t *value) {
  json_t *only = NULL;
  GA_TRY(take_common(&value));
  GA_TRY(parse_fallback(row, &only));
  bool same = same_json(only, value);
  for (size_t i = 0; i < json_array_size(only); i++) same = same || same_json(json_array_get(only, i), value);
  json_decref(only);
  GA_REQUIRE(same, GA_ERR_UNSUPPORTED, "is another value; GA has only models where it is absent, null or %s",
             row->fallback);
  return GA_OK;
}

static ga_status check_last_layer(const json_t *config, const json_t *value) {
  const json_int_t last = json_integer_value(json_object_get(config, "num_hidden_layers")) - 1;
  GA_TRY(take_common(&value));
  MUST_BE(json_is_integer(value), value, "an integer");
  GA_REQUIRE(json_integer_value(value) == -1 || json_integer_value(value) == last, GA_ERR_UNSUPPORTED,
             "is %lld; GA has only models where it is absent, null, -1 or the last layer, %lld by 'num_hidden_layers'",
             (long long)json_integer_value(value), (long long)last);
  return GA_OK;
}

static ga_status put_fallback(const hf_sink *s, const ga_hf_key *row, const char *key) {
  json_t *value = NULL;
  GA_REQUIRE(strcmp(row->fallback, GA_HF_REQUIRED) != 0, GA_ERR_FORMAT, "is missing; must be there");
  GA_TRY(parse_fallback(row, &value));
  ga_status status = put_meta_value(s, row->kind, key, value);
  json_decref(value);
  return status;
}

static ga_status put_meta_row(const hf_sink *s, const ga_hf_key *row, const json_t *config) {
  const bool of_rope = !strncmp(row->json, "rope.", 5);
  const json_t *value = ga_json_at(of_rope ? s->rope : config, row->json);
  char *key = NULL;
  if (row->kind == GA_HF_REFUSED)
    return !value || json_is_false(value) ? GA_OK : put_meta_value(s, row->kind, NULL, value);
  if (row->kind == GA_HF_BY_CODE) return GA_OK;
  if (row->kind == GA_HF_FULL_LAYERS) return value ? check_full_layers(value) : GA_OK;
  if (row->kind == GA_HF_FP8) return put_quantization(s, value);
  if (row->kind == GA_HF_LAST_LAYER) return value ? check_last_layer(config, value) : GA_OK;
  if (row->kind == GA_HF_ONLY) return value ? check_only(row, value) : GA_OK;
  GA_TRY(ga_arena_printf(s->arena, &key, "%s%s", row->key[0] == '.' ? s->arch->arch : "", row->key));
  if (ga_meta_list_find(s->list, key)) return GA_OK;
  if (value) return put_meta_value(s, row->kind, key, value);
  const bool is_null = json_is_null(json_object_get(config, row->json));
  if (is_null && row->kind == GA_HF_INT_OR_NONE) return GA_OK;
  if (is_null && row->kind == GA_HF_INT_OR_NULL) return ga_meta_list_add_int(s->arena, s->list, key, 0);
  if (is_null && row->kind == GA_HF_FLOAT_OR_NULL) return ga_meta_list_add_float(s->arena, s->list, key, 0);
  return row->fallback ? put_fallback(s, row, key) : GA_OK;
}

static ga_status put_rows(const hf_sink *s, const char *label, const ga_hf_key *rows, const json_t *config) {
  for (const ga_hf_key *row = rows; row && row->json; row++) {
    ga_status status = put_meta_row(s, row, config);
    char name[GA_HF_FIELD_BYTES];
    if (status) return ga_fail_in(status, "%s: '%s'", label, ga_hf_rope_field(config, row->json, name));
  }
  return GA_OK;
}

/* --- what does not depend on the architecture -------------------------------------------------------------------- */

/* clang-format off */
static const ga_hf_key common_keys[] = {
    {"_name_or_path",       "general.name",                    GA_HF_TEXT,    NULL},
    {"tie_word_embeddings", "ga.tied_embeddings",              GA_HF_BOOL,    NULL},
    {"bos_token_id",        "tokenizer.ggml.bos_token_id",     GA_HF_ID,      NULL},
    {"eos_token_id",        "tokenizer.ggml.eos_token_id",     GA_HF_ID,      NULL},
    {"eos_token_id",        "ga.eos_token_ids",                GA_HF_IDS,     NULL},
    {"pad_token_id",        "tokenizer.ggml.padding_token_id", GA_HF_ID,      NULL},
    {"quantization_config", NULL,                              GA_HF_FP8,     NULL},
    {0}};
/* clang-format on */

/* Differences of layout between a checkpoint and a GGUF file of the same model: see ga/model_file.h. */
static ga_status put_layout(const hf_sink *s) {
  static const struct {
    uint32_t layout;
    const char *key;
  } flags[] = {{GA_HF_NORM_PLUS_ONE, "ga.norm_plus_one"},
               {GA_HF_TRANSPOSED, "ga.gpt2_transposed"},
               {GA_HF_QKV_BY_HEAD, "ga.qkv_by_head"}};
  enum { GGUF_SIGMOID = 2 };
  char *key;
  for (size_t i = 0; i < GA_COUNT_OF(flags); i++)
    if (s->arch->layout & flags[i].layout) GA_TRY(ga_meta_list_add_bool(s->arena, s->list, flags[i].key, true));
  if (s->arch->layout & GA_HF_BOTH_WAYS) {
    GA_TRY(ga_arena_printf(s->arena, &key, "%s.attention.causal", s->arch->arch));
    GA_TRY(ga_meta_list_add_bool(s->arena, s->list, key, false));
  }
  if (s->arch->layout & GA_HF_SIGMOID) {
    GA_TRY(ga_arena_printf(s->arena, &key, "%s.expert_gating_func", s->arch->arch));
    GA_TRY(ga_meta_list_add_int(s->arena, s->list, key, GGUF_SIGMOID));
  }
  return s->arch->layout & GA_HF_NEOX ? ga_meta_list_add_text(s->arena, s->list, "ga.rope_layout", "neox", 4) : GA_OK;
}

/* attention_factor is the whole magnitude; GGUF's attn_factor is that of longrope, of YaRN what 1 + 0.1 ln factor is
 * multiplied by. */
static ga_status put_attention_factor(const hf_sink *s, const char *label) {
  const json_t *value = ga_json_at(s->rope, "rope.attention_factor");
  const char *name = json_string_value(ga_json_at(s->rope, "rope.rope_type"));
  const bool is_yarn = name && !strcmp(name, "yarn"), is_long = name && is_longrope(name);
  if (!value || !(is_yarn || is_long)) return GA_OK;
  const json_t *factor = ga_json_at(s->rope, "rope.factor");
  const double longer = json_is_number(factor) ? json_number_value(factor) : 1;
  GA_REQUIRE(json_is_number(value), GA_ERR_FORMAT, "%s: 'attention_factor': is %s; must be a number", label,
             ga_json_type_name(value));
  GA_REQUIRE(is_long || longer >= 1, GA_ERR_FORMAT, "%s: 'factor' of yarn is %g; must be at least 1", label, longer);
  char *key;
  GA_TRY(ga_arena_printf(s->arena, &key, "%s.rope.scaling.attn_factor", s->arch->arch));
  return ga_meta_list_add_float(s->arena, s->list, key,
                                json_number_value(value) / (is_yarn ? 1 + 0.1 * log(longer) : 1));
}

/* Hunyuan's scaling of rotary embedding: a larger base, and no other change. */
static ga_status put_ntk_alpha(const hf_sink *s, const char *label, const json_t *config) {
  static const char *const dims[] = {"head_dim", "attention_head_dim"};
  const char *type = json_string_value(ga_json_at(s->rope, "rope.rope_type"));
  const json_t *alpha = ga_json_at(s->rope, "rope.alpha"), *theta = ga_json_at(config, "rope_theta"), *dim = NULL;
  char *key;
  char name[GA_HF_FIELD_BYTES];
  GA_REQUIRE(!alpha || s->arch->layout & GA_HF_NTK_ALPHA, GA_ERR_UNSUPPORTED,
             "%s: '%s' is not known of '%s'; GA has it of hunyuan_v1_moe alone", label,
             ga_hf_rope_field(config, "rope.alpha", name), s->arch->model_type);
  if (!(s->arch->layout & GA_HF_NTK_ALPHA) || !type || strcmp(type, "dynamic") != 0) return GA_OK;
  if (!theta) theta = ga_json_at(s->rope, "rope.rope_theta");
  for (size_t i = 0; i < GA_COUNT_OF(dims) && !dim; i++) dim = ga_json_at(config, dims[i]);
  const json_int_t heads = json_integer_value(ga_json_at(config, "num_attention_heads"));
  const double a = json_number_value(alpha), base = theta ? json_number_value(theta) : 10000,
               d = dim         ? json_number_value(dim)
                   : heads > 0 ? (double)(json_integer_value(ga_json_at(config, "hidden_size")) / heads)
                               : 0;
  GA_REQUIRE(
      a >= 1 && base > 1 && d > 2, GA_ERR_UNSUPPORTED,
      "%s: rope type dynamic has 'alpha' %g, 'rope_theta' %g, and heads of %g by 'head_dim', or 'hidden_size' and "
      "'num_attention_heads'; must have alpha from 1 on, a base above 1 and heads of more than 2",
      label, a, base, d);
  GA_TRY(ga_arena_printf(s->arena, &key, "%s.rope.freq_base", s->arch->arch));
  GA_TRY(ga_meta_list_add_float(s->arena, s->list, key, base * pow(a, d / (d - 2))));
  GA_TRY(ga_arena_printf(s->arena, &key, "%s.rope.scaling.type", s->arch->arch));
  return ga_meta_list_add_text(s->arena, s->list, key, "none", 4);
}

/* Llama 4's factors of queries: true, or a number other than 0, turns them on. */
static ga_status put_temperature(const hf_sink *s, const char *label, const json_t *config) {
  const json_t *tuning = ga_json_at(config, "attn_temperature_tuning");
  if (strcmp(s->arch->arch, "llama4") != 0 || !tuning) return GA_OK;
  GA_REQUIRE(json_is_boolean(tuning) || json_is_integer(tuning), GA_ERR_FORMAT,
             "%s: 'attn_temperature_tuning' is %s; must be true, false or an integer", label,
             ga_json_type_name(tuning));
  if (json_is_true(tuning) || json_integer_value(tuning)) return GA_OK;
  return ga_meta_list_add_float(s->arena, s->list, "llama4.attention.temperature_scale", 0);
}

static ga_status put_gpt2_inner(const hf_sink *s, const char *label) {
  const char *key = "gpt2.feed_forward_length";
  if (strcmp(s->arch->arch, "gpt2") != 0 || ga_meta_list_find(s->list, key)) return GA_OK;
  int64_t width = 0;
  GA_TRY(ga_meta_int(ga_meta_list_find(s->list, "gpt2.embedding_length"), 0, &width));
  GA_REQUIRE(width >= 1 && width <= INT32_MAX, GA_ERR_FORMAT, "%s: 'n_embd' is %lld; must be from 1 to %d", label,
             (long long)width, INT32_MAX);
  return ga_meta_list_add_int(s->arena, s->list, key, 4 * width);
}

/* Positions of RoBERTa and its kin begin behind the id of padding, and the table has rows for those before. */
static ga_status put_positions(const hf_sink *s, const char *label, const json_t *config) {
  const json_t *pad = ga_json_at(config, "pad_token_id"), *rows = ga_json_at(config, "max_position_embeddings");
  char *key;
  if (!(s->arch->layout & GA_HF_PADDED_POSITIONS)) return GA_OK;
  const json_int_t id = pad ? json_integer_value(pad) : 1, n = rows ? json_integer_value(rows) : 512;
  GA_REQUIRE((!pad || json_is_integer(pad)) && id >= 0 && id < INT32_MAX, GA_ERR_FORMAT,
             "%s: 'pad_token_id' is %s %lld; must be an integer from 0 to %d", label, ga_json_type_name(pad),
             (long long)id, INT32_MAX - 1);
  const json_int_t first = id + 1;
  GA_REQUIRE((!rows || json_is_integer(rows)) && n > first && n <= INT32_MAX, GA_ERR_FORMAT,
             "%s: 'max_position_embeddings' is %s %lld; must be an integer from %lld to %d", label,
             ga_json_type_name(rows), (long long)n, (long long)first + 1, INT32_MAX);
  GA_TRY(ga_arena_printf(s->arena, &key, "%s.context_length", s->arch->arch));
  GA_TRY(ga_meta_list_add_int(s->arena, s->list, key, n - first));
  return ga_meta_list_add_int(s->arena, s->list, GA_HF_POSITION_OFFSET, first);
}

/* Folders with images beside a text model of one of several types: "mistral3 of TYPE". */
static const char *wrapped_type(const json_t *config) {
  static const char *const types[] = {"mistral3 of mistral", "mistral3 of ministral3", "mistral3 of mistral4"};
  const json_t *inner = ga_json_at(ga_json_at(config, "text_config"), "model_type");
  const char *type = inner ? json_string_value(inner) : "mistral";
  for (size_t i = 0; type && i < GA_COUNT_OF(types); i++)
    if (!strcmp(types[i] + strlen("mistral3 of "), type)) return types[i];
  return "mistral3";
}

/* Jina's first files call themselves bert. */
static const char *model_type_of(const json_t *config) {
  const char *type = json_string_value(ga_json_at(config, "model_type")),
             *positions = json_string_value(ga_json_at(config, "position_embedding_type"));
  if (type && !strcmp(type, "mistral3")) return wrapped_type(config);
  return type && positions && !strcmp(type, "bert") && !strcmp(positions, "alibi") ? "jina_bert" : type;
}

static ga_status find_hf_arch(const char *label, const json_t *config, const ga_hf_arch **out) {
  const json_t *type = ga_json_at(config, "model_type");
  GA_REQUIRE(json_is_string(type), GA_ERR_FORMAT, "%s: 'model_type' is %s; must be a text", label,
             ga_json_type_name(type));
  for (int i = 0; (*out = ga_hf_arch_at(i)); i++)
    if (!strcmp((*out)->model_type, model_type_of(config))) return GA_OK;
  GA_REQUIRE(strcmp(json_string_value(type), "mistral3") != 0, GA_ERR_UNSUPPORTED,
             "%s: 'text_config.model_type' of mistral3 must be mistral, ministral3 or mistral4", label);
  char known[512] = "";
  for (int i = 0; (*out = ga_hf_arch_at(i)); i++)
    if (!strchr((*out)->model_type, ' '))
      (void)snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i ? ", " : "", (*out)->model_type);
  return ga_fail(GA_ERR_UNSUPPORTED, "%s: 'model_type' is '%s'; must be one of %s", label,
                 ga_quote(json_string_value(type), json_string_length(type)).text, known);
}

static ga_status apply_rows(const hf_sink *s, const char *label, const json_t *config, const json_t *inner) {
  GA_TRY(put_rows(s, label, common_keys, config));
  if (inner != config) GA_TRY(put_rows(s, label, common_keys, inner));
  GA_TRY(put_ntk_alpha(s, label, inner));
  GA_TRY(put_temperature(s, label, inner));
  GA_TRY(ga_hf_put_layers(s->arena, label, inner, s->arch, s->list));
  GA_TRY(put_rows(s, label, s->arch->keys, inner));
  GA_TRY(put_rows(s, label, s->arch->keys_2, inner));
  GA_TRY(put_attention_factor(s, label));
  GA_TRY(put_layout(s));
  GA_TRY(put_gpt2_inner(s, label));
  return put_positions(s, label, inner);
}

ga_status ga_hf_config_apply(ga_arena *arena, const char *label, const json_t *config, ga_meta_list *list,
                             const ga_hf_arch **arch) {
  const ga_hf_arch *a;
  json_t *rope;
  GA_TRY(find_hf_arch(label, config, &a));
  const json_t *inner = a->inside ? ga_json_at(config, a->inside) : config;
  GA_REQUIRE(json_is_object(inner) && !ga_json_wide(inner), GA_ERR_FORMAT, "%s: '%s' is %s; must be an object", label,
             a->inside, ga_json_type_name(inner));
  GA_TRY(ga_meta_list_add_text(arena, list, "general.architecture", a->arch, strlen(a->arch)));
  GA_TRY(ga_parts_check(&ga_hf_config_parts, NULL, config));
  if (inner != config) GA_TRY(ga_parts_check(&ga_hf_config_parts, a->inside, inner));
  GA_TRY(ga_hf_rope_view(label, inner, &rope));
  const hf_sink s = {arena, list, a, rope};
  const ga_status status = apply_rows(&s, label, config, inner);
  json_decref(rope);
  GA_TRY(status);
  *arch = a;
  return GA_OK;
}
