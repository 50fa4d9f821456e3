/* Answers of llama-server's /completion. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "serve/logprobs.h"
#include "serve/native.h"
#include "text/json_io.h"

/* --- settings --- */

static void sv_put_member(sv_text *t, const char *key, double value) {
  sv_putf(t, ",\"%s\":", key);
  sv_put_number(t, value);
}

void sv_native_put_settings(sv_text *t, const sv_params *p) {
  const ga_sample_desc *s = &p->sample;
  sv_putf(t, "{\"n_predict\":%lld,\"seed\":%lld,\"top_k\":%d", (long long)p->max_tokens, (long long)p->seed, s->top_k);
  sv_put_member(t, "temperature", (double)s->temperature);
  sv_put_member(t, "top_p", (double)s->top_p);
  sv_put_member(t, "min_p", (double)s->min_p);
  sv_put_member(t, "typical_p", (double)s->typical_p);
  sv_put_member(t, "repeat_penalty", (double)s->repetition_penalty);
  sv_put_member(t, "presence_penalty", (double)s->presence_penalty);
  sv_put_member(t, "frequency_penalty", (double)s->frequency_penalty);
  sv_putf(t, ",\"repeat_last_n\":%d,\"ignore_eos\":%s,\"stream\":%s,\"n_probs\":%lld,\"stop\":[", p->penalty_last,
          p->ignore_eos ? "true" : "false", p->stream ? "true" : "false",
          (long long)(p->logprobs > 0 ? p->logprobs : 0));
  for (size_t i = 0; i < p->n_stop; i++) {
    if (i) sv_puts(t, ",");
    sv_put_json(t, p->stop[i].data, p->stop[i].bytes);
  }
  /* What is not there is off. */
  sv_puts(t, "],\"mirostat\":0,\"dry_multiplier\":0,\"xtc_probability\":0,\"dynatemp_range\":0,\"top_n_sigma\":-1,"
             "\"adaptive_target\":-1,\"min_keep\":0,\"logit_bias\":[");
  for (int32_t i = 0; i < p->n_bias; i++) {
    sv_putf(t, "%s{\"token\":%d,\"bias\":", i ? "," : "", p->bias[i].id);
    if (isinf(p->bias[i].bias))
      sv_puts(t, "false"); /* as requests say it */
    else
      sv_put_number(t, (double)p->bias[i].bias);
    sv_puts(t, "}");
  }
  sv_puts(t, "]}");
}

/* --- parts of an answer --- */

static void sv_put_new_ids(sv_text *t, const sv_choice *c) {
  sv_puts(t, ",\"tokens\":[");
  for (size_t i = 0; c->params->return_ids && i < c->tokens.n; i++) sv_putf(t, "%s%d", i ? "," : "", c->tokens.p[i].id);
  sv_puts(t, "]");
}

static void sv_put_probabilities(sv_text *t, const sv_choice *c) {
  if (c->params->logprobs < 0) return;
  sv_puts(t, ",\"completion_probabilities\":");
  sv_put_native_logprobs(t, c);
}

static ga_request_info sv_info_of(const sv_choice *c) {
  ga_request_info info = GA_REQUEST_INFO_INIT;
  if (c->request && ga_request_get_info(c->request, &info) == GA_OK) return info;
  return (ga_request_info)GA_REQUEST_INFO_INIT;
}

/* Times in ms, as the engine has them. */
static void sv_put_timings(sv_text *t, const sv_choice *c, const ga_request_info *info) {
  const double prompt = 1e3 * (info->first_token_seconds - info->queue_seconds);
  const double made = 1e3 * (info->total_seconds - info->first_token_seconds);
  const int32_t read = info->n_prompt - info->n_cached;
  sv_putf(t, ",\"timings\":{\"cache_n\":%d,\"prompt_n\":%d,\"predicted_n\":%d", info->n_cached, read, c->n_generated);
  sv_put_member(t, "prompt_ms", prompt > 0 ? prompt : 0);
  sv_put_member(t, "prompt_per_second", prompt > 0 ? 1e3 * read / prompt : 0);
  sv_put_member(t, "predicted_ms", made > 0 ? made : 0);
  sv_put_member(t, "predicted_per_second", made > 0 ? 1e3 * c->n_generated / made : 0);
  sv_puts(t, "}");
}

static const char *sv_stop_type(const sv_choice *c) {
  return c->stop_string >= 0 ? "word" : *c->finish == 'l' ? "limit" : *c->finish == 's' ? "eos" : "none";
}

/* The context was full before the limit was reached. */
static bool sv_is_truncated(const sv_choice *c) {
  const int64_t most = c->params->max_tokens;
  return *c->finish == 'l' && (most == SV_NO_LIMIT || c->n_generated < most);
}

