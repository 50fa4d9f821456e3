/* The refusal of a request: its HTTP status, and the contents of the reply {"error": ...}. */
#ifndef GA_SERVE_FAIL_H
#define GA_SERVE_FAIL_H

#include "serve/text.h"

typedef struct sv_fail {
  int http;         /* HTTP status of the refusal; 0 = nothing has failed */
  const char *code; /* value of "code" in the error, a static string; NULL = null */
  char param[64];   /* value of "param" in the error, the field at fault; "" = null */
  char message[1024];
} sv_fail;

/* Fills in *f and returns false, so that a function that checks a request can write `return sv_refuse(...)`. param may
 * be NULL. */
bool sv_refuse(sv_fail *f, int http, const char *code, const char *param, const char *format, ...) GA_PRINTF(5, 6);
bool sv_refuse_nomem(sv_fail *f);
/* Fills in *f from a status of the library, and returns false. text: the library's error text. */
bool sv_refuse_status(sv_fail *f, ga_status status, const char *param, const char *text);
/* Writes the refusal as JSON: {"error":{...}}. */
void sv_put_fail(sv_text *t, const sv_fail *f);

#endif
