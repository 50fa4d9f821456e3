/* Handlers of the HTTP routes that generate text. A handler reads the request's body, submits it to the engine and
 * replies. */
#ifndef GA_SERVE_GENERATE_H
#define GA_SERVE_GENERATE_H

#include "serve/http.h"

enum MHD_Result sv_run_completions(sv_call *call);
enum MHD_Result sv_run_chat(sv_call *call);
enum MHD_Result sv_run_messages(sv_call *call);

#endif
