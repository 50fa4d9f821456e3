#include "serve/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "serve/prompts.h"

/* --- the end of a choice --- */

/* The longest answer of choice i's prompt, once all of them have ended. */
static void sv_observe_longest(sv_job *job, size_t i) {
  const size_t n = (size_t)job->request.p.n, first = i - i % n;
  int32_t most = 0;
  for (size_t k = first; k < first + n && k < job->answer.n; k++) {
    if (!job->counted[k]) return;
    if (job->answer.choices[k].n_generated > most) most = job->answer.choices[k].n_generated;
  }
  sv_observe(&job->server->host->metrics, SV_MAX_GENERATED, most, 1);
}

static void sv_observe_end(sv_job *job, size_t i) {
  const sv_choice *c = &job->answer.choices[i];
  sv_metrics *m = &job->server->host->metrics;
  ga_request_info info = GA_REQUEST_INFO_INIT;
  sv_count_finish(m, c->finish);
  sv_observe_longest(job, i);
  sv_observe(m, SV_GENERATED_TOKENS, c->n_generated, 1);
  sv_observe(m, SV_WHOLE, sv_seconds() - job->call->start, 1);
  if (!c->request || ga_request_get_info(c->request, &info) != GA_OK) return;
  sv_observe(m, SV_PROMPT_TOKENS, info.n_prompt, 1);
  if (i % (size_t)job->request.p.n == 0) job->answer.cached_tokens += info.n_cached; /* prompts count once */
  if (info.queue_seconds <= 0) return;                                               /* it has not run */
  sv_observe(m, SV_QUEUE, info.queue_seconds, 1);
  sv_observe(m, SV_INFERENCE, info.total_seconds - info.queue_seconds, 1);
  if (info.first_token_seconds <= 0) return; /* max_tokens 0 has none */
  sv_observe(m, SV_PREFILL, info.first_token_seconds - info.queue_seconds, 1);
  sv_observe(m, SV_DECODE, info.total_seconds - info.first_token_seconds, 1);
}

static void sv_observe_tokens(sv_job *job, size_t i, int32_t n) {
  sv_metrics *m = &job->server->host->metrics;
  const double now = sv_seconds();
  if (n <= 0) return;
  if (job->last[i] == 0.0) {
    sv_observe(m, SV_FIRST_TOKEN, now - job->call->start, 1);
    if (--n > 0) sv_observe(m, SV_INTER_TOKEN, 0.0, (uint64_t)n);
  } else {
    sv_observe(m, SV_INTER_TOKEN, (now - job->last[i]) / n, (uint64_t)n);
  }
  job->last[i] = now;
}

static void sv_job_fail(sv_job *job, const sv_choice *c) {
  if (job->fail.http) return;
  (void)sv_refuse_status(&job->fail, c->status, NULL, c->error);
  if (job->fail.http < 500) job->fail.http = 500; /* what was submitted was legal */
  for (size_t i = 0; i < job->answer.n; i++)
    if (job->answer.choices[i].request) ga_request_cancel(job->answer.choices[i].request);
}

bool sv_job_pump(sv_job *job) {
  bool all = true;
  for (size_t i = 0; i < job->answer.n; i++) {
    sv_choice *c = &job->answer.choices[i];
    if (!c->ended) {
      const int32_t n = sv_choice_pump(c);
      job->call->n_generated += n;
      sv_choice_check_time(c, sv_seconds());
      sv_observe_tokens(job, i, n);
    }
    all &= c->ended;
    if (!c->ended || job->counted[i]) continue;
    job->counted[i] = true;
    sv_observe_end(job, i);
    if (c->status != GA_OK) sv_job_fail(job, c);
  }
  return all || job->fail.http;
}

bool sv_job_has_begun(const sv_job *job) {
  for (size_t i = 0; i < job->answer.n; i++)
    if (job->answer.choices[i].n_generated || job->answer.choices[i].ended) return true;
  return false;
}

