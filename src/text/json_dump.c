#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/json_io.h"

typedef struct json_out {
  char *p;
  size_t n, room;
  bool failed;
} json_out;

static void put_json_bytes(json_out *out, const char *bytes, size_t n) {
  if (!out->failed && n >= out->room - out->n) {
    const size_t room = out->room + n > SIZE_MAX / 2 ? 0 : 2 * (out->room + n) + 64;
    char *more = room ? realloc(out->p, room) : NULL;
    out->failed = !more;
    if (more) out->p = more, out->room = room;
  }
  if (out->failed) return;
  memcpy(out->p + out->n, bytes, n);
  out->n += n;
}

static void put_json_text(json_out *out, const char *text, size_t n) {
  static const char names[] = "\"\"\\\\\bb\ff\nn\rr\tt";
  size_t plain = 0; /* [plain, i) needs no escape */
  out->failed = out->failed || !ga_json_is_utf8(text, n);
  put_json_bytes(out, "\"", 1);
  for (size_t i = 0; i < n && !out->failed; i++) {
    const unsigned char c = (unsigned char)text[i];
    char escape[8] = {'\\'};
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    const char *name = c ? strchr(names, c) : NULL;
    if (name)
      escape[1] = name[1];
    else
      (void)snprintf(escape, sizeof escape, "\\u%04X", (unsigned)c);
    put_json_bytes(out, text + plain, i - plain);
    put_json_bytes(out, escape, strlen(escape));
    plain = i + 1;
  }
  put_json_bytes(out, text + plain, n - plain);
  put_json_bytes(out, "\"", 1);
}

/* Writes 1 as 1.0 and 1e+05 as 1e5, with a point in every locale. */
static void put_real(json_out *out, double value, size_t flags) {
  const int precision = (int)(flags >> 11 & 0x1f); /* of JSON_REAL_PRECISION */
  char text[64], *e;
  int n = snprintf(text, sizeof text, "%.*g", precision ? precision : 17, value);
  for (char *p = text; *p; p++)
    if (!strchr("+-0123456789e", *p)) *p = '.';
  if ((e = strchr(text, 'e'))) {
    const char *digits = e + 1 + (e[1] == '+' || e[1] == '-');
    char *to = e + 1 + (e[1] == '-');
    while (*digits == '0' && digits[1]) digits++;
    memmove(to, digits, strlen(digits) + 1);
    n = (int)strlen(text);
  }
  put_json_bytes(out, text, (size_t)n);
  if (!e && !strchr(text, '.')) put_json_bytes(out, ".0", 2);
}

static void put_integer(json_out *out, json_int_t value) {
  char text[32];
  const int n = snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, value);
  put_json_bytes(out, text, (size_t)n);
}

/* Writes the space before an element: a new line with its indent, or a blank after a comma. */
static void put_gap(json_out *out, size_t flags, int level, bool is_behind_comma) {
  const size_t indent = flags & JSON_MAX_INDENT;
  if (indent) {
    put_json_bytes(out, "\n", 1);
    for (size_t i = indent * (size_t)level; i > 0; i--) put_json_bytes(out, " ", 1);
  } else if (is_behind_comma && !(flags & JSON_COMPACT)) {
    put_json_bytes(out, " ", 1);
  }
}

static void dump_value(json_out *out, const json_t *value, size_t flags, int level);

static void dump_array(json_out *out, const json_t *array, size_t flags, int level) {
  const size_t n = json_array_size(array);
  put_json_bytes(out, "[", 1);
  for (size_t i = 0; i < n && !out->failed; i++) {
    if (i) put_json_bytes(out, ",", 1);
    put_gap(out, flags, level + 1, i > 0);
    dump_value(out, json_array_get(array, i), flags, level + 1);
  }
  if (n) put_gap(out, flags, level, false);
  put_json_bytes(out, "]", 1);
}

