/* Requests, as their callers see them: made, polled, cancelled, let go of. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/status.h"
#include "engine/engine.h"
#include "engine/process.h"
#include "opdef/ops.h"

#define PENALTY_DEFAULT  64
#define MAX_STOP_IDS     1024
#define MAX_BIAS         65536
#define MAX_KEEP_SECONDS 86400.0

/* --- memory --- */

static void request_free(ga_request *r) {
  (void)pthread_mutex_destroy(&r->lock);
  (void)pthread_cond_destroy(&r->changed);
  ga_mem_free(r->queue.tokens);
  ga_mem_free(r->queue.top);
  ga_mem_free(r->bias);
  ga_mem_free(r->stop_ids);
  ga_mem_free(r->ids);
  ga_mem_free(r);
}

void request_release(ga_request *r) {
  if (atomic_fetch_sub(&r->holders, 1) == 1) request_free(r);
}

/* --- the queue --- */

/* Room for one more of `each` bytes behind n. */
static ga_status grow(void **list, int64_t n, int64_t more, int64_t *room, size_t each) {
  void *bigger;
  if (n + more <= *room) return GA_OK;
  const int64_t want = ga_max_i64(n + more, *room ? *room * 2 : 16);
  GA_TRY(ga_mem_zalloc((size_t)want, each, "tokens of a request", &bigger));
  if (n) memcpy(bigger, *list, (size_t)n * each);
  ga_mem_free(*list);
  *list = bigger;
  *room = want;
  return GA_OK;
}

static ga_status queue_push(request_queue *q, const request_token *token, const ga_token_logprob *top) {
  void *tokens = q->tokens, *tops = q->top;
  if (q->begin == q->end) q->begin = q->end = q->n_top = 0;
  ga_status status = grow(&tokens, q->end, 1, &q->room, sizeof *q->tokens);
  q->tokens = tokens;
  if (status == GA_OK) status = grow(&tops, q->n_top, token->n_top, &q->top_room, sizeof *q->top);
  q->top = tops;
  GA_TRY(status);
  q->tokens[q->end] = *token;
  q->tokens[q->end++].top = q->n_top;
  if (token->n_top) memcpy(q->top + q->n_top, top, (size_t)token->n_top * sizeof *top);
  q->n_top += token->n_top;
  return GA_OK;
}

ga_status request_push(ga_request *r, const request_token *token, const ga_token_logprob *top) {
  (void)pthread_mutex_lock(&r->lock);
  const ga_status status = queue_push(&r->queue, token, top);
  if (status == GA_OK) (void)atomic_fetch_add(&r->unread, 1);
  if (token->event == GA_REQUEST_TOKEN && status == GA_OK) {
    if (!r->info.n_generated) r->info.first_token_seconds = ga_seconds() - r->submitted;
    r->info.n_generated++;
  }
  (void)pthread_mutex_unlock(&r->lock);
  return status;
}

void request_tell(ga_request *r) {
  (void)pthread_mutex_lock(&r->lock);
  (void)pthread_cond_broadcast(&r->changed);
  if (r->notify) r->notify(r->user);
  (void)pthread_mutex_unlock(&r->lock);
}

void request_end(ga_request *r, ga_finish finish, ga_status status) {
  (void)pthread_mutex_lock(&r->lock);
  r->ended = true;
  r->engine = NULL;
  r->finish = finish;
  r->status = status;
  r->info.total_seconds = ga_seconds() - r->submitted;
  if (status != GA_OK) {
    strncpy(r->error, ga_error_text(), sizeof r->error - 1);
    r->error[sizeof r->error - 1] = 0;
  }
  (void)pthread_mutex_unlock(&r->lock);
  request_tell(r);
  request_release(r);
}

/* --- submitting --- */

