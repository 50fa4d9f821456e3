#include "serve/choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool sv_choice_init(sv_choice *c, const sv_params *params, const ga_tokenizer *tok, const ga_text *echo,
                    sv_fail *fail) {
  const uint32_t special = params->skip_special ? 0 : GA_DETOK_SPECIAL;
  *c = (sv_choice){.params = params, .tok = tok, .stop_id = -1, .stop_string = -1};
  c->stops = (sv_stops){.stop = params->stop, .n = params->n_stop, .include = params->include_stop};
  ga_status status = ga_detok_create(tok, special | GA_DETOK_CONTINUE, &c->detok);
  if (status == GA_OK && echo) status = ga_detok_create(tok, special, &c->prompt_detok);
  if (status != GA_OK) return sv_refuse_status(fail, status, NULL, ga_error_text());
  if (echo) {
    c->echo = true;
    sv_put(&c->text, echo->data, echo->bytes);
    c->chars = sv_utf8_count(echo->data, echo->bytes);
    if (c->text.failed) return sv_refuse_nomem(fail);
  }
  return true;
}

void sv_choice_free(sv_choice *c) {
  ga_request_destroy(c->request);
  ga_detok_destroy(c->detok);
  ga_detok_destroy(c->prompt_detok);
  sv_stops_free(&c->stops);
  sv_content_free(&c->content);
  sv_text_free(&c->text);
  free(c->tokens.p);
  free(c->prompt.p);
}

static void sv_choice_end(sv_choice *c, const char *finish) {
  c->ended = true;
  c->finish = finish;
}

static void sv_choice_break(sv_choice *c, ga_status status, const char *text) {
  c->status = status;
  (void)snprintf(c->error, sizeof c->error, "%s", text && *text ? text : ga_status_name(status));
  sv_choice_end(c, "error");
}

static bool sv_keep_token(sv_tokens *list, const ga_request_output *o, size_t offset) {
  if (list->n == list->capacity) {
    const size_t capacity = list->capacity ? list->capacity * 2 : 16;
    void *p = realloc(list->p, capacity * sizeof *list->p);
    if (!p) return false;
    list->p = p;
    list->capacity = capacity;
  }
  sv_token *t = &list->p[list->n++];
  *t = (sv_token){.id = o->id, .logprob = o->logprob, .n_top = o->n_top, .offset = offset};
  if (t->n_top > GA_MAX_TOP_LOGPROBS) t->n_top = GA_MAX_TOP_LOGPROBS;
  memcpy(t->top, o->top, (size_t)t->n_top * sizeof *t->top);
  return true;
}

static void sv_take_prompt(sv_choice *c, const ga_request_output *o) {
  ga_text piece = {0};
  if (!sv_keep_token(&c->prompt, o, c->prompt_chars)) {
    sv_choice_break(c, GA_ERR_NOMEM, "no memory for log-probabilities");
    return;
  }
  if (c->prompt_detok && ga_detok_push(c->prompt_detok, o->id, &piece) == GA_OK)
    c->prompt_chars += sv_utf8_count(piece.data, piece.bytes);
}

/* The tokens that end a request say nothing: vLLM leaves their text out as well. */
static bool sv_ends_request(const sv_choice *c, int32_t id) {
  for (int32_t i = 0; i < c->params->n_stop_ids; i++)
    if (c->params->stop_ids[i] == id) return true;
  return !c->params->ignore_eos && ga_tokenizer_is_eog(c->tok, id);
}

/* Ends the answer in front of a line that is indented too little, as llama-server does it: also of an empty one. */
static void sv_check_indent(sv_choice *c) {
  for (;;) {
    size_t at = c->line_at;
    if (!c->is_later_line) {
      const char *end = at < c->text.n ? memchr(c->text.p + at, '\n', c->text.n - at) : NULL;
      c->line_at = end ? (size_t)(end - c->text.p) + 1 : c->text.n;
      if (!end) return;
      c->is_later_line = true;
      continue;
    }
    while (at < c->text.n && (c->text.p[at] == ' ' || c->text.p[at] == '\t')) at++;
    if (at == c->text.n) return; /* not known yet */
    if ((int64_t)(at - c->line_at) < c->params->n_indent) break;
    c->is_later_line = false;
    c->line_at = at;
  }
  const size_t kept = c->line_at - 1; /* without the line end */
  c->chars -= sv_utf8_count(c->text.p + kept, c->text.n - kept);
  c->text.n = kept;
  c->text.p[kept] = 0;
  if (c->request) ga_request_cancel(c->request);
  sv_choice_end(c, "length");
}

