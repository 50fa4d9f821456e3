/* UTF-8 as Python sees strings: code points, its white space, its case mappings. */
#include <utf8proc.h>

#include "jinja/jinja.h"

int32_t ga_jj_decode(const char *p, const char *end, size_t *len) {
  utf8proc_int32_t point;
  if (GA_LIKELY((unsigned char)*p < 0x80)) {
    *len = 1;
    return *p;
  }
  utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)p, end - p, &point);
  *len = n > 0 ? (size_t)n : 1;
  return n > 0 ? point : 0xfffd;
}

size_t ga_jj_encode(int32_t point, char out[4]) {
  utf8proc_uint8_t bytes[4];
  utf8proc_ssize_t n = utf8proc_encode_char(point, bytes);
  memcpy(out, bytes, sizeof bytes);
  return n > 0 ? (size_t)n : 0;
}

bool ga_jj_utf8_ok(const char *p, size_t n) {
  utf8proc_int32_t point;
  for (size_t at = 0; at < n;) {
    utf8proc_ssize_t len = utf8proc_iterate((const utf8proc_uint8_t *)p + at, (utf8proc_ssize_t)(n - at), &point);
    if (len <= 0) return false;
    at += (size_t)len;
  }
  return true;
}

size_t ga_jj_points(const char *p, size_t n) {
  size_t points = 0;
  for (size_t i = 0; i < n; i++) points += ((unsigned char)p[i] & 0xc0) != 0x80;
  return points;
}

size_t ga_jj_str_points(jj_str *s) {
  if (s->points == JJ_POINTS_UNKNOWN) s->points = ga_jj_points(s->p, s->n);
  return s->points;
}

size_t ga_jj_offset(jj_str *s, size_t point) {
  size_t total = ga_jj_str_points(s), at = 0;
  if (point >= total) return s->n;
  if (total == s->n) return point; /* ASCII */
  for (size_t len; point--; at += len) (void)ga_jj_decode(s->p + at, s->p + s->n, &len);
  return at;
}

