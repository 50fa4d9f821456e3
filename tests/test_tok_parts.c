/* Tokenizers that differ in one part of tokenizer.json or a few: their ids are those of Hugging Face's tokenizers
 * (tests/refs/make_parts.py), read from the folder and from the keys that a conversion to GGUF writes. */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json.h"
#include "text/json_io.h"
#include "token/tok_load.h"

#define MOST_IDS 512

static int failures; /* texts with other ids */
static const char *data_path = GA_TEST_DATA "/token-parts.json";

static void check_ids_of_text(const char *name, const char *how, const ga_tokenizer *tok, const json_t *pair) {
  const json_t *text = json_array_get(pair, 0), *want = json_array_get(pair, 1);
  const char *s = json_string_value(text);
  int32_t ids[MOST_IDS];
  size_t n;
  assert_int_equal(
      ga_tokenize(tok, s, json_string_length(text), GA_TOK_ADD_SPECIAL | GA_TOK_PARSE_SPECIAL, ids, MOST_IDS, &n),
      GA_OK);
  bool same = n == json_array_size(want);
  for (size_t i = 0; same && i < n; i++) same = ids[i] == (int32_t)json_integer_value(json_array_get(want, i));
  if (same) return;
  char got[1024] = "";
  for (size_t i = 0; i < n; i++) (void)snprintf(got + strlen(got), sizeof got - strlen(got), "%d ", ids[i]);
  char *wanted = ga_json_dump(want, JSON_ENCODE_ANY), *shown = ga_json_dump(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
  print_error("%s, %s: %s\n  is     %s\n  wanted %s\n", name, how, shown, got, wanted);
  free(wanted);
  free(shown);
  failures++;
}

static void check_all(const char *name, const char *how, const ga_tokenizer *tok, const json_t *texts) {
  size_t i;
  const json_t *pair;
  json_array_foreach(texts, i, pair) check_ids_of_text(name, how, tok, pair);
}

/* The vocabulary as the keys of GGUF give it, with the flags that have keys. */
static ga_status create_from_keys(tok_load *load, const tok_files *files, const ga_tokenizer *tok, ga_tokenizer **out) {
  tok_load again;
  json_t *root = NULL;
  char *text;
  tok_load_init(&again);
  again.vocab = load->vocab;
  again.types = load->types;
  if (load->extra.has_wpm) {
    again.extra.has_wpm = true;
    again.extra.word_chars = TOK_WPM_WORD_CHARS;
    again.extra.wpm = (load->extra.wpm & (TOK_WPM_LOWER | TOK_WPM_STRIP)) | TOK_WPM_CLEAN | TOK_WPM_CJK | TOK_WPM_PUNCT;
  }
  ga_status status = tok_json_keep(load, files, tok, &text);
  if (status == GA_OK && text) status = ga_json_parse("kept", text, strlen(text), &root);
  if (status == GA_OK && text) status = tok_json_apply(&again, root);
  if (status == GA_OK) status = tok_create(&again.vocab, &again.extra, out);
  free(text);
  json_decref(root);
  ga_arena_free(&again.arena);
  return status;
}

static void check_case(json_t *vocabs, const json_t *entry) {
  const char *name = json_string_value(json_object_get(entry, "name"));
  json_t *root = ga_json_copy(json_object_get(entry, "parts"));
  json_t *vocab = json_object_get(vocabs, json_string_value(json_object_get(entry, "vocab")));
  const tok_files files = {root, NULL, NULL};
  tok_load load;
  ga_tokenizer *tok = NULL, *converted = NULL;
  assert_int_equal(json_object_update(json_object_get(root, "model"), vocab), 0);
  /* A class that adds no tokens by itself, as `tokenizers` alone adds none. */
  tok_files with_class = files;
  with_class.config = json_object();
  assert_int_equal(json_object_set_new(with_class.config, "tokenizer_class", json_string("PreTrainedTokenizerFast")),
                   0);
  tok_load_init(&load);
  ga_status status = tok_load_json(&load, &with_class, NULL);
  if (status == GA_OK) status = tok_create(&load.vocab, &load.extra, &tok);
  if (status != GA_OK) fail_msg("%s: %s", name, ga_error_text());
  check_all(name, "from the folder", tok, json_object_get(entry, "texts"));
  status = create_from_keys(&load, &with_class, tok, &converted);
  if (status != GA_OK) fail_msg("%s, converted: %s", name, ga_error_text());
  check_all(name, "converted", converted, json_object_get(entry, "texts"));
  ga_tokenizer_destroy(tok);
  ga_tokenizer_destroy(converted);
  ga_arena_free(&load.arena);
  json_decref(with_class.config);
  json_decref(root);
}

static void test_ids_of_parts(void **state) {
  (void)state;
  json_t *root = ga_json_load_file(data_path, JSON_ALLOW_NUL, NULL);
  size_t i;
  const json_t *entry;
  assert_non_null(root);
  json_array_foreach(json_object_get(root, "cases"), i, entry) check_case(json_object_get(root, "vocabs"), entry);
  assert_true(i >= 100);
  assert_int_equal(failures, 0);
  json_decref(root);
}

int main(int argc, char **argv) {
  if (argc == 2) data_path = argv[1]; /* more cases of tests/refs/make_parts.py */
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_ids_of_parts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