/* A whole answer is put together by the waking thread, so that the HTTP threads see it once, at its end. */
static bool sv_job_pump_waiter(sv_waiter *w) { return sv_job_pump((sv_job *)(void *)w); }

void sv_job_free(void *user) {
  sv_job *job = user;
  /* The requests go before the waiter: then nothing notifies any more. */
  for (size_t i = 0; i < job->answer.n; i++) {
    sv_choice *c = &job->answer.choices[i];
    if (c->request && !job->counted[i]) sv_count_finish(&job->server->host->metrics, "abort");
    sv_choice_free(c);
  }
  sv_waiter_remove(&job->w);
  if (job->answer.state) job->answer.state_free(job->answer.state);
  free(job->answer.choices);
  free(job->last);
  free(job->counted);
  sv_text_free(&job->out);
  sv_request_free(&job->request);
  free(job);
}

/* --- the beginning --- */

static uint64_t sv_seed_of(const sv_request *r) {
  uint64_t seed = (uint64_t)r->p.seed;
  if (r->p.seed != -1) return seed;
  if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) seed = (uint64_t)(sv_seconds() * 1e9);
  return seed;
}

/* Tokens of a stream that its client has not read, from which on it gives its place to requests that wait. */
enum { SV_MAX_UNREAD = 128 };

static int64_t sv_max_tokens_of(const sv_job *job, size_t n_prompt) {
  const int64_t most = job->request.p.max_tokens, room = job->server->context - (int64_t)n_prompt;
  return job->request.clips_length && most > room ? SV_NO_LIMIT : most;
}

static ga_request_options sv_options_of(const sv_job *job, const sv_ids *ids) {
  const sv_params *p = &job->request.p;
  ga_request_options o = GA_REQUEST_OPTIONS_INIT;
  o.ids = ids->p;
  o.n_ids = (int32_t)ids->n;
  o.max_tokens = (int32_t)sv_max_tokens_of(job, ids->n);
  o.min_tokens = (int32_t)p->min_tokens;
  o.priority = (int32_t)p->priority;
  o.sample = &p->sample;
  o.penalty_last = p->penalty_last;
  o.bias = p->bias;
  o.n_bias = p->n_bias;
  o.stop_ids = p->stop_ids;
  o.n_stop_ids = p->n_stop_ids;
  o.logprobs = (int32_t)(p->logprobs > p->prompt_logprobs ? p->logprobs : p->prompt_logprobs);
  o.prompt_logprobs = (job->request.echo && p->logprobs >= 0) || p->prompt_logprobs >= 0;
  o.ignore_eog = p->ignore_eos;
  o.tenant = job->call->key ? job->call->key->tenant : 0;
  o.cache_salt = p->cache_salt;
  o.keep_seconds = p->cache_ttl > 0 ? p->cache_ttl : p->cache_ttl < 0 ? 0 : -1;
  if (p->no_cache) { /* a salt that no other request has, and nobody comes back */
    o.cache_salt = job->answer.id;
    o.keep_seconds = -1;
  }
  o.max_unread = p->stream ? SV_MAX_UNREAD : 0; /* whole answers are polled by the server itself */
  o.first_token_deadline = job->server->o.first_token_seconds;
  o.notify = sv_waiter_notify;
  o.user = (void *)(uintptr_t)&job->w;
  return o;
}

static bool sv_refuse_submit(sv_job *job, ga_status status, sv_fail *fail) {
  if (status != GA_ERR_BUSY) return sv_refuse_status(fail, status, NULL, ga_error_text());
  sv_count_rejected(&job->server->host->metrics);
  return sv_refuse(fail, 429, "queue_full", NULL, "The server has too many requests waiting; try again later.");
}

static tool_format sv_tool_format_of(const sv_options *o, const sv_request *r) {
  return r->is_chat && json_object_get(r->context, "tools") ? o->tools : TOOL_FORMAT_NONE;
}

