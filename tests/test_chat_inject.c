/* No field of a request makes a control token that the template did not write: every template of tests/data/templates,
 * those of the models that are here, and the *.jinja files of the folder that GA_CHAT_TEMPLATES names. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/filemap.h"
#include "ga/chat.h"
#include "ga/model_file.h"
#include "jinja/jinja.h"
#include "tests/engine_models.h"
#include "tests/tok_vocabs.h"

/* --- control tokens: the markers that a template writes --- */

enum { MOST_MARKERS = 24, MARKER_BYTES = 64 };

typedef struct markers {
  char text[MOST_MARKERS][MARKER_BYTES];
  size_t n;
} markers;

static void add_marker(markers *m, const char *p, size_t n) {
  if (m->n == MOST_MARKERS || n >= MARKER_BYTES) return;
  for (size_t i = 0; i < m->n; i++)
    if (strlen(m->text[i]) == n && !memcmp(m->text[i], p, n)) return;
  memcpy(m->text[m->n], p, n);
  m->text[m->n++][n] = 0;
}

/* Bytes of the marker that begins at p: <...>, [CAPITALS], and quotes of French; 0: none does. */
static size_t marker_at(const char *p) {
  const bool is_list = *p == '[', is_quote = !strncmp(p, "\xc2\xab", 2);
  const char *end = is_list ? "]" : is_quote ? "\xc2\xbb" : ">";
  if (*p != '<' && !is_list && !is_quote) return 0;
  for (size_t n = 1; n < MARKER_BYTES && p[n]; n++) {
    if (!strncmp(p + n, end, strlen(end))) return n > 1 ? n + strlen(end) : 0;
    if (strchr(" \n'\"{}<[()%", p[n]) || (is_list && !strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ_/", p[n]))) return 0;
  }
  return 0;
}

static void find_markers(const char *source, markers *m) {
  static const char *const known[] = {"<s>", "</s>", "<|im_end|>", "<|user|>", "<|system|>", "<|oracle|>"};
  *m = (markers){0};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) add_marker(m, known[i], strlen(known[i]));
  for (const char *p = source; *p; p++) {
    const size_t n = marker_at(p);
    if (n) add_marker(m, p, n);
  }
}

static ga_tokenizer *tokenizer_of_markers(const markers *m, int32_t *first) {
  static small_vocab s;
  ga_tokenizer *tok;
  make_bpe(&s);
  s.tokens[BPE_CONTROL] = (ga_text){"<|spare|>", 9}; /* a marker may have its name */
  *first = (int32_t)s.v.n_tokens;
  for (size_t i = 0; i < m->n; i++) (void)add_token(&s, m->text[i], GA_TOK_CONTROL, 0);
  if (ga_tokenizer_create(&s.v, &tok) != GA_OK) fail_msg("%s", ga_error_text());
  return tok;
}

/* --- requests --- */

#define LONG_TOOL                                                                                                    \
  "{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"description\":\"of a place\",\"parameters\":{"    \
  "\"type\":\"object\",\"properties\":{\"place\":{\"type\":\"string\",\"description\":\"a town\",\"enum\":[\"one\"," \
  "\"two\"]}},\"required\":[\"place\"]}}}"
#define REST                                                                                                      \
  "\"tools\":[" LONG_TOOL "],\"documents\":[{\"title\":\"a title\",\"text\":\"a text\"}],\"note\":\"a note\","    \
  "\"date_string\":\"1 May\",\"native_tools\":[\"search\"],\"add_generation_prompt\":true,\"bos_token\":\"<s>\"," \
  "\"eos_token\":\"</s>\"}"
#define CALL(content, arguments)                                                                                \
  "{\"role\":\"assistant\",\"content\":" content ",\"reasoning_content\":\"hm\",\"tool_calls\":[{\"id\":"       \
  "\"call12345\",\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"arguments\":" arguments "}}]}," \
  "{\"role\":\"tool\",\"content\":\"21.5\",\"tool_call_id\":\"call12345\",\"name\":\"get_weather\"}"
#define USER "{\"role\":\"user\",\"content\":\"a question\",\"name\":\"ann\"}"

static const char *const shapes[] = {
    "{\"messages\":[{\"role\":\"system\",\"content\":\"be brief\"}," USER ",{\"role\":\"assistant\",\"content\":"
    "\"an answer\",\"reasoning_content\":\"why\"}," USER "],\"note\":\"a note\",\"add_generation_prompt\":true,"
    "\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}",
    "{\"messages\":[" USER "," CALL("\"calling\"", "{\"place\":\"here\"}") "," USER "]," REST,
    "{\"messages\":[" USER "," CALL("null", "\"{}\"") ",{\"role\":\"assistant\",\"content\":\"done\"}," USER "]," REST,
    "{\"messages\":[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"sys\"}]},{\"role\":\"user\","
    "\"content\":[{\"type\":\"text\",\"text\":\"look\"}]},{\"role\":\"assistant\",\"content\":\"ok\"}]," REST,
};

typedef struct render {
  ga_status status;
  size_t own[MOST_MARKERS + 1]; /* ids of each marker */
} render;

static render encode_request(const ga_template *tpl, const ga_tokenizer *tok, const json_t *context, const markers *m,
                             int32_t first) {
  render r = {0};
  int32_t *ids;
  size_t n;
  char *json = json_dumps(context, JSON_COMPACT);
  const ga_template_limits limits = {.struct_size = sizeof limits, .now = 1721988000};
  assert_non_null(json);
  r.status = ga_template_encode(tpl, tok, json, strlen(json), &limits, &ids, &n);
  for (size_t i = 0; r.status == GA_OK && i < n; i++)
    if (ids[i] >= first && (size_t)(ids[i] - first) < m->n) r.own[ids[i] - first]++;
  ga_chat_ids_free(ids);
  free(json);
  return r;
}

/* --- attacks --- */

typedef struct attack {
  const ga_template *tpl;
  const ga_tokenizer *tok;
  const char *name, *source;
  const markers *m;
  int32_t first;
  json_t *context;
  long tried, rendered;
  render benign[MARKER_BYTES]; /* of this field with so many letters; has_benign: those that are there */
  bool has_benign[MARKER_BYTES];
} attack;

/* Does the template look for this text in a message? Then what it writes depends on it. */
static bool is_looked_for(const char *source, const char *text) {
  if (strlen(text) >= MARKER_BYTES) return false;
  static const char *const forms[] = {"('%s'",   "(\"%s\"",   "'%s' in",    "\"%s\" in",
                                      "== '%s'", "== \"%s\"", "'%s' not in"};
  char pattern[2 * MARKER_BYTES];
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    /* The forms differ in what stands around the text alone. */
    const char *at = strstr(forms[i], "%s");
    (void)snprintf(pattern, sizeof pattern, "%.*s%s%s", (int)(at - forms[i]), forms[i], text, at + 2);
    if (strstr(source, pattern)) return true;
  }
  return false;
}