/* Waits of so many seconds do not depend on the time of day. */
static void cond_init_monotonic(pthread_cond_t *cond) {
  pthread_condattr_t attributes;
  (void)pthread_condattr_init(&attributes);
  (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  (void)pthread_cond_init(cond, &attributes);
  (void)pthread_condattr_destroy(&attributes);
}

static ga_status check_reserved(const ga_request_options *o) {
  for (size_t i = 0; i < sizeof o->reserved; i++)
    GA_REQUIRE(o->reserved[i] == 0, GA_ERR_ARG, "submit: options.reserved[%zu] is %u; must be 0", i,
               (unsigned)o->reserved[i]);
  return GA_OK;
}

static ga_status check_numbers(const ga_request_options *o) {
  GA_REQUIRE(o->max_tokens >= -1, GA_ERR_ARG, "submit: max_tokens is %d; must be -1 (the context) or more",
             o->max_tokens);
  GA_REQUIRE(o->min_tokens >= 0, GA_ERR_ARG, "submit: min_tokens is %d; must be 0 or more", o->min_tokens);
  GA_REQUIRE(o->penalty_last >= -1, GA_ERR_ARG, "submit: penalty_last is %d; must be -1 (all) or more",
             o->penalty_last);
  GA_REQUIRE(o->n_bias >= 0 && o->n_bias <= MAX_BIAS && (o->bias || !o->n_bias), GA_ERR_ARG,
             "submit: n_bias is %d, bias is %s; at most %d", o->n_bias, o->bias ? "set" : "null", MAX_BIAS);
  GA_REQUIRE(o->n_stop_ids >= 0 && o->n_stop_ids <= MAX_STOP_IDS && (o->stop_ids || !o->n_stop_ids), GA_ERR_ARG,
             "submit: n_stop_ids is %d, stop_ids is %s; at most %d", o->n_stop_ids, o->stop_ids ? "set" : "null",
             MAX_STOP_IDS);
  GA_REQUIRE(o->logprobs >= -1 && o->logprobs <= GA_MAX_TOP_LOGPROBS, GA_ERR_ARG,
             "submit: logprobs is %d; must be -1 (none) to %d", o->logprobs, GA_MAX_TOP_LOGPROBS);
  GA_REQUIRE(o->first_token_deadline >= 0, GA_ERR_ARG, "submit: first_token_deadline is %g; must be 0 (none) or more",
             o->first_token_deadline);
  GA_REQUIRE(o->max_unread >= 0, GA_ERR_ARG, "submit: max_unread is %d; must be 0 (no limit) or more", o->max_unread);
  GA_REQUIRE(o->reserved_end == 0, GA_ERR_ARG, "submit: reserved_end is %d; must be 0", o->reserved_end);
  GA_REQUIRE(o->keep_seconds <= MAX_KEEP_SECONDS, GA_ERR_ARG, "submit: keep_seconds is %g; must be at most %g",
             o->keep_seconds, MAX_KEEP_SECONDS);
  return check_reserved(o);
}

static ga_status check_prompt(const ga_engine *e, const ga_request_options *o) {
  GA_REQUIRE(o->ids && o->n_ids >= 1, GA_ERR_ARG, "submit: ids is %s, n_ids is %d; must be at least 1",
             o->ids ? "set" : "null", o->n_ids);
  const int64_t new_tokens = o->max_tokens < 0 ? 1 : o->max_tokens;
  GA_REQUIRE(o->n_ids + new_tokens <= e->sizes.context, GA_ERR_SHAPE,
             "submit: a prompt of %d tokens and %lld new ones; the context holds %d", o->n_ids, (long long)new_tokens,
             e->sizes.context);
  for (int32_t i = 0; i < o->n_ids; i++)
    GA_REQUIRE(o->ids[i] >= 0 && o->ids[i] < e->model->hparams.vocab, GA_ERR_ARG,
               "submit: id %d at %d; must be 0 to %d", o->ids[i], i, e->model->hparams.vocab - 1);
  return GA_OK;
}

static ga_status copy_list(const void *from, int64_t n, int64_t room, size_t each, void **out) {
  *out = NULL;
  if (!room) return GA_OK;
  GA_TRY(ga_mem_zalloc((size_t)room, each, "request", out));
  if (n) memcpy(*out, from, (size_t)n * each);
  return GA_OK;
}

static ga_status copy_lists(const ga_engine *e, const ga_request_options *o, ga_request *r) {
  void *p;
  const int32_t bans = o->min_tokens ? e->n_eog + o->n_stop_ids : 0;
  GA_TRY(copy_list(o->ids, o->n_ids, r->sched.max_ids, sizeof *o->ids, &p));
  r->ids = p;
  GA_TRY(copy_list(o->stop_ids, o->n_stop_ids, o->n_stop_ids, sizeof *o->stop_ids, &p));
  r->stop_ids = p;
  GA_TRY(copy_list(o->bias, o->n_bias, o->n_bias + bans, sizeof *o->bias, &p));
  r->bias = p;
  r->n_bias = r->n_bias_all = o->n_bias;
  for (int32_t i = 0; i < bans; i++) {
    const int32_t id = i < e->n_eog ? e->eog[i] : o->stop_ids[i - e->n_eog];
    r->bias[r->n_bias_all++] = (ga_logit_bias){.id = id, .bias = -INFINITY};
  }
  return GA_OK;
}

/* Refuses biases that leave no token, min_tokens' ban of the ends of generation included. */
static ga_status check_bans(const ga_engine *e, const ga_request *r) {
  const int32_t vocab = e->n_vocab;
  int32_t banned = 0;
  void *p;
  if (r->n_bias_all < vocab) return GA_OK;
  GA_TRY(ga_mem_zalloc((size_t)vocab, sizeof(float), "biases", &p));
  float *sum = p;
  for (int32_t i = 0; i < r->n_bias_all; i++)
    if (r->bias[i].id >= 0 && r->bias[i].id < vocab) sum[r->bias[i].id] += r->bias[i].bias;
  for (int32_t i = 0; i < vocab; i++) banned += !(sum[i] > -INFINITY);
  ga_mem_free(sum);
  GA_REQUIRE(banned<vocab, GA_ERR_ARG, "submit: the %d biases%s ban every token of %d; one must be left", r->n_bias,
                    r->n_bias_all>
                     r->n_bias
                 ? " and min_tokens"
                 : "",
             vocab);
  return GA_OK;
}

/* Nobody who does not know the engine's secret can look for two salts with one key. Without a prefix cache each request
 * has a key of its own: its pages are kept for itself alone, should it be preempted. */
static uint64_t cache_key_of(const ga_engine *e, const ga_request_options *o, const ga_request *r) {
  ga_sha256 sha;
  char hex[65];
  ga_sha256_init(&sha);
  ga_sha256_update(&sha, e->cache_secret, sizeof e->cache_secret);
  ga_sha256_update(&sha, &o->tenant, sizeof o->tenant);
  if (e->options.flags & GA_ENGINE_NO_PREFIX_CACHE) {
    ga_sha256_update(&sha, &r, sizeof r);
    ga_sha256_update(&sha, &r->submitted, sizeof r->submitted);
  }
  if (o->cache_salt) ga_sha256_update(&sha, o->cache_salt, strlen(o->cache_salt));
  ga_sha256_hex(&sha, hex);
  hex[16] = 0;
  return strtoull(hex, NULL, 16);
}

static void fill_sched(const ga_engine *e, const ga_request_options *o, ga_request *r) {
  const int32_t room = e->sizes.context - o->n_ids;
  r->max_new = o->max_tokens < 0 ? room : o->max_tokens;
  r->sched = (sched_request){.n_prompt = o->n_ids,
                             .n_ids = o->n_ids,
                             .max_ids = o->n_ids + r->max_new,
                             .priority = o->priority,
                             .tenant = o->tenant,
                             .cache_key = cache_key_of(e, o, r),
                             .use_prefix = !o->prompt_logprobs && !(e->options.flags & GA_ENGINE_NO_PREFIX_CACHE),
                             .arrival = r->submitted,
                             .first_deadline = o->first_token_deadline > 0 ? r->submitted + o->first_token_deadline : 0,
                             .keep_seconds = e->options.flags & GA_ENGINE_NO_PREFIX_CACHE ? -1 : o->keep_seconds,
                             .user = r,
                             .n_cached = -1};
}

static ga_status request_fill(ga_engine *e, const ga_request_options *o, ga_request *r) {
  r->options = *o;
  r->submitted = ga_seconds();
  r->engine = e;
  r->process = e->process;
  r->notify = o->notify;
  r->user = o->user;
  r->drawn = GA_TOK_NONE;
  r->history = (draw_history)DRAW_HISTORY_INIT;
  r->sample = (ga_sample_desc)GA_SAMPLE_DESC_INIT;
  if (o->sample) GA_TRY(GA_SIZED_TAKE("submit: options.sample", ga_sample_desc, o->sample, &r->sample));
  const ga_sample_desc *d = &r->sample;
  const bool penalties = d->repetition_penalty != 1 || d->presence_penalty != 0 || d->frequency_penalty != 0;
  r->window = !penalties ? 0 : o->penalty_last < 0 ? INT32_MAX : o->penalty_last ? o->penalty_last : PENALTY_DEFAULT;
  r->sample.vocab = e->n_vocab;
  ga_sample_seed(r->rng, o->seed);
  r->info = (ga_request_info)GA_REQUEST_INFO_INIT;
  r->info.n_prompt = o->n_ids;
  fill_sched(e, o, r);
  GA_TRY(copy_lists(e, o, r));
  GA_TRY(check_bans(e, r));
  r->sched.ids = r->ids;
  r->options.ids = r->options.stop_ids = NULL;
  r->options.bias = NULL;
  r->options.sample = NULL;
  r->options.cache_salt = NULL;
  return runner_check_sample(e->runner, &r->sample);
}

/* Into the inbox, unless too many wait. */
static ga_status put_in_inbox(ga_engine *e, ga_request *r) {
  ga_status status = GA_OK;
  (void)pthread_mutex_lock(&e->lock);
  const ga_engine_stats *s = &e->stats;
  const int64_t waiting = (int64_t)s->waiting + e->n_inbox, free_now = s->max_sequences - s->running;
  if (s->failed || e->stop)
    status = ga_fail(GA_ERR_STATE, "submit: the engine has %s", s->failed ? e->failure : "ended");
  else if (waiting >= s->max_waiting + ga_max_i64(0, free_now))
    status =
        ga_fail(GA_ERR_BUSY, "submit: %lld requests wait already; at most %d may", (long long)waiting, s->max_waiting);
  e->stats.refused += status == GA_ERR_BUSY;
  if (status == GA_OK) {
    e->stats.submitted++;
    *e->inbox_end = r;
    e->inbox_end = &r->next;
    e->n_inbox++;
    (void)pthread_cond_signal(&e->wake);
  }
  (void)pthread_mutex_unlock(&e->lock);
  return status;
}

ga_status ga_engine_submit(ga_engine *e, const ga_request_options *options, ga_request **out) {
  ga_request_options o;
  void *p;
  GA_REQUIRE(e && options && out, GA_ERR_ARG, "submit: engine, options or out is null");
  *out = NULL;
  GA_TRY(engine_check_process(e->process, "submit"));
  GA_TRY(GA_SIZED_TAKE("submit: options", ga_request_options, options, &o));
  GA_TRY(check_numbers(&o));
  GA_TRY(check_prompt(e, &o));
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_request), "request", &p));
  ga_request *r = p;
  (void)pthread_mutex_init(&r->lock, NULL);
  cond_init_monotonic(&r->changed);
  atomic_init(&r->holders, 2);
  atomic_init(&r->cancelled, false);
  atomic_init(&r->unread, 0);
  ga_status status = request_fill(e, &o, r);
  if (status == GA_OK) status = put_in_inbox(e, r);
  if (status != GA_OK) {
    request_free(r);
    return status;
  }
  *out = r;
  return GA_OK;
}