/* How the text of a chat is split. */
static bool sv_init_content(const sv_job *job, sv_choice *c, const sv_ids *ids, sv_fail *fail) {
  enum { TAIL = 16 }; /* ids at the end of a prompt that may open <think> */
  const sv_options *o = &job->server->o;
  const sv_request *r = &job->request;
  const size_t n = ids->n < TAIL ? ids->n : TAIL;
  sv_text tail = {0};
  if (!r->is_chat) return true;
  if (o->thinks && !sv_decode_ids(job->server, ids->p + ids->n - n, n, GA_DETOK_SPECIAL, &tail, fail)) return false;
  const bool is_inside = o->thinks && tail.n && reasoning_is_open(tail.p, tail.n);
  const ga_status status =
      sv_content_init(&c->content, sv_tool_format_of(o, r), o->thinks, is_inside, json_object_get(r->context, "tools"));
  sv_text_free(&tail);
  return status == GA_OK || sv_refuse_status(fail, status, NULL, ga_error_text());
}

/* Submits the n choices of one prompt. */
static bool sv_submit(sv_job *job, const sv_ids *ids, const ga_text *echo, uint64_t seed, sv_fail *fail) {
  ga_request_options o = sv_options_of(job, ids);
  for (int64_t i = 0; i < job->request.p.n; i++) {
    sv_choice *c = &job->answer.choices[job->answer.n];
    o.seed = seed + job->answer.n++;
    if (!sv_choice_init(c, &job->request.p, job->server->tok, echo, fail) || !sv_init_content(job, c, ids, fail))
      return false;
    const ga_status status = ga_engine_submit(job->server->engine, &o, &c->request);
    if (status != GA_OK) {
      c->request = NULL;
      return sv_refuse_submit(job, status, fail);
    }
  }
  sv_observe(&job->server->host->metrics, SV_MAX_TOKENS_ASKED,
             (double)(o.max_tokens < 0 ? job->server->context - o.n_ids : o.max_tokens), 1);
  sv_observe(&job->server->host->metrics, SV_N_ASKED, (double)job->request.p.n, 1);
  job->answer.prompt_tokens += o.n_ids;
  job->call->n_prompt += o.n_ids;
  return true;
}

/* The text of a prompt that is to stand before its answer. */
static bool sv_echo_text(const sv_job *job, const sv_prompt *prompt, const sv_ids *ids, sv_text *out, sv_fail *fail) {
  if (prompt->text) sv_put(out, prompt->text, prompt->bytes);
  if (prompt->text) return !out->failed || sv_refuse_nomem(fail);
  return sv_decode_ids(job->server, ids->p, ids->n, job->request.p.skip_special ? 0 : GA_DETOK_SPECIAL, out, fail);
}

/* A prompt without tokens begins with BOS, as in transformers; models without one refuse it. */
static bool sv_begin_text(const sv_server *s, sv_ids *ids, sv_fail *fail) {
  const int32_t bos = ga_tokenizer_special(s->tok, GA_TOK_BOS);
  if (bos < 0) return true;
  free(ids->p);
  ids->p = malloc(sizeof *ids->p);
  if (!ids->p) return sv_refuse_nomem(fail);
  ids->p[0] = bos;
  ids->n = 1;
  return true;
}

static bool sv_submit_prompt(sv_job *job, size_t i, uint64_t seed, sv_fail *fail) {
  const sv_request *r = &job->request;
  sv_prompt *prompt = r->is_chat ? NULL : &r->prompts[i];
  sv_ids ids = {0};
  sv_text text = {0};
  bool ok = !prompt      ? sv_encode_chat(job->server, r, &ids, fail)
            : r->has_gap ? sv_encode_gap(job->server, prompt, r, &ids, fail)
                         : sv_encode_prompt(job->server, prompt, &r->p, &ids, fail);
  if (ok && !ids.n) ok = sv_begin_text(job->server, &ids, fail);
  ok = ok && sv_fits_context(job->server, ids.n, sv_max_tokens_of(job, ids.n), prompt ? "prompt" : "messages", fail);
  if (ok && r->echo) ok = sv_echo_text(job, prompt, &ids, &text, fail);
  const ga_text echo = {text.p ? text.p : "", text.n};
  ok = ok && sv_submit(job, &ids, r->echo ? &echo : NULL, seed, fail);
  free(ids.p);
  sv_text_free(&text);
  return ok;
}

