/* Answers POST /v1/embeddings. One thread evaluates the texts of all requests, so that HTTP threads do not wait. */
#ifndef GA_SERVE_EMBED_H
#define GA_SERVE_EMBED_H

#include "serve/http.h"

ga_status sv_embedder_start(sv_server *s, sv_embedder **out);
/* Stops the thread that evaluates embeddings, and frees e. No request may be pending. NULL is accepted. */
void sv_embedder_stop(sv_embedder *e);
enum MHD_Result sv_run_embeddings(sv_call *call);
/* Writes n floats in base64. Each float is 4 bytes, little-endian. */
void sv_put_base64_floats(sv_text *t, const float *v, size_t n);

#endif
