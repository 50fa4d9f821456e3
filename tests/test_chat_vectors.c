/* Templates against python3-jinja2: every file of tests/data/templates, and of the folder that GA_TEMPLATE_VECTORS
 * names. Made by tests/refs/make_templates.py, which says what the files hold. Tracing gives the same text, with marks
 * on what messages say and none on control tokens that only the template can have written. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "ga/chat.h"
#include "jinja/jinja.h"

typedef struct tally {
  long files, cases, wrong;
} tally;

static json_t *load_json(const char *folder, const char *name) {
  char path[4096];
  json_error_t error;
  assert_true(snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path);
  json_t *json = json_load_file(path, JSON_ALLOW_NUL, &error);
  if (!json) fail_msg("%s: line %d: %s", path, error.line, error.text);
  return json;
}

/* One rendering, as the reference's: its text, or its failure (with the text of raise_exception). */
static bool matches(const char *file, json_t *one, const char *source, size_t n_source, const char *context,
                    int64_t now) {
  const json_t *expect = json_object_get(one, "expect");
  const char *error = json_string_value(json_object_get(one, "error"));
  ga_template_limits limits = GA_TEMPLATE_LIMITS_INIT;
  ga_template *tpl;
  char *text = NULL;
  size_t n = 0;
  bool same;
  limits.now = now;
  ga_status status = ga_template_compile(source, n_source, &tpl);
  if (status == GA_OK) status = ga_template_render(tpl, context, strlen(context), &limits, &text, &n);
  if (expect)
    same = status == GA_OK && n == json_string_length(expect) && !memcmp(text, json_string_value(expect), n);
  else
    same = status != GA_OK && !text && (!*error || (status == GA_ERR_FORMAT && strstr(ga_error_text(), error)));
  if (!same)
    print_message("%s: %s: %.*s\n  expected %s\n  found    %s\n", file, json_string_value(json_object_get(one, "name")),
                  n_source < 300 ? (int)n_source : 0, source, expect ? json_string_value(expect) : error,
                  status == GA_OK ? text : ga_error_text());
  ga_template_text_free(text);
  ga_template_destroy(tpl);
  return same;
}

/* All of text[0..n) where `word` stands must have marks of this value. */
static bool marks_are(const char *text, size_t n, const uint8_t *marks, const char *word, bool foreign) {
  const size_t len = strlen(word);
  for (size_t at = 0; at + len <= n; at++) {
    if (memcmp(text + at, word, len) != 0) continue;
    for (size_t i = 0; i < len; i++)
      if ((marks[at + i] != 0) != foreign) return false;
  }
  return true;
}

static bool traces(json_t *one, const char *source, const char *context, const json_t *context_json, int64_t now) {
  static const char *const tokens[] = {"<|im_start|>", "<|im_end|>", "<|heading|>", "<|stop|>",   "<|over|>",
                                       "<|done|>",     "<speaker>",  "<|block|>",   "<|/block|>", "<|page|>",
                                       "[ASK]",        "[FOUND]",    "<|who|>",     "<|ends|>",   "\u00abAnswer\u00bb"};
  const json_t *expect = json_object_get(one, "expect"), *message;
  ga_template_limits limits = {.struct_size = sizeof limits, .now = now};
  ga_template *tpl;
  char *text;
  uint8_t *marks;
  size_t n, i;
  if (!expect) return true;
  assert_int_equal(ga_template_compile(source, strlen(source), &tpl), GA_OK);
  assert_int_equal(ga_jj_render_traced(tpl, context, strlen(context), &limits, &text, &marks, &n), GA_OK);
  bool good = n == json_string_length(expect) && !memcmp(text, json_string_value(expect), n);
  for (i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
    good = good && (strstr(context, tokens[i]) || marks_are(text, n, marks, tokens[i], false));
  json_array_foreach(json_object_get(context_json, "messages"), i, message) {
    const char *content = json_string_value(json_object_get(message, "content"));
    if (content && strlen(content) >= 4 && !strstr(source, content))
      good = good && marks_are(text, n, marks, content, true);
  }
  ga_mem_free(text);
  ga_mem_free(marks);
  ga_template_destroy(tpl);
  return good;
}

static void check_file(const char *folder, const char *file, const json_t *contexts, tally *sum) {
  json_t *root = load_json(folder, file), *one;
  size_t i;
  int64_t now = json_integer_value(json_object_get(root, "now"));
  json_array_foreach(json_object_get(root, "cases"), i, one) {
    const json_t *context = json_object_get(root, "context"), *source = json_object_get(one, "template");
    if (!context) context = json_object_get(contexts, json_string_value(json_object_get(one, "name")));
    if (!source) source = json_object_get(root, "template");
    char *dumped = json_dumps(context, JSON_COMPACT);
    assert_non_null(dumped);
    sum->wrong += !matches(file, one, json_string_value(source), json_string_length(source), dumped, now);
    if (!traces(one, json_string_value(source), dumped, context, now)) {
      print_message("%s: %s: traced wrongly\n", file, json_string_value(json_object_get(one, "name")));
      sum->wrong++;
    }
    sum->cases++;
    free(dumped);
  }
  sum->files++;
  json_decref(root);
}

static void check_folder(const char *folder, tally *sum) {
  json_t *contexts = load_json(folder, "contexts.json");
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (const struct dirent *entry; (entry = readdir(dir));) {
    const char *dot = strrchr(entry->d_name, '.');
    if (dot && !strcmp(dot, ".json") && strcmp(entry->d_name, "contexts.json"))
      check_file(folder, entry->d_name, contexts, sum);
  }
  closedir(dir);
  json_decref(contexts);
}

static void test_vectors(void **state) {
  (void)state;
  tally sum = {0};
  const char *more = getenv("GA_TEMPLATE_VECTORS");
  check_folder(GA_TEST_DATA "/templates", &sum);
  if (more) check_folder(more, &sum);
  print_message("%ld files, %ld cases, %ld wrong\n", sum.files, sum.cases, sum.wrong);
  assert_int_equal(sum.wrong, 0);
  assert_true(sum.cases >= 2000);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
