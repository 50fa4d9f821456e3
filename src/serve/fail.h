/* The reason why a request is refused: the HTTP status and the contents of {"error": ...}. */
#ifndef GA_SERVE_FAIL_H
#define GA_SERVE_FAIL_H

#include "serve/text.h"

typedef struct sv_fail {
  int http;         /* HTTP status; 0 = nothing failed */
  const char *code; /* "code" of the error, a static string; NULL = null */
  char param[64];   /* "param" of the error: the field at fault; "" = null */
  char message[1024];
} sv_fail;

/* Fills *f and returns false, so that a reader can write `return sv_refuse(...)`. param may be NULL. */
bool sv_refuse(sv_fail *f, int http, const char *code, const char *param, const char *format, ...) GA_PRINTF(5, 6);
bool sv_refuse_nomem(sv_fail *f);
/* Fills *f from a status of the library and returns false. text: the library's error text. */
bool sv_refuse_status(sv_fail *f, ga_status status, const char *param, const char *text);
/* Writes {"error":{...}}. */
void sv_put_fail(sv_text *t, const sv_fail *f);

#endif
