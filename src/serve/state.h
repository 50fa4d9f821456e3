/* The server from inside: what all routes see. */
#ifndef GA_SERVE_STATE_H
#define GA_SERVE_STATE_H

#include <stdatomic.h>

#include "serve/auth.h"
#include "serve/fail.h"
#include "serve/metrics.h"
#include "serve/serve.h"
#include "serve/wake.h"

typedef enum sv_phase { SV_LOADING, SV_READY, SV_DRAINING, SV_ENDING } sv_phase;

typedef struct sv_embedder sv_embedder; /* embed.c */

struct sv_server {
  sv_options o; /* its texts are the server's */
  struct MHD_Daemon *daemon;
  int32_t port;
  bool is_loopback;
  sv_wake *wake;
  sv_keys keys;
  sv_metrics metrics;
  atomic_int phase, active;
  atomic_size_t body_bytes; /* of bodies in memory */
  uint64_t id_seed;
  atomic_uint_fast64_t ids;
  time_t created;
  /* From here on: written before `phase` is SV_READY. */
  ga_model *model;
  ga_engine *engine; /* NULL: an encoder */
  const ga_tokenizer *tok;
  int64_t vocab;        /* ids that requests may have */
  int32_t context;      /* tokens */
  size_t longest_piece; /* bytes of the longest token */
  sv_embedder *embedder;
};

/* prefix and 32 hex digits that no other answer has. */
void sv_new_id(sv_server *s, const char *prefix, char id[48]);
/* Why there are no answers now; true = there are. */
bool sv_is_ready(sv_server *s, sv_fail *fail);
/* Is there room in the engine's queue? Asked before any work on a request. */
bool sv_has_room(sv_server *s, sv_fail *fail);
/* Is `name` (NULL = not given) this server's model? */
bool sv_is_model(const sv_server *s, const char *name, sv_fail *fail);

#endif
