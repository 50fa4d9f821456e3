/* str() and repr() as Python prints them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "jinja/jinja.h"

/* Digits and exponent of the shortest decimal that reads back as f (f finite, not negative). Returns the digits. */
static int shortest(double f, char digits[20], int *exponent) {
  char text[40];
  int n = 0;
  for (int precision = 0; precision < 17; precision++) {
    (void)snprintf(text, sizeof text, "%.*e", precision, f);
    if (strtod(text, NULL) >= f && strtod(text, NULL) <= f) break;
  }
  const char *p = text;
  for (; *p && *p != 'e'; p++)
    if (*p >= '0' && *p <= '9') digits[n++] = *p;
  *exponent = *p ? atoi(p + 1) : 0;
  while (n > 1 && digits[n - 1] == '0') n--;
  return n;
}

size_t ga_jj_format_float(double f, char out[JJ_FLOAT_BYTES]) {
  char digits[20];
  int exponent, used = 0;
  if (isnan(f)) return (size_t)snprintf(out, JJ_FLOAT_BYTES, "nan");
  if (isinf(f)) return (size_t)snprintf(out, JJ_FLOAT_BYTES, f < 0 ? "-inf" : "inf");
  int n = shortest(fabs(f), digits, &exponent);
  if (signbit(f)) out[used++] = '-';
  if (exponent < -4 || exponent >= 16) { /* where repr() turns to scientific notation */
    out[used++] = digits[0];
    if (n > 1) out[used++] = '.';
    for (int i = 1; i < n; i++) out[used++] = digits[i];
    used += snprintf(out + used, JJ_FLOAT_BYTES - (size_t)used, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
    return (size_t)used;
  }
  if (exponent < 0) {
    out[used++] = '0';
    out[used++] = '.';
    for (int i = -1; i > exponent; i--) out[used++] = '0';
    for (int i = 0; i < n; i++) out[used++] = digits[i];
  } else {
    for (int i = 0; i <= exponent; i++) out[used++] = i < n ? digits[i] : '0';
    out[used++] = '.';
    if (n <= exponent + 1) out[used++] = '0';
    for (int i = exponent + 1; i < n; i++) out[used++] = digits[i];
  }
  out[used] = 0;
  return (size_t)used;
}

static bool ends_with_word(const char *p, size_t n, const char *word) {
  for (size_t i = 0; i < n; i++)
    if ((p[i] | 32) != word[i]) return false;
  return !word[n];
}

/* Passes digits, with single underscores between them, copying the digits. */
static size_t copy_digits(const char *p, size_t n, char *text, size_t *used) {
  size_t i = 0;
  for (; i < n; i++) {
    if (p[i] >= '0' && p[i] <= '9')
      text[(*used)++] = p[i];
    else if (!(p[i] == '_' && i && p[i - 1] != '_' && i + 1 < n && p[i + 1] >= '0' && p[i + 1] <= '9'))
      break;
  }
  return i;
}

bool ga_jj_read_float(const char *p, size_t n, double *out) {
  jj_str s = {p, n, JJ_POINTS_UNKNOWN, NULL};
  char text[600];
  size_t used = 0, at = 0, whole, fraction = 0;
  s = ga_jj_strip(&s, NULL, JJ_STRIP_LEFT | JJ_STRIP_RIGHT);
  if (s.n >= 512) return false;
  if (at < s.n && (s.p[at] == '-' || s.p[at] == '+')) text[used++] = s.p[at++];
  if (ends_with_word(s.p + at, s.n - at, "inf") || ends_with_word(s.p + at, s.n - at, "infinity") ||
      ends_with_word(s.p + at, s.n - at, "nan")) {
    *out = (s.p[at] | 32) == 'n' ? NAN : at && s.p[0] == '-' ? -INFINITY : INFINITY;
    return true;
  }
  at += whole = copy_digits(s.p + at, s.n - at, text, &used);
  if (at < s.n && s.p[at] == '.') {
    text[used++] = s.p[at++];
    at += fraction = copy_digits(s.p + at, s.n - at, text, &used);
  }
  if (!whole && !fraction) return false;
  if (at < s.n && (s.p[at] | 32) == 'e') {
    text[used++] = s.p[at++];
    if (at < s.n && (s.p[at] == '-' || s.p[at] == '+')) text[used++] = s.p[at++];
    size_t exponent = copy_digits(s.p + at, s.n - at, text, &used);
    if (!exponent) return false;
    at += exponent;
  }
  text[used] = 0;
  *out = strtod(text, NULL);
  return at == s.n;
}

/* The escape of c, which is at `at` of s. */
static ga_status put_escape(jj_run *run, jj_buf *buf, const jj_str *s, size_t at, int32_t c, char quote) {
  char text[12];
  if (c == '\n' || c == '\r' || c == '\t')
    (void)snprintf(text, sizeof text, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
  else if (c == '\\' || c == quote)
    (void)snprintf(text, sizeof text, "\\%c", (char)c);
  else if (c < 0x100)
    (void)snprintf(text, sizeof text, "\\x%02x", (unsigned)c);
  else if (c < 0x10000)
    (void)snprintf(text, sizeof text, "\\u%04x", (unsigned)c);
  else
    (void)snprintf(text, sizeof text, "\\U%08x", (unsigned)c);
  return ga_jj_buf_stand(run, buf, s, at, text, strlen(text));
}

static ga_status put_quoted(jj_run *run, jj_buf *buf, const jj_str *s) {
  char quote = s->n && memchr(s->p, '\'', s->n) && !memchr(s->p, '"', s->n) ? '"' : '\'';
  size_t len;
  GA_TRY(ga_jj_step(run, s->n / 16));
  GA_TRY(ga_jj_buf_put(run, buf, &quote, 1));
  for (size_t at = 0; at < s->n; at += len) {
    int32_t c = ga_jj_decode(s->p + at, s->p + s->n, &len);
    if (c == '\\' || c == quote || !ga_jj_is_printable(c))
      GA_TRY(put_escape(run, buf, s, at, c, quote));
    else
      GA_TRY(ga_jj_buf_part(run, buf, s, at, len));
  }
  return ga_jj_buf_put(run, buf, &quote, 1);
}

static ga_status put_items(jj_run *run, jj_buf *buf, const jj_seq *seq, const char *open, const char *close) {
  GA_TRY(ga_jj_enter(run));
  GA_TRY(ga_jj_buf_puts(run, buf, open));
  for (size_t i = 0; i < seq->n; i++) {
    if (i) GA_TRY(ga_jj_buf_puts(run, buf, ", "));
    GA_TRY(ga_jj_put_repr(run, buf, seq->v[i]));
  }
  run->depth_left++;
  return ga_jj_buf_puts(run, buf, close);
}

static ga_status put_dict(jj_run *run, jj_buf *buf, const jj_dict *d) {
  GA_TRY(ga_jj_enter(run));
  GA_TRY(ga_jj_buf_puts(run, buf, "{"));
  for (size_t i = 0; i < d->n; i++) {
    if (i) GA_TRY(ga_jj_buf_puts(run, buf, ", "));
    GA_TRY(ga_jj_put_repr(run, buf, d->e[i].key));
    GA_TRY(ga_jj_buf_puts(run, buf, ": "));
    GA_TRY(ga_jj_put_repr(run, buf, d->e[i].value));
  }
  run->depth_left++;
  return ga_jj_buf_puts(run, buf, "}");
}

static ga_status put_wrapped(jj_run *run, jj_buf *buf, jj_val v) {
  char text[100];
  const jj_seq *q = v.u.q;
  switch (v.kind) {
  case JJ_LIST: return put_items(run, buf, q, "[", "]");
  case JJ_TUPLE: return put_items(run, buf, q, "(", q->n == 1 ? ",)" : ")");
  case JJ_VIEW: GA_TRY(ga_jj_buf_puts(run, buf, q->view)); return put_items(run, buf, q, "([", "])");
  case JJ_RANGE:
    if (q->step == 1)
      (void)snprintf(text, sizeof text, "range(%lld, %lld)", (long long)q->start, (long long)q->stop);
    else
      (void)snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)q->start, (long long)q->stop,
                     (long long)q->step);
    return ga_jj_buf_puts(run, buf, text);
  case JJ_NS:
    GA_TRY(ga_jj_buf_puts(run, buf, "<Namespace "));
    GA_TRY(put_dict(run, buf, v.u.d));
    return ga_jj_buf_puts(run, buf, ">");
  case JJ_LOOP:
    (void)snprintf(text, sizeof text, "<LoopContext %zu/%zu>", v.u.loop->index + 1, v.u.loop->n);
    return ga_jj_buf_puts(run, buf, text);
  default: return ga_jj_buf_puts(run, buf, v.kind == JJ_GEN ? "<generator object>" : "<function>");
  }
}

