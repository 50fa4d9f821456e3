/* Connects a loaded model with the struct through which calls see it. */
#ifndef GA_SERVE_ATTACH_H
#define GA_SERVE_ATTACH_H

#include "serve/state.h"

/* Sets what calls see of a loaded model: its tokenizer, its sizes and, for an encoder, its thread. engine: NULL for an
 * encoder. */
ga_status sv_server_attach(sv_server *s, ga_model *model, ga_engine *engine);

#endif
