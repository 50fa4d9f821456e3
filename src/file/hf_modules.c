#include "file/hf_modules.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/status.h"
#include "file/limits.h"
#include "text/json_io.h"

static const ga_part module_rows[] = {
    {"*.type", GA_PART_READ, "Transformer, Pooling, Dense, Normalize or Dropout of sentence_transformers", NULL},
    {"*.path", GA_PART_READ, "a folder beside modules.json, which is that of the Transformer", NULL},
    {"*.idx", GA_PART_IGNORED, "modules are applied in the order of the file", NULL},
    {"*.name", GA_PART_IGNORED, "a name that nothing refers to", NULL},
    {"*.kwargs", GA_PART_REFUSED, "arguments of a module's call", NULL},
    {0}};
const ga_part_table ga_hf_module_parts = {"modules.json", NULL, module_rows, NULL};

static const ga_part sentence_rows[] = {
    {"do_lower_case", GA_PART_REFUSED, "texts are changed by the tokenizer alone", NULL},
    {"max_seq_length", GA_PART_IGNORED, "GA takes texts up to the model's context, and cuts none unless it is asked to",
     NULL},
    {0}};
const ga_part_table ga_hf_sentence_parts = {"sentence_bert_config.json", NULL, sentence_rows,
                                            "they choose classes and results of transformers"};

static const ga_part pooling_rows[] = {
    {"pooling_mode", GA_PART_READ,
     "cls, max, mean, mean_sqrt_len_tokens, weightedmean, lasttoken, or an array of them: their results follow one "
     "another",
     NULL},
    {"pooling_mode_cls_token", GA_PART_READ, "of files before sentence-transformers 5.4", NULL},
    {"pooling_mode_max_tokens", GA_PART_READ, "of files before sentence-transformers 5.4", NULL},
    {"pooling_mode_mean_tokens", GA_PART_READ, "of files before sentence-transformers 5.4", NULL},
    {"pooling_mode_mean_sqrt_len_tokens", GA_PART_READ, "of files before sentence-transformers 5.4", NULL},
    {"pooling_mode_weightedmean_tokens", GA_PART_READ, "of files before sentence-transformers 5.4", NULL},
    {"pooling_mode_lasttoken", GA_PART_READ, "of files before sentence-transformers 5.4", NULL},
    {"include_prompt", GA_PART_IGNORED, "GA puts no prompt before a text", NULL},
    {"embedding_dimension", GA_PART_IGNORED, "the model has its own width", NULL},
    {"word_embedding_dimension", GA_PART_IGNORED, "the model has its own width", NULL},
    {0}};
const ga_part_table ga_hf_pooling_parts = {"config.json", "of a Pooling module", pooling_rows, NULL};

static const ga_part dense_rows[] = {
    {"in_features", GA_PART_READ, NULL, NULL},
    {"out_features", GA_PART_READ, NULL, NULL},
    {"bias", GA_PART_READ, NULL, NULL},
    {"activation_function", GA_PART_READ, "torch's Identity, Tanh, ReLU, GELU, SiLU or Sigmoid; absent: Tanh", NULL},
    {"module_input_name", GA_PART_REFUSED, "modules read and write the embedding", "[\"sentence_embedding\"]"},
    {"module_output_name", GA_PART_REFUSED, "modules read and write the embedding", "[\"sentence_embedding\"]"},
    {"use_residual", GA_PART_REFUSED, NULL, NULL},
    {0}};
const ga_part_table ga_hf_dense_parts = {"config.json", "of a Dense module", dense_rows, NULL};

typedef struct module_list {
  ga_model_file *file;
  const char *folder; /* folder of modules.json with its '/' */
  json_t *out;        /* array of GA_EMBEDDING_MODULES */
} module_list;

static ga_status append_json(json_t *array, json_t *value) {
  GA_REQUIRE(value && !json_array_append_new(array, value), GA_ERR_NOMEM, "modules.json: out of memory");
  return GA_OK;
}

/* --- pooling --- */

static const char *const mode_names[] = {"cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"};

