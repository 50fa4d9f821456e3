#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text/json_io.h"
#include "text/json_scan.h"

enum {
  SHORT_NUMBER = 64,  /* bytes of a number that need no allocation */
  MOST_DIGITS = 4300, /* of an integer, as in Python */
};

/* --- numbers that jansson cannot hold --- */

static const char wide_key[] = "\xff"; /* no UTF-8, so that no text that is read has it */

json_t *json_scan_wide(json_scan *s, const char *text) {
  json_t *object = json_object(), *value = object ? json_string_nocheck(text) : NULL;
  if (value && !json_object_setn_new_nocheck(object, wide_key, 1, value)) return object;
  json_decref(object);
  (void)json_scan_nomem(s);
  return NULL;
}

const char *ga_json_wide(const json_t *value) {
  return json_object_size(value) == 1 ? json_string_value(json_object_getn(value, wide_key, 1)) : NULL;
}

/* --- numbers --- */

static size_t skip_digits(json_scan *s) {
  const size_t from = s->at;
  while (s->at < s->bytes && s->text[s->at] >= '0' && s->text[s->at] <= '9') s->at++;
  return s->at - from;
}

static bool take_one_of(json_scan *s, const char *any_of) {
  const bool found = s->at < s->bytes && s->text[s->at] && strchr(any_of, s->text[s->at]);
  s->at += found;
  return found;
}

/* Passes a number by JSON's grammar. */
static bool pass_number(json_scan *s, bool *is_real) {
  static const char bad[] = "a number lacks digits, or begins with 0";
  (void)take_one_of(s, "-");
  const size_t from = s->at, digits = skip_digits(s);
  if (!digits || (digits > 1 && s->text[from] == '0')) return json_scan_fail(s, json_error_invalid_syntax, bad);
  *is_real = false;
  if (take_one_of(s, ".")) {
    *is_real = true;
    if (!skip_digits(s)) return json_scan_fail(s, json_error_invalid_syntax, bad);
  }
  if (take_one_of(s, "eE")) {
    *is_real = true;
    (void)take_one_of(s, "+-");
    if (!skip_digits(s)) return json_scan_fail(s, json_error_invalid_syntax, bad);
  }
  return true;
}

static json_t *integer_value(json_scan *s, const char *digits) {
  errno = 0;
  const long long v = strtoll(digits, NULL, 10);
  if (errno == ERANGE && (s->flags & GA_JSON_PYTHON)) {
    if (strlen(digits) <= MOST_DIGITS + (*digits == '-')) return json_scan_wide(s, digits);
    (void)json_scan_fail(s, json_error_numeric_overflow, "an integer has more than 4300 digits");
    return NULL;
  }
  if (errno == ERANGE) {
    (void)json_scan_fail(s, json_error_numeric_overflow, "an integer is beyond 64 bits");
    return NULL;
  }
  json_t *value = json_integer(v);
  if (!value) (void)json_scan_nomem(s);
  return value;
}

static json_t *real_value(json_scan *s, const char *digits) {
  const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!c) {
    (void)json_scan_nomem(s);
    return NULL;
  }
  const double v = strtod_l(digits, NULL, c);
  freelocale(c);
  if (!isfinite(v) && (s->flags & GA_JSON_PYTHON)) return json_scan_wide(s, v < 0 ? "-Infinity" : "Infinity");
  if (!isfinite(v)) {
    (void)json_scan_fail(s, json_error_numeric_overflow, "a number is beyond the range of doubles");
    return NULL;
  }
  json_t *value = json_real(v);
  if (!value) (void)json_scan_nomem(s);
  return value;
}

json_t *json_scan_number(json_scan *s) {
  const size_t from = s->at;
  char room[SHORT_NUMBER];
  bool is_real;
  if (!pass_number(s, &is_real)) return NULL;
  const size_t n = s->at - from;
  char *digits = n < sizeof room ? room : malloc(n + 1); /* the text need not end with a NUL */
  if (!digits) {
    (void)json_scan_nomem(s);
    return NULL;
  }
  memcpy(digits, s->text + from, n);
  digits[n] = 0;
  const bool as_real = is_real || (s->flags & JSON_DECODE_INT_AS_REAL);
  json_t *value = (as_real ? real_value : integer_value)(s, digits);
  if (digits != room) free(digits);
  return value;
}
