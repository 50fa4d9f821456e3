/* The reader. Each function returns false or NULL after it has recorded the fault, and owns nothing then. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text/json_io.h"
#include "text/json_scan.h"

/* --- faults --- */

static void json_set_error(json_error_t *error, enum json_error_code code, const char *text) {
  (void)snprintf(error->text, sizeof error->text - 1, "%s", text);
  error->text[sizeof error->text - 1] = (char)code; /* where json_error_code looks for it */
}

bool json_scan_fail(json_scan *s, enum json_error_code code, const char *text) {
  const char *end = s->text + s->bytes;
  if (s->has_failed) return false;
  s->has_failed = true;
  int line = 1, column = 0;
  for (const char *p = s->text; p < s->text + s->at && p < end;) {
    const size_t n = json_utf8_length(p, end);
    line += *p == '\n';
    column = *p == '\n' ? 0 : column + 1;
    p += n ? n : 1;
  }
  s->error->line = line;
  s->error->column = column + (s->at < s->bytes);
  s->error->position = s->at < INT_MAX ? (int)s->at : INT_MAX;
  json_set_error(s->error, code, text);
  return false;
}

bool json_scan_nomem(json_scan *s) { return json_scan_fail(s, json_error_out_of_memory, "out of memory"); }

/* --- values --- */

static json_t *json_read_value(json_scan *s);

/* The next byte that is no white space, without passing it; 0 at the end. */
static char next_byte(json_scan *s) {
  while (s->at < s->bytes) {
    const char c = s->text[s->at];
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') return c;
    s->at++;
  }
  return 0;
}

static bool expected(json_scan *s, const char *text) {
  const bool at_end = s->at >= s->bytes;
  return json_scan_fail(s, at_end ? json_error_premature_end_of_input : json_error_invalid_syntax,
                        at_end ? "the text ends before its value does" : text);
}

static json_t *json_read_text(json_scan *s) {
  json_piece piece;
  if (!json_scan_string(s, &piece)) return NULL;
  json_t *value = json_stringn_nocheck(piece.p, piece.n);
  if (!value) (void)json_scan_nomem(s);
  free(piece.owned);
  return value;
}

/* Takes over the value. */
static bool add_member(json_scan *s, json_t *object, const json_piece *key, json_t *value) {
  if (!value) return false;
  return !json_object_setn_new_nocheck(object, key->p, key->n, value) || json_scan_nomem(s);
}

static bool read_member(json_scan *s, json_t *object) {
  json_piece key;
  if (next_byte(s) != '"') return expected(s, "a key in quotes must stand here");
  const size_t from = s->at;
  if (!json_scan_string(s, &key)) return false;
  bool ok = true;
  const bool has_nul = memchr(key.p, 0, key.n) && !(s->flags & GA_JSON_PYTHON);
  if (has_nul || ((s->flags & JSON_REJECT_DUPLICATES) && json_object_getn(object, key.p, key.n))) {
    s->at = from;
    ok = has_nul ? json_scan_fail(s, json_error_null_byte_in_key, "a key holds \\u0000")
                 : json_scan_fail(s, json_error_duplicate_key, "an object has a key twice");
  } else if (next_byte(s) != ':') {
    ok = expected(s, "':' must stand between a key and its value");
  } else {
    s->at++;
    ok = add_member(s, object, &key, json_read_value(s));
  }
  free(key.owned);
  return ok;
}

static bool read_element(json_scan *s, json_t *array) {
  json_t *value = json_read_value(s);
  return value && (!json_array_append_new(array, value) || json_scan_nomem(s));
}

