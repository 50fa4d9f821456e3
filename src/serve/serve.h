/* An HTTP server with OpenAI's interface, for one model: the functions that the program `ga` calls. */
#ifndef GA_SERVE_SERVE_H
#define GA_SERVE_SERVE_H

#include "ga/engine.h"
#include "serve/profile.h"
#include "serve/tool_calls.h"

typedef struct sv_server sv_server;

typedef bool sv_progress_fn(void *context, const char *what, uint64_t done, uint64_t total);

typedef struct sv_options {
  const char *host;        /* address of this machine to listen on: "127.0.0.1", "::", "0.0.0.0" */
  int32_t port;            /* port to listen on; 0 = any free port */
  const char *model_id;    /* name of the model in requests */
  const char *model_path;  /* path of the model's file or folder, for descriptions of the model; NULL = none */
  const char *other_names; /* further names of the model, separated by commas; NULL = none */
  const char *keys_path;   /* path of the file of API keys; NULL = no key is needed */
  const char *cors_origin; /* origin whose pages may call the server; NULL = no pages of other origins may */
  size_t max_body;         /* largest size of a request's body, in bytes */
  int32_t max_connections;
  int32_t request_seconds;    /* seconds within which a client must send its whole request */
  int32_t idle_seconds;       /* seconds after which an unused connection is closed */
  int32_t threads;            /* number of HTTP threads; 0 = chosen by the number of CPUs */
  double first_token_seconds; /* largest number of seconds that a request waits for its first token; 0 = no limit */
  size_t most_turns; /* largest total bytes of the responses that are kept for later requests; 0 = none are kept */
  /* largest number of requests that wait for the engine (ga_engine_options.max_waiting), and of embedding requests that
   * wait */
  int32_t max_waiting;
  sv_profile profile; /* properties of the model that its files do not have */
  tool_format tools;  /* format in which the model writes tool calls; not TOOL_FORMAT_AUTO */
  bool thinks;        /* <think> at the beginning of an answer opens reasoning */
  /* Called from any thread with one line, without newline, for each request. NULL = no log. */
  void (*log)(void *user, const char *line);
  /* Fetches a model by its name, called on a thread of its own. It calls `report` often, with `what` naming the work;
   * what NULL = nothing new. If report returns false, it stops. pull NULL = the server fetches no models. */
  ga_status (*pull)(void *user, const char *name, sv_progress_fn *report, void *context);
  void *user;
} sv_options;

/* A model that a server offers. */
typedef struct sv_model_source {
  const char *id;          /* name of the model in requests */
  const char *other_names; /* further names, separated by commas; NULL = none */
  const char *path;        /* path of the model's file or folder */
  sv_profile profile;      /* properties of the model that its files do not have */
} sv_model_source;

typedef struct sv_loaded {
  ga_model *model;
  ga_engine *engine; /* NULL for an encoder */
  tool_format tools; /* format in which the model writes tool calls */
  bool thinks;
  void *owner; /* data of the program, which `unload` frees with the model */
} sv_loaded;

typedef struct sv_models_options {
  const sv_model_source *source; /* [n] models; their texts are copied */
  size_t n;
  /* Loads the model source[index]. Only one thread calls the function. GA_ERR_NOMEM: the function is called again once
   * another model has been unloaded. */
  ga_status (*load)(void *user, size_t index, sv_loaded *out);
  void (*unload)(void *user, sv_loaded *loaded);
  void *user;
  double keep_seconds; /* seconds for which an idle model stays loaded; below 0 = until memory is short */
  int32_t most_loaded; /* largest number of models that are loaded at once; 0 = no limit but memory */
} sv_models_options;

/* Creates a server that answers requests. Until sv_server_open is called, /health answers 503. The texts of options are
 * copied. GA_ERR_IO: the port is in use, or the address is not one of this machine. */
GA_NODISCARD ga_status sv_server_create(const sv_options *options, sv_server **out);
/* Makes the server accept requests for a model. engine: NULL for an encoder (a model for embeddings). Model and engine
 * must outlive the server. */
GA_NODISCARD ga_status sv_server_open(sv_server *server, ga_model *model, ga_engine *engine);
/* Makes the server accept requests for models that are loaded when they are first used. A single model is loaded at
 * once. */
GA_NODISCARD ga_status sv_server_offer(sv_server *server, const sv_models_options *options);
int32_t sv_server_port(const sv_server *server);
/* Returns whether the server listens on a loopback address, which only this machine can reach. */
bool sv_server_is_loopback(const sv_server *server);
/* Makes the server refuse new requests with HTTP 503. Requests in progress continue. */
void sv_server_drain(sv_server *server);
/* Returns the number of requests in progress. */
int32_t sv_server_active(const sv_server *server);
/* Ends requests in progress with an error and frees the server. NULL is accepted. */
void sv_server_destroy(sv_server *server);

#endif
