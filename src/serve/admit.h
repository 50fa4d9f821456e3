/* Checks of an HTTP request before its body is read: the route, the API key, and the origin of the page that sent
 * it. */
#ifndef GA_SERVE_ADMIT_H
#define GA_SERVE_ADMIT_H

#include "serve/http.h"

/* Checks the headers of a request, and sets call->route and call->key. Returns false if the request is refused;
 * call->fail then has the reason. */
bool sv_admit(sv_call *call);
enum { SV_METHODS_BYTES = 64 };
/* Writes the methods that routes with the call's path have, such as "GET, DELETE", to `out`. */
void sv_list_methods(const sv_call *call, char out[SV_METHODS_BYTES]);
/* Returns whether the request's headers announce a body so long that a refusal is sent without reading it. */
bool sv_has_long_body(const sv_call *call);
/* Sets *fail to HTTP 413, for a body that is larger than the server's max_body. Returns false. */
bool sv_refuse_body(const sv_server *s, sv_fail *fail);
/* Returns whether a Host header is an IP address, "localhost" or a name below localhost. Any other name that resolves
 * to this machine may be an attack by DNS rebinding. */
bool sv_is_local_host(const char *host);

#endif
