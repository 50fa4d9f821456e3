/* Answers of POST /v1/responses, whole and as events. */
#include <stdlib.h>
#include <string.h>

#include "serve/logprobs.h"
#include "serve/responses.h"

static sv_response *sv_rsp_of(const sv_answer *a) { return a->state; }

/* Writes an id: the hex digits of the response's own id, and a number. */
static void sv_rsp_put_id(sv_text *t, const sv_answer *a, const char *prefix, size_t index) {
  sv_putf(t, "\"%s_%.32s%04zx\"", prefix, a->id + strcspn(a->id, "_") + 1, index);
}

static const char *sv_rsp_prefix(const char *type) { return *type == 'm' ? "msg" : "rs"; }

/* --- items --- */

/* Writes the one part of a message or of reasoning. */
static void sv_rsp_put_part(sv_text *t, const char *type, const sv_text *text, const sv_text *logprobs) {
  const bool is_message = *type == 'm';
  sv_putf(t, "{\"type\":\"%s\",\"text\":", is_message ? "output_text" : "reasoning_text");
  sv_put_json(t, text && text->p ? text->p : "", text ? text->n : 0);
  if (is_message) {
    sv_puts(t, ",\"annotations\":[],\"logprobs\":[");
    if (logprobs && logprobs->n) sv_put(t, logprobs->p, logprobs->n);
    sv_puts(t, "]");
  }
  sv_puts(t, "}");
}

/* Writes the open item. status: "in_progress" for one without its part, else that of a complete item. */
static void sv_rsp_put_item(sv_text *t, const sv_answer *a, const char *status) {
  const sv_response *r = sv_rsp_of(a);
  const bool is_message = *r->open == 'm', has_part = strcmp(status, "in_progress") != 0;
  sv_puts(t, "{\"id\":");
  sv_rsp_put_id(t, a, sv_rsp_prefix(r->open), r->n_items);
  sv_putf(t, ",\"type\":\"%s\",\"status\":\"%s\"", r->open, status);
  sv_puts(t, is_message ? ",\"role\":\"assistant\",\"content\":[" : ",\"summary\":[],\"content\":[");
  if (has_part) sv_rsp_put_part(t, r->open, &r->text, &r->logprobs);
  sv_puts(t, "]}");
}

static void sv_rsp_put_arguments(sv_text *t, const sv_tool_call *call) {
  const char *p = call->arguments.n ? call->arguments.p : "{}";
  sv_put_json(t, p, call->arguments.n ? call->arguments.n : 2);
  if (call->arguments.failed) t->failed = true;
}

static void sv_rsp_put_call(sv_text *t, const sv_answer *a, const sv_tool_call *call, bool is_complete) {
  const sv_response *r = sv_rsp_of(a);
  sv_puts(t, "{\"id\":");
  sv_rsp_put_id(t, a, "fc", r->n_items);
  sv_putf(t, ",\"type\":\"function_call\",\"status\":\"%s\",\"call_id\":", is_complete ? "completed" : "in_progress");
  sv_rsp_put_id(t, a, "call", r->n_items);
  sv_puts(t, ",\"name\":");
  sv_puts_json(t, call->name);
  sv_puts(t, ",\"arguments\":");
  if (is_complete)
    sv_rsp_put_arguments(t, call);
  else
    sv_puts(t, "\"\"");
  sv_puts(t, "}");
}

/* --- the response --- */

static int64_t sv_rsp_reasoning_tokens(const sv_answer *a) {
  const sv_response *r = sv_rsp_of(a);
  size_t n = 0;
  if (!r->reasoning.n) return 0;
  const ga_status status = ga_tokenize(a->choices[0].tok, r->reasoning.p, r->reasoning.n, 0, NULL, 0, &n);
  return status == GA_OK || status == GA_ERR_SHAPE ? (int64_t)n : 0;
}

static void sv_rsp_put_usage(sv_text *t, const sv_answer *a) {
  const int64_t made = a->choices[0].n_generated, reasoning = sv_rsp_reasoning_tokens(a);
  sv_putf(t,
          "{\"input_tokens\":%lld,\"input_tokens_details\":{\"cached_tokens\":%lld},\"output_tokens\":%lld,"
          "\"output_tokens_details\":{\"reasoning_tokens\":%lld},\"total_tokens\":%lld}",
          (long long)a->prompt_tokens, (long long)a->cached_tokens, (long long)made,
          (long long)(reasoning < made ? reasoning : made), (long long)(a->prompt_tokens + made));
}