/* --- polling --- */

/* Waits until there is something or the time is over; the lock is held. */
static void wait_for_event(ga_request *r, int32_t timeout_ms) {
  struct timespec until;
  (void)clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += timeout_ms / 1000;
  until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
  if (until.tv_nsec >= 1000000000) {
    until.tv_sec++;
    until.tv_nsec -= 1000000000;
  }
  while (r->queue.begin == r->queue.end && !r->ended) {
    if (timeout_ms < 0)
      (void)pthread_cond_wait(&r->changed, &r->lock);
    else if (pthread_cond_timedwait(&r->changed, &r->lock, &until))
      return;
  }
}

static void take_event(ga_request *r, ga_request_output *out) {
  request_queue *q = &r->queue;
  out->logprob = NAN;
  if (q->begin < q->end) {
    const request_token *t = &q->tokens[q->begin++];
    (void)atomic_fetch_sub(&r->unread, 1);
    out->event = t->event;
    out->id = t->id;
    out->logprob = t->logprob;
    out->n_top = t->n_top;
    if (t->n_top) memcpy(out->top, q->top + t->top, (size_t)t->n_top * sizeof *out->top);
  } else if (r->ended) {
    out->event = GA_REQUEST_END;
    out->finish = (int32_t)r->finish;
    out->status = (int32_t)r->status;
  }
}