static ga_status add_mode(json_t *modes, const json_t *value) {
  const char *name = json_string_value(value);
  for (size_t i = 0; name && i < GA_COUNT_OF(mode_names); i++)
    if (!strcmp(name, mode_names[i])) return append_json(modes, json_string(name));
  return ga_fail(GA_ERR_UNSUPPORTED,
                 "'pooling_mode' is %s; must be cls, max, mean, mean_sqrt_len_tokens, weightedmean or lasttoken",
                 name ? ga_quote(name, strlen(name)).text : ga_json_type_name(value));
}

/* In the order in which sentence-transformers joins them. */
static ga_status add_old_modes(const json_t *config, json_t *modes) {
  static const char *const fields[] = {"pooling_mode_cls_token",           "pooling_mode_max_tokens",
                                       "pooling_mode_mean_tokens",         "pooling_mode_mean_sqrt_len_tokens",
                                       "pooling_mode_weightedmean_tokens", "pooling_mode_lasttoken"};
  for (size_t i = 0; i < GA_COUNT_OF(fields); i++) {
    const json_t *flag = ga_json_at(config, fields[i]);
    GA_REQUIRE(!flag || json_is_boolean(flag), GA_ERR_FORMAT, "'%s' is %s; must be true or false", fields[i],
               ga_json_type_name(flag));
    if (json_is_true(flag)) GA_TRY(append_json(modes, json_string(mode_names[i])));
  }
  return json_array_size(modes) ? GA_OK : append_json(modes, json_string("mean"));
}

static ga_status add_modes(const json_t *config, json_t *modes) {
  const json_t *value = ga_json_at(config, "pooling_mode");
  GA_TRY(ga_parts_check(&ga_hf_pooling_parts, NULL, config));
  if (!value) return add_old_modes(config, modes);
  if (!json_is_array(value)) return add_mode(modes, value);
  const size_t n = json_array_size(value);
  GA_REQUIRE(n >= 1 && n <= GA_COUNT_OF(mode_names), GA_ERR_UNSUPPORTED,
             "'pooling_mode' has %zu modes; must be 1 to %zu", n, GA_COUNT_OF(mode_names));
  for (size_t i = 0; i < n; i++) GA_TRY(add_mode(modes, json_array_get(value, i)));
  return GA_OK;
}

static ga_status add_pooling(const module_list *list, const json_t *config) {
  json_t *modes = json_array();
  GA_TRY(append_json(list->out, json_pack("{s:o}", "pooling", modes)));
  return add_modes(config, modes);
}

/* --- dense --- */

/* Our name of a class of torch.nn; NULL: GA does not have it. */
static const char *activation_name(const char *type) {
  static const char *const known[][2] = {
      {"torch.nn.modules.linear.Identity", "identity"}, {"torch.nn.modules.activation.Tanh", "tanh"},
      {"torch.nn.modules.activation.ReLU", "relu"},     {"torch.nn.modules.activation.GELU", "gelu"},
      {"torch.nn.modules.activation.SiLU", "silu"},     {"torch.nn.modules.activation.Sigmoid", "sigmoid"}};
  for (size_t i = 0; i < GA_COUNT_OF(known); i++)
    if (!strcmp(type, known[i][0])) return known[i][1];
  return NULL;
}

static ga_status feature_count(const json_t *config, const char *field, int64_t *out) {
  const json_t *value = ga_json_at(config, field);
  GA_REQUIRE(json_is_integer(value) && json_integer_value(value) >= 1 && json_integer_value(value) <= 1 << 20,
             GA_ERR_FORMAT, "'%s' is %s %lld; must be an integer from 1 to %d", field, ga_json_type_name(value),
             (long long)json_integer_value(value), 1 << 20);
  *out = json_integer_value(value);
  return GA_OK;
}

