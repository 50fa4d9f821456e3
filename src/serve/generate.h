/* Handlers of the HTTP routes that generate text. A handler reads the request's body, submits it to the engine and
 * replies. */
#ifndef GA_SERVE_GENERATE_H
#define GA_SERVE_GENERATE_H

#include "serve/http.h"

/* Answers a request that generates text, in the form of its route (sv_route.form). */
enum MHD_Result sv_run_generation(sv_call *call);

#endif
