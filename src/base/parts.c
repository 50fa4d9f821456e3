#include "base/parts.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/locale.h"
#include "base/status.h"
#include "text/json_io.h"

#define PATH_BYTES 256

typedef struct walk {
  const ga_part_table *table;
  const char *at; /* path of the object that the table begins at; "" for a whole file */
} walk;

/* The place of a value twice: as the rows spell it, with "*", and as the file does. */
typedef struct place {
  char row[PATH_BYTES], file[PATH_BYTES];
} place;

static void part_path(char *out, const char *parent, const char *name) {
  (void)snprintf(out, PATH_BYTES, "%.150s%s%.100s", parent, *parent ? "." : "", name);
}

static const ga_part *part_row(const ga_part_table *table, const char *key) {
  for (const ga_part *row = table->rows; row->key; row++)
    if (!strcmp(row->key, key)) return row;
  return NULL;
}

/* Returns whether the table has rows for parts of the value at `key`. */
static bool has_rows_below(const ga_part_table *table, const char *key) {
  const size_t n = strlen(key);
  for (const ga_part *row = table->rows; row->key; row++)
    if (!strncmp(row->key, key, n) && (n == 0 || row->key[n] == '.')) return true;
  return false;
}

static bool is_empty_value(const json_t *value) {
  switch (json_typeof(value)) {
  case JSON_NULL:
  case JSON_FALSE: return true;
  case JSON_STRING: return json_string_length(value) == 0;
  case JSON_ARRAY: return json_array_size(value) == 0;
  case JSON_OBJECT: return json_object_size(value) == 0;
  default: return false;
  }
}

/* 1 and 1.0 are the same here. */
static bool equal_values(const json_t *a, const json_t *b) {
  if (json_is_number(a)) return json_is_number(b) && json_number_value(a) == json_number_value(b);
  return json_equal(a, b) != 0;
}

ga_status ga_part_allows(const ga_part *row, const json_t *value, bool *allowed) {
  json_error_t error;
  ga_locale locale;
  *allowed = is_empty_value(value);
  if (*allowed || !row->allowed) return GA_OK;
  GA_TRY(ga_locale_begin(&locale));
  json_t *list = ga_json_load(row->allowed, strlen(row->allowed), 0, &error);
  ga_locale_end(&locale);
  GA_REQUIRE(list, GA_ERR_NOMEM, "allowed values '%s': %s", row->allowed, error.text);
  for (size_t i = 0; i < json_array_size(list); i++)
    *allowed = *allowed || equal_values(json_array_get(list, i), value);
  json_decref(list);
  return GA_OK;
}

/* A value for error texts: numbers and texts as they are, others by their type. */
static void describe_value(const json_t *value, char out[80]) {
  const char *text = json_string_value(value);
  if (text)
    (void)snprintf(out, 80, "'%s'", ga_quote(text, json_string_length(value)).text);
  else if (json_is_integer(value))
    (void)snprintf(out, 80, "%lld", (long long)json_integer_value(value));
  else if (json_is_real(value))
    (void)snprintf(out, 80, "%g", json_real_value(value));
  else
    (void)snprintf(out, 80, "%s", ga_json_type_name(value));
}

static ga_status refuse_value(const walk *w, const ga_part *row, const char *path, const json_t *value) {
  char seen[80], full[PATH_BYTES];
  bool allowed;
  GA_TRY(ga_part_allows(row, value, &allowed));
  if (allowed) return GA_OK;
  describe_value(value, seen);
  part_path(full, w->at, path);
  return ga_fail(GA_ERR_UNSUPPORTED, "%s: '%s' is %s; must be absent, empty%s%s%s%s", w->table->file, full, seen,
                 row->allowed ? " or one of " : "", row->allowed ? row->allowed : "", row->note ? ": " : "",
                 row->note ? row->note : "");
}

/* Names of the fields that the table has beside an unknown one. */
static void list_siblings(const walk *w, const char *parent, char *out, size_t room) {
  const size_t n = strlen(parent);
  *out = 0;
  for (const ga_part *row = w->table->rows; row->key; row++) {
    const char *name = row->key + (n ? n + 1 : 0);
    if (row->use == GA_PART_IGNORED || (n && (strncmp(row->key, parent, n) != 0 || row->key[n] != '.'))) continue;
    if (strchr(name, '.') || !strcmp(name, "*") || strlen(out) + strlen(name) + 8 > room) continue;
    (void)snprintf(out + strlen(out), room - strlen(out), "%s%s", *out ? ", " : "", name);
  }
}

static ga_status refuse_unknown(const walk *w, const char *parent, const char *path) {
  char known[300], full[PATH_BYTES];
  if (w->table->others) return GA_OK;
  list_siblings(w, parent, known, sizeof known);
  part_path(full, w->at, path);
  return ga_fail(GA_ERR_UNSUPPORTED, "%s: '%s' is not known; GA has %s there", w->table->file, full,
                 *known ? known : "nothing");
}

static ga_status check_inside(const walk *w, const place *here, const json_t *value);

static ga_status check_field(const walk *w, const place *parent, const char *name, const json_t *value) {
  place here;
  const bool plain = !strchr(name, '.') && strcmp(name, "*") != 0;
  part_path(here.file, parent->file, ga_quote(name, strlen(name)).text);
  part_path(here.row, parent->row, plain ? name : "*");
  if (!part_row(w->table, here.row) && !has_rows_below(w->table, here.row)) part_path(here.row, parent->row, "*");
  const ga_part *row = part_row(w->table, here.row);
  if (row && row->use == GA_PART_IGNORED) return GA_OK;
  if (row && row->use == GA_PART_REFUSED) return refuse_value(w, row, here.file, value);
  if (has_rows_below(w->table, here.row)) return check_inside(w, &here, value);
  return row ? GA_OK : refuse_unknown(w, parent->row, here.file);
}

/* The depth is that of the table's paths. */
static ga_status check_inside(const walk *w, const place *here, const json_t *value) {
  const char *name;
  json_t *field, *object = (json_t *)(uintptr_t)value; /* jansson's loop, which only reads, does not take const */
  for (size_t i = 0; i < json_array_size(value); i++) {
    char index[24];
    place element;
    (void)snprintf(index, sizeof index, "%zu", i);
    part_path(element.row, here->row, "*");
    part_path(element.file, here->file, index);
    GA_TRY(check_inside(w, &element, json_array_get(value, i)));
  }
  json_object_foreach(object, name, field) GA_TRY(check_field(w, here, name, field));
  return GA_OK;
}

ga_status ga_parts_check(const ga_part_table *table, const char *at, const json_t *object) {
  const walk w = {table, at ? at : ""};
  return check_inside(&w, &(place){0}, object);
}

/* Returns whether a key is the pattern, in which "*" stands for any characters. */
static bool key_matches(const char *pattern, const char *key) {
  for (; *pattern && *pattern != '*'; pattern++, key++)
    if (*pattern != *key) return false;
  if (!*pattern) return !*key;
  for (;; key++) {
    if (key_matches(pattern + 1, key)) return true;
    if (!*key) return false;
  }
}

const ga_part *ga_parts_find(const ga_part_table *table, const char *key) {
  const ga_part *row = part_row(table, key);
  for (const ga_part *r = table->rows; !row && r->key; r++)
    if (key_matches(r->key, key)) row = r;
  return row;
}
