/* The handler of POST /v1/rerank, for cross-encoders. */
#ifndef GA_SERVE_RERANK_H
#define GA_SERVE_RERANK_H

#include "serve/http.h"

enum MHD_Result sv_run_rerank(sv_call *call);

#endif
