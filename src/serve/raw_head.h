/* The syntax of an HTTP request's head, checked before the HTTP library reads it. The library accepts line ends without
 * CR, folded lines, NUL and spaces before a colon, which proxies may read in other ways. Heads that the library does
 * not accept it would answer in HTML. Sources: RFC 9112 (message syntax), RFC 9110 section 5 (fields). */
#ifndef GA_SERVE_RAW_HEAD_H
#define GA_SERVE_RAW_HEAD_H

#include "serve/fail.h"

enum {
  SV_HEAD_BYTES = 16384,  /* largest number of bytes of a head */
  SV_TARGET_BYTES = 8192, /* largest number of bytes of a request target (path and query) */
  SV_HEAD_FIELDS = 100,   /* largest number of header fields */
  SV_HEAD_COOKIES = 100,  /* largest number of cookies */
  SV_QUERY_ARGUMENTS = 64 /* largest number of arguments of a query */
};

typedef enum sv_head_state { SV_HEAD_PARTIAL, SV_HEAD_WHOLE, SV_HEAD_BAD } sv_head_state;

/* Checks the first `n` bytes of a connection. SV_HEAD_PARTIAL: there is no fault so far, but the head does not end
 * within these bytes. SV_HEAD_BAD: *fail has the reason. */
sv_head_state sv_scan_head(const char *text, size_t n, sv_fail *fail);

/* Returns whether the bytes are a token of RFC 9110: one or more letters, digits and !#$%&'*+-.^_`|~ */
bool sv_is_http_token(const char *text, size_t n);
/* Returns whether the value of a header field has no control characters except tabs. */
bool sv_is_field_value(const char *text, size_t n);
/* Checks that the query of a request target has at most SV_QUERY_ARGUMENTS arguments. Returns false otherwise, with the
 * reason in *fail. */
bool sv_check_query(const char *target, size_t n, sv_fail *fail);

#endif
