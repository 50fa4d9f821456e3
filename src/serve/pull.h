/* Handles POST /api/pull of Ollama's interface: fetches a model, and streams its progress. */
#ifndef GA_SERVE_PULL_H
#define GA_SERVE_PULL_H

#include "serve/http.h"

enum MHD_Result sv_run_ollama_pull(sv_call *call);

#endif
