#include "serve/head.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "serve/raw_head.h"

/* Fields of a head that decide where its body ends and for whom it is. */
typedef struct sv_fields {
  sv_fail *fail;
  int n_length, n_coding, n_host;
  const char *length, *coding, *host, *encoding;
  const char *next; /* where the next field must begin in the library's buffer; NULL = not checked */
} sv_fields;

static bool sv_refuse_head(sv_fail *fail, const char *what) {
  return sv_refuse(fail, 400, "malformed_request", NULL, "The HTTP request is malformed: %s.", what);
}

/* --- what the library accepts --- */

/* Versions before 1.0 parse a head in place: they turn the colon and both bytes of a line end into NULs. Bytes in other
 * places are a NUL in the text, a bare line feed or a folded line, which the parsed values do not show. Version 1.0
 * refuses these itself. */
static bool sv_is_parsed_in_place(void) { return !strncmp(MHD_get_version(), "0.9.", 4); }

static bool sv_follows(sv_fields *f, const char *key, size_t key_bytes, const char *value, size_t bytes) {
  const char *p = f->next;
  if (key != p || p[key_bytes]) return false;
  p += key_bytes + 1;
  while (*p == ' ' || *p == '\t') p++;
  if (value != p || p[bytes] || p[bytes + 1]) return false;
  f->next = p + bytes + 2;
  return true;
}

static enum MHD_Result sv_take_field(void *user, enum MHD_ValueKind kind, const char *key, size_t key_bytes,
                                     const char *value, size_t bytes) {
  sv_fields *f = user;
  (void)kind;
  if (!sv_is_http_token(key, key_bytes))
    (void)sv_refuse_head(f->fail, "the name of a header field holds a space or another character that is not allowed");
  else if (!sv_is_field_value(value, bytes) || (f->next && !sv_follows(f, key, key_bytes, value, bytes)))
    (void)sv_refuse_head(f->fail, "a header field is folded, holds a control character, or does not end with CR LF");
  if (f->fail->http) return MHD_NO;
  if (!strcasecmp(key, "Content-Length")) f->n_length++, f->length = value;
  if (!strcasecmp(key, "Transfer-Encoding")) f->n_coding++, f->coding = value;
  if (!strcasecmp(key, "Host")) f->n_host++, f->host = value;
  if (!strcasecmp(key, "Content-Encoding")) f->encoding = value;
  return MHD_YES;
}

/* --- the body's end --- */

static bool sv_check_framing(const sv_fields *f, bool is_old, sv_fail *fail) {
  if (f->n_length > 1) return sv_refuse_head(fail, "it has more than one Content-Length");
  if (f->n_coding > 1) return sv_refuse_head(fail, "it has more than one Transfer-Encoding");
  if (f->n_length && f->n_coding) return sv_refuse_head(fail, "it has a Content-Length and a Transfer-Encoding");
  if (f->n_coding && is_old) return sv_refuse_head(fail, "HTTP/1.0 has no Transfer-Encoding");
  if (f->length && (!*f->length || f->length[strspn(f->length, "0123456789")]))
    return sv_refuse_head(fail, "Content-Length must be a number");
  if (f->coding && strcasecmp(f->coding, "chunked") != 0)
    return sv_refuse(fail, 501, "transfer_encoding_not_implemented", NULL,
                     "The Transfer-Encoding is \"%.60s\"; this server knows chunked.", f->coding);
  if (f->encoding && *f->encoding && strcasecmp(f->encoding, "identity") != 0)
    return sv_refuse(fail, 415, "unsupported_content_encoding", NULL,
                     "The Content-Encoding is \"%.60s\"; the body must be sent as it is.", f->encoding);
  return true;
}

/* --- the target --- */

static bool sv_is_host(const char *host, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!isalnum((unsigned char)host[i]) && (!host[i] || !strchr("-._~%!$&'()*+,;=:[]", host[i]))) return false;
  return true;
}

/* http://AUTHORITY/PATH, as clients send it to a proxy: its authority counts instead of the Host field. */
static bool sv_split_absolute(sv_call *call) {
  const char *at = call->url + 7 + (strncasecmp(call->url, "https://", 8) == 0);
  const size_t n = strcspn(at, "/");
  if (!n || n >= sizeof call->authority || !sv_is_host(at, n))
    return sv_refuse_head(&call->fail, "the request target names no valid host");
  memcpy(call->authority, at, n);
  call->authority[n] = 0;
  call->url = at[n] ? at + n : "/";
  return true;
}

static bool sv_check_host(sv_call *call, const sv_fields *f, bool is_old) {
  if (!f->n_host && !is_old) return sv_refuse_head(&call->fail, "HTTP/1.1 needs a Host header");
  if (f->n_host > 1) return sv_refuse_head(&call->fail, "it has more than one Host header");
  if (!f->host) return true;
  size_t n = strlen(f->host);
  while (n && (f->host[n - 1] == ' ' || f->host[n - 1] == '\t')) n--;
  if (n >= sizeof call->authority || !sv_is_host(f->host, n))
    return sv_refuse_head(&call->fail, "the Host header is no valid host");
  memcpy(call->authority, f->host, n);
  call->authority[n] = 0;
  return true;
}

static bool sv_check_target(sv_call *call) {
  const char *target = call->target ? call->target : call->url;
  if (!sv_is_field_value(target, strlen(target)) || strpbrk(target, " \t") || strstr(target, "%00"))
    return sv_refuse_head(&call->fail, "the request target holds a space or a control character");
  if (!sv_check_query(target, strlen(target), &call->fail)) return false;
  if (*call->url == '/' || !strcmp(call->url, "*")) return true;
  if (!strncasecmp(call->url, "http://", 7) || !strncasecmp(call->url, "https://", 8)) return sv_split_absolute(call);
  return sv_refuse_head(&call->fail, "the request target must be a path or an address such as http://HOST/PATH");
}

/* --- all --- */

bool sv_check_head(sv_call *call, const char *version) {
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(call->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
  const bool is_old = !strcmp(version, "HTTP/1.0");
  sv_fields f = {.fail = &call->fail};
  if (!sv_is_http_token(call->method, strlen(call->method)))
    return sv_refuse_head(&call->fail, "its method is no token");
  if (sv_is_parsed_in_place()) f.next = version + strlen(version) + 2;
  (void)MHD_get_connection_values_n(call->connection, MHD_HEADER_KIND, sv_take_field, &f);
  if (call->fail.http) return false;
  if (f.next && (!info || f.next + 2 != call->method + info->header_size))
    return sv_refuse_head(&call->fail, "a line does not end with CR LF");
  return sv_check_framing(&f, is_old, &call->fail) && sv_check_host(call, &f, is_old) && sv_check_target(call);
}