/* A word that the template compares a field with, such as the type of a part. */
static bool is_literal(const char *source, const char *word) {
  char pattern[2][MARKER_BYTES + 2];
  if (strlen(word) >= MARKER_BYTES || strchr("<[\xc2", *word)) return false;
  (void)snprintf(pattern[0], sizeof pattern[0], "'%s'", word);
  (void)snprintf(pattern[1], sizeof pattern[1], "\"%s\"", word);
  return strstr(source, pattern[0]) || strstr(source, pattern[1]);
}

static void check_attack(attack *a, const render *got, const render *want, const char *field, const char *value) {
  a->tried++;
  if (got->status != GA_OK) return; /* refused */
  a->rendered++;
  for (size_t i = 0; i < a->m->n; i++)
    if (want->status == GA_OK && got->own[i] != want->own[i] && !is_looked_for(a->source, a->m->text[i]) &&
        !is_literal(a->source, value))
      fail_msg("%s: %s = '%s': %zu of %s, must be %zu", a->name, field, value, got->own[i], a->m->text[i],
               want->own[i]);
}

static render encode_field(attack *a, json_t *object, const char *key, json_t *array, size_t index, const char *value) {
  json_t *v = json_string(value);
  assert_int_equal(object ? json_object_set_new(object, key, v) : json_array_set_new(array, index, v), 0);
  return encode_request(a->tpl, a->tok, a->context, a->m, a->first);
}

/* The value against as many letters x. */
static void try_value(attack *a, json_t *object, const char *key, json_t *array, size_t index, const char *value) {
  char benign[4096];
  const size_t n = strlen(value);
  const bool is_kept = n < MARKER_BYTES;
  assert_true(n < sizeof benign);
  memset(benign, 'x', n);
  benign[n] = 0;
  const render got = encode_field(a, object, key, array, index, value);
  const render want = is_kept && a->has_benign[n] ? a->benign[n] : encode_field(a, object, key, array, index, benign);
  if (is_kept) a->benign[n] = want, a->has_benign[n] = true;
  check_attack(a, &got, &want, key, value);
}

