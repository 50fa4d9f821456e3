/* An HTTP server with the interface of OpenAI, on one model: the part that the program calls. */
#ifndef GA_SERVE_SERVE_H
#define GA_SERVE_SERVE_H

#include "ga/engine.h"
#include "serve/tool_calls.h"

typedef struct sv_server sv_server;

typedef struct sv_options {
  const char *host;        /* an address of this machine: "127.0.0.1", "::", "0.0.0.0" */
  int32_t port;            /* 0 = any that is free */
  const char *model_id;    /* name of the model in requests */
  const char *other_names; /* further names, with commas between; NULL = none */
  const char *keys_path;   /* NULL = no keys */
  const char *cors_origin; /* NULL = no page of another origin */
  size_t max_body;         /* bytes */
  int32_t max_connections, request_seconds, idle_seconds;
  int32_t threads;            /* of HTTP, 0 = by the number of CPUs */
  double first_token_seconds; /* longest wait for the first token, 0 = none */
  int32_t max_waiting;        /* of the engine */
  tool_format tools;          /* how the model writes tool calls; not AUTO */
  bool thinks;                /* <think> at the beginning of an answer is reasoning */
  /* Called with one line for each request, without newline, from any thread. NULL = none. */
  void (*log)(void *user, const char *line);
  void *user;
} sv_options;

/* Binds and answers; /health is 503 until there is a model. The texts of options are copied. GA_ERR_IO: the port is in
 * use, or the address is not of this machine. */
GA_NODISCARD ga_status sv_server_create(const sv_options *options, sv_server **out);
/* Begins to accept requests. engine: NULL for an encoder. Model and engine must outlive the server. */
GA_NODISCARD ga_status sv_server_open(sv_server *server, ga_model *model, ga_engine *engine);
int32_t sv_server_port(const sv_server *server);
/* True when only this machine can reach the server's address. */
bool sv_server_is_loopback(const sv_server *server);
/* Refuses new requests with 503. */
void sv_server_drain(sv_server *server);
/* Number of requests in progress. */
int32_t sv_server_active(const sv_server *server);
/* Ends requests in progress with an error and frees the server. NULL is fine. */
void sv_server_destroy(sv_server *server);

#endif
