/* Connects a loaded model with its sv_server, through which HTTP calls use the model. */
#ifndef GA_SERVE_ATTACH_H
#define GA_SERVE_ATTACH_H

#include "serve/state.h"

/* Sets the fields of *s that belong to a loaded model: the model, its tokenizer and its sizes. For an encoder, engine
 * is NULL, and the thread for embeddings is started. */
ga_status sv_server_attach(sv_server *s, ga_model *model, ga_engine *engine);

#endif
