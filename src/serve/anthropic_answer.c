/* Answers of POST /v1/messages, whole and as events. */
#include <string.h>

#include "serve/anthropic.h"

static const char *sv_ant_stop_reason(const sv_choice *c) {
  if (!strcmp(c->finish, "length")) return "max_tokens";
  if (c->stop_string >= 0) return "stop_sequence";
  return c->content.n_calls ? "tool_use" : "end_turn";
}

static void sv_ant_put_stop(sv_text *t, const sv_choice *c) {
  sv_putf(t, "\"stop_reason\":\"%s\",\"stop_sequence\":", sv_ant_stop_reason(c));
  if (c->stop_string >= 0)
    sv_put_json(t, c->params->stop[c->stop_string].data, c->params->stop[c->stop_string].bytes);
  else
    sv_puts(t, "null");
}

/* input_tokens are those that were not cached: so the three add up to the prompt. */
static void sv_ant_put_usage(sv_text *t, const sv_answer *a) {
  const sv_choice *c = &a->choices[0];
  ga_request_info info = GA_REQUEST_INFO_INIT;
  const bool known = c->request && ga_request_get_info(c->request, &info) == GA_OK;
  const long long cached = known ? (long long)info.n_cached : 0;
  sv_putf(t,
          "\"usage\":{\"input_tokens\":%lld,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":%lld,"
          "\"output_tokens\":%lld}",
          (long long)a->prompt_tokens - cached, cached, (long long)c->n_generated);
}

