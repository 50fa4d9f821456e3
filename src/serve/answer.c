#include "serve/answer.h"

#include <stdio.h>
#include <string.h>

#include "serve/logprobs.h"

static const char *const sv_objects[2][2] = {{"text_completion", "text_completion"},
                                             {"chat.completion", "chat.completion.chunk"}};

void sv_put_usage(sv_text *t, const sv_answer *a) {
  int64_t made = 0;
  for (size_t i = 0; i < a->n; i++) made += a->choices[i].n_generated;
  sv_putf(t,
          "{\"prompt_tokens\":%lld,\"completion_tokens\":%lld,\"total_tokens\":%lld,"
          "\"prompt_tokens_details\":{\"cached_tokens\":%lld}}",
          (long long)a->prompt_tokens, (long long)made, (long long)(a->prompt_tokens + made),
          (long long)a->cached_tokens);
}

static void sv_put_head(sv_text *t, const sv_answer *a, bool is_chunk) {
  sv_putf(t, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", a->id,
          sv_objects[a->request->is_chat][is_chunk], (long long)a->created);
  sv_puts_json(t, a->model);
  sv_puts(t, ",\"system_fingerprint\":null,\"choices\":[");
}

static const char *sv_finish_reason(const sv_choice *c) {
  return c->content.n_calls && *c->finish == 's' ? "tool_calls" : c->finish; /* an answer that is cut says "length" */
}

/* "finish_reason" and vLLM's "stop_reason": the stop string or the token id that ended it. */
static void sv_put_finish(sv_text *t, const sv_choice *c, bool is_last) {
  sv_puts(t, ",\"finish_reason\":");
  if (!is_last) {
    sv_puts(t, "null");
    return;
  }
  sv_puts_json(t, sv_finish_reason(c));
  sv_puts(t, ",\"stop_reason\":");
  if (c->stop_string >= 0)
    sv_put_json(t, c->params->stop[c->stop_string].data, c->params->stop[c->stop_string].bytes);
  else if (c->stop_id >= 0)
    sv_putf(t, "%d", c->stop_id);
  else
    sv_puts(t, "null");
}

static void sv_put_logprobs(sv_text *t, const sv_answer *a, const sv_choice *c, bool with_prompt) {
  sv_puts(t, ",\"logprobs\":");
  if (c->params->logprobs < 0)
    sv_puts(t, "null");
  else if (a->request->is_chat)
    sv_put_chat_logprobs(t, c);
  else
    sv_put_completion_logprobs(t, c, with_prompt);
}

static void sv_put_text(sv_text *t, const sv_text *text) { sv_put_json(t, text->p, text->n); }

/* --- whole answers --- */

/* vLLM has them in each choice of a completion, and once in a chat. */
static void sv_put_prompt(sv_text *t, const sv_choice *c) {
  if (c->params->prompt_logprobs < 0) return;
  sv_puts(t, ",\"prompt_logprobs\":");
  sv_put_prompt_logprobs(t, c);
}

/* What is new of a message, as the members of an object. An answer that only calls tools has no content. */
static void sv_put_message(sv_text *t, const sv_answer *a, const sv_choice *c, size_t index, bool is_chunk) {
  const sv_content *m = &c->content;
  const bool has_calls = m->n_sent < m->n_calls;
  char id[32];
  const char *comma = is_chunk ? "" : ",";
  if (m->failed || m->content.failed || m->reasoning.failed) t->failed = true;
  if (m->reasoning.n) {
    sv_putf(t, "%s\"reasoning_content\":", comma);
    sv_put_text(t, &m->reasoning);
    comma = ",";
  }
  if (m->content.n || (!is_chunk && !has_calls) || (is_chunk && !m->reasoning.n && !has_calls)) {
    sv_putf(t, "%s\"content\":", comma);
    sv_put_text(t, &m->content);
    comma = ",";
  } else if (!is_chunk) {
    sv_puts(t, ",\"content\":null");
  }
  if (!has_calls) return;
  (void)snprintf(id, sizeof id, "%.16s%02zx", a->id + strcspn(a->id, "-") + 17, index); /* the id's latter half */
  sv_putf(t, "%s\"tool_calls\":", comma);
  sv_put_tool_calls(t, m, id, is_chunk);
}

