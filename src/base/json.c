#include "base/json.h"

#include <string.h>

#include "base/filemap.h"
#include "base/status.h"
#include "text/json_io.h"

/* At least what jansson 2.14 takes for the tree, from the marks outside of texts: an object 80 bytes and a table of
 * 144, an array 48 and a table of 80; a colon is an entry of an object; a comma, or the beginning, is a
 * value: a text 80, its place in an array up to 24. NaN and Infinity are objects with a text. */
static uint64_t tree_bytes(const char *text, size_t bytes) {
  enum { OBJECT = 224, ARRAY = 128, ENTRY = 112, VALUE = 104 };
  uint64_t sum = 0;
  bool quoted = false;
  for (size_t i = 0; i < bytes; i++) {
    switch (text[i]) {
    case '"': quoted = !quoted; break;
    case '\\': i += quoted; break;
    case '{': sum += quoted ? 0 : OBJECT + VALUE; break;
    case '[': sum += quoted ? 0 : ARRAY + VALUE; break;
    case ':': sum += quoted ? 0 : ENTRY; break;
    case ',': sum += quoted ? 0 : VALUE; break;
    case 'I':
    case 'N': sum += quoted ? 0 : OBJECT + ENTRY + VALUE; break;
    default: break;
    }
  }
  return sum + bytes; /* the texts themselves */
}

static ga_status parse_json(const char *label, const char *text, size_t bytes, size_t flags, bool is_list,
                            json_t **out) {
  json_error_t error;
  *out = NULL;
  GA_REQUIRE(bytes <= GA_JSON_MAX_BYTES, GA_ERR_FORMAT, "%s: JSON of %zu bytes; at most %d", label, bytes,
             GA_JSON_MAX_BYTES);
  const uint64_t tree = tree_bytes(text, bytes), most = GA_JSON_TREE_TIMES * (uint64_t)bytes + GA_JSON_TREE_FREE;
  GA_REQUIRE(tree <= most, GA_ERR_FORMAT,
             "%s: JSON of %zu bytes would take %llu in memory; at most %llu, so many arrays and objects are in it",
             label, bytes, (unsigned long long)tree, (unsigned long long)most);
  json_t *root = ga_json_load(text, bytes, flags, &error);
  if (!root) {
    if (json_error_code(&error) == json_error_out_of_memory)
      return ga_fail(GA_ERR_NOMEM, "%s: JSON of %zu bytes: out of memory", label, bytes);
    return ga_fail(GA_ERR_FORMAT, "%s: JSON, line %d, byte %d: %s", label, error.line, error.position,
                   ga_quote(error.text, strlen(error.text)).text);
  }
  if (is_list ? !json_is_array(root) : !json_is_object(root) || ga_json_wide(root)) {
    ga_status status = ga_fail(GA_ERR_FORMAT, "%s: JSON is %s; must be an %s", label, ga_json_type_name(root),
                               is_list ? "array" : "object");
    json_decref(root);
    return status;
  }
  *out = root;
  return GA_OK;
}

ga_status ga_json_parse(const char *label, const char *text, size_t bytes, json_t **out) {
  return parse_json(label, text, bytes, GA_JSON_PYTHON, false, out);
}

ga_status ga_json_parse_strict(const char *label, const char *text, size_t bytes, json_t **out) {
  return parse_json(label, text, bytes, JSON_REJECT_DUPLICATES, false, out);
}

static ga_status read_json_file(const char *path, bool is_list, json_t **out) {
  ga_filemap map;
  *out = NULL;
  GA_TRY(ga_filemap_open(path, &map));
  ga_status status =
      parse_json(ga_path_label(path), map.data ? (const char *)map.data : "", map.bytes, GA_JSON_PYTHON, is_list, out);
  ga_filemap_close(&map);
  return status;
}

ga_status ga_json_read_file(const char *path, json_t **out) { return read_json_file(path, false, out); }
ga_status ga_json_read_list(const char *path, json_t **out) { return read_json_file(path, true, out); }

const char *ga_json_type_name(const json_t *value) {
  if (!value) return "missing";
  const char *wide = ga_json_wide(value);
  if (wide) return strchr("0123456789", wide[*wide == '-']) ? "an integer beyond 64 bits" : "no finite number";
  switch (json_typeof(value)) {
  case JSON_OBJECT: return "an object";
  case JSON_ARRAY: return "an array";
  case JSON_STRING: return "a text";
  case JSON_INTEGER: return "an integer";
  case JSON_REAL: return "a real number";
  case JSON_TRUE: return "true";
  case JSON_FALSE: return "false";
  case JSON_NULL: return "null";
  }
  return "unknown";
}

const json_t *ga_json_at(const json_t *object, const char *path) {
  const char *dot;
  for (; (dot = strchr(path, '.')) && object; path = dot + 1)
    object = json_object_getn(object, path, (size_t)(dot - path));
  object = json_object_get(object, path);
  return object && !json_is_null(object) ? object : NULL;
}