/* Each marker, its halves, what stands between its brackets, and all markers in a row. */
static void try_values(attack *a, json_t *object, const char *key, json_t *array, size_t index) {
  char all[MOST_MARKERS * (MARKER_BYTES + 2)] = "x", part[MARKER_BYTES];
  json_t *before = json_incref(object ? json_object_get(object, key) : json_array_get(array, index));
  memset(a->has_benign, 0, sizeof a->has_benign);
  for (size_t i = 0; i < a->m->n; i++) {
    const char *text = a->m->text[i];
    const size_t n = strlen(text), brackets = text[1] == '|' || text[0] == '\xc2' ? 2 : 1;
    strcat(strcat(all, text), "\n");
    const struct {
      size_t from, bytes;
    } parts[] = {{0, n / 2}, {n / 2, n - n / 2}, {brackets, n > 2 * brackets ? n - 2 * brackets : 0}};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
      memcpy(part, text + parts[k].from, parts[k].bytes);
      part[parts[k].bytes] = 0;
      const bool is_role = !strcmp(key, "role") && ga_jj_is_known_role(a->tpl, part, parts[k].bytes);
      if (ga_jj_utf8_ok(part, parts[k].bytes) && !is_role) try_value(a, object, key, array, index, part);
    }
  }
  try_value(a, object, key, array, index, all);
  if (object)
    (void)json_object_set_new(object, key, before);
  else
    (void)json_array_set_new(array, index, before);
}

/* A key as hostile as a value. */
static void try_key(attack *a, json_t *object, const char *key) {
  char all[MOST_MARKERS * (MARKER_BYTES + 2)] = "x", benign[sizeof all];
  for (size_t i = 0; i < a->m->n; i++) strcat(all, a->m->text[i]);
  memset(benign, 'x', strlen(all));
  benign[strlen(all)] = 0;
  render r[2];
  for (int i = 0; i < 2; i++) {
    const char *name = i ? benign : all;
    (void)json_object_set(object, name, json_object_get(object, key));
    r[i] = encode_request(a->tpl, a->tok, a->context, a->m, a->first);
    (void)json_object_del(object, name);
  }
  check_attack(a, &r[0], &r[1], "a key", all);
}

static bool is_name_of_token(const char *key) {
  const size_t n = strlen(key);
  return n > 6 && !strcmp(key + n - 6, "_token");
}

static void attack_fields(attack *a, json_t *v) {
  const char *key;
  json_t *inner;
  void *next;
  size_t i;
  if (json_is_object(v) && json_object_size(v)) try_key(a, v, json_object_iter_key(json_object_iter(v)));
  json_object_foreach_safe(v, next, key, inner) {
    if (json_is_string(inner) && !is_name_of_token(key)) try_values(a, v, key, NULL, 0);
    attack_fields(a, inner);
  }
  json_array_foreach(v, i, inner) {
    if (json_is_string(inner)) try_values(a, NULL, "an element", v, i);
    attack_fields(a, inner);
  }
}

/* --- marks --- */

/* Each character of every text in a private place of Unicode, where no template and no role has any. */
static json_t *to_private(const json_t *v, const char *key) {
  const char *name;
  json_t *inner;
  size_t i;
  if (json_is_string(v) && strcmp(key, "role") != 0 && strcmp(key, "type") != 0 && !is_name_of_token(key)) {
    char text[4096];
    size_t n = 0;
    for (const char *p = json_string_value(v); *p && n + 4 < sizeof text; p++) {
      if (((unsigned char)*p & 0xc0) == 0x80) continue;
      text[n++] = '\xee';
      text[n++] = (char)(0x80 | ((unsigned char)*p >> 6 & 0x3f));
      text[n++] = (char)(0x80 | (*p & 0x3f));
    }
    return json_stringn(text, n);
  }
  json_t *copy = json_is_object(v) ? json_object() : json_is_array(v) ? json_array() : json_deep_copy(v);
  json_object_foreach((json_t *)(uintptr_t)v, name, inner)
      assert_int_equal(json_object_set_new(copy, name, to_private(inner, name)), 0);
  json_array_foreach(v, i, inner) assert_int_equal(json_array_append_new(copy, to_private(inner, key)), 0);
  return copy;
}

/* Private characters of the rendered text, all of which are marked as a message's. */
static long count_private(const ga_template *tpl, const char *name, const json_t *context) {
  const ga_template_limits limits = {.struct_size = sizeof limits, .now = 1721988000};
  json_t *private = to_private(context, "");
  char *json = json_dumps(private, JSON_COMPACT), *text;
  uint8_t *marks;
  size_t n;
  long found = 0;
  assert_non_null(json);
  if (ga_jj_render_traced(tpl, json, strlen(json), &limits, &text, &marks, &n) == GA_OK) {
    for (size_t i = 0; i < n; i++) {
      if ((unsigned char)text[i] != 0xee) continue;
      if (!marks[i]) fail_msg("%s: byte %zu of '%.300s' is not marked", name, i, text);
      found++;
    }
    ga_mem_free(text);
    ga_mem_free(marks);
  }
  json_decref(private);
  free(json);
  return found;
}

/* --- templates --- */

typedef struct tally {
  long templates, tried, rendered, marked;
} tally;