static void sv_put_whole_choice(sv_text *t, const sv_answer *a, sv_choice *c, size_t index) {
  sv_putf(t, "%s{\"index\":%zu,", index ? "," : "", index);
  if (a->request->is_chat) {
    sv_content_push(&c->content, c->text.p, c->text.n);
    sv_content_finish(&c->content);
    sv_puts(t, "\"message\":{\"role\":\"assistant\"");
    sv_put_message(t, a, c, index, false);
    sv_puts(t, "}");
  } else {
    sv_puts(t, "\"text\":");
    sv_put_text(t, &c->text);
  }
  sv_put_logprobs(t, a, c, a->request->echo);
  sv_put_finish(t, c, true);
  if (!a->request->is_chat) sv_put_prompt(t, c);
  sv_puts(t, "}");
}

void sv_put_answer(sv_text *t, sv_answer *a) {
  sv_put_head(t, a, false);
  for (size_t i = 0; i < a->n; i++) sv_put_whole_choice(t, a, &a->choices[i], i);
  sv_puts(t, "],\"usage\":");
  sv_put_usage(t, a);
  if (a->request->is_chat) sv_put_prompt(t, &a->choices[0]);
  sv_puts(t, "}");
}

/* --- chunks --- */

static void sv_begin_chunk(sv_text *t, const sv_answer *a, size_t index) {
  sv_puts(t, "data: ");
  sv_put_head(t, a, true);
  sv_putf(t, "{\"index\":%zu,", index);
}

static void sv_end_chunk(sv_text *t, const sv_answer *a) {
  sv_puts(t, a->request->p.include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n");
}

static void sv_put_role_chunk(sv_text *t, const sv_answer *a, size_t index) {
  sv_begin_chunk(t, a, index);
  sv_puts(t, "\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,\"finish_reason\":null");
  sv_end_chunk(t, a);
}

static void sv_put_content_chunk(sv_text *t, const sv_answer *a, sv_choice *c, size_t index) {
  sv_begin_chunk(t, a, index);
  sv_puts(t, "\"delta\":{");
  sv_put_message(t, a, c, index, true);
  sv_puts(t, "}");
  sv_put_logprobs(t, a, c, false);
  sv_puts(t, ",\"finish_reason\":null");
  sv_end_chunk(t, a);
  sv_content_sent(&c->content);
  c->tokens.n = 0;
}

static void sv_put_chat_chunks(sv_text *t, const sv_answer *a, sv_choice *c, size_t index) {
  if (!c->opened) sv_put_role_chunk(t, a, index);
  sv_content_push(&c->content, c->text.p, c->text.n);
  sv_text_drop(&c->text, c->text.n);
  if (c->ended) sv_content_finish(&c->content);
  if (c->content.failed) t->failed = true;
  /* Log-probabilities wait for the text of their tokens. */
  if (sv_content_has_news(&c->content) || (c->ended && c->tokens.n)) sv_put_content_chunk(t, a, c, index);
  if (!c->ended) return;
  sv_begin_chunk(t, a, index);
  sv_puts(t, "\"delta\":{},\"logprobs\":null");
  sv_put_finish(t, c, true);
  sv_end_chunk(t, a);
}

static void sv_put_text_chunk(sv_text *t, const sv_answer *a, sv_choice *c, size_t index) {
  sv_begin_chunk(t, a, index);
  sv_puts(t, "\"text\":");
  sv_put_text(t, &c->text);
  sv_put_logprobs(t, a, c, a->request->echo && !c->opened);
  sv_put_finish(t, c, c->ended);
  sv_end_chunk(t, a);
  sv_text_drop(&c->text, c->text.n);
  c->tokens.n = 0;
}

void sv_put_chunks(sv_text *t, const sv_answer *a, size_t index) {
  sv_choice *c = &a->choices[index];
  if (c->closed || (c->ended && c->status != GA_OK)) return;
  if (a->request->is_chat) {
    if (!c->ended && c->opened && !c->text.n) return;
    sv_put_chat_chunks(t, a, c, index);
  } else {
    /* An echoed prompt goes out with its log-probabilities, which come before the first token. */
    if (!c->ended && (!c->text.n || !c->n_generated)) return;
    sv_put_text_chunk(t, a, c, index);
  }
  c->opened = true;
  c->closed = c->ended;
}

void sv_put_done(sv_text *t, const sv_answer *a) {
  if (a->request->p.include_usage) {
    sv_puts(t, "data: ");
    sv_put_head(t, a, true);
    sv_puts(t, "],\"usage\":");
    sv_put_usage(t, a);
    sv_puts(t, "}\n\n");
  }
  sv_puts(t, "data: [DONE]\n\n");
}
