/* Tables of the parts of model files (base/parts.h): the check of a file against a table, and the page of the reference
 * that is made from all tables. `test_parts --write FILE` writes that page (make golden). */
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "base/json.h"
#include "base/parts.h"
#include "file/hf.h"
#include "file/hf_parts.h"
#include "model/meta_parts.h"
#include "token/tok_parts.h"

/* --- the page --- */

static const char *const page = GA_TEST_DIR "/../docs/reference/model-files.md";

static void write_cell(FILE *out, const char *text) {
  for (; text && *text; text++) (void)fprintf(out, *text == '|' ? "\\|" : "%c", *text);
}

static void write_part(FILE *out, const ga_part *row) {
  static const char *const uses[] = {
      [GA_PART_READ] = "read", [GA_PART_REFUSED] = "refused", [GA_PART_IGNORED] = "ignored"};
  (void)fprintf(out, "| `%s` | %s | ", row->key, uses[row->use]);
  write_cell(out, row->note);
  if (row->allowed) {
    (void)fprintf(out, "%saccepted: `", row->note ? "; " : "");
    write_cell(out, row->allowed);
    (void)fprintf(out, "`");
  }
  (void)fprintf(out, " |\n");
}

static void write_table(FILE *out, const ga_part_table *table) {
  (void)fprintf(out, "\n## %s%s%s\n\n| part | GA | |\n|---|---|---|\n", table->file, table->what ? ": " : "",
                table->what ? table->what : "");
  for (const ga_part *row = table->rows; row->key; row++) write_part(out, row);
  (void)fprintf(out, "| any other | %s | ", table->others ? "ignored" : "refused");
  write_cell(out, table->others);
  (void)fprintf(out, " |\n");
}

static void write_tables(FILE *out, const ga_part_table *const *tables, size_t n) {
  for (size_t i = 0; i < n; i++) write_table(out, tables[i]);
}

/* --- fields of config.json by the rows of src/file/hf_tables.c --- */

static const ga_hf_key *field_row_at(const ga_hf_arch *arch, int at) {
  int n = 0;
  while (arch->keys[n].json) n++;
  if (at < n) return &arch->keys[at];
  if (!arch->keys_2) return NULL;
  for (int i = 0; i <= at - n; i++)
    if (!arch->keys_2[i].json) return NULL;
  return &arch->keys_2[at - n];
}

static bool is_refusing(const ga_hf_key *row) {
  return row->kind == GA_HF_REFUSED || row->kind == GA_HF_ONLY || row->kind == GA_HF_FULL_LAYERS;
}

/* Fields of rope_scaling and rope_parameters have a table of their own. */
static bool is_field_shown(const ga_hf_arch *arch, int at, bool refusing) {
  const ga_hf_key *row = field_row_at(arch, at);
  bool shown = !strncmp(row->json, "rope.", 5) || is_refusing(row) != refusing;
  for (int i = 0; i < at && !shown; i++)
    shown = is_refusing(field_row_at(arch, i)) == refusing && !strcmp(field_row_at(arch, i)->json, row->json);
  return !shown;
}

static void write_fields(FILE *out, const ga_hf_arch *arch, bool refusing) {
  bool is_first = true;
  for (int i = 0; field_row_at(arch, i); i++) {
    const ga_hf_key *row = field_row_at(arch, i);
    if (!is_field_shown(arch, i, refusing)) continue;
    (void)fprintf(out, "%s`%s`", is_first ? "" : ", ", row->json);
    if (row->kind == GA_HF_ONLY) (void)fprintf(out, " (`%s`)", row->fallback);
    if (row->kind == GA_HF_FULL_LAYERS) (void)fprintf(out, " (`full_attention`)");
    is_first = false;
  }
}

static void write_archs(FILE *out) {
  (void)fprintf(out, "\n## config.json: fields of each model type\n\n"
                     "A refused field must be absent, null, false, or the value in brackets.\n\n"
                     "| model_type | read | refused |\n|---|---|---|\n");
  for (int i = 0; ga_hf_arch_at(i); i++) {
    const ga_hf_arch *arch = ga_hf_arch_at(i);
    (void)fprintf(out, "| `%s`%s%s | ", arch->model_type, arch->inside ? ", within " : "",
                  arch->inside ? arch->inside : "");
    write_fields(out, arch, false);
    (void)fprintf(out, " | ");
    write_fields(out, arch, true);
    (void)fprintf(out, " |\n");
  }
}

static void write_page(FILE *out) {
  size_t n;
  (void)fprintf(out, "# Parts of model files\n\n"
                     "Made by `make golden` from the tables that the readers use; do not edit.\n\n"
                     "*read*: GA takes the value, or refuses it by its name where it does not have it.\n"
                     "*refused*: the file is not opened unless the part is absent, empty or one of the accepted "
                     "values.\n"
                     "*ignored*: the part is passed over, for the reason given.\n"
                     "`*` stands for any name, and for each element of an array.\n");
  const ga_part_table *const *tables = tok_part_tables(&n);
  write_tables(out, tables, n);
  tables = ga_hf_part_tables(&n);
  write_table(out, tables[0]);
  write_archs(out);
  write_tables(out, tables + 1, n - 1);
  tables = meta_part_tables(&n);
  write_tables(out, tables, n);
}

static void test_page_is_as_the_tables(void **state) {
  (void)state;
  char now[2048], then[2048];
  FILE *kept = fopen(page, "r"), *made = tmpfile();
  assert_non_null(kept);
  assert_non_null(made);
  write_page(made);
  rewind(made);
  for (int line = 1;; line++) {
    char *a = fgets(now, sizeof now, made), *b = fgets(then, sizeof then, kept);
    if (!a && !b) break;
    if (!a || !b || strcmp(now, then))
      fail_msg("docs/reference/model-files.md:%d\n  was %s  is  %s  if that is meant: make golden", line,
               b ? then : "(end)\n", a ? now : "(end)\n");
  }
  (void)fclose(kept);
  (void)fclose(made);
}

