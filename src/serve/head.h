/* Checks the meaning of an HTTP request's head, after the HTTP library has parsed it. A head that a proxy could read in
 * another way is refused, so that no client can smuggle a second request through a proxy (RFC 9112 section 11.2). */
#ifndef GA_SERVE_HEAD_H
#define GA_SERVE_HEAD_H

#include "serve/http.h"

/* Checks the head and sets call->url and call->authority. version: HTTP version of the request, as the HTTP library
 * passes it. Returns false for a bad head; call->fail then has the reason, and the connection must be closed. */
bool sv_check_head(sv_call *call, const char *version);

#endif
