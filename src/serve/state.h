/* The state of the HTTP server, which the handlers of all routes use. */
#ifndef GA_SERVE_STATE_H
#define GA_SERVE_STATE_H

#include <stdatomic.h>

#include "serve/accept.h"
#include "serve/auth.h"
#include "serve/crew.h"
#include "serve/facts.h"
#include "serve/fail.h"
#include "serve/metrics.h"
#include "serve/serve.h"
#include "serve/turns.h"
#include "serve/wake.h"

typedef enum sv_phase { SV_LOADING, SV_READY, SV_DRAINING, SV_ENDING } sv_phase;

typedef struct sv_models sv_models;           /* defined in models.h */
typedef struct sv_model_hooks sv_model_hooks; /* defined in http.h */
typedef struct sv_embedder sv_embedder;       /* defined in embed.c */
typedef struct sv_route sv_route;             /* defined in http.h */

/* The state of a server. A server of several models also has one such struct for each model; they share the connections
 * of `host`. */
struct sv_server {
  /* struct that has the connections, the phase, counts and metrics; with one model the struct itself */
  sv_server *host;
  /* functions by which calls get a model; NULL = the server has one model, which stays loaded */
  const sv_model_hooks *hooks;
  sv_models *models; /* models that the server offers; NULL = only the model of sv_server_open */
  sv_options o;      /* options of the server; it owns copies of their texts */
  struct MHD_Daemon *daemon;
  int listen_fd; /* socket that listens for connections; -1 = none */
  sv_acceptor *acceptor;
  const sv_route *routes; /* table of routes; the last entry has method NULL */
  int32_t port;
  bool is_loopback;
  sv_wake *wake;
  sv_crew *crew;
  sv_keys keys;
  sv_metrics metrics;
  atomic_int phase, active, n_pulls;
  atomic_size_t body_bytes; /* total bytes of the request bodies in memory */
  sv_turns *turns;          /* responses that are kept for later requests; NULL = none are kept */
  uint64_t id_seed;
  atomic_uint_fast64_t ids;
  time_t created;
  /* The fields below are written before `phase` becomes SV_READY. */
  ga_model *model;
  ga_engine *engine; /* NULL if the model is an encoder */
  const ga_tokenizer *tok;
  int64_t vocab;        /* size of the vocabulary: ids in requests must be below it */
  int32_t context;      /* largest number of tokens of a sequence */
  size_t longest_piece; /* bytes of the text of the longest token */
  sv_embedder *embedder;
  ga_template *given; /* chat template of o.profile; NULL = the model's own templates are used */
  sv_facts facts;     /* facts about the model; all zero if o.model_path is NULL */
};

/* Writes a unique id to `id`: the prefix and 32 hexadecimal digits. */
void sv_new_id(sv_server *s, const char *prefix, char id[48]);
/* Returns whether the server's model is loaded and requests are accepted. If not, *fail has the reason. */
bool sv_is_ready(sv_server *s, sv_fail *fail);
/* Returns whether the engine's queue has room for a request. Handlers call it before any work on the request. If not,
 * *fail has the reason. */
bool sv_has_room(sv_server *s, sv_fail *fail);
/* Returns whether a request's model `name` is a name of this server's model, with or without ":latest". NULL (not
 * given) is accepted. If not, *fail has the reason. */
bool sv_is_model(const sv_server *s, const char *name, sv_fail *fail);
/* Returns the chat template of the server's model, which must be loaded; NULL: there is none. with_tools: the template
 * for conversations with tools. */
const ga_template *sv_chat_template(const sv_server *s, bool with_tools);

#endif
