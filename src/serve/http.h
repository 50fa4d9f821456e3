/* One HTTP request: from its headers to the reply. */
#ifndef GA_SERVE_HTTP_H
#define GA_SERVE_HTTP_H

#include "serve/body.h"
#include "serve/state.h"

typedef struct sv_call sv_call;

typedef struct sv_route {
  const char *method, *path; /* a path that ends in / matches all paths below it */
  bool is_public;            /* the route needs no API key */
  /* Replies, or suspends the connection and is called again later. */
  enum MHD_Result (*run)(sv_call *call);
  bool is_anthropic; /* errors have the form of Anthropic's API */
} sv_route;

struct sv_call {
  sv_server *server;
  struct MHD_Connection *connection;
  sv_link *link;
  const sv_route *route;
  const char *method, *url;
  const sv_key *key; /* API key of the request; NULL = the server has no keys */
  sv_text body;
  size_t skipped; /* bytes read so far of a body that was refused */
  sv_fail fail;
  double start; /* sv_seconds at the time when the headers were complete */
  bool is_active, is_queued;
  int http;  /* HTTP status of the reply */
  void *job; /* state of `run` between its calls */
  void (*job_free)(void *job);
  int64_t n_prompt, n_generated; /* tokens for the log line */
};

/* Replies with a body, which the function takes over. */
enum MHD_Result sv_reply(sv_call *call, int http, const char *type, sv_text *body);
enum MHD_Result sv_reply_json(sv_call *call, sv_text *body);
/* Replies with the error in call->fail. */
enum MHD_Result sv_reply_fail(sv_call *call);
/* Replies with a response that the caller made, and releases it. */
enum MHD_Result sv_reply_with(sv_call *call, int http, const char *type, struct MHD_Response *response);
/* Parses the body as JSON and frees its bytes. NULL: a failure, which call->fail has. */
json_t *sv_call_json(sv_call *call);
/* Returns the connection's socket. */
int sv_call_fd(const sv_call *call);

/* Callbacks of libmicrohttpd. */
enum MHD_Result sv_on_request(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *bytes, void **call);
void sv_on_completed(void *cls, struct MHD_Connection *connection, void **call, enum MHD_RequestTerminationCode code);
void sv_on_connection(void *cls, struct MHD_Connection *connection, void **link,
                      enum MHD_ConnectionNotificationCode code);

#endif