/* Writes the response as it is now. fail: the reason of a failure; NULL = none. */
static void sv_rsp_put_response(sv_text *t, const sv_answer *a, const char *status, const sv_fail *fail) {
  const sv_response *r = sv_rsp_of(a);
  const bool has_ended = !strcmp(status, "completed") || !strcmp(status, "incomplete");
  sv_putf(t, "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\",\"error\":", a->id,
          (long long)a->created, status);
  if (fail) {
    sv_puts(t, "{\"code\":\"server_error\",\"message\":");
    sv_puts_json(t, fail->message);
    sv_puts(t, "}");
  } else {
    sv_puts(t, "null");
  }
  sv_putf(t, ",\"incomplete_details\":%s,\"model\":",
          strcmp(status, "incomplete") ? "null" : "{\"reason\":\"max_output_tokens\"}");
  sv_puts_json(t, a->model);
  sv_puts(t, ",\"output\":[");
  if (r->items.n) sv_put(t, r->items.p, r->items.n);
  sv_puts(t, "],\"usage\":");
  if (has_ended)
    sv_rsp_put_usage(t, a);
  else
    sv_puts(t, "null");
  sv_puts(t, ",\"temperature\":");
  sv_put_number(t, (double)a->request->p.sample.temperature);
  sv_puts(t, ",\"top_p\":");
  sv_put_number(t, (double)a->request->p.sample.top_p);
  sv_putf(t, ",%s}", r->fields);
  if (r->items.failed || r->text.failed || r->logprobs.failed || r->reasoning.failed) t->failed = true;
}

/* --- events --- */

static void sv_rsp_begin(sv_text *t, sv_answer *a, const char *type) {
  sv_putf(t, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%llu", type, type,
          (unsigned long long)sv_rsp_of(a)->sequence++);
}

static void sv_rsp_end(sv_text *t) { sv_puts(t, "}\n\n"); }

static void sv_rsp_put_state(sv_text *t, sv_answer *a, const char *type, const char *status, const sv_fail *fail) {
  sv_rsp_begin(t, a, type);
  sv_puts(t, ",\"response\":");
  sv_rsp_put_response(t, a, status, fail);
  sv_rsp_end(t);
}

/* Begins an event about the open item and its part. */
static void sv_rsp_begin_part(sv_text *t, sv_answer *a, const char *type) {
  const sv_response *r = sv_rsp_of(a);
  sv_rsp_begin(t, a, type);
  sv_puts(t, ",\"item_id\":");
  sv_rsp_put_id(t, a, sv_rsp_prefix(r->open), r->n_items);
  sv_putf(t, ",\"output_index\":%zu,\"content_index\":0", r->n_items);
}

static void sv_rsp_open(sv_text *t, sv_answer *a, const char *type) {
  sv_response *r = sv_rsp_of(a);
  r->open = type;
  sv_rsp_begin(t, a, "response.output_item.added");
  sv_putf(t, ",\"output_index\":%zu,\"item\":", r->n_items);
  sv_rsp_put_item(t, a, "in_progress");
  sv_rsp_end(t);
  sv_rsp_begin_part(t, a, "response.content_part.added");
  sv_puts(t, ",\"part\":");
  sv_rsp_put_part(t, type, NULL, NULL);
  sv_rsp_end(t);
}

static void sv_rsp_close_events(sv_text *t, sv_answer *a, const char *status) {
  const sv_response *r = sv_rsp_of(a);
  const bool is_message = *r->open == 'm';
  sv_rsp_begin_part(t, a, is_message ? "response.output_text.done" : "response.reasoning_text.done");
  sv_puts(t, ",\"text\":");
  sv_put_json(t, r->text.p ? r->text.p : "", r->text.n);
  if (is_message) {
    sv_puts(t, ",\"logprobs\":[");
    if (r->logprobs.n) sv_put(t, r->logprobs.p, r->logprobs.n);
    sv_puts(t, "]");
  }
  sv_rsp_end(t);
  sv_rsp_begin_part(t, a, "response.content_part.done");
  sv_puts(t, ",\"part\":");
  sv_rsp_put_part(t, r->open, &r->text, &r->logprobs);
  sv_rsp_end(t);
  sv_rsp_begin(t, a, "response.output_item.done");
  sv_putf(t, ",\"output_index\":%zu,\"item\":", r->n_items);
  sv_rsp_put_item(t, a, status);
  sv_rsp_end(t);
}