/* An array or an object; s->at is at its opening byte. */
static json_t *read_list(json_scan *s) {
  const bool is_object = s->text[s->at] == '{';
  const char close = is_object ? '}' : ']';
  if (++s->depth > GA_JSON_DEPTH) {
    (void)json_scan_fail(s, json_error_stack_overflow, "arrays and objects nest too deeply");
    return NULL;
  }
  json_t *list = is_object ? json_object() : json_array();
  bool ok = list || json_scan_nomem(s), more = true;
  s->at++;
  if (ok && next_byte(s) == close) more = false;
  while (ok && more) {
    ok = (is_object ? read_member : read_element)(s, list);
    const char c = ok ? next_byte(s) : 0;
    more = c == ',';
    if (ok && more)
      s->at++;
    else if (ok && c != close)
      ok = expected(s, is_object ? "',' or '}' must stand here" : "',' or ']' must stand here");
  }
  if (!ok) {
    json_decref(list);
    return NULL;
  }
  s->at++;
  s->depth--;
  return list;
}

static json_t *read_word(json_scan *s) {
  static const char *const words[] = {"true", "false", "null", "NaN", "Infinity", "-Infinity"};
  for (int i = 0; i < (s->flags & GA_JSON_PYTHON ? 6 : 3); i++) {
    const size_t n = strlen(words[i]);
    if (s->bytes - s->at < n || memcmp(s->text + s->at, words[i], n) != 0) continue;
    s->at += n;
    return i == 0 ? json_true() : i == 1 ? json_false() : i == 2 ? json_null() : json_scan_wide(s, words[i]);
  }
  (void)expected(s, "a JSON value must stand here");
  return NULL;
}

static json_t *json_read_value(json_scan *s) {
  const char c = next_byte(s);
  if (c == '{' || c == '[') return read_list(s);
  if (c == '"') return json_read_text(s);
  const bool is_infinite = c == '-' && s->bytes - s->at > 1 && s->text[s->at + 1] == 'I';
  if ((c == '-' && !is_infinite) || (c >= '0' && c <= '9')) return json_scan_number(s);
  return read_word(s);
}

json_t *ga_json_load(const char *text, size_t bytes, size_t flags, json_error_t *error_or_null) {
  json_error_t own;
  json_scan s = {.text = text, .bytes = bytes, .flags = flags, .error = error_or_null ? error_or_null : &own};
  *s.error = (json_error_t){.line = -1, .column = -1};
  const char first = next_byte(&s);
  if (!(flags & JSON_DECODE_ANY) && first != '{' && first != '[') {
    (void)expected(&s, "'[' or '{' must stand here");
    return NULL;
  }
  json_t *root = json_read_value(&s);
  if (root && (next_byte(&s) || s.at < s.bytes)) {
    (void)json_scan_fail(&s, json_error_end_of_input_expected, "the text goes on behind its value");
    json_decref(root);
    return NULL;
  }
  return root;
}

/* --- files --- */

/* All of a file, malloc'd; NULL with *error set. */
static char *json_read_file(const char *path, size_t *n, json_error_t *error) {
  struct stat info;
  char *text = NULL;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  *n = 0;
  const bool found = fd >= 0 && !fstat(fd, &info);
  if (found && S_ISREG(info.st_mode) && info.st_size >= 0 && (uint64_t)info.st_size <= GA_JSON_FILE_BYTES) {
    const size_t room = (size_t)info.st_size;
    ssize_t got = 1;
    text = malloc(room + 1);
    if (!text) json_set_error(error, json_error_out_of_memory, "out of memory");
    while (text && *n < room && (got = read(fd, text + *n, room - *n)) > 0) *n += (size_t)got;
    if (got < 0) {
      json_set_error(error, json_error_cannot_open_file, strerror(errno));
      free(text);
      text = NULL;
    }
  } else {
    json_set_error(error, json_error_cannot_open_file, found ? "no file, or too large a one" : strerror(errno));
  }
  if (fd >= 0) (void)close(fd);
  return text;
}

json_t *ga_json_load_file(const char *path, size_t flags, json_error_t *error_or_null) {
  json_error_t own, *error = error_or_null ? error_or_null : &own;
  size_t n;
  *error = (json_error_t){.line = -1, .column = -1};
  char *text = json_read_file(path, &n, error);
  json_t *root = text ? ga_json_load(text, n, flags, error) : NULL;
  free(text);
  return root;
}
