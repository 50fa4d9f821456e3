#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/json_io.h"

typedef struct json_out {
  char *p;
  size_t n, room;
  bool failed;
} json_out;

/* jansson passes over the failure of a key: it is kept here. */
static int put_json_bytes(const char *bytes, size_t n, void *user) {
  json_out *out = user;
  if (!out->failed && n >= out->room - out->n) {
    const size_t room = out->room + n > SIZE_MAX / 2 ? 0 : 2 * (out->room + n) + 64;
    char *more = room ? realloc(out->p, room) : NULL;
    out->failed = !more;
    if (more) out->p = more, out->room = room;
  }
  if (out->failed) return -1;
  memcpy(out->p + out->n, bytes, n);
  out->n += n;
  return 0;
}

char *ga_json_dump(const json_t *value, size_t flags) {
  json_out out = {0};
  if (!value || json_dump_callback(value, put_json_bytes, &out, flags) || put_json_bytes("", 1, &out)) {
    free(out.p);
    return NULL;
  }
  return out.p;
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
