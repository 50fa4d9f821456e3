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
  /* Replies to a request, or suspends its connection with sv_waiter_suspend. After a suspension the server calls the
   * function again later. If the body is large, a thread of the crew calls it first. */
  enum MHD_Result (*run)(sv_call *call);
  void (*put_fail)(sv_text *t, const sv_fail *f); /* writes an error; NULL = in the form of OpenAI */
  const sv_form *form;                            /* form of the requests; NULL = the route generates no text */
  bool needs_no_model;                            /* the route answers without a model, or looks at all of them */
} sv_route;

/* Functions by which a call gets its model, in a server with several models. */
struct sv_model_hooks {
  /* Finds the model of a call, takes a reference to it and sets call->server. Returns false if the connection is
   * suspended until the model is loaded, or if an error was sent. The handler then returns *reply. */
  bool (*take)(sv_call *call, enum MHD_Result *reply);
  void (*release)(sv_call *call); /* releases the model that `take` took, once the call has ended */
};

struct sv_call {
  sv_task task;      /* must be the first field */
  sv_server *host;   /* server that has the connection */
  sv_server *server; /* server of the request's model; host before the model is known */
  struct MHD_Connection *connection;
  sv_link *link;
  const sv_route *route;
  const sv_route *nearest;  /* route nearest to the path, whose form errors have; NULL = the path has a route */
  const char *method, *url; /* url: the path, unescaped, without the query */
  char *target;             /* the request target as it was sent; NULL = no memory for it */
  char authority[256];      /* host and port to which the request is addressed; "" = HTTP/1.0 without a Host header */
  bool has_begun;           /* the head has been checked */
  bool must_close;          /* the connection ends with the reply */
  const sv_key *key;        /* API key of the request; NULL = the server has no keys */
  sv_text body;
  size_t skipped; /* number of bytes read so far of a body that has been refused */
  sv_fail fail;
  double start; /* time at which the headers were complete, from sv_seconds */
  bool is_active;
  bool was_in_crew;              /* the crew has read the body */
  enum MHD_Result result;        /* result of route->run when the crew called it */
  struct MHD_Response *response; /* reply that the crew has made, to be queued by the HTTP thread; NULL = none */
  int http;                      /* HTTP status of the reply */
  struct sv_entry *entry;        /* entry of the call's model in host->models; NULL = not chosen */
  struct sv_load_wait *load;     /* the call's wait until its model is loaded; NULL = the call does not wait */
  bool has_model;                /* the call has a reference to its model */
  double keep_seconds;           /* keep_alive of the request; NaN = not given */
  json_t *json;                  /* the body, if it was parsed to find the model; NULL = not parsed */
  void *job;                     /* state that route->run keeps between its calls for this request */
  void (*job_free)(void *job);
  int64_t n_prompt, n_generated; /* numbers of tokens for the line in the log */
};

/* Sends a reply with a body, which the function takes over. type: value of the Content-Type header. */
enum MHD_Result sv_reply(sv_call *call, int http, const char *type, sv_text *body);
enum MHD_Result sv_reply_json(sv_call *call, sv_text *body);
/* Writes an error in the form of the call's route, or of the route nearest to its path. */
void sv_put_call_fail(sv_text *t, const sv_call *call, const sv_fail *fail);
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
void *sv_on_target(void *cls, const char *target, struct MHD_Connection *connection);
enum MHD_Result sv_on_request(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *bytes, void **call);
void sv_on_completed(void *cls, struct MHD_Connection *connection, void **call, enum MHD_RequestTerminationCode code);
void sv_on_connection(void *cls, struct MHD_Connection *connection, void **link,
                      enum MHD_ConnectionNotificationCode code);

#endif