static void dump_object(json_out *out, const json_t *value, size_t flags, int level) {
  json_t *object = (json_t *)(uintptr_t)value; /* iterators want it writable */
  const char *wide = ga_json_wide(value);
  bool is_first = true;
  if (wide) {
    const bool is_finite = wide[0] != 'N' && wide[wide[0] == '-'] != 'I';
    if (!is_finite && flags & GA_JSON_FINITE) wide = "null";
    put_json_bytes(out, wide, strlen(wide));
    return;
  }
  put_json_bytes(out, "{", 1);
  for (void *it = json_object_iter(object); it && !out->failed; it = json_object_iter_next(object, it)) {
    if (!is_first) put_json_bytes(out, ",", 1);
    put_gap(out, flags, level + 1, !is_first);
    put_json_text(out, json_object_iter_key(it), json_object_iter_key_len(it));
    put_json_bytes(out, ": ", flags & JSON_COMPACT ? 1 : 2);
    dump_value(out, json_object_iter_value(it), flags, level + 1);
    is_first = false;
  }
  if (!is_first) put_gap(out, flags, level, false);
  put_json_bytes(out, "}", 1);
}

static void dump_value(json_out *out, const json_t *value, size_t flags, int level) {
  switch (json_typeof(value)) {
  case JSON_OBJECT: dump_object(out, value, flags, level); return;
  case JSON_ARRAY: dump_array(out, value, flags, level); return;
  case JSON_STRING: put_json_text(out, json_string_value(value), json_string_length(value)); return;
  case JSON_INTEGER: put_integer(out, json_integer_value(value)); return;
  case JSON_REAL: put_real(out, json_real_value(value), flags); return;
  case JSON_TRUE: put_json_bytes(out, "true", 4); return;
  case JSON_FALSE: put_json_bytes(out, "false", 5); return;
  case JSON_NULL: put_json_bytes(out, "null", 4); return;
  }
  out->failed = true;
}

char *ga_json_dump(const json_t *value, size_t flags) {
  json_out out = {.failed = !value || (!(flags & JSON_ENCODE_ANY) && !json_is_object(value) && !json_is_array(value))};
  if (!out.failed) dump_value(&out, value, flags, 0);
  put_json_bytes(&out, "", 1);
  if (!out.failed) return out.p;
  free(out.p);
  return NULL;
}

static json_t *copy_at(const json_t *value, int depth);

static json_t *copy_object(const json_t *value, int depth) {
  json_t *object = (json_t *)(uintptr_t)value, *to = json_object(); /* iterators want it writable */
  bool ok = to != NULL;
  for (void *it = json_object_iter(object); ok && it; it = json_object_iter_next(object, it)) {
    json_t *copy = copy_at(json_object_iter_value(it), depth - 1);
    ok = copy && !json_object_setn_new_nocheck(to, json_object_iter_key(it), json_object_iter_key_len(it), copy);
  }
  if (ok) return to;
  json_decref(to);
  return NULL;
}

static json_t *copy_array(const json_t *value, int depth) {
  json_t *to = json_array();
  bool ok = to != NULL;
  for (size_t i = 0; ok && i < json_array_size(value); i++) {
    json_t *copy = copy_at(json_array_get(value, i), depth - 1);
    ok = copy && !json_array_append_new(to, copy);
  }
  if (ok) return to;
  json_decref(to);
  return NULL;
}

static json_t *copy_at(const json_t *value, int depth) {
  if (!value || depth < 0) return NULL;
  switch (json_typeof(value)) {
  case JSON_OBJECT: return copy_object(value, depth);
  case JSON_ARRAY: return copy_array(value, depth);
  case JSON_STRING: return json_stringn_nocheck(json_string_value(value), json_string_length(value));
  case JSON_INTEGER: return json_integer(json_integer_value(value));
  case JSON_REAL: return json_real(json_real_value(value));
  case JSON_TRUE: return json_true();
  case JSON_FALSE: return json_false();
  case JSON_NULL: return json_null();
  }
  return NULL;
}

json_t *ga_json_copy(const json_t *value) { return copy_at(value, GA_JSON_DEPTH); }
