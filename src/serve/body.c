#include "serve/body.h"

#include "text/json_io.h"

/* The number that a scan is in. */
typedef struct sv_number_scan {
  size_t digits; /* digits since the last other character */
  bool in_exponent;
} sv_number_scan;

/* Returns the values to add for a character outside of strings. NaN, Infinity, and numbers of 19 digits or with an
 * exponent of 3, which may be too large for a double or 64 bits, take the memory of three values. */
static size_t sv_wide_values(sv_number_scan *s, char c) {
  if (c >= '0' && c <= '9') return ++s->digits == (s->in_exponent ? 3 : 19) ? 2 : 0;
  s->in_exponent = ((c == 'e' || c == 'E') && s->digits) || (s->in_exponent && (c == '+' || c == '-'));
  s->digits = 0;
  return c == 'N' || c == 'I' ? 2 : 0;
}

/* Counts before the parser allocates anything. What is no JSON passes here and is refused by the parser. */
static bool sv_json_within(const char *text, size_t bytes, sv_fail *fail) {
  size_t depth = 0, values = 0;
  sv_number_scan number = {0};
  bool in_string = false;
  for (size_t i = 0; i < bytes; i++) {
    const char c = text[i];
    if (!in_string) values += sv_wide_values(&number, c);
    if (in_string) {
      if (c == '\\')
        i++;
      else if (c == '"')
        in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      values++;
      if (++depth > SV_JSON_DEPTH)
        return sv_refuse(fail, 400, NULL, NULL, "The body nests arrays and objects more than %d deep.", SV_JSON_DEPTH);
    } else if (c == ']' || c == '}') {
      depth -= depth > 0;
    } else if (c == ',') {
      values++;
    }
    if (values > SV_JSON_VALUES)
      return sv_refuse(fail, 413, NULL, NULL, "The body has more than %d JSON values.", SV_JSON_VALUES);
  }
  return true;
}

bool sv_is_object(const json_t *value) { return json_is_object(value) && !ga_json_wide(value); }

bool sv_body_parse(const char *text, size_t bytes, json_t **out, sv_fail *fail) {
  json_error_t e;
  *out = NULL;
  if (!bytes) return sv_refuse(fail, 400, NULL, NULL, "The body is empty; it must be a JSON object.");
  if (!sv_json_within(text, bytes, fail)) return false;
  json_t *root = ga_json_load(text, bytes, GA_JSON_PYTHON | JSON_DECODE_ANY, &e);
  if (!root) {
    if (json_error_code(&e) == json_error_out_of_memory) return sv_refuse_nomem(fail);
    return sv_refuse(fail, 400, NULL, NULL, "The body is not valid JSON: line %d, column %d: %s.", e.line, e.column,
                     e.text);
  }
  if (!sv_is_object(root)) {
    json_decref(root);
    return sv_refuse(fail, 400, NULL, NULL, "The body must be a JSON object.");
  }
  *out = root;
  return true;
}
