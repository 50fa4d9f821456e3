#include "serve/fail.h"

#include <stdarg.h>
#include <stdio.h>

bool sv_refuse(sv_fail *f, int http, const char *code, const char *param, const char *format, ...) {
  va_list args;
  va_start(args, format);
  f->http = http;
  f->code = code;
  (void)snprintf(f->param, sizeof f->param, "%s", param ? param : "");
  (void)vsnprintf(f->message, sizeof f->message, format, args);
  va_end(args);
  return false;
}

bool sv_refuse_nomem(sv_fail *f) { return sv_refuse(f, 503, "out_of_memory", NULL, "The server has no memory left."); }

static int sv_http_of(ga_status status) {
  switch (status) {
  case GA_ERR_ARG:
  case GA_ERR_SHAPE:
  case GA_ERR_FORMAT:
  case GA_ERR_DTYPE:
  case GA_ERR_UNSUPPORTED: return 400;
  case GA_ERR_BUSY: return 429;
  case GA_ERR_NOMEM:
  case GA_ERR_STATE:
  case GA_ERR_TIMEOUT:
  case GA_ERR_CANCELLED: return 503;
  default: return 500;
  }
}

bool sv_refuse_status(sv_fail *f, ga_status status, const char *param, const char *text) {
  const int http = sv_http_of(status);
  const char *code = status == GA_ERR_BUSY ? "queue_full" : status == GA_ERR_TIMEOUT ? "deadline_exceeded" : NULL;
  return sv_refuse(f, http, code, param, "%s", text && *text ? text : ga_status_name(status));
}

static const char *sv_fail_type(int http) {
  switch (http) {
  case 401: return "authentication_error";
  case 403: return "permission_error";
  case 429: return "rate_limit_error";
  default: return http < 500 ? "invalid_request_error" : "server_error";
  }
}

void sv_put_fail(sv_text *t, const sv_fail *f) {
  sv_puts(t, "{\"error\":{\"message\":");
  sv_puts_json(t, f->message);
  sv_puts(t, ",\"type\":");
  sv_puts_json(t, sv_fail_type(f->http));
  sv_puts(t, ",\"param\":");
  if (*f->param)
    sv_puts_json(t, f->param);
  else
    sv_puts(t, "null");
  sv_puts(t, ",\"code\":");
  if (f->code)
    sv_puts_json(t, f->code);
  else
    sv_puts(t, "null");
  sv_puts(t, "}}");
}