ga_status ga_request_poll(ga_request *r, int32_t timeout_ms, ga_request_output *output) {
  GA_REQUIRE(r && output && timeout_ms >= -1, GA_ERR_ARG,
             "poll: request or output is null, or timeout_ms is %d; must be -1 or more", timeout_ms);
  GA_TRY(ga_sized_check_out("poll: output", output, ga_request_output_first));
  GA_TRY(engine_check_process(r->process, "poll"));
  ga_request_output made = GA_REQUEST_OUTPUT_INIT;
  (void)pthread_mutex_lock(&r->lock);
  if (timeout_ms) wait_for_event(r, timeout_ms);
  take_event(r, &made);
  (void)pthread_mutex_unlock(&r->lock);
  ga_sized_give(&made, sizeof made, output);
  return GA_OK;
}

const char *ga_request_error(const ga_request *r) { return r->error; }

ga_status ga_request_get_info(const ga_request *request, ga_request_info *info) {
  GA_REQUIRE(request && info, GA_ERR_ARG, "request info: request or info is null");
  GA_TRY(ga_sized_check_out("request info: info", info, ga_request_info_first));
  GA_TRY(engine_check_process(request->process, "request info"));
  ga_request *r = (ga_request *)(uintptr_t)request; /* its lock */
  (void)pthread_mutex_lock(&r->lock);
  ga_request_info made = r->info;
  if (!r->ended) made.total_seconds = ga_seconds() - r->submitted;
  (void)pthread_mutex_unlock(&r->lock);
  ga_sized_give(&made, sizeof made, info);
  return GA_OK;
}

/* --- the end --- */

void ga_request_cancel(ga_request *r) {
  if (!r || r->process != getpid()) return;
  atomic_store(&r->cancelled, true);
  (void)pthread_mutex_lock(&r->lock);
  ga_engine *e = r->engine;
  if (e) {
    (void)pthread_mutex_lock(&e->lock);
    e->has_cancelled = true;
    (void)pthread_cond_signal(&e->wake);
    (void)pthread_mutex_unlock(&e->lock);
  }
  (void)pthread_mutex_unlock(&r->lock);
}

void ga_request_destroy(ga_request *r) {
  if (!r || r->process != getpid()) return;
  (void)pthread_mutex_lock(&r->lock);
  r->notify = NULL;
  (void)pthread_mutex_unlock(&r->lock);
  ga_request_cancel(r);
  request_release(r);
}
