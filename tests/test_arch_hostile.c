/* Sizes of every architecture that nothing can be computed with: in GGUF files, and in the config.json of every folder
 * of tests/data/arch, one at a time. Each is refused by the name of its key. */
#include <jansson.h>
#include <string.h>

#include "model/arch/arch.h"
#include "tests/gguf_files.h"

typedef enum bad_value { BAD_MISSING, BAD_ZERO, BAD_NEGATIVE, BAD_HUGE, BAD_TEXT, BAD_VALUES } bad_value;

/* --- GGUF -------------------------------------------------------------------------------------------------------- */

static const struct {
  const char *key;
  int64_t value;
  bool may_be_missing;
} sizes[] = {{"block_count", 2, false},          {"embedding_length", 8, false},
             {"feed_forward_length", 16, false}, {"context_length", 64, false},
             {"attention.head_count", 2, false}, {"attention.head_count_kv", 2, true},
             {"attention.key_length", 4, true},  {"attention.value_length", 4, true}};

static void put_bad(ga_gguf_writer *w, const char *key, bad_value bad) {
  switch (bad) {
  case BAD_ZERO: ga_gguf_put_int(w, key, GA_META_U32, 0); break;
  case BAD_NEGATIVE: ga_gguf_put_int(w, key, GA_META_I32, -1); break;
  case BAD_HUGE: ga_gguf_put_int(w, key, GA_META_U64, INT64_C(1) << 40); break;
  case BAD_TEXT: ga_gguf_put_text(w, key, "8"); break;
  case BAD_MISSING:
  case BAD_VALUES: break;
  }
}

static ga_status read_bad_sizes(const char *arch, size_t bad_key, bad_value bad) {
  ga_gguf_writer *w = new_writer(3, 0);
  char key[128];
  ga_hparams p;
  ga_gguf_put_text(w, "general.architecture", arch);
  for (size_t i = 0; i < GA_COUNT_OF(sizes); i++) {
    (void)snprintf(key, sizeof key, "%s.%s", arch, sizes[i].key);
    if (i == bad_key)
      put_bad(w, key, bad);
    else
      ga_gguf_put_int(w, key, GA_META_U32, sizes[i].value);
  }
  const ga_tensor table = ga_tensor_make(weights, GA_F32, 2, (int64_t[]){4, 8});
  ga_gguf_put_tensor(w, "token_embd.weight", &table);
  finish_file(w, "sizes.gguf");
  ga_model_file *file = open_file("sizes.gguf");
  const ga_status status = ga_hparams_read(file, &p);
  ga_model_file_destroy(file);
  return status;
}

static void refused_in_gguf(const char *arch, size_t i, bad_value bad) {
  char key[128];
  (void)snprintf(key, sizeof key, "%s.%s", arch, sizes[i].key);
  if (read_bad_sizes(arch, i, bad) == GA_OK) fail_msg("%s: value %d was taken", key, (int)bad);
  if (!strstr(ga_error_text(), key)) fail_msg("%s, value %d: %s", key, (int)bad, ga_error_text());
}

static void test_sizes_in_gguf(void **state) {
  (void)state;
  for (const ga_arch_desc *const *arch = ga_archs; *arch; arch++)
    for (size_t i = 0; i < GA_COUNT_OF(sizes); i++)
      for (bad_value bad = BAD_MISSING; bad < BAD_VALUES; bad++)
        if (!(bad == BAD_MISSING && sizes[i].may_be_missing)) refused_in_gguf((*arch)->name, i, bad);
}

/* --- config.json -------------------------------------------------------------------------------------------------- */

