/* Routes of kept responses, and the form of POST /v1/responses. */
#include <stdlib.h>
#include <string.h>

#include "serve/form.h"
#include "serve/job.h"
#include "serve/prompts.h"
#include "serve/responses.h"
#include "text/json_io.h"

static uint64_t sv_tenant_of(const sv_call *call) { return call->key ? call->key->tenant : 0; }

/* --- POST /v1/responses --- */

static sv_response *sv_new_response(const sv_call *call, sv_fail *fail) {
  sv_response *r = calloc(1, sizeof *r);
  if (!r) {
    (void)sv_refuse_nomem(fail);
    return NULL;
  }
  r->turns = call->server->turns;
  r->tenant = sv_tenant_of(call);
  return r;
}

static bool sv_read_response(sv_job *job, json_t *body, sv_fail *fail) {
  sv_response *r = sv_new_response(job->call, fail);
  if (!r) {
    json_decref(body);
    return false;
  }
  job->answer.state = r;
  job->answer.state_free = sv_response_free;
  return sv_response_translate(body, r, &body, fail) && sv_request_chat(body, job->server->vocab, &job->request, fail);
}

static void sv_put_response_ping(sv_text *t, const sv_answer *a) {
  (void)a;
  sv_puts(t, ": ping\n\n");
}

const sv_form sv_form_response = {.id_prefix = "resp_",
                                  .stream_type = "text/event-stream; charset=utf-8",
                                  .read = sv_read_response,
                                  .put_whole = sv_response_put_whole,
                                  .put_news = sv_response_put_events,
                                  .put_ping = sv_put_response_ping,
                                  .put_error = sv_response_put_failed};

enum MHD_Result sv_run_response_tokens(sv_call *call) {
  const sv_server *s = call->server;
  sv_ids ids = {0};
  sv_text t = {0};
  sv_request request = {0};
  json_t *body = sv_is_ready(call->server, &call->fail) ? sv_call_json(call) : NULL;
  sv_response *r = body ? sv_new_response(call, &call->fail) : NULL;
  if (body && !r) json_decref(body);
  const bool ok = r && sv_response_translate(body, r, &body, &call->fail) &&
                  sv_request_chat(body, s->vocab, &request, &call->fail) &&
                  sv_is_model(s, request.model, &call->fail) && sv_encode_chat(s, &request, &ids, &call->fail);
  if (ok) sv_putf(&t, "{\"object\":\"response.input_tokens\",\"input_tokens\":%zu}", ids.n);
  free(ids.p);
  sv_request_free(&request);
  sv_response_free(r);
  return ok ? sv_reply_json(call, &t) : sv_reply_fail(call);
}

/* --- kept responses --- */

/* Splits the path after the route's into an id and the rest. False: the path has no such response or no such rest. */
static bool sv_split_path(sv_call *call, const char *wanted, char id[SV_TURN_ID]) {
  const char *at = call->url + strlen(call->route->path), *slash = strchr(at, '/');
  const size_t n = slash ? (size_t)(slash - at) : strlen(at);
  if (strcmp(slash ? slash : "", wanted) != 0)
    return sv_refuse(&call->fail, 404, "not_found", NULL, "There is no %.100s here; the nearest path is /v1/responses.",
                     call->url);
  *id = 0;
  if (n < SV_TURN_ID) {
    memcpy(id, at, n);
    id[n] = 0;
  }
  return true;
}

static sv_turn *sv_find_turn(sv_call *call, const char *id) {
  sv_turn *turn = call->server->turns ? sv_turns_find(call->server->turns, id, sv_tenant_of(call)) : NULL;
  if (!turn)
    (void)sv_refuse(&call->fail, 404, "response_not_found", "response_id", "Response with id '%s' not found.", id);
  return turn;
}