static void check_part_rows(const ga_part_table *const *tables, size_t n) {
  for (size_t i = 0; i < n; i++)
    for (const ga_part *row = tables[i]->rows; row->key; row++) {
      if (row->use == GA_PART_IGNORED && !row->note)
        fail_msg("%s: '%s' is ignored without a reason", tables[i]->file, row->key);
      for (const ga_part *other = tables[i]->rows; other < row; other++)
        if (!strcmp(other->key, row->key)) fail_msg("%s: '%s' stands twice", tables[i]->file, row->key);
    }
}

static void test_rows_are_unique_and_explained(void **state) {
  (void)state;
  size_t n;
  const ga_part_table *const *tables = tok_part_tables(&n);
  check_part_rows(tables, n);
  tables = ga_hf_part_tables(&n);
  check_part_rows(tables, n);
  tables = meta_part_tables(&n);
  check_part_rows(tables, n);
}

/* --- the check --- */

static const ga_part rows[] = {{"name", GA_PART_READ, NULL, NULL},
                               {"list.*.id", GA_PART_READ, NULL, NULL},
                               {"list.*.note", GA_PART_IGNORED, "a test", NULL},
                               {"map.*.id", GA_PART_READ, NULL, NULL},
                               {"drop", GA_PART_REFUSED, "a reason", "[0]"},
                               {"deep.inner", GA_PART_REFUSED, NULL, NULL},
                               {"free", GA_PART_IGNORED, "a test", NULL},
                               {0}};
static const ga_part_table strict = {"x.json", NULL, rows, NULL}, open_table = {"x.json", NULL, rows, "a test"};

static ga_status check_parts_of(const ga_part_table *table, const char *text) {
  json_t *root;
  assert_int_equal(ga_json_parse("x", text, strlen(text), &root), GA_OK);
  const ga_status status = ga_parts_check(table, NULL, root);
  json_decref(root);
  return status;
}

static void expect_refused(const char *text, const char *error) {
  assert_int_equal(check_parts_of(&strict, text), GA_ERR_UNSUPPORTED);
  if (!strstr(ga_error_text(), error)) fail_msg("%s: '%s' lacks '%s'", text, ga_error_text(), error);
}

static void test_known_parts_pass(void **state) {
  (void)state;
  assert_int_equal(check_parts_of(&strict, "{\"name\": {\"any\": 1}, \"list\": [{\"id\": 1, \"note\": {}}, {}]}"),
                   GA_OK);
  assert_int_equal(check_parts_of(&strict, "{\"map\": {\"1.5\": {\"id\": 1}, \"*\": {}}, \"free\": [1]}"), GA_OK);
  assert_int_equal(check_parts_of(&strict, "{\"drop\": null, \"deep\": {\"inner\": []}}"), GA_OK);
  assert_int_equal(check_parts_of(&strict, "{\"drop\": 0.0, \"list\": null, \"deep\": 3}"), GA_OK);
}

static void test_unknown_and_refused_parts_are_named(void **state) {
  (void)state;
  expect_refused("{\"nam\": 1}", "x.json: 'nam' is not known; GA has name, drop there");
  expect_refused("{\"nam\": null}", "'nam' is not known");
  expect_refused("{\"list.*.id\": 1}", "'list.*.id' is not known");
  expect_refused("{\"list\": [{}, {\"if\": 1}]}", "'list.1.if' is not known; GA has id there");
  expect_refused("{\"map\": {\"a\": {\"b\": 1}}}", "'map.a.b' is not known");
  expect_refused("{\"drop\": 0.1}", "x.json: 'drop' is 0.1; must be absent, empty or one of [0]: a reason");
  expect_refused("{\"drop\": \"\\u001b[2J\"}", "'drop' is '?[2J'");
  expect_refused("{\"deep\": {\"inner\": 1}}", "'deep.inner' is 1; must be absent, empty");
  assert_int_equal(check_parts_of(&open_table, "{\"nam\": 1, \"list\": [{\"if\": 1}]}"), GA_OK);
  assert_int_equal(check_parts_of(&open_table, "{\"drop\": true}"), GA_ERR_UNSUPPORTED);
}

static void test_metadata_keys_match_patterns(void **state) {
  (void)state;
  static const ga_part keys[] = {{"a.b", GA_PART_READ, NULL, NULL},
                                 {"a.*", GA_PART_IGNORED, "a test", NULL},
                                 {"*.rope.*", GA_PART_REFUSED, NULL, NULL},
                                 {0}};
  const ga_part_table table = {"GGUF", NULL, keys, NULL};
  assert_ptr_equal(ga_parts_find(&table, "a.b"), &keys[0]);
  assert_ptr_equal(ga_parts_find(&table, "a.b.c"), &keys[1]);
  assert_ptr_equal(ga_parts_find(&table, "llama.rope.x"), &keys[2]);
  assert_null(ga_parts_find(&table, "llama.rope"));
  assert_null(ga_parts_find(&table, "b"));
}

int main(int argc, char **argv) {
  if (argc == 3 && !strcmp(argv[1], "--write")) {
    FILE *file = fopen(argv[2], "w");
    if (!file) return 1;
    write_page(file);
    return fclose(file) ? 1 : 0;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_page_is_as_the_tables),
      cmocka_unit_test(test_rows_are_unique_and_explained),
      cmocka_unit_test(test_known_parts_pass),
      cmocka_unit_test(test_unknown_and_refused_parts_are_named),
      cmocka_unit_test(test_metadata_keys_match_patterns),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