/* Fields, of which a family has one, and the key that they become. */
static const struct {
  const char *field, *other, *key;
} fields[] = {{"num_hidden_layers", "n_layer", ".block_count"},
              {"hidden_size", "n_embd", ".embedding_length"},
              {"intermediate_size", "n_inner", "feed_forward_length"}, /* of llama4 that of its experts */
              {"num_attention_heads", "n_head", ".attention.head_count"},
              {"num_key_value_heads", NULL, ".attention.head_count_kv"},
              {"head_dim", NULL, ".attention.key_length"},
              {"max_position_embeddings", "n_positions", ".context_length"},
              {"rms_norm_eps", NULL, ".attention.layer_norm_rms_epsilon"},
              {"rope_theta", NULL, ".rope.freq_base"},
              {"rope_scaling", NULL, "rope_scaling"},
              {"rope_parameters", NULL, "rope_parameters"}};

static json_t *bad_json(bad_value bad) {
  return bad == BAD_ZERO       ? json_integer(0)
         : bad == BAD_NEGATIVE ? json_integer(-1)
         : bad == BAD_HUGE     ? json_integer(INT64_C(1) << 40)
                               : json_string("8");
}

static ga_status read_folder(json_t *config) {
  ga_model_file *file;
  ga_hparams p;
  assert_int_equal(json_dump_file(config, in_folder("config.json"), 0), 0);
  ga_status status = ga_model_file_open(test_folder, &file);
  if (status != GA_OK) return status;
  status = ga_hparams_read(file, &p);
  ga_model_file_destroy(file);
  return status;
}

/* The object that has the fields: the config, or the text model's within it. */
static json_t *fields_of(json_t *config) {
  json_t *inner = json_object_get(config, "text_config");
  return inner ? inner : config;
}

static void refused_in_folder(const char *name, json_t *config, size_t i, const char *field) {
  const bool is_float = !strcmp(field, "rope_theta"); /* 2^40 would do */
  json_t *good = json_incref(json_object_get(fields_of(config), field));
  for (bad_value bad = BAD_ZERO; bad < BAD_VALUES; bad++) {
    if (bad == BAD_HUGE && is_float) continue;
    assert_int_equal(json_object_set_new(fields_of(config), field, bad_json(bad)), 0);
    if (read_folder(config) == GA_OK) fail_msg("%s: '%s', value %d was taken", name, field, (int)bad);
    if (!strstr(ga_error_text(), field) && !strstr(ga_error_text(), fields[i].key))
      fail_msg("%s: '%s', value %d: %s", name, field, (int)bad, ga_error_text());
  }
  assert_int_equal(json_object_set_new(fields_of(config), field, good), 0);
}

static void check_hostile_folder(const char *name) {
  char path[600], target[600];
  json_error_t error;
  (void)snprintf(path, sizeof path, "%s/arch/%s/config.json", GA_TEST_DATA, name);
  (void)snprintf(target, sizeof target, "%s/arch/%s/model.safetensors", GA_TEST_DATA, name);
  json_t *config = json_load_file(path, 0, &error);
  assert_non_null(config);
  (void)unlink(in_folder("model.safetensors"));
  assert_int_equal(symlink(target, in_folder("model.safetensors")), 0);
  int n = 0;
  for (size_t i = 0; i < GA_COUNT_OF(fields); i++)
    for (int k = 0; k < 2; k++) {
      const char *field = k ? fields[i].other : fields[i].field;
      const json_t *value = field ? json_object_get(fields_of(config), field) : NULL;
      if (!value || json_is_null(value)) continue;
      refused_in_folder(name, config, i, field);
      n++;
    }
  if (n < 4) fail_msg("%s: only %d fields were tried", name, n);
  if (read_folder(config) != GA_OK) fail_msg("%s: %s", name, ga_error_text());
  json_decref(config);
}

#define X(name)                                  \
  static void test_folder_##name(void **state) { \
    (void)state;                                 \
    check_hostile_folder(#name);                 \
  }
GA_TEST_ARCHS
#undef X

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes_in_gguf),
#define X(name) cmocka_unit_test(test_folder_##name),
                                     GA_TEST_ARCHS
#undef X
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