bool ga_jj_is_space(int32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

bool ga_jj_is_word(int32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_';
  utf8proc_category_t k = utf8proc_category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NO;
}

bool ga_jj_is_printable(int32_t c) {
  if (c < 0x7f) return c >= ' ';
  switch (utf8proc_category(c)) {
  case UTF8PROC_CATEGORY_CN:
  case UTF8PROC_CATEGORY_CC:
  case UTF8PROC_CATEGORY_CF:
  case UTF8PROC_CATEGORY_CS:
  case UTF8PROC_CATEGORY_CO:
  case UTF8PROC_CATEGORY_ZL:
  case UTF8PROC_CATEGORY_ZP:
  case UTF8PROC_CATEGORY_ZS: return false;
  default: return true;
  }
}

static bool is_cased(int32_t c) {
  utf8proc_category_t k = utf8proc_category(c);
  return k == UTF8PROC_CATEGORY_LU || k == UTF8PROC_CATEGORY_LL || k == UTF8PROC_CATEGORY_LT;
}

/* Sigma ends a word when a letter stands before it and none after it (Unicode 3.13, Final_Sigma, without the
 * case-ignorable marks between). */
static bool is_final_sigma(const jj_str *s, size_t at, size_t len) {
  size_t before = at, unused;
  if (!at) return false;
  do before--;
  while (before && ((unsigned char)s->p[before] & 0xc0) == 0x80);
  if (!is_cased(ga_jj_decode(s->p + before, s->p + s->n, &unused))) return false;
  return at + len >= s->n || !is_cased(ga_jj_decode(s->p + at + len, s->p + s->n, &unused));
}

/* c for what is at `at` of s. */
static ga_status put_point(jj_run *run, jj_buf *buf, const jj_str *s, size_t at, int32_t c) {
  char bytes[4];
  return ga_jj_buf_stand(run, buf, s, at, bytes, ga_jj_encode(c, bytes));
}

/* The full mappings that are longer than one code point and occur in running text; the rest are one to one. */
static ga_status put_upper(jj_run *run, jj_buf *buf, const jj_str *s, size_t at, int32_t c, bool title) {
  static const char *const ligatures[] = {"FF", "FI", "FL", "FFI", "FFL", "ST", "ST"}; /* U+FB00 on */
  if (c == 0xdf) return ga_jj_buf_stand(run, buf, s, at, title ? "Ss" : "SS", 2);
  if (c >= 0xfb00 && c <= 0xfb06) {
    const char *text = ligatures[c - 0xfb00];
    for (size_t i = 0; text[i]; i++) GA_TRY(put_point(run, buf, s, at, title && i ? text[i] + 32 : text[i]));
    return GA_OK;
  }
  return put_point(run, buf, s, at, title ? utf8proc_totitle(c) : utf8proc_toupper(c));
}

static ga_status put_lower(jj_run *run, jj_buf *buf, const jj_str *s, size_t at, size_t len, int32_t c) {
  if (c == 0x130) return ga_jj_buf_stand(run, buf, s, at, "i\xcc\x87", 3);
  if (c == 0x3a3) return put_point(run, buf, s, at, is_final_sigma(s, at, len) ? 0x3c2 : 0x3c3);
  return put_point(run, buf, s, at, utf8proc_tolower(c));
}

ga_status ga_jj_recase(jj_run *run, const jj_str *s, jj_case to, jj_val *out) {
  jj_buf buf = {0};
  size_t len;
  bool in_word = false; /* the last character was a letter with case */
  GA_TRY(ga_jj_step(run, s->n / 16));
  for (size_t at = 0; at < s->n; at += len) {
    int32_t c = ga_jj_decode(s->p + at, s->p + s->n, &len);
    bool upper = to == JJ_UPPER || (to == JJ_CAPITALIZE && at == 0) || (to == JJ_TITLE && !in_word) ||
                 (to == JJ_SWAP && utf8proc_category(c) == UTF8PROC_CATEGORY_LL);
    if (upper)
      GA_TRY(put_upper(run, &buf, s, at, c, to == JJ_CAPITALIZE || to == JJ_TITLE));
    else
      GA_TRY(put_lower(run, &buf, s, at, len, c));
    in_word = is_cased(c);
  }
  return ga_jj_buf_str(run, &buf, out);
}

static bool stripped(int32_t c, const jj_str *chars) {
  if (!chars) return ga_jj_is_space(c);
  size_t len;
  for (size_t at = 0; at < chars->n; at += len)
    if (ga_jj_decode(chars->p + at, chars->p + chars->n, &len) == c) return true;
  return false;
}

jj_str ga_jj_strip(const jj_str *s, const jj_str *chars, int sides) {
  const char *p = s->p, *end = s->p + s->n;
  size_t len;
  while ((sides & JJ_STRIP_LEFT) && p < end && stripped(ga_jj_decode(p, end, &len), chars)) p += len;
  while ((sides & JJ_STRIP_RIGHT) && p < end) {
    const char *last = end - 1;
    while (last > p && ((unsigned char)*last & 0xc0) == 0x80) last--;
    if (!stripped(ga_jj_decode(last, end, &len), chars)) break;
    end = last;
  }
  return ga_jj_part(s, (size_t)(p - s->p), (size_t)(end - p));
}

size_t ga_jj_find(const jj_str *s, const jj_str *what, size_t from) {
  if (from > s->n || what->n > s->n - from) return SIZE_MAX;
  if (!what->n) return from;
  const char *hit = memmem(s->p + from, s->n - from, what->p, what->n);
  return hit ? (size_t)(hit - s->p) : SIZE_MAX;
}

ga_status ga_jj_rfind(jj_run *run, const jj_str *s, const jj_str *what, size_t *out) {
  *out = what->n ? SIZE_MAX : s->n;
  if (!what->n) return GA_OK;
  /* Each search prepares its needle anew: paid for, since hits may overlap. */
  for (size_t at = 0; (at = ga_jj_find(s, what, at)) != SIZE_MAX; *out = at++)
    GA_TRY(ga_jj_step(run, 1 + what->n / 64));
  return GA_OK;
}
