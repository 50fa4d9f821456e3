#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "text/json_io.h"
#include "text/json_scan.h"

/* The table of well-formed byte sequences in chapter 3 of the Unicode standard. */
size_t json_utf8_length(const char *p, const char *end) {
  const unsigned char *b = (const unsigned char *)p, c = *b;
  const size_t n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
  if (n < 2) return n;
  if ((size_t)(end - p) < n) return 0;
  const unsigned char low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
  const unsigned char high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
  if (b[1] < low || b[1] > high) return 0;
  for (size_t i = 2; i < n; i++)
    if (b[i] < 0x80 || b[i] > 0xbf) return 0;
  return n;
}

bool ga_json_is_utf8(const char *text, size_t bytes) {
  for (size_t at = 0, n; at < bytes; at += n)
    if (!(n = json_utf8_length(text + at, text + bytes))) return false;
  return true;
}

static size_t put_utf8(uint32_t c, char *out) {
  if (c < 0x80) {
    out[0] = (char)c;
    return 1;
  }
  if (c < 0x800) {
    out[0] = (char)(0xc0 | c >> 6);
    out[1] = (char)(0x80 | (c & 0x3f));
    return 2;
  }
  if (c < 0x10000) {
    out[0] = (char)(0xe0 | c >> 12);
    out[1] = (char)(0x80 | (c >> 6 & 0x3f));
    out[2] = (char)(0x80 | (c & 0x3f));
    return 3;
  }
  out[0] = (char)(0xf0 | c >> 18);
  out[1] = (char)(0x80 | (c >> 12 & 0x3f));
  out[2] = (char)(0x80 | (c >> 6 & 0x3f));
  out[3] = (char)(0x80 | (c & 0x3f));
  return 4;
}

/* The four hexadecimal digits at p; UINT32_MAX where there are none before `end`. */
static uint32_t read_hex(const char *p, const char *end) {
  uint32_t value = 0;
  if (end - p < 4) return UINT32_MAX;
  for (int i = 0; i < 4; i++) {
    const char c = p[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return UINT32_MAX;
    value = value << 4 | (uint32_t)digit;
  }
  return value;
}

/* Checks the rest of a text up to its closing quote, at which *end is set. */
static bool find_end(json_scan *s, size_t *end, bool *has_escapes) {
  const char *last = s->text + s->bytes;
  *has_escapes = false;
  while (s->at < s->bytes) {
    const unsigned char c = (unsigned char)s->text[s->at];
    if (c == '"') {
      *end = s->at++;
      return true;
    }
    if (c < 0x20)
      return json_scan_fail(s, json_error_invalid_syntax,
                            c == '\n' ? "a line ends within a string" : "a control character stands in a string");
    if (c == '\\') {
      *has_escapes = true;
      if (++s->at == s->bytes) break;
    }
    const size_t n = json_utf8_length(s->text + s->at, last);
    if (!n) return json_scan_fail(s, json_error_invalid_utf8, "the text is not valid UTF-8");
    s->at += n;
  }
  return json_scan_fail(s, json_error_premature_end_of_input, "the text ends within a string");
}

/* A \u escape, two of them for a pair; *p is behind the backslash. Returns the bytes written, 0 on failure. */
static size_t unescape_point(json_scan *s, const char **p, const char *end, char *out) {
  uint32_t c = read_hex(*p + 1, end);
  const char *second = *p + 5;
  if (c == UINT32_MAX) {
    (void)json_scan_fail(s, json_error_invalid_syntax, "an escape \\u lacks its four hexadecimal digits");
    return 0;
  }
  *p = second;
  if (c >= 0xd800 && c < 0xe000) {
    const bool is_pair = c < 0xdc00 && end - second >= 6 && second[0] == '\\' && second[1] == 'u';
    const uint32_t low = is_pair ? read_hex(second + 2, end) : 0;
    if (low < 0xdc00 || low > 0xdfff) {
      (void)json_scan_fail(s, json_error_invalid_syntax, "an escape is half of a surrogate pair");
      return 0;
    }
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    *p = second + 6;
  }
  if (!c && !(s->flags & (JSON_ALLOW_NUL | GA_JSON_PYTHON))) {
    (void)json_scan_fail(s, json_error_null_character, "\\u0000 is not allowed here");
    return 0;
  }
  return put_utf8(c, out);
}

/* Writes p[0..end) without escapes, never longer than it was; returns the bytes, SIZE_MAX on failure. */
static size_t unescape(json_scan *s, const char *p, const char *end, char *out) {
  static const char names[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
  size_t n = 0;
  while (p < end) {
    if (*p != '\\') {
      out[n++] = *p++;
      continue;
    }
    const char *name = names;
    if (*++p == 'u') {
      const size_t written = unescape_point(s, &p, end, out + n);
      if (!written) return SIZE_MAX;
      n += written;
      continue;
    }
    while (*name && *name != *p) name += 2;
    if (!*name) {
      (void)json_scan_fail(s, json_error_invalid_syntax, "an escape is none of JSON's");
      return SIZE_MAX;
    }
    out[n++] = name[1];
    p++;
  }
  return n;
}

bool json_scan_string(json_scan *s, json_piece *out) {
  const size_t from = ++s->at;
  size_t end = 0;
  bool has_escapes;
  *out = (json_piece){0};
  if (!find_end(s, &end, &has_escapes)) return false;
  *out = (json_piece){.p = s->text + from, .n = end - from};
  if (!has_escapes) return true;
  char *own = malloc(out->n + 1);
  if (!own) return json_scan_nomem(s);
  const size_t n = unescape(s, out->p, out->p + out->n, own);
  if (n == SIZE_MAX) {
    free(own);
    return false;
  }
  *out = (json_piece){.p = own, .n = n, .owned = own};
  return true;
}
