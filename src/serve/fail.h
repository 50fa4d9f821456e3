/* The reason why a request is refused: the HTTP status and the contents of {"error": ...}. */
#ifndef GA_SERVE_FAIL_H
#define GA_SERVE_FAIL_H

#include "serve/text.h"

typedef struct sv_fail {
  int http;         /* 0 = nothing failed */
  const char *code; /* static; NULL = null */
  char param[64];   /* the field at fault, "" = null */
  char message[1024];
} sv_fail;

/* Fills *f and returns false, so that a reader of fields refuses in one step. param may be NULL. */
bool sv_refuse(sv_fail *f, int http, const char *code, const char *param, const char *format, ...) GA_PRINTF(5, 6);
bool sv_refuse_nomem(sv_fail *f);
/* Refuses with a status of the library; text: its ga_error_text(). */
bool sv_refuse_status(sv_fail *f, ga_status status, const char *param, const char *text);
/* Writes {"error":{...}}. */
void sv_put_fail(sv_text *t, const sv_fail *f);

#endif
