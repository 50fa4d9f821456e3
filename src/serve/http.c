#include "serve/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/admit.h"
#include "serve/head.h"

/* --- connections --- */

static double sv_patience(const sv_server *s) { return sv_seconds() + (double)s->o.request_seconds; }

void sv_on_connection(void *cls, struct MHD_Connection *connection, void **link,
                      enum MHD_ConnectionNotificationCode code) {
  sv_server *s = cls;
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    sv_link *l = *link = calloc(1, sizeof *l);
    if (!l) return; /* then this one may be slow */
    l->fd = info ? info->connect_fd : -1;
    l->until = sv_patience(s);
    sv_link_add(s->wake, l);
  } else if (*link) {
    sv_link_remove(*link);
    free(*link);
    *link = NULL;
  }
}

int sv_call_fd(const sv_call *call) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(call->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info ? info->connect_fd : -1;
}

/* --- replies --- */

static enum MHD_Result sv_queue_reply(sv_call *call) {
  const enum MHD_Result result = MHD_queue_response(call->connection, (unsigned)call->http, call->response);
  MHD_destroy_response(call->response);
  call->response = NULL;
  return result;
}

enum MHD_Result sv_reply_with(sv_call *call, int http, const char *type, struct MHD_Response *response) {
  const sv_server *s = call->server;
  if (!response) return MHD_NO;
  if (type) (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
  if (s->o.cors_origin) {
    (void)MHD_add_response_header(response, "Access-Control-Allow-Origin", s->o.cors_origin);
    (void)MHD_add_response_header(response, "Vary", "Origin");
  }
  if (http == 429 || http == 503) (void)MHD_add_response_header(response, "Retry-After", "1");
  if (http == 401) (void)MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
  if (http == 405) {
    char allowed[SV_METHODS_BYTES];
    sv_list_methods(call, allowed);
    (void)MHD_add_response_header(response, "Allow", allowed);
  }
  if (call->must_close || atomic_load(&call->host->phase) >= SV_DRAINING)
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  call->http = http;
  call->response = response;
  return sv_is_crew_thread() ? MHD_YES : sv_queue_reply(call);
}

enum MHD_Result sv_reply(sv_call *call, int http, const char *type, sv_text *body) {
  static char no_memory[] = "{\"error\":{\"message\":\"The server has no memory left.\",\"type\":\"server_error\","
                            "\"param\":null,\"code\":\"out_of_memory\"}}";
  if (body->failed) {
    sv_text_free(body);
    return sv_reply_with(call, 503, "application/json",
                         MHD_create_response_from_buffer(sizeof no_memory - 1, no_memory, MHD_RESPMEM_PERSISTENT));
  }
  struct MHD_Response *response = MHD_create_response_from_buffer(body->n, body->p, MHD_RESPMEM_MUST_FREE);
  if (response)
    *body = (sv_text){0};
  else
    sv_text_free(body);
  return sv_reply_with(call, http, type, response);
}

enum MHD_Result sv_reply_json(sv_call *call, sv_text *body) { return sv_reply(call, 200, "application/json", body); }

void sv_put_call_fail(sv_text *t, const sv_call *call, const sv_fail *fail) {
  const sv_route *route = call->route ? call->route : call->nearest;
  (route && route->put_fail ? route->put_fail : sv_put_fail)(t, fail);
}

enum MHD_Result sv_reply_fail(sv_call *call) {
  sv_text t = {0};
  sv_put_call_fail(&t, call, &call->fail);
  return sv_reply(call, call->fail.http, "application/json", &t);
}

/* --- bodies --- */

static void sv_drop_body(sv_call *call) {
  (void)atomic_fetch_sub(&call->host->body_bytes, call->body.n);
  sv_text_free(&call->body);
}

json_t *sv_call_json(sv_call *call) {
  json_t *json = call->json;
  call->json = NULL;
  if (json) return json;
  (void)sv_body_parse(call->body.p, call->body.n, &json, &call->fail);
  sv_drop_body(call);
  return json;
}

/* All bodies together may take so many times the limit of one. */
enum { SV_BODIES = 16 };

static enum MHD_Result sv_take_body(sv_call *call, const char *data, size_t bytes) {
  sv_server *s = call->server;
  if (call->fail.http) { /* passed over, up to a bound: a client that does not listen is cut off */
    call->skipped += bytes;
    return call->skipped <= 2 * s->o.max_body ? MHD_YES : MHD_NO;
  }
  if (call->body.n + bytes > s->o.max_body)
    (void)sv_refuse_body(s, &call->fail);
  else if (atomic_fetch_add(&s->body_bytes, bytes) > SV_BODIES * s->o.max_body) {
    (void)atomic_fetch_sub(&s->body_bytes, bytes);
    (void)sv_refuse(&call->fail, 429, "too_many_bodies", NULL, "The server holds too many large requests.");
  } else {
    const size_t before = call->body.n;
    sv_put(&call->body, data, bytes);
    if (call->body.n == before) (void)atomic_fetch_sub(&s->body_bytes, bytes);
    if (call->body.failed) (void)sv_refuse_nomem(&call->fail);
  }
  if (call->fail.http) sv_drop_body(call);
  return MHD_YES;
}

/* --- requests --- */

/* Makes the call, which the library passes to sv_on_request. */
void *sv_on_target(void *cls, const char *target, struct MHD_Connection *connection) {
  sv_server *s = cls;
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  sv_call *call = calloc(1, sizeof *call);
  if (!call) return NULL;
  call->host = call->server = s;
  call->connection = connection;
  call->link = info ? info->socket_context : NULL;
  call->target = target ? strdup(target) : NULL;
  call->start = sv_seconds();
  call->result = MHD_YES;
  if (call->link) sv_link_expect(call->link, sv_patience(s));
  return call;
}

/* Looks at a head. A refusal that need not wait for the body is sent at once. */
static enum MHD_Result sv_begin_call(sv_call *call, const char *method, const char *url, const char *version) {
  call->has_begun = true;
  call->method = method;
  call->url = url;
  call->must_close = !sv_check_head(call, version);
  if (call->must_close) return sv_reply_fail(call);
  return sv_admit(call) || !sv_has_long_body(call) ? MHD_YES : sv_reply_fail(call);
}

/* Runs the call's route, once its model is there. */
static enum MHD_Result sv_run_call(sv_call *call) {
  sv_server *host = call->host;
  enum MHD_Result reply;
  /* The hooks are written before the phase changes, and so must be read after it. */
  if (!call->route->needs_no_model && atomic_load(&host->phase) == SV_LOADING && !sv_is_ready(host, &call->fail))
    return sv_reply_fail(call);
  const sv_model_hooks *hooks = host->hooks;
  return !hooks || hooks->take(call, &reply) ? call->route->run(call) : reply;
}

static void sv_run_in_crew(sv_task *task) {
  sv_call *call = (sv_call *)(void *)task;
  call->result = sv_run_call(call);
  MHD_resume_connection(call->connection); /* the HTTP thread goes on with it */
}

/* Lets the crew read a large body while the connection is suspended. */
static bool sv_give_to_crew(sv_call *call) {
  if (call->was_in_crew || call->body.n < SV_CREW_BYTES) return false;
  call->was_in_crew = true;
  call->task = (sv_task){.run = sv_run_in_crew, .bytes = call->body.n};
  MHD_suspend_connection(call->connection);
  if (!sv_crew_put(call->host->crew, &call->task, false)) { /* the server ends */
    (void)sv_refuse(&call->fail, 503, "shutting_down", NULL, "The server is shutting down.");
    call->was_in_crew = false;
    MHD_resume_connection(call->connection);
  }
  return true;
}

enum MHD_Result sv_on_request(void *cls, struct MHD_Connection *connection, const char *url, const char *method,
                              const char *version, const char *data, size_t *bytes, void **slot) {
  sv_server *s = cls;
  sv_call *call = *slot;
  (void)connection;
  if (!call) return MHD_NO; /* no memory */
  if (!call->has_begun) return sv_begin_call(call, method, url, version);
  if (*bytes) {
    const enum MHD_Result result = sv_take_body(call, data, *bytes);
    *bytes = 0;
    return result;
  }
  if (!call->is_active) {
    call->is_active = true;
    (void)atomic_fetch_add(&s->active, 1);
    if (call->link) sv_link_expect(call->link, 0.0);
    /* The library calls again at once. A connection that is suspended before it knows that the request is complete is
     * read when it is resumed, and closed if its client has closed its sending half. */
    return MHD_YES;
  }
  if (!call->fail.http && sv_give_to_crew(call)) return MHD_YES;
  if (call->fail.http && !call->was_in_crew) return sv_reply_fail(call);
  if (call->result == MHD_NO) return MHD_NO;
  return call->response ? sv_queue_reply(call) : sv_run_call(call);
}

static void sv_log_call(const sv_call *call, bool is_whole) {
  char line[512];
  char name[64] = "";
  if (!call->server->o.log || !call->has_begun) return;
  if (call->key) (void)snprintf(name, sizeof name, " key=\"%s\"", call->key->name);
  (void)snprintf(line, sizeof line, "%s %s %d%s prompt=%lld generated=%lld seconds=%.3f%s", call->method,
                 call->route ? call->route->path : "(no route)", call->http, is_whole ? "" : " disconnected",
                 (long long)call->n_prompt, (long long)call->n_generated, sv_seconds() - call->start, name);
  call->server->o.log(call->server->o.user, line);
}

static void sv_free_call(sv_task *task) {
  sv_call *call = (sv_call *)(void *)task;
  if (call->job) call->job_free(call->job);
  if (call->host->hooks) call->host->hooks->release(call);
  json_decref(call->json);
  if (call->response) MHD_destroy_response(call->response);
  sv_drop_body(call);
  free(call->target);
  free(call);
}

void sv_on_completed(void *cls, struct MHD_Connection *connection, void **slot, enum MHD_RequestTerminationCode code) {
  sv_server *s = cls;
  sv_call *call = *slot;
  (void)connection;
  if (!call) return;
  *slot = NULL;
  sv_log_call(call, code == MHD_REQUEST_TERMINATED_COMPLETED_OK);
  /* The next request may begin later: an idle connection is MHD's to close. */
  if (call->link) sv_link_expect(call->link, sv_patience(s) + (double)s->o.idle_seconds);
  if (call->is_active) (void)atomic_fetch_sub(&s->active, 1);
  call->task.run = sv_free_call;
  if (!call->was_in_crew || !sv_crew_put(s->crew, &call->task, true)) sv_free_call(&call->task);
}