ga_status ga_jj_put_repr(jj_run *run, jj_buf *buf, jj_val v) {
  char text[JJ_FLOAT_BYTES];
  GA_TRY(ga_jj_step(run, 1));
  switch (v.kind) {
  case JJ_MISSING:
  case JJ_UNDEF: return ga_jj_buf_puts(run, buf, "Undefined");
  case JJ_NONE: return ga_jj_buf_puts(run, buf, "None");
  case JJ_BOOL: return ga_jj_buf_puts(run, buf, v.u.b ? "True" : "False");
  case JJ_INT: return ga_jj_buf_put(run, buf, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)v.u.i));
  case JJ_FLOAT: return ga_jj_buf_put(run, buf, text, ga_jj_format_float(v.u.f, text));
  case JJ_BIG: return ga_jj_buf_put(run, buf, v.u.s->p, v.u.s->n);
  case JJ_STR: return put_quoted(run, buf, v.u.s);
  case JJ_DICT: return put_dict(run, buf, v.u.d);
  default: return put_wrapped(run, buf, v);
  }
}

ga_status ga_jj_put_str(jj_run *run, jj_buf *buf, jj_val v) {
  if (v.kind == JJ_STR) return ga_jj_buf_part(run, buf, v.u.s, 0, v.u.s->n);
  if (v.kind == JJ_UNDEF) return GA_OK;
  return ga_jj_put_repr(run, buf, v);
}

ga_status ga_jj_to_str(jj_run *run, jj_val v, jj_val *out) {
  jj_buf buf = {0};
  *out = v;
  if (v.kind == JJ_STR) return GA_OK;
  GA_TRY(ga_jj_put_str(run, &buf, v));
  return ga_jj_buf_str(run, &buf, out);
}