static const char *sv_argument(const sv_call *call, const char *name) {
  return MHD_lookup_connection_value(call->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* Lists a part of the items: OpenAI's pages go backwards unless `order` says otherwise. */
static bool sv_list_items(const sv_call *call, json_t *items, sv_text *t, sv_fail *fail) {
  const char *order = sv_argument(call, "order"), *after = sv_argument(call, "after"),
             *limit = sv_argument(call, "limit");
  char *end = NULL;
  const long most = limit ? strtol(limit, &end, 10) : 20;
  if (limit && (!*limit || *end || most < 1 || most > 100))
    return sv_refuse(fail, 400, NULL, "limit", "limit is \"%.20s\"; it must be a whole number from 1 to 100.", limit);
  if (order && strcmp(order, "asc") && strcmp(order, "desc"))
    return sv_refuse(fail, 400, NULL, "order", "order is \"%.20s\"; it must be \"asc\" or \"desc\".", order);
  const bool is_rising = order && *order == 'a';
  const size_t n = json_array_size(items);
  size_t from = 0, put = 0;
  const char *first = "", *last = "";
  for (size_t i = 0; after && i < n; i++) {
    const char *id = json_string_value(json_object_get(json_array_get(items, is_rising ? i : n - 1 - i), "id"));
    if (id && !strcmp(id, after)) from = i + 1;
  }
  if (after && !from) return sv_refuse(fail, 400, NULL, "after", "after is \"%.60s\", which is no item.", after);
  sv_puts(t, "{\"object\":\"list\",\"data\":[");
  for (size_t i = from; i < n && put < (size_t)most; i++, put++) {
    const json_t *item = json_array_get(items, is_rising ? i : n - 1 - i);
    char *text = ga_json_dump(item, JSON_COMPACT | GA_JSON_FINITE);
    const char *id = json_string_value(json_object_get(item, "id"));
    if (put) sv_puts(t, ",");
    if (text) sv_puts(t, text);
    t->failed |= !text;
    free(text);
    if (!put) first = id ? id : "";
    last = id ? id : "";
  }
  sv_puts(t, "],\"first_id\":");
  sv_puts_json(t, first);
  sv_puts(t, ",\"last_id\":");
  sv_puts_json(t, last);
  sv_putf(t, ",\"has_more\":%s}", from + put < n ? "true" : "false");
  return true;
}

static enum MHD_Result sv_run_input_items(sv_call *call) {
  char id[SV_TURN_ID];
  sv_text t = {0};
  if (!sv_split_path(call, "/input_items", id)) return sv_reply_fail(call);
  sv_turn *turn = sv_find_turn(call, id);
  json_t *items = turn ? ga_json_load(turn->input, strlen(turn->input), GA_JSON_PYTHON, NULL) : NULL;
  if (turn && !items) (void)sv_refuse_nomem(&call->fail);
  const bool ok = items && sv_list_items(call, items, &t, &call->fail);
  json_decref(items);
  if (turn) sv_turn_release(call->server->turns, turn);
  return ok ? sv_reply_json(call, &t) : sv_reply_fail(call);
}

enum MHD_Result sv_run_get_response(sv_call *call) {
  char id[SV_TURN_ID];
  sv_text t = {0};
  const char *streams = sv_argument(call, "stream");
  if (strchr(call->url + strlen(call->route->path), '/')) return sv_run_input_items(call);
  if (streams && strcmp(streams, "true") == 0) {
    (void)sv_refuse(&call->fail, 400, "unsupported_parameter", "stream",
                    "stream is true; it must be false: a kept response is sent whole.");
    return sv_reply_fail(call);
  }
  sv_turn *turn = sv_split_path(call, "", id) ? sv_find_turn(call, id) : NULL;
  if (!turn) return sv_reply_fail(call);
  sv_puts(&t, turn->response);
  sv_turn_release(call->server->turns, turn);
  return sv_reply_json(call, &t);
}

enum MHD_Result sv_run_delete_response(sv_call *call) {
  char id[SV_TURN_ID];
  sv_text t = {0};
  if (!sv_split_path(call, "", id)) return sv_reply_fail(call);
  if (!call->server->turns || !sv_turns_remove(call->server->turns, id, sv_tenant_of(call))) {
    (void)sv_refuse(&call->fail, 404, "response_not_found", "response_id", "Response with id '%s' not found.", id);
    return sv_reply_fail(call);
  }
  sv_puts(&t, "{\"id\":");
  sv_puts_json(&t, id);
  sv_puts(&t, ",\"object\":\"response\",\"deleted\":true}");
  return sv_reply_json(call, &t);
}

enum MHD_Result sv_run_post_response(sv_call *call) {
  char id[SV_TURN_ID];
  sv_turn *turn = sv_split_path(call, "/cancel", id) ? sv_find_turn(call, id) : NULL;
  if (turn)
    (void)sv_refuse(&call->fail, 400, NULL, NULL,
                    "Response '%s' was not made in the background, so it cannot be cancelled: close its connection.",
                    id);
  if (turn) sv_turn_release(call->server->turns, turn);
  return sv_reply_fail(call);
}