static bool sv_job_begin(sv_job *job, sv_fail *fail) {
  sv_request *r = &job->request;
  const size_t prompts = r->is_chat ? 1 : r->n_prompts, choices = prompts * (size_t)r->p.n;
  sv_answer *a = &job->answer;
  const uint64_t seed = sv_seed_of(r);
  if (!sv_is_model(job->server, r->model, fail)) return false;
  /* The markers of tool calls are control tokens in some vocabularies. */
  if (sv_tool_format_of(&job->server->o, r) != TOOL_FORMAT_NONE) r->p.skip_special = false;
  if (r->has_gap && !sv_add_gap_stops(job->server, &r->p, fail)) return false;
  a->request = r;
  a->model = job->server->o.model_id;
  a->created = (int64_t)time(NULL);
  sv_new_id(job->server, job->form->id_prefix, a->id);
  a->choices = calloc(choices + 1, sizeof *a->choices);
  job->last = calloc(choices + 1, sizeof *job->last);
  job->counted = calloc(choices + 1, sizeof *job->counted);
  if (!a->choices || !job->last || !job->counted) return sv_refuse_nomem(fail);
  job->w.pump = r->p.stream ? NULL : sv_job_pump_waiter;
  job->w.pings = r->p.stream && job->server->o.first_token_seconds <= 0;
  for (size_t i = 0; i < prompts; i++)
    if (!sv_submit_prompt(job, i, seed, fail)) return false;
  return true;
}

/* Sets parameters that the request does not have to the values of the model's profile. */
static void sv_apply_profile(sv_job *job) {
  const sv_profile *profile = &job->server->o.profile;
  const sv_defaults *defaults = &profile->defaults;
  sv_request *r = &job->request;
  if (job->form->defaults == SV_DEFAULTS_NONE) return;
  if (job->form->defaults == SV_DEFAULTS_ALL || defaults->is_own) sv_apply_defaults(r->body, defaults, &r->p);
  if (defaults->max_tokens > 0 && !r->p.has_max_tokens) {
    r->p.max_tokens = defaults->max_tokens;
    r->clips_length = true;
  }
  for (size_t i = 0; !sv_field(r->body, "stop") && i < profile->n_stop; i++)
    r->p.stop[r->p.n_stop++] = (ga_text){profile->stop[i], strlen(profile->stop[i])};
}

sv_job *sv_job_create(sv_call *call, const sv_form *form) {
  sv_server *s = call->server;
  if (!sv_is_ready(s, &call->fail)) return NULL;
  if (!s->engine) {
    (void)sv_refuse(&call->fail, 400, "not_a_generating_model", "model",
                    "%s makes embeddings, no text; use /v1/embeddings.", s->o.model_id);
    return NULL;
  }
  if (!sv_has_room(s, &call->fail)) return NULL;
  json_t *body = sv_call_json(call);
  if (!body) return NULL;
  sv_job *job = calloc(1, sizeof *job);
  if (!job) {
    json_decref(body);
    (void)sv_refuse_nomem(&call->fail);
    return NULL;
  }
  job->server = s;
  job->call = call;
  job->form = form;
  job->w.connection = call->connection;
  job->w.fd = sv_call_fd(call);
  sv_waiter_add(s->wake, &job->w);
  bool ok = form->read(job, body, &call->fail);
  if (ok) sv_apply_profile(job);
  ok = ok && sv_job_begin(job, &call->fail);
  if (ok) return job;
  sv_job_free(job);
  return NULL;
}