static void sv_rsp_close(sv_text *t, sv_answer *a, const char *status) {
  sv_response *r = sv_rsp_of(a);
  if (!r->open) return;
  sv_rsp_close_events(t, a, status);
  if (r->n_items) sv_puts(&r->items, ",");
  sv_rsp_put_item(&r->items, a, status);
  r->n_items++;
  r->open = NULL;
  sv_text_drop(&r->text, r->text.n);
  sv_text_drop(&r->logprobs, r->logprobs.n);
}

/* Writes the log-probabilities of the tokens that were not sent. They count to the message that is open. */
static void sv_rsp_take_logprobs(sv_text *t, sv_answer *a) {
  sv_response *r = sv_rsp_of(a);
  sv_choice *c = &a->choices[0];
  sv_text list = {0};
  sv_puts(t, ",\"logprobs\":[");
  if (c->params->logprobs >= 0 && c->tokens.n) {
    sv_put_chat_tokens(&list, c);
    if (r->logprobs.n) sv_puts(&r->logprobs, ",");
    sv_put(&r->logprobs, list.p, list.n);
    sv_put(t, list.p, list.n);
    t->failed |= list.failed;
  }
  c->tokens.n = 0;
  sv_text_free(&list);
  sv_puts(t, "]");
}

/* type: "message" or "reasoning", static. */
static void sv_rsp_put_delta(sv_text *t, sv_answer *a, const char *type, const sv_text *text) {
  sv_response *r = sv_rsp_of(a);
  const bool is_message = *type == 'm';
  if (!text->n) return;
  if (r->open && strcmp(r->open, type) != 0) sv_rsp_close(t, a, "completed");
  if (!r->open) sv_rsp_open(t, a, type);
  sv_put(&r->text, text->p, text->n);
  if (!is_message) sv_put(&r->reasoning, text->p, text->n);
  sv_rsp_begin_part(t, a, is_message ? "response.output_text.delta" : "response.reasoning_text.delta");
  sv_puts(t, ",\"delta\":");
  sv_put_json(t, text->p, text->n);
  if (is_message)
    sv_rsp_take_logprobs(t, a);
  else
    a->choices[0].tokens.n = 0;
  sv_rsp_end(t);
}

static void sv_rsp_begin_call(sv_text *t, sv_answer *a, const char *type) {
  const sv_response *r = sv_rsp_of(a);
  sv_rsp_begin(t, a, type);
  sv_puts(t, ",\"item_id\":");
  sv_rsp_put_id(t, a, "fc", r->n_items);
  sv_putf(t, ",\"output_index\":%zu", r->n_items);
}

static void sv_rsp_put_function(sv_text *t, sv_answer *a, const sv_tool_call *call) {
  sv_response *r = sv_rsp_of(a);
  sv_rsp_close(t, a, "completed");
  sv_rsp_begin(t, a, "response.output_item.added");
  sv_putf(t, ",\"output_index\":%zu,\"item\":", r->n_items);
  sv_rsp_put_call(t, a, call, false);
  sv_rsp_end(t);
  sv_rsp_begin_call(t, a, "response.function_call_arguments.delta");
  sv_puts(t, ",\"delta\":");
  sv_rsp_put_arguments(t, call);
  sv_rsp_end(t);
  sv_rsp_begin_call(t, a, "response.function_call_arguments.done");
  sv_puts(t, ",\"name\":");
  sv_puts_json(t, call->name);
  sv_puts(t, ",\"arguments\":");
  sv_rsp_put_arguments(t, call);
  sv_rsp_end(t);
  sv_rsp_begin(t, a, "response.output_item.done");
  sv_putf(t, ",\"output_index\":%zu,\"item\":", r->n_items);
  sv_rsp_put_call(t, a, call, true);
  sv_rsp_end(t);
  if (r->n_items) sv_puts(&r->items, ",");
  sv_rsp_put_call(&r->items, a, call, true);
  r->n_items++;
}

