/* POST /api/pull of Ollama: fetches a model, and streams how far it is. */
#ifndef GA_SERVE_PULL_H
#define GA_SERVE_PULL_H

#include "serve/http.h"

enum MHD_Result sv_run_ollama_pull(sv_call *call);

#endif
