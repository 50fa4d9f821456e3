/* Handlers of requests for tokens, from the body to the engine and back. */
#ifndef GA_SERVE_GENERATE_H
#define GA_SERVE_GENERATE_H

#include "serve/http.h"

enum MHD_Result sv_run_completions(sv_call *call);
enum MHD_Result sv_run_chat(sv_call *call);
enum MHD_Result sv_run_messages(sv_call *call);

#endif