static ga_status add_dense(const module_list *list, const char *path, const json_t *config) {
  const json_t *type = ga_json_at(config, "activation_function"), *bias = ga_json_at(config, "bias");
  const char *text = type ? json_string_value(type) : "torch.nn.modules.activation.Tanh",
             *activation = text ? activation_name(text) : NULL;
  int64_t in, out;
  GA_TRY(ga_parts_check(&ga_hf_dense_parts, NULL, config));
  GA_REQUIRE(activation, GA_ERR_UNSUPPORTED,
             "'activation_function' is %s; must be torch's Identity, Tanh, ReLU, GELU, SiLU or Sigmoid",
             text ? ga_quote(text, strlen(text)).text : ga_json_type_name(type));
  GA_REQUIRE(!bias || json_is_boolean(bias), GA_ERR_FORMAT, "'bias' is %s; must be true or false",
             ga_json_type_name(bias));
  GA_TRY(feature_count(config, "in_features", &in));
  GA_TRY(feature_count(config, "out_features", &out));
  return append_json(list->out, json_pack("{s:s, s:s, s:I, s:I, s:b}", "dense", path, "activation", activation, "in",
                                          (json_int_t)in, "out", (json_int_t)out, "bias", !json_is_false(bias)));
}

/* --- modules.json --- */

/* Calls `add` with the config of a module. */
static ga_status with_config(const module_list *list, const char *path, bool is_dense) {
  char *name;
  json_t *config;
  GA_TRY(ga_arena_printf(&list->file->arena, &name, "%s%s/config.json", list->folder, path));
  GA_TRY(ga_json_read_file(name, &config));
  const ga_status status = is_dense ? add_dense(list, path, config) : add_pooling(list, config);
  json_decref(config);
  return status ? ga_fail_in(status, "%s/config.json", path) : GA_OK;
}

/* A folder beside modules.json; sentence-transformers writes no others. */
static ga_status module_path(const json_t *module, const char **out) {
  const json_t *value = ga_json_at(module, "path");
  const char *path = json_string_value(value);
  GA_REQUIRE(path && ga_name_is_sound(path, json_string_length(value), GA_MODEL_MAX_NAME_BYTES) && path[0] != '.' &&
                 !strchr(path, '/'),
             GA_ERR_FORMAT, "'path' is %s; must be the name of a folder beside modules.json",
             path ? ga_quote(path, strlen(path)).text : ga_json_type_name(value));
  *out = path;
  return GA_OK;
}

/* "sentence_transformers.models.Pooling" and "sentence_transformers.sentence_transformer.modules.pooling.Pooling" */
static const char *class_name(const char *type) {
  return strncmp(type, "sentence_transformers.", strlen("sentence_transformers.")) ? "" : strrchr(type, '.') + 1;
}

static ga_status add_module(const module_list *list, size_t index, const json_t *module) {
  const char *type = json_string_value(ga_json_at(module, "type")), *name = type ? class_name(type) : "", *path = NULL;
  const bool is_pooling = !strcmp(name, "Pooling"), is_dense = !strcmp(name, "Dense");
  if (!strcmp(name, "Dropout")) return GA_OK; /* of training alone */
  if (index == 0) {
    path = json_string_value(ga_json_at(module, "path"));
    GA_REQUIRE(!strcmp(name, "Transformer"), GA_ERR_UNSUPPORTED,
               "'type' is '%s'; the first module must be a Transformer of sentence_transformers",
               type ? ga_quote(type, strlen(type)).text : "");
    GA_REQUIRE(!path || !*path, GA_ERR_UNSUPPORTED, "'path' of the Transformer is '%s'; open that folder",
               path ? ga_quote(path, strlen(path)).text : "");
    return GA_OK;
  }
  GA_REQUIRE(is_pooling || is_dense || !strcmp(name, "Normalize"), GA_ERR_UNSUPPORTED,
             "'type' is '%s'; must be Pooling, Dense, Normalize or Dropout of sentence_transformers",
             type ? ga_quote(type, strlen(type)).text : "");
  GA_REQUIRE(is_pooling == !json_array_size(list->out), GA_ERR_UNSUPPORTED,
             "'type' is '%s'; one Pooling must stand before all Dense and Normalize", name);
  if (!is_pooling && !is_dense) return append_json(list->out, json_pack("{s:b}", "normalize", 1));
  GA_TRY(module_path(module, &path));
  return with_config(list, path, is_dense);
}