static const char *sv_rsp_status(const sv_choice *c) { return *c->finish == 's' ? "completed" : "incomplete"; }

/* Writes the events of what is new, but for the first and the last. */
static void sv_rsp_put_news(sv_text *t, sv_answer *a) {
  sv_choice *c = &a->choices[0];
  sv_content *m = &c->content;
  sv_content_push(m, c->text.p, c->text.n);
  sv_text_drop(&c->text, c->text.n);
  if (c->ended) sv_content_finish(m);
  if (m->failed || m->content.failed || m->reasoning.failed) t->failed = true;
  sv_rsp_put_delta(t, a, "reasoning", &m->reasoning);
  sv_rsp_put_delta(t, a, "message", &m->content);
  for (size_t i = m->n_sent; i < m->n_calls; i++) sv_rsp_put_function(t, a, &m->calls[i]);
  sv_content_sent(m);
  if (c->ended) sv_rsp_close(t, a, sv_rsp_status(c));
}

/* --- the end --- */

/* Copies a text between brackets. NULL: no memory. */
static char *sv_rsp_array(const sv_text *items) {
  sv_text t = {0};
  sv_puts(&t, "[");
  if (items->n) sv_put(&t, items->p, items->n);
  sv_puts(&t, "]");
  if (!t.failed && !items->failed) return t.p;
  sv_text_free(&t);
  return NULL;
}

/* Keeps a complete response. False: no memory. */
static bool sv_rsp_keep(const sv_answer *a, const sv_text *response) {
  sv_response *r = sv_rsp_of(a);
  if (!r->stores) return true;
  sv_turn *turn = calloc(1, sizeof *turn);
  sv_text whole = {0};
  sv_put(&whole, response->p ? response->p : "", response->n);
  char *input = sv_response_dump_input(r, a->id), *output = sv_rsp_array(&r->items);
  if (!turn || !input || !output || response->failed || whole.failed) {
    free(turn);
    free(input);
    free(output);
    sv_text_free(&whole);
    return false;
  }
  *turn =
      (sv_turn){.tenant = r->tenant, .input = input, .output = output, .response = whole.p, .previous = r->previous};
  memcpy(turn->id, a->id, sizeof turn->id);
  r->previous = NULL;
  sv_turns_add(r->turns, turn);
  return true;
}

void sv_response_put_whole(sv_text *t, sv_answer *a) {
  sv_text events = {0}, response = {0};
  sv_rsp_put_news(&events, a);
  sv_rsp_put_response(&response, a, sv_rsp_status(&a->choices[0]), NULL);
  if (!sv_rsp_keep(a, &response) || events.failed) response.failed = true;
  sv_put(t, response.p, response.n);
  t->failed |= response.failed;
  sv_text_free(&events);
  sv_text_free(&response);
}

static void sv_rsp_put_first(sv_text *t, sv_answer *a) {
  sv_rsp_put_state(t, a, "response.created", "in_progress", NULL);
  sv_rsp_put_state(t, a, "response.in_progress", "in_progress", NULL);
  a->choices[0].opened = true;
}

void sv_response_put_events(sv_text *t, sv_answer *a) {
  sv_choice *c = &a->choices[0];
  if (c->closed || (c->ended && c->status != GA_OK)) return;
  if (!c->opened) sv_rsp_put_first(t, a);
  sv_rsp_put_news(t, a);
  if (!c->ended) return;
  sv_text response = {0};
  const char *status = sv_rsp_status(c);
  sv_rsp_put_response(&response, a, status, NULL);
  if (!sv_rsp_keep(a, &response)) response.failed = true;
  sv_rsp_begin(t, a, *status == 'c' ? "response.completed" : "response.incomplete");
  sv_puts(t, ",\"response\":");
  sv_put(t, response.p, response.n);
  sv_rsp_end(t);
  t->failed |= response.failed;
  sv_text_free(&response);
  c->closed = true;
}

void sv_response_put_failed(sv_text *t, sv_answer *a, const sv_fail *fail) {
  if (!a->choices[0].opened) sv_rsp_put_first(t, a);
  sv_rsp_close(t, a, "incomplete");
  sv_rsp_put_state(t, a, "response.failed", "failed", fail);
}
