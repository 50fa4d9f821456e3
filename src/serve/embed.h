/* POST /v1/embeddings. One thread evaluates all requests, so that HTTP threads do not wait. */
#ifndef GA_SERVE_EMBED_H
#define GA_SERVE_EMBED_H

#include "serve/http.h"

ga_status sv_embedder_start(sv_server *s, sv_embedder **out);
/* Stops the thread. No request may be pending. NULL is fine. */
void sv_embedder_stop(sv_embedder *e);
enum MHD_Result sv_run_embeddings(sv_call *call);
/* Writes floats in base64, 4 bytes each, little-endian. */
void sv_put_base64_floats(sv_text *t, const float *v, size_t n);

#endif