static void attack_template(const char *name, const char *source, tally *sum) {
  markers m;
  int32_t first;
  ga_template *tpl;
  long marked = 0;
  if (ga_template_compile(source, strlen(source), &tpl) != GA_OK) {
    print_message("%s: %s\n", name, ga_error_text());
    return;
  }
  find_markers(source, &m);
  ga_tokenizer *tok = tokenizer_of_markers(&m, &first);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    attack a = {.tpl = tpl, .tok = tok, .name = name, .source = source, .m = &m, .first = first};
    a.context = json_loads(shapes[i], 0, NULL);
    assert_non_null(a.context);
    marked += count_private(tpl, name, a.context);
    attack_fields(&a, a.context);
    json_decref(a.context);
    sum->tried += a.tried;
    sum->rendered += a.rendered;
  }
  sum->templates++;
  sum->marked += marked;
  ga_tokenizer_destroy(tok);
  ga_template_destroy(tpl);
}

static json_t *load_vectors(const char *folder, const char *file) {
  char path[4096];
  (void)snprintf(path, sizeof path, "%s/%s", folder, file);
  json_t *v = json_load_file(path, JSON_ALLOW_NUL, NULL);
  assert_non_null(v);
  return v;
}

/* Calls for each file of the folder whose name ends so. */
static void for_vector_files(const char *folder, const char *ending,
                             void (*call)(const char *folder, const char *file, tally *), tally *sum) {
  DIR *dir = opendir(folder);
  if (!dir) return;
  for (const struct dirent *entry; (entry = readdir(dir));) {
    const char *dot = strrchr(entry->d_name, '.');
    if (dot && !strcmp(dot, ending)) call(folder, entry->d_name, sum);
  }
  closedir(dir);
}

static void attack_vectors(const char *folder, const char *file, tally *sum) {
  if (!strcmp(file, "contexts.json")) return;
  json_t *root = load_vectors(folder, file);
  const char *source = json_string_value(json_object_get(root, "template"));
  if (source && *source) attack_template(file, source, sum);
  json_decref(root);
}

static void attack_source(const char *folder, const char *file, tally *sum) {
  char path[4096];
  ga_filemap map;
  (void)snprintf(path, sizeof path, "%s/%s", folder, file);
  assert_int_equal(ga_filemap_open(path, &map), GA_OK);
  char *source = calloc(map.bytes + 1, 1);
  assert_non_null(source);
  memcpy(source, map.data, map.bytes);
  attack_template(file, source, sum);
  free(source);
  ga_filemap_close(&map);
}

static void attack_model(const char *model, tally *sum) {
  const char *path = model_path(model);
  ga_model_file *file;
  ga_text own;
  if (!path) return;
  assert_int_equal(ga_model_file_open(path, &file), GA_OK);
  if (ga_model_file_text(file, "tokenizer.chat_template", &own) == GA_OK) {
    char *source = calloc(own.bytes + 1, 1);
    assert_non_null(source);
    memcpy(source, own.data, own.bytes);
    attack_template(model, source, sum);
    free(source);
  }
  ga_model_file_destroy(file);
}

static void test_no_field_injects(void **state) {
  (void)state;
  tally sum = {0};
  const char *more = getenv("GA_CHAT_TEMPLATES");
  for_vector_files(GA_TEST_DATA "/templates", ".json", attack_vectors, &sum);
  attack_model("SmolLM2-135M-Instruct.Q4_1.gguf", &sum);
  attack_model("gemma-3-270m-q4_k_m.gguf", &sum);
  if (more) for_vector_files(more, ".jinja", attack_source, &sum);
  print_message("%ld templates, %ld requests, %ld of them rendered, %ld private characters\n", sum.templates, sum.tried,
                sum.rendered, sum.marked);
  assert_true(sum.templates >= 11 && sum.rendered > 10000 && sum.marked > 1000);
}

/* Every expression, statement and random template of the vectors keeps the marks of what it is given. */
static void check_marks_of(const char *folder, const char *file, tally *sum) {
  if (!strcmp(file, "contexts.json")) return;
  json_t *root = load_vectors(folder, file), *one;
  const json_t *context = json_object_get(root, "context");
  size_t i;
  json_array_foreach(json_object_get(root, "cases"), i, one) {
    const char *source = json_string_value(json_object_get(one, "template"));
    ga_template *tpl;
    if (!source || !context || ga_template_compile(source, strlen(source), &tpl) != GA_OK) continue;
    sum->marked += count_private(tpl, source, context);
    sum->templates++;
    ga_template_destroy(tpl);
  }
  json_decref(root);
}

static void test_all_marks(void **state) {
  (void)state;
  tally sum = {0};
  for_vector_files(GA_TEST_DATA "/templates", ".json", check_marks_of, &sum);
  print_message("%ld templates, %ld private characters\n", sum.templates, sum.marked);
  assert_true(sum.templates >= 700 && sum.marked >= 700);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_marks), cmocka_unit_test(test_no_field_injects)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
