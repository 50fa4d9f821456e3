#include "serve/fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/json_io.h"

enum { SV_SHOWN = 80 }; /* bytes of a value that an error shows */

const json_t *sv_field(const json_t *object, const char *key) {
  const json_t *v = json_object_get(object, key);
  return json_is_null(v) ? NULL : v;
}

bool sv_refuse_value(sv_fail *fail, const char *name, const json_t *value, const char *allowed) {
  char shown[SV_SHOWN + 8] = "";
  if (json_is_array(value))
    (void)snprintf(shown, sizeof shown, "an array of %zu", json_array_size(value));
  else if (ga_json_wide(value))
    (void)snprintf(shown, sizeof shown, "%.*s", SV_SHOWN, ga_json_wide(value));
  else if (json_is_object(value))
    (void)snprintf(shown, sizeof shown, "an object");
  else if (json_is_string(value)) {
    const char *text = json_string_value(value);
    const size_t n = json_string_length(value);
    size_t kept = 0;
    while (kept < n && kept < SV_SHOWN - 4) kept += sv_utf8_length(text + kept, n - kept);
    (void)snprintf(shown, sizeof shown, "\"%.*s%s\"", (int)kept, text, kept < n ? "..." : "");
  } else if (json_is_integer(value))
    (void)snprintf(shown, sizeof shown, "%lld", (long long)json_integer_value(value));
  else if (json_is_real(value))
    (void)snprintf(shown, sizeof shown, "%.15g", json_real_value(value));
  else
    (void)snprintf(shown, sizeof shown, "%s", json_is_null(value) ? "null" : json_is_true(value) ? "true" : "false");
  return sv_refuse(fail, 400, NULL, name, "%s is %s; it must be %s.", name, shown, allowed);
}

bool sv_read_bool(const json_t *object, const char *key, bool *out, sv_fail *fail) {
  const json_t *v = sv_field(object, key);
  if (!v) return true;
  if (!json_is_boolean(v)) return sv_refuse_value(fail, key, v, "true or false");
  *out = json_is_true(v);
  return true;
}

bool sv_as_int(const json_t *value, int64_t min, int64_t max, int64_t *out) {
  int64_t v;
  if (json_is_integer(value)) {
    v = json_integer_value(value);
  } else if (json_is_real(value)) {
    const double d = json_real_value(value);
    if (!(fabs(d) < 0x1p53) || d != floor(d)) return false;
    v = (int64_t)d;
  } else {
    return false;
  }
  if (v < min || v > max) return false;
  *out = v;
  return true;
}

bool sv_read_int(const json_t *object, const char *key, int64_t min, int64_t max, int64_t *out, sv_fail *fail) {
  const json_t *v = sv_field(object, key);
  char allowed[80];
  if (!v || sv_as_int(v, min, max, out)) return true;
  (void)snprintf(allowed, sizeof allowed, "a whole number from %lld to %lld", (long long)min, (long long)max);
  return sv_refuse_value(fail, key, v, allowed);
}

bool sv_read_number(const json_t *object, const char *key, double min, double max, double *out, sv_fail *fail) {
  const json_t *v = sv_field(object, key);
  char allowed[80];
  if (!v) return true;
  const double d = json_is_number(v) ? json_number_value(v) : NAN;
  if (d >= min && d <= max) {
    *out = d;
    return true;
  }
  (void)snprintf(allowed, sizeof allowed, "a number from %g to %g", min, max);
  return sv_refuse_value(fail, key, v, allowed);
}

bool sv_read_string(const json_t *object, const char *key, const char **out, sv_fail *fail) {
  const json_t *v = sv_field(object, key);
  if (!v) return true;
  if (!json_is_string(v) || strlen(json_string_value(v)) != json_string_length(v))
    return sv_refuse_value(fail, key, v, "a string without NUL characters");
  *out = json_string_value(v);
  return true;
}

bool sv_set_new(json_t *object, const char *key, json_t *value, sv_fail *fail) {
  return !json_object_set_new(object, key, value) || sv_refuse_nomem(fail);
}

bool sv_append_new(json_t *array, json_t *value, sv_fail *fail) {
  return !json_array_append_new(array, value) || sv_refuse_nomem(fail);
}
