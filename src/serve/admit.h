/* What is looked at before a request's body: where it goes, whose it is, which page sent it. */
#ifndef GA_SERVE_ADMIT_H
#define GA_SERVE_ADMIT_H

#include "serve/http.h"

/* Sets the route and the key; false with call->fail set. */
bool sv_admit(sv_call *call);
/* A body that is not worth reading before a refusal. */
bool sv_has_long_body(const sv_call *call);
/* 413 */
bool sv_refuse_body(const sv_server *s, sv_fail *fail);
/* Does a Host header name this machine by an address or as localhost? Pages of other names that were made to point
 * here (DNS rebinding) do not. */
bool sv_is_local_host(const char *host);

#endif