static void sv_put_prompt_text(sv_text *t, const sv_answer *a, size_t index) {
  const sv_prompt *prompt = &a->request->prompts[index / (size_t)a->request->p.n];
  sv_puts(t, ",\"prompt\":");
  if (prompt->text)
    sv_put_json(t, prompt->text, prompt->bytes);
  else
    sv_puts(t, "null");
}

/* What a whole answer and the last event have. */
static void sv_put_end(sv_text *t, const sv_answer *a, const sv_choice *c, size_t index) {
  const ga_request_info info = sv_info_of(c);
  sv_puts(t, ",\"model\":");
  sv_puts_json(t, a->model);
  sv_putf(t, ",\"tokens_predicted\":%d,\"tokens_evaluated\":%d,\"tokens_cached\":%d,\"generation_settings\":",
          c->n_generated, info.n_prompt, info.n_cached);
  sv_native_put_settings(t, c->params);
  sv_put_prompt_text(t, a, index);
  sv_putf(t, ",\"has_new_line\":%s,\"truncated\":%s,\"stop_type\":\"%s\",\"stopping_word\":",
          c->has_new_line ? "true" : "false", sv_is_truncated(c) ? "true" : "false", sv_stop_type(c));
  if (c->stop_string >= 0)
    sv_put_json(t, c->params->stop[c->stop_string].data, c->params->stop[c->stop_string].bytes);
  else
    sv_puts(t, "\"\"");
  sv_put_timings(t, c, &info);
}

static void sv_put_part(sv_text *t, const sv_answer *a, sv_choice *c, size_t index, bool is_end) {
  sv_putf(t, "{\"index\":%zu,\"content\":", index);
  sv_put_json(t, c->text.p, c->text.n);
  sv_put_new_ids(t, c);
  sv_putf(t, ",\"stop\":%s", is_end ? "true" : "false");
  if (is_end) sv_put_end(t, a, c, index);
  if (!is_end && c->params->timings_per_token) {
    const ga_request_info info = sv_info_of(c);
    sv_put_timings(t, c, &info);
  }
  sv_put_probabilities(t, c);
  sv_puts(t, "}");
}

/* --- whole answers --- */

/* "a/b" is b within a; what is not there is left out. False: no memory. */
static bool sv_pick(json_t *to, const json_t *from, const char *path) {
  const char *at = path, *slash;
  const json_t *v = from;
  while (v && (slash = strchr(at, '/'))) {
    v = json_object_getn(v, at, (size_t)(slash - at));
    at = slash + 1;
  }
  v = json_object_get(v, at);
  return !v || !json_object_set(to, path, (json_t *)(uintptr_t)v);
}

static void sv_put_picked(sv_text *t, const sv_text *whole, const json_t *fields) {
  json_t *from = ga_json_load(whole->p ? whole->p : "", whole->n, GA_JSON_PYTHON, NULL), *to = json_object(), *name;
  size_t i;
  json_array_foreach(fields, i, name) {
    if (json_is_string(name) && !sv_pick(to, from, json_string_value(name))) t->failed = true;
  }
  char *text = ga_json_dump(to, JSON_COMPACT);
  if (from && text)
    sv_puts(t, text);
  else
    t->failed = true;
  free(text);
  json_decref(from);
  json_decref(to);
}

/* The part that ends a choice, of it what response_fields asks for. */
static void sv_put_last(sv_text *t, const sv_answer *a, sv_choice *c, size_t index) {
  const json_t *fields = sv_field(a->request->body, "response_fields");
  sv_text whole = {0};
  sv_put_part(&whole, a, c, index, true);
  if (json_array_size(fields))
    sv_put_picked(t, &whole, fields);
  else
    sv_put(t, whole.p, whole.n);
  t->failed |= whole.failed;
  sv_text_free(&whole);
}

void sv_native_put_answer(sv_text *t, sv_answer *a) {
  if (a->n > 1) sv_puts(t, "[");
  for (size_t i = 0; i < a->n; i++) {
    if (i) sv_puts(t, ",");
    sv_put_last(t, a, &a->choices[i], i);
  }
  if (a->n > 1) sv_puts(t, "]");
}

/* --- events --- */

static void sv_put_event(sv_text *t, const sv_answer *a, sv_choice *c, size_t index, bool is_end) {
  sv_puts(t, "data: ");
  if (is_end)
    sv_put_last(t, a, c, index);
  else
    sv_put_part(t, a, c, index, false);
  sv_puts(t, "\n\n");
  sv_text_drop(&c->text, c->text.n);
  c->tokens.n = 0;
}

/* The last event has no text: clients add up the others. */
void sv_native_put_events(sv_text *t, sv_answer *a) {
  for (size_t i = 0; i < a->n; i++) {
    sv_choice *c = &a->choices[i];
    if (c->closed || (c->ended && c->status != GA_OK)) continue;
    if (c->text.n && c->n_generated) sv_put_event(t, a, c, i, false);
    if (!c->ended) continue;
    sv_put_event(t, a, c, i, true);
    c->closed = true;
  }
}
