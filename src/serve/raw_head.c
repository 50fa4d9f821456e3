#include "serve/raw_head.h"

#include <string.h>
#include <strings.h>

enum { SV_EMPTY_LINES = 4 }; /* empty lines that may precede a request (RFC 9112 section 2.2) */

bool sv_is_http_token(const char *text, size_t n) {
  static const char others[] = "!#$%&'*+-.^_`|~";
  for (size_t i = 0; i < n; i++) {
    const char c = text[i], lower = (char)(c | 0x20);
    if (!(lower >= 'a' && lower <= 'z') && !(c >= '0' && c <= '9') && (!c || !strchr(others, c))) return false;
  }
  return n > 0;
}

bool sv_is_field_value(const char *text, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const unsigned char c = (unsigned char)text[i];
    if ((c < 0x20 && c != '\t') || c == 0x7f) return false;
  }
  return true;
}

static size_t sv_count_byte(const char *text, size_t n, char byte) {
  size_t count = 0;
  for (size_t i = 0; i < n; i++) count += text[i] == byte;
  return count;
}

bool sv_check_query(const char *target, size_t n, sv_fail *fail) {
  const char *query = memchr(target, '?', n);
  if (!query) return true;
  const size_t arguments = 1 + sv_count_byte(query, n - (size_t)(query - target), '&');
  return arguments <= SV_QUERY_ARGUMENTS ||
         sv_refuse(fail, 414, "uri_too_long", NULL, "The query has %zu arguments; it may have %d.", arguments,
                   SV_QUERY_ARGUMENTS);
}

/* --- the request line --- */

static bool sv_refuse_syntax(sv_fail *fail, const char *what) {
  return sv_refuse(fail, 400, "malformed_request", NULL, "The HTTP request is malformed: %s.", what);
}

static bool sv_scan_version(const char *text, size_t n, sv_fail *fail) {
  static const char prefix[] = "HTTP/";
  const size_t length = sizeof prefix - 1;
  if (n != length + 3 || memcmp(text, prefix, length) != 0 || text[length + 1] != '.')
    return sv_refuse_syntax(fail, "the request line must end with a version such as HTTP/1.1");
  if (text[length] == '1' && (text[length + 2] == '0' || text[length + 2] == '1')) return true;
  return sv_refuse(fail, 505, "http_version_not_supported", NULL,
                   "The version is %.8s; this server speaks HTTP/1.1 and HTTP/1.0.", text);
}

static bool sv_scan_request_line(const char *text, size_t n, sv_fail *fail) {
  const char *end = text + n, *space = memchr(text, ' ', n);
  if (!space || !sv_is_http_token(text, (size_t)(space - text)))
    return sv_refuse_syntax(fail, "the request line must begin with a method such as GET");
  const char *target = space + 1, *last = memchr(target, ' ', (size_t)(end - target));
  if (!last || last == target) return sv_refuse_syntax(fail, "the request line must be METHOD TARGET VERSION");
  const size_t bytes = (size_t)(last - target);
  if (bytes > SV_TARGET_BYTES)
    return sv_refuse(fail, 414, "uri_too_long", NULL, "The request target has %zu bytes; it may have %d.", bytes,
                     SV_TARGET_BYTES);
  if (!sv_is_field_value(target, bytes) || memchr(target, '\t', bytes))
    return sv_refuse_syntax(fail, "the request target holds a control character");
  return sv_scan_version(last + 1, (size_t)(end - last - 1), fail) && sv_check_query(target, bytes, fail);
}

/* --- fields --- */

static bool sv_is_field_name(const char *text, size_t n, const char *name) {
  return n == strlen(name) && !strncasecmp(text, name, n);
}

static bool sv_scan_length(const char *value, size_t n, sv_fail *fail) {
  const size_t digits = strspn(value, "0123456789");
  if (!n || digits < n) return sv_refuse_syntax(fail, "Content-Length must be a number");
  if (n < 19) return true;
  return sv_refuse(fail, 413, "body_too_large", NULL, "The Content-Length is %.*s...: too large a body.", 19, value);
}

static bool sv_scan_field(const char *text, size_t n, sv_fail *fail) {
  const char *end = text + n, *colon = memchr(text, ':', n);
  if (*text == ' ' || *text == '\t') return sv_refuse_syntax(fail, "a header field is folded into several lines");
  if (!colon) return sv_refuse_syntax(fail, "a header field has no colon");
  const size_t name = (size_t)(colon - text);
  if (!sv_is_http_token(text, name))
    return sv_refuse_syntax(fail, "the name of a header field holds a space or another character that is not allowed");
  const char *value = colon + 1;
  while (value < end && (*value == ' ' || *value == '\t')) value++;
  const size_t bytes = (size_t)(end - value);
  if (!sv_is_field_value(value, bytes)) return sv_refuse_syntax(fail, "a header field holds a control character");
  if (sv_is_field_name(text, name, "Content-Length")) return sv_scan_length(value, bytes, fail);
  if (!sv_is_field_name(text, name, "Cookie") ||
      sv_count_byte(value, bytes, ';') + sv_count_byte(value, bytes, ',') < SV_HEAD_COOKIES)
    return true;
  return sv_refuse(fail, 431, "headers_too_large", NULL, "The request has more than %d cookies.", SV_HEAD_COOKIES);
}

/* --- the head --- */

static bool sv_refuse_large(bool in_request_line, sv_fail *fail) {
  if (in_request_line)
    return sv_refuse(fail, 414, "uri_too_long", NULL, "The request line has more than %d bytes.", SV_HEAD_BYTES);
  return sv_refuse(fail, 431, "headers_too_large", NULL, "The head of the request has more than %d bytes.",
                   SV_HEAD_BYTES);
}

sv_head_state sv_scan_head(const char *text, size_t n, sv_fail *fail) {
  size_t at = 0, empty = 0, lines = 0;
  for (const char *feed; (feed = memchr(text + at, '\n', n - at)) != NULL;) {
    const char *line = text + at;
    const size_t bytes = (size_t)(feed - line);
    at += bytes + 1;
    bool ok = bytes && line[bytes - 1] == '\r';
    if (!ok)
      (void)sv_refuse_syntax(fail, "a line must end with CR LF");
    else if (at > SV_HEAD_BYTES)
      ok = sv_refuse_large(!lines, fail);
    else if (bytes == 1 && lines)
      return SV_HEAD_WHOLE;
    else if (bytes == 1)
      ok = ++empty <= SV_EMPTY_LINES || sv_refuse_syntax(fail, "it begins with empty lines");
    else if (!lines++)
      ok = sv_scan_request_line(line, bytes - 1, fail);
    else if (lines > SV_HEAD_FIELDS + 1)
      ok = sv_refuse(fail, 431, "headers_too_large", NULL, "The request has more than %d header fields.",
                     SV_HEAD_FIELDS);
    else
      ok = sv_scan_field(line, bytes - 1, fail);
    if (!ok) return SV_HEAD_BAD;
  }
  if (!lines && at < n && text[at] != '\r' && !sv_is_http_token(text + at, 1))
    (void)sv_refuse_syntax(fail, "the request line must begin with a method such as GET"); /* TLS, for example */
  else if (n <= SV_HEAD_BYTES)
    return SV_HEAD_PARTIAL;
  else
    (void)sv_refuse_large(!lines, fail);
  return SV_HEAD_BAD;
}