static void sv_add_text(sv_choice *c, const char *p, size_t n) {
  const size_t before = c->text.n;
  /* Before min_tokens a stop string is text like any other. */
  if (c->n_generated < c->params->min_tokens) {
    sv_stops_flush(&c->stops, &c->text);
    sv_put(&c->text, p, n);
  } else {
    c->stop_string = sv_stops_push(&c->stops, p, n, &c->text);
  }
  if (c->text.failed) {
    sv_choice_break(c, GA_ERR_NOMEM, "no memory for the text");
    return;
  }
  c->chars += sv_utf8_count(c->text.p + before, c->text.n - before);
  if (c->text.n > before && memchr(c->text.p + before, '\n', c->text.n - before)) c->has_new_line = true;
  if (c->stop_string < 0 && c->params->n_indent > 0 && !c->ended) sv_check_indent(c);
  if (c->stop_string < 0 || c->ended) return;
  if (c->request) ga_request_cancel(c->request);
  sv_choice_end(c, "stop");
}

static void sv_take_token(sv_choice *c, const ga_request_output *o) {
  ga_text piece = {0};
  c->n_generated++;
  const bool keep = c->params->logprobs >= 0 || c->params->return_ids;
  if (keep && !sv_keep_token(&c->tokens, o, c->chars)) {
    sv_choice_break(c, GA_ERR_NOMEM, "no memory for log-probabilities");
    return;
  }
  if (sv_ends_request(c, o->id)) {
    if (!ga_tokenizer_is_eog(c->tok, o->id)) c->stop_id = o->id;
    return;
  }
  if (ga_detok_push(c->detok, o->id, &piece) == GA_OK) sv_add_text(c, piece.data, piece.bytes);
}

static void sv_take_end(sv_choice *c, const ga_request_output *o) {
  if (o->status != GA_OK) {
    sv_choice_break(c, (ga_status)o->status, c->request ? ga_request_error(c->request) : "");
    return;
  }
  const ga_text rest = ga_detok_flush(c->detok);
  sv_add_text(c, rest.data, rest.bytes);
  if (c->ended) return; /* by a stop string */
  const size_t before = c->text.n;
  sv_stops_flush(&c->stops, &c->text);
  c->chars += sv_utf8_count(c->text.p + before, c->text.n - before);
  sv_choice_end(c, o->finish == GA_FINISH_EOG ? "stop" : o->finish == GA_FINISH_STOPPED ? "abort" : "length");
  if (o->finish != GA_FINISH_EOG) c->stop_id = -1;
}

void sv_choice_take(sv_choice *c, const ga_request_output *o) {
  switch (o->event) {
  case GA_REQUEST_PROMPT: sv_take_prompt(c, o); break;
  case GA_REQUEST_TOKEN: sv_take_token(c, o); break;
  case GA_REQUEST_END: sv_take_end(c, o); break;
  default: break;
  }
}

int32_t sv_choice_pump(sv_choice *c) {
  const int32_t before = c->n_generated;
  ga_request_output o = GA_REQUEST_OUTPUT_INIT;
  while (!c->ended) {
    const ga_status status = ga_request_poll(c->request, 0, &o);
    if (status != GA_OK)
      sv_choice_break(c, status, ga_error_text());
    else if (o.event == GA_REQUEST_PENDING)
      break;
    else
      sv_choice_take(c, &o);
  }
  return c->n_generated - before;
}

void sv_choice_check_time(sv_choice *c, double now) {
  const double most = c->params->predict_seconds;
  if (c->n_generated && c->first_token == 0) c->first_token = now;
  if (c->ended || most <= 0 || !c->has_new_line || now - c->first_token <= most) return;
  if (c->request) ga_request_cancel(c->request);
  sv_choice_end(c, "length");
}
