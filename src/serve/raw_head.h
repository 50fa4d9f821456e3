/* The syntax of an HTTP request's head, checked before the HTTP library reads it. The library accepts line ends without
 * CR, folded lines, NUL and spaces before a colon, which proxies read otherwise. It answers in HTML what it does not
 * accept. Sources: RFC 9112 (message syntax), RFC 9110 section 5 (fields). */
#ifndef GA_SERVE_RAW_HEAD_H
#define GA_SERVE_RAW_HEAD_H

#include "serve/fail.h"

enum {
  SV_HEAD_BYTES = 16384,  /* the most bytes of a head */
  SV_TARGET_BYTES = 8192, /* the most bytes of a request target: path and query */
  SV_HEAD_FIELDS = 100,   /* the most header fields */
  SV_HEAD_COOKIES = 100,  /* the most cookies */
  SV_QUERY_ARGUMENTS = 64 /* the most arguments of a query */
};

typedef enum sv_head_state { SV_HEAD_PARTIAL, SV_HEAD_WHOLE, SV_HEAD_BAD } sv_head_state;

/* Checks the first `n` bytes of a connection. PARTIAL: there is no fault so far, but the head does not end among them.
 * BAD: *fail has the reason. */
sv_head_state sv_scan_head(const char *text, size_t n, sv_fail *fail);

/* Returns whether the bytes are a token of RFC 9110: one or more letters, digits and !#$%&'*+-.^_`|~ */
bool sv_is_http_token(const char *text, size_t n);
/* Returns whether a field's value holds no control character but tabs. */
bool sv_is_field_value(const char *text, size_t n);
/* Checks the number of arguments in the query of a request target. False: *fail has the reason. */
bool sv_check_query(const char *target, size_t n, sv_fail *fail);

#endif
