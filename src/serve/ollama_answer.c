/* Answers in the form of Ollama: one object, or an object a line (NDJSON). */
#include <string.h>

#include "serve/facts.h"
#include "serve/logprobs.h"
#include "serve/ollama.h"

static const sv_ollama *sv_oll_of(const sv_answer *a) { return a->state; }

static void sv_oll_put_head(sv_text *t, const sv_answer *a) {
  struct timespec now = {0};
  (void)clock_gettime(CLOCK_REALTIME, &now);
  sv_puts(t, "{\"model\":");
  sv_puts_json(t, a->model);
  sv_puts(t, ",\"created_at\":");
  sv_put_time(t, &now);
}

/* Writes calls whose arguments are objects. */
static void sv_oll_put_calls(sv_text *t, const sv_answer *a, const sv_content *m) {
  sv_puts(t, ",\"tool_calls\":[");
  for (size_t i = m->n_sent; i < m->n_calls; i++) {
    const sv_tool_call *call = &m->calls[i];
    sv_putf(t, "%s{\"id\":\"call_%.16s%02zx\",\"function\":{\"index\":%zu,\"name\":", i > m->n_sent ? "," : "",
            a->id + strcspn(a->id, "-") + 17, i, i);
    sv_puts_json(t, call->name);
    sv_puts(t, ",\"arguments\":");
    sv_put(t, call->arguments.n ? call->arguments.p : "{}", call->arguments.n ? call->arguments.n : 2);
    sv_puts(t, "}}");
    if (call->arguments.failed) t->failed = true;
  }
  sv_puts(t, "]");
}

static void sv_oll_put_text(sv_text *t, const char *key, const sv_text *text) {
  sv_putf(t, ",\"%s\":", key);
  sv_put_json(t, text->p ? text->p : "", text->n);
}

/* Writes what is new of an answer: as a message in chats, else as `response` and `thinking`. */
static void sv_oll_put_news(sv_text *t, const sv_answer *a) {
  sv_choice *c = a->n ? &a->choices[0] : NULL;
  const sv_text none = {0};
  const bool splits = a->request->is_chat;
  const sv_text *text = !c ? &none : splits ? &c->content.content : &c->text;
  const bool has_calls = c && splits && c->content.n_sent < c->content.n_calls;
  const bool thought = c && splits && c->content.reasoning.n;
  if (sv_oll_of(a)->is_chat) {
    sv_puts(t, ",\"message\":{\"role\":\"assistant\"");
    sv_oll_put_text(t, "content", text);
  } else {
    sv_oll_put_text(t, "response", text);
  }
  if (thought) sv_oll_put_text(t, "thinking", &c->content.reasoning);
  if (has_calls) sv_oll_put_calls(t, a, &c->content);
  if (sv_oll_of(a)->is_chat) sv_puts(t, "}");
  if (!c || c->params->logprobs < 0 || !c->tokens.n) return;
  sv_puts(t, ",\"logprobs\":[");
  sv_put_chat_tokens(t, c);
  sv_puts(t, "]");
}

static long long sv_oll_ns(double seconds) { return seconds > 0 ? (long long)(seconds * 1e9) : 0; }

static void sv_oll_put_end(sv_text *t, const sv_answer *a) {
  const sv_choice *c = &a->choices[0];
  ga_request_info info = GA_REQUEST_INFO_INIT;
  if (!c->request || ga_request_get_info(c->request, &info) != GA_OK) info = (ga_request_info)GA_REQUEST_INFO_INIT;
  sv_putf(t, ",\"done\":true,\"done_reason\":\"%s\"", *c->finish == 'l' ? "length" : "stop");
  sv_putf(t, ",\"total_duration\":%lld,\"load_duration\":0,\"prompt_eval_count\":%lld,\"prompt_eval_duration\":%lld",
          sv_oll_ns(info.total_seconds), (long long)a->prompt_tokens,
          sv_oll_ns(info.first_token_seconds - info.queue_seconds));
  sv_putf(t, ",\"eval_count\":%lld,\"eval_duration\":%lld}", (long long)c->n_generated,
          sv_oll_ns(info.total_seconds - info.first_token_seconds));
}

/* Writes the answer to a request that only loads or unloads the model. */
static void sv_oll_put_loaded(sv_text *t, const sv_answer *a) {
  sv_oll_put_head(t, a);
  sv_oll_put_news(t, a);
  sv_putf(t, ",\"done\":true,\"done_reason\":\"%s\"}", sv_oll_of(a)->unloads ? "unload" : "load");
}

/* Splits the text of a chat that has come since. */
static void sv_oll_split(sv_text *t, const sv_answer *a) {
  sv_choice *c = &a->choices[0];
  if (!a->request->is_chat) return;
  sv_content_push(&c->content, c->text.p, c->text.n);
  sv_text_drop(&c->text, c->text.n);
  if (c->ended) sv_content_finish(&c->content);
  if (c->content.failed || c->content.content.failed || c->content.reasoning.failed) t->failed = true;
}

void sv_ollama_put_whole(sv_text *t, sv_answer *a) {
  if (!a->n) {
    sv_oll_put_loaded(t, a);
    return;
  }
  sv_oll_split(t, a);
  sv_oll_put_head(t, a);
  sv_oll_put_news(t, a);
  sv_oll_put_end(t, a);
}

static void sv_oll_drop_sent(sv_choice *c, bool is_chat) {
  if (is_chat)
    sv_content_sent(&c->content);
  else
    sv_text_drop(&c->text, c->text.n);
  c->tokens.n = 0;
}

void sv_ollama_put_lines(sv_text *t, sv_answer *a) {
  sv_choice *c = &a->choices[0];
  if (!a->n) {
    sv_oll_put_loaded(t, a);
    sv_puts(t, "\n");
    return;
  }
  if (c->closed || (c->ended && c->status != GA_OK)) return;
  sv_oll_split(t, a);
  const bool is_chat = a->request->is_chat, has_news = is_chat ? sv_content_has_news(&c->content) : c->text.n > 0;
  if (has_news) {
    sv_oll_put_head(t, a);
    sv_oll_put_news(t, a);
    sv_puts(t, ",\"done\":false}\n");
    sv_oll_drop_sent(c, is_chat);
  }
  if (!c->ended) return;
  sv_oll_put_head(t, a);
  sv_oll_put_news(t, a);
  sv_oll_put_end(t, a);
  sv_puts(t, "\n");
  c->closed = true;
}

void sv_ollama_put_fail(sv_text *t, const sv_fail *f) {
  sv_puts(t, "{\"error\":");
  sv_puts_json(t, f->message);
  sv_puts(t, "}");
}
