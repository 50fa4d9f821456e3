/* An HTTP server with the interface of OpenAI, on one model: the part that the program calls. */
#ifndef GA_SERVE_SERVE_H
#define GA_SERVE_SERVE_H

#include "ga/engine.h"
#include "serve/tool_calls.h"

typedef struct sv_server sv_server;

typedef struct sv_options {
  const char *host;        /* address of this machine to listen on: "127.0.0.1", "::", "0.0.0.0" */
  int32_t port;            /* port to listen on; 0 = any free port */
  const char *model_id;    /* name of the model in requests */
  const char *other_names; /* further names of the model, separated by commas; NULL = none */
  const char *keys_path;   /* file of API keys; NULL = no key is needed */
  const char *cors_origin; /* origin whose pages may call the server; NULL = no pages of other origins */
  size_t max_body;         /* the most bytes of a request's body */
  int32_t max_connections;
  int32_t request_seconds;    /* seconds in which a client must send its request */
  int32_t idle_seconds;       /* seconds after which an unused connection is closed */
  int32_t threads;            /* number of HTTP threads; 0 = chosen by the number of CPUs */
  double first_token_seconds; /* seconds that a request waits for its first token at most; 0 = no limit */
  int32_t max_waiting;        /* ga_engine_options.max_waiting; also the most embedding requests that wait */
  tool_format tools;          /* the format in which the model writes tool calls; not AUTO */
  bool thinks;                /* <think> at the beginning of an answer is reasoning */
  /* Called with one line for each request, without newline, from any thread. NULL = none. */
  void (*log)(void *user, const char *line);
  void *user;
} sv_options;

/* Creates a server and answers requests; /health is 503 until sv_server_open. The texts of options are copied.
 * GA_ERR_IO: the port is in use, or the address is not one of this machine. */
GA_NODISCARD ga_status sv_server_create(const sv_options *options, sv_server **out);
/* Begins to accept requests for a model. engine: NULL for an encoder. Model and engine must outlive the server. */
GA_NODISCARD ga_status sv_server_open(sv_server *server, ga_model *model, ga_engine *engine);
int32_t sv_server_port(const sv_server *server);
/* Returns whether only this machine can reach the server's address. */
bool sv_server_is_loopback(const sv_server *server);
/* Refuses new requests with 503. */
void sv_server_drain(sv_server *server);
/* Number of requests in progress. */
int32_t sv_server_active(const sv_server *server);
/* Ends requests in progress with an error and frees the server. NULL is fine. */
void sv_server_destroy(sv_server *server);

#endif
