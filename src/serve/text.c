#include "serve/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void sv_text_free(sv_text *t) {
  free(t->p);
  *t = (sv_text){0};
}

void sv_text_drop(sv_text *t, size_t n) {
  if (!t->p || !n) return;
  memmove(t->p, t->p + n, t->n - n + 1);
  t->n -= n;
}

static bool sv_text_room(sv_text *t, size_t n) {
  if (t->failed) return false;
  if (n < t->capacity && t->n + n < t->capacity) return true;
  if (n > SIZE_MAX / 4 - t->n) return !(t->failed = true);
  const size_t capacity = (t->n + n + 1) * 3 / 2 + 64;
  char *p = realloc(t->p, capacity);
  if (!p) return !(t->failed = true);
  t->p = p;
  t->capacity = capacity;
  return true;
}

void sv_put(sv_text *t, const char *p, size_t n) {
  if (!sv_text_room(t, n)) return;
  if (n) memcpy(t->p + t->n, p, n);
  t->n += n;
  t->p[t->n] = 0;
}

void sv_puts(sv_text *t, const char *s) { sv_put(t, s, strlen(s)); }

void sv_putf(sv_text *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  va_list again;
  va_copy(again, args);
  const int n = vsnprintf(NULL, 0, format, args);
  if (n < 0)
    t->failed = true;
  else if (sv_text_room(t, (size_t)n)) {
    (void)vsnprintf(t->p + t->n, (size_t)n + 1, format, again);
    t->n += (size_t)n;
  }
  va_end(again);
  va_end(args);
}

size_t sv_utf8_length(const char *p, size_t n) {
  const unsigned char *s = (const unsigned char *)p;
  if (s[0] < 0x80) return 1;
  const size_t length = s[0] >= 0xC2 && s[0] <= 0xDF ? 2 : s[0] >= 0xE0 && s[0] <= 0xEF ? 3 : 4;
  if (s[0] < 0xC2 || s[0] > 0xF4 || n < length) return 0;
  for (size_t i = 1; i < length; i++)
    if ((s[i] & 0xC0) != 0x80) return 0;
  /* Overlong forms, surrogates, above U+10FFFF. */
  if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F)) return 0;
  if ((s[0] == 0xF0 && s[1] < 0x90) || (s[0] == 0xF4 && s[1] > 0x8F)) return 0;
  return length;
}

bool sv_is_utf8(const char *p, size_t n) {
  for (size_t at = 0, step; at < n; at += step) {
    step = sv_utf8_length(p + at, n - at);
    if (!step) return false;
  }
  return true;
}

size_t sv_utf8_count(const char *p, size_t n) {
  size_t count = 0;
  for (size_t i = 0; i < n; i++) count += ((unsigned char)p[i] & 0xC0) != 0x80;
  return count;
}

static void sv_put_escape(sv_text *t, unsigned char c) {
  static const char letters[] = "btn\0fr"; /* of 8 to 13 */
  if (c == '"' || c == '\\')
    sv_putf(t, "\\%c", c);
  else if (c >= 8 && c <= 13 && letters[c - 8])
    sv_putf(t, "\\%c", letters[c - 8]);
  else
    sv_putf(t, "\\u%04x", c);
}

void sv_put_json(sv_text *t, const char *p, size_t n) {
  if (!n) p = "";
  size_t plain = 0; /* where the bytes begin that go out as they are */
  sv_put(t, "\"", 1);
  for (size_t at = 0; at < n;) {
    const unsigned char c = (unsigned char)p[at];
    const size_t length = sv_utf8_length(p + at, n - at);
    if (length && c >= 0x20 && c != '"' && c != '\\' && c != 0x7F) {
      at += length;
      continue;
    }
    sv_put(t, p + plain, at - plain);
    if (length)
      sv_put_escape(t, c);
    else
      sv_puts(t, "\xEF\xBF\xBD");
    plain = ++at;
  }
  sv_put(t, p + plain, n - plain);
  sv_put(t, "\"", 1);
}

void sv_puts_json(sv_text *t, const char *s) { sv_put_json(t, s, strlen(s)); }

void sv_put_number(sv_text *t, double v) {
  if (isfinite(v))
    sv_putf(t, "%.9g", v);
  else
    sv_puts(t, "null");
}
