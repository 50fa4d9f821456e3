/* The head of an HTTP request as the HTTP library has parsed it: its meaning. Heads that a proxy could read otherwise
 * are refused, so that no client can smuggle a second request through it (RFC 9112 section 11.2). */
#ifndef GA_SERVE_HEAD_H
#define GA_SERVE_HEAD_H

#include "serve/http.h"

/* Checks the head and sets call->url and call->authority. version: the handler's argument. False: call->fail has the
 * reason, and the connection must be closed. */
bool sv_check_head(sv_call *call, const char *version);

#endif