static ga_status add_modules(const module_list *list, const json_t *modules) {
  GA_TRY(ga_parts_check(&ga_hf_module_parts, NULL, modules));
  for (size_t i = 0; i < json_array_size(modules); i++) {
    const json_t *module = json_array_get(modules, i);
    const ga_status status = json_is_object(module)
                                 ? add_module(list, i, module)
                                 : ga_fail(GA_ERR_FORMAT, "is %s; must be an object", ga_json_type_name(module));
    if (status) return ga_fail_in(status, "modules.json: module %zu", i);
  }
  return GA_OK;
}

/* GGUF's number of a mode; 0: GGUF has none. */
static int pooling_type(const json_t *modes) {
  static const char *const types[] = {"", "mean", "cls", "lasttoken"};
  const char *name = json_string_value(json_array_get(modes, 0));
  for (int i = 1; json_array_size(modes) == 1 && i < 4; i++)
    if (!strcmp(name, types[i])) return i;
  return 0;
}

/* Embeddings have length 1 in any case, so that a Normalize at the end adds nothing. */
static void drop_last_normalize(json_t *modules) {
  const size_t n = json_array_size(modules);
  if (n && json_object_get(json_array_get(modules, n - 1), "normalize")) (void)json_array_remove(modules, n - 1);
}

static ga_status put_modules(const module_list *list, const char *arch) {
  char *key;
  drop_last_normalize(list->out);
  if (!json_array_size(list->out)) return GA_OK;
  const int type = pooling_type(json_object_get(json_array_get(list->out, 0), "pooling"));
  GA_TRY(ga_arena_printf(&list->file->arena, &key, "%s.pooling_type", arch));
  if (type) GA_TRY(ga_meta_list_add_int(&list->file->arena, list->file->meta, key, type));
  if (type && json_array_size(list->out) == 1) return GA_OK;
  char *text = ga_json_dump(list->out, JSON_COMPACT);
  GA_REQUIRE(text, GA_ERR_NOMEM, "modules.json: out of memory");
  const ga_status status =
      ga_meta_list_add_text(&list->file->arena, list->file->meta, GA_EMBEDDING_MODULES, text, strlen(text));
  free(text);
  return status;
}

static bool is_there(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* The config of the Transformer itself. */
static ga_status check_sentence_config(const module_list *list) {
  char *path;
  json_t *config;
  GA_TRY(ga_arena_printf(&list->file->arena, &path, "%ssentence_bert_config.json", list->folder));
  if (!is_there(path)) return GA_OK;
  GA_TRY(ga_json_read_file(path, &config));
  const ga_status status = ga_parts_check(&ga_hf_sentence_parts, NULL, config);
  json_decref(config);
  return status;
}

static ga_status read_modules(const module_list *list) {
  char *modules_path, *pooling_path;
  json_t *modules;
  GA_TRY(check_sentence_config(list));
  GA_TRY(ga_arena_printf(&list->file->arena, &modules_path, "%smodules.json", list->folder));
  GA_TRY(ga_arena_printf(&list->file->arena, &pooling_path, "%s1_Pooling/config.json", list->folder));
  if (!is_there(modules_path)) return is_there(pooling_path) ? with_config(list, "1_Pooling", false) : GA_OK;
  GA_TRY(ga_json_read_list(modules_path, &modules));
  const ga_status status = add_modules(list, modules);
  json_decref(modules);
  return status;
}

ga_status ga_hf_modules(ga_model_file *file, const char *folder, const char *arch) {
  const module_list list = {file, folder, json_array()};
  GA_REQUIRE(list.out, GA_ERR_NOMEM, "modules.json: out of memory");
  ga_status status = read_modules(&list);
  if (status == GA_OK) status = put_modules(&list, arch);
  json_decref(list.out);
  return status;
}