static void sv_ant_put_head(sv_text *t, const sv_answer *a) {
  sv_putf(t, "\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":", a->id);
  sv_puts_json(t, a->model);
}

/* The latter half of the answer's id is its own; the call's number stands behind it. */
static void sv_ant_put_use(sv_text *t, const sv_answer *a, size_t i) {
  const sv_tool_call *call = &a->choices[0].content.calls[i];
  sv_putf(t, "{\"type\":\"tool_use\",\"id\":\"toolu_%.16s%02zx\",\"name\":", a->id + strcspn(a->id, "_") + 17, i);
  sv_puts_json(t, call->name);
  if (call->arguments.failed) t->failed = true;
}

/* The arguments are one JSON object. */
static void sv_ant_put_input(sv_text *t, const sv_text *arguments, bool as_text) {
  const char *p = arguments->n ? arguments->p : "{}";
  const size_t n = arguments->n ? arguments->n : 2;
  if (as_text)
    sv_put_json(t, p, n);
  else
    sv_put(t, p, n);
}

static void sv_ant_note_failure(sv_text *t, const sv_content *m) {
  if (m->failed || m->content.failed || m->reasoning.failed) t->failed = true;
}

/* --- whole --- */

void sv_ant_put_message(sv_text *t, sv_answer *a) {
  sv_choice *c = &a->choices[0];
  sv_content *m = &c->content;
  const char *comma = "";
  sv_content_push(m, c->text.p, c->text.n);
  sv_content_finish(m);
  sv_ant_note_failure(t, m);
  sv_puts(t, "{");
  sv_ant_put_head(t, a);
  sv_puts(t, ",\"content\":[");
  if (m->reasoning.n) {
    sv_puts(t, "{\"type\":\"thinking\",\"thinking\":");
    sv_put_json(t, m->reasoning.p, m->reasoning.n);
    sv_puts(t, ",\"signature\":\"\"}");
    comma = ",";
  }
  if (m->content.n) {
    sv_putf(t, "%s{\"type\":\"text\",\"text\":", comma);
    sv_put_json(t, m->content.p, m->content.n);
    sv_puts(t, "}");
    comma = ",";
  }
  for (size_t i = 0; i < m->n_calls; i++, comma = ",") {
    sv_puts(t, comma);
    sv_ant_put_use(t, a, i);
    sv_puts(t, ",\"input\":");
    sv_ant_put_input(t, &m->calls[i].arguments, false);
    sv_puts(t, "}");
  }
  sv_puts(t, "],");
  sv_ant_put_stop(t, c);
  sv_puts(t, ",");
  sv_ant_put_usage(t, a);
  sv_puts(t, "}");
}

/* --- events --- */

static void sv_ant_begin_event(sv_text *t, const char *name) {
  sv_putf(t, "event: %s\ndata: {\"type\":\"%s\"", name, name);
}

static void sv_ant_put_start(sv_text *t, const sv_answer *a) {
  sv_ant_begin_event(t, "message_start");
  sv_puts(t, ",\"message\":{");
  sv_ant_put_head(t, a);
  sv_puts(t, ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,");
  sv_ant_put_usage(t, a);
  sv_puts(t, "}}\n\n");
}

static void sv_ant_close_block(sv_text *t, sv_answer *a) {
  if (!a->block) return;
  sv_ant_begin_event(t, "content_block_stop");
  sv_putf(t, ",\"index\":%zu}\n\n", a->n_blocks++);
  a->block = NULL;
}

/* type: "text" or "thinking", static. */
static void sv_ant_put_delta(sv_text *t, sv_answer *a, const char *type, const sv_text *text) {
  if (!text->n) return;
  if (!a->block || strcmp(a->block, type) != 0) {
    sv_ant_close_block(t, a);
    a->block = type;
    sv_ant_begin_event(t, "content_block_start");
    sv_putf(t, ",\"index\":%zu,\"content_block\":{\"type\":\"%s\",\"%s\":\"\"%s}}\n\n", a->n_blocks, type, type,
            *type == 't' && type[1] == 'h' ? ",\"signature\":\"\"" : "");
  }
  sv_ant_begin_event(t, "content_block_delta");
  sv_putf(t, ",\"index\":%zu,\"delta\":{\"type\":\"%s_delta\",\"%s\":", a->n_blocks, type, type);
  sv_put_json(t, text->p, text->n);
  sv_puts(t, "}}\n\n");
}

static void sv_ant_put_call(sv_text *t, sv_answer *a, size_t i) {
  sv_ant_close_block(t, a);
  a->block = "tool_use";
  sv_ant_begin_event(t, "content_block_start");
  sv_putf(t, ",\"index\":%zu,\"content_block\":", a->n_blocks);
  sv_ant_put_use(t, a, i);
  sv_puts(t, ",\"input\":{}}}\n\n");
  sv_ant_begin_event(t, "content_block_delta");
  sv_putf(t, ",\"index\":%zu,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":", a->n_blocks);
  sv_ant_put_input(t, &a->choices[0].content.calls[i].arguments, true);
  sv_puts(t, "}}\n\n");
  sv_ant_close_block(t, a);
}

static void sv_ant_put_end(sv_text *t, sv_answer *a) {
  sv_ant_close_block(t, a);
  sv_ant_begin_event(t, "message_delta");
  sv_puts(t, ",\"delta\":{");
  sv_ant_put_stop(t, &a->choices[0]);
  sv_puts(t, "},");
  sv_ant_put_usage(t, a);
  sv_puts(t, "}\n\n");
  sv_ant_begin_event(t, "message_stop");
  sv_puts(t, "}\n\n");
}

void sv_ant_put_events(sv_text *t, sv_answer *a) {
  sv_choice *c = &a->choices[0];
  sv_content *m = &c->content;
  if (c->closed || (c->ended && c->status != GA_OK) || (!c->ended && !c->n_generated)) return;
  if (!c->opened) sv_ant_put_start(t, a);
  c->opened = true;
  sv_content_push(m, c->text.p, c->text.n);
  sv_text_drop(&c->text, c->text.n);
  if (c->ended) sv_content_finish(m);
  sv_ant_note_failure(t, m);
  sv_ant_put_delta(t, a, "thinking", &m->reasoning);
  sv_ant_put_delta(t, a, "text", &m->content);
  for (size_t i = m->n_sent; i < m->n_calls; i++) sv_ant_put_call(t, a, i);
  sv_content_sent(m);
  if (c->ended) sv_ant_put_end(t, a);
  c->closed = c->ended;
}

/* Clients expect no event before message_start; a comment is none. */
void sv_ant_put_ping(sv_text *t, const sv_answer *a) {
  sv_puts(t, a->choices[0].opened ? "event: ping\ndata: {\"type\":\"ping\"}\n\n" : ": ping\n\n");
}

static const char *sv_ant_fail_type(int http) {
  switch (http) {
  case 401: return "authentication_error";
  case 403: return "permission_error";
  case 404: return "not_found_error";
  case 413: return "request_too_large";
  case 429: return "rate_limit_error";
  case 503: return "overloaded_error";
  default: return http < 500 ? "invalid_request_error" : "api_error";
  }
}

void sv_ant_put_fail(sv_text *t, const sv_fail *f) {
  sv_putf(t, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":", sv_ant_fail_type(f->http));
  sv_puts_json(t, f->message);
  sv_puts(t, "}}");
}
