/* Checks before a request's body is read: its route, its API key, and the page that sent it. */
#ifndef GA_SERVE_ADMIT_H
#define GA_SERVE_ADMIT_H

#include "serve/http.h"

/* Sets the call's route and key. False: the request is refused, and call->fail has the reason. */
bool sv_admit(sv_call *call);
/* Returns whether the body is too long to be read before a refusal. */
bool sv_has_long_body(const sv_call *call);
/* Refuses a body that is too large: HTTP 413. */
bool sv_refuse_body(const sv_server *s, sv_fail *fail);
/* Returns whether a Host header names this machine by an address or as localhost. Pages of other names that resolve
 * to this machine (DNS rebinding) do not. */
bool sv_is_local_host(const char *host);

#endif
