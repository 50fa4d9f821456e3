/* One HTTP request ("call"), from its headers to the reply. */
#ifndef GA_SERVE_HTTP_H
#define GA_SERVE_HTTP_H

#include "serve/body.h"
#include "serve/state.h"

typedef struct sv_call sv_call;
typedef struct sv_form sv_form; /* form.h */

typedef struct sv_route {
  const char *method, *path; /* path of the URL; a path that ends in / matches all paths below it */
  bool is_public;            /* requests to this route need no API key */
  /* Replies to a request, or suspends its connection; the server then calls it again later. */
  enum MHD_Result (*run)(sv_call *call);
  void (*put_fail)(sv_text *t, const sv_fail *f); /* writes an error; NULL = in the form of OpenAI */
  const sv_form *form;                            /* form of its requests; NULL = the route makes no tokens */
} sv_route;

struct sv_call {
  sv_server *server;
  struct MHD_Connection *connection;
  sv_link *link;
  const sv_route *route;
  const sv_route *nearest; /* route whose form errors have if the path has none; NULL = the path has one */
  const char *method, *url;
  const sv_key *key; /* API key of the request; NULL = the server has no keys */
  sv_text body;
  size_t skipped; /* number of bytes read so far of a body that has been refused */
  sv_fail fail;
  double start; /* time at which the headers were complete, from sv_seconds */
  bool is_active, is_queued;
  int http;  /* HTTP status of the reply */
  void *job; /* state that route->run keeps between its calls for this request */
  void (*job_free)(void *job);
  int64_t n_prompt, n_generated; /* numbers of tokens for the line in the log */
};

/* Sends a reply with a body, which the function takes over. type: value of the Content-Type header. */
enum MHD_Result sv_reply(sv_call *call, int http, const char *type, sv_text *body);
enum MHD_Result sv_reply_json(sv_call *call, sv_text *body);
/* Sends a reply with the error in call->fail. */
enum MHD_Result sv_reply_fail(sv_call *call);
/* Sends a reply with a response that the caller has created, and releases the response. */
enum MHD_Result sv_reply_with(sv_call *call, int http, const char *type, struct MHD_Response *response);
/* Parses the request's body as JSON and frees the body's text. The caller releases the result with json_decref. Returns
 * NULL after a failure, with the reason in call->fail. */
json_t *sv_call_json(sv_call *call);
/* Returns the file descriptor of the connection's socket. */
int sv_call_fd(const sv_call *call);

/* Callbacks that libmicrohttpd calls for each request and each connection. */
enum MHD_Result sv_on_request(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *bytes, void **call);
void sv_on_completed(void *cls, struct MHD_Connection *connection, void **call, enum MHD_RequestTerminationCode code);
void sv_on_connection(void *cls, struct MHD_Connection *connection, void **link,
                      enum MHD_ConnectionNotificationCode code);

#endif
