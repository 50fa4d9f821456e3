#include "engine/engine.h"
#include "engine/process.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/status.h"

/* --- live requests, on the engine's thread --- */

/* Steps with rows for the host are taken before the next one is enqueued: halves would take twice as long. */
static void count_shown(ga_engine *e, const ga_request *r, int32_t n) {
  if (r->options.logprobs < 0 && !r->options.prompt_logprobs) return;
  e->n_shown += n;
  scheduler_set_micro_batches(e->scheduler, runner_pipelines(e->runner) && !e->n_shown ? 2 : 1);
}

static void live_add(ga_engine *e, ga_request *r) {
  count_shown(e, r, 1);
  r->live_prev = NULL;
  r->live_next = e->live;
  if (e->live) e->live->live_prev = r;
  e->live = r;
}

static void live_remove(ga_engine *e, ga_request *r) {
  count_shown(e, r, -1);
  if (r->live_prev)
    r->live_prev->live_next = r->live_next;
  else
    e->live = r->live_next;
  if (r->live_next) r->live_next->live_prev = r->live_prev;
}

/* Requests and the units that they hold; the engine's lock is held. */
static void count_held(ga_engine *e) {
  ga_engine_stats *s = &e->stats;
  s->kv_pages_used = s->kv_pages_cached = s->swap_pages_used = 0;
  for (int32_t kind = 0; kind < layer_memory_n_kinds(e->memory); kind++) {
    const unit_counts n = layer_memory_counts(e->memory, kind);
    s->kv_pages_used += n.used;
    s->kv_pages_cached += n.cached;
    s->swap_pages_used += n.host_used;
  }
  s->swapped = scheduler_n_swapped(e->scheduler);
  s->running = scheduler_n_running(e->scheduler);
  s->waiting = scheduler_n_waiting(e->scheduler);
}

static void count_end(ga_engine *e, ga_finish finish, ga_status status) {
  (void)pthread_mutex_lock(&e->lock);
  ga_engine_stats *s = &e->stats;
  if (status == GA_ERR_CANCELLED || (status == GA_OK && finish == GA_FINISH_STOPPED))
    s->finished_abort++;
  else if (status != GA_OK)
    s->finished_error++;
  else if (finish == GA_FINISH_EOG)
    s->finished_stop++;
  else
    s->finished_length++;
  count_held(e); /* before the request's owner can ask for it */
  (void)pthread_mutex_unlock(&e->lock);
}

/* Takes it out of the scheduler and ends it. status not GA_OK: the error text is set. */
static void end_request(ga_engine *e, ga_request *r, ga_finish finish, ga_status status) {
  scheduler_remove(e->scheduler, &r->sched);
  engine_forget_rows(e, r);
  runner_forget(e->runner, &r->history);
  live_remove(e, r);
  count_end(e, finish, status);
  request_end(r, finish, status);
}

static void end_all(ga_engine *e, ga_status status, const char *why) {
  while (e->live) {
    (void)ga_fail(status, "%s", why);
    end_request(e, e->live, GA_FINISH_STOPPED, status);
  }
}

/* --- a step --- */

/* An answer is over when its last token says so, or there is room for no more. */
static bool is_over(const ga_engine *e, const ga_request *r, int32_t id, ga_finish *finish) {
  const int32_t made = r->sched.n_ids - r->sched.n_prompt;
  *finish = GA_FINISH_EOG;
  if (!r->options.ignore_eog && ga_tokenizer_is_eog(e->model->tokenizer, id)) return true;
  for (int32_t i = 0; i < r->options.n_stop_ids; i++)
    if (r->stop_ids[i] == id) return true;
  *finish = r->options.max_tokens < 0 ? GA_FINISH_CONTEXT : GA_FINISH_LENGTH;
  return made >= r->max_new;
}

/* The step's tokens join their requests. */
static void take_drawn(ga_engine *e, ga_request *r) {
  ga_finish finish = GA_FINISH_LENGTH;
  const int32_t id = r->drawn;
  if (r->row_status != GA_OK) {
    (void)ga_fail(r->row_status, "%s", r->row_error);
    end_request(e, r, GA_FINISH_STOPPED, r->row_status);
    return;
  }
  r->drawn = GA_TOK_NONE;
  if (id != GA_TOK_NONE) {
    r->ids[r->sched.n_ids++] = id;
    if (!is_over(e, r, id, &finish)) {
      request_tell(r);
      return;
    }
  } else if (r->max_new > 0 || r->sched.n_computed < r->sched.n_prompt) {
    if (r->options.prompt_logprobs) request_tell(r);
    return;
  }
  end_request(e, r, finish, GA_OK);
}

static void note_started(ga_request *r, double now) {
  (void)pthread_mutex_lock(&r->lock);
  if (r->info.queue_seconds <= 0) r->info.queue_seconds = now - r->submitted;
  r->info.n_cached = (int32_t)ga_max_i64(0, r->sched.n_cached);
  r->info.n_preempted = r->sched.n_preempted;
  (void)pthread_mutex_unlock(&r->lock);
}

/* The index in ga_engine_stats.step_sizes. */
static int size_class(int32_t n_tokens) {
  int c = n_tokens > 1;
  for (int32_t most = 8; c > 0 && c < GA_STEP_SIZES - 1 && n_tokens > most; most *= 2) c++;
  return c;
}

/* Before a step: first steps are noted, and what will be counted as read. */
static void note_plan(ga_engine *e, const sched_plan *plan, double now) {
  uint64_t prompt = 0, queries = 0, hits = 0;
  for (int32_t i = 0; i < plan->n_items; i++) {
    const sched_item *item = &plan->items[i];
    if (!item->request) continue; /* it has ended since the step was enqueued */
    ga_request *r = item->request->user;
    if (item->first < item->request->n_prompt) prompt += (uint64_t)item->n;
    if (r->info.queue_seconds <= 0 && item->request->use_prefix) {
      queries += (uint64_t)item->request->n_prompt;
      hits += (uint64_t)ga_max_i64(0, item->request->n_cached);
    }
    if (item->first < item->request->n_ids - 1 || r->info.queue_seconds <= 0) note_started(r, now);
  }
  (void)pthread_mutex_lock(&e->lock);
  e->stats.prompt_tokens += prompt;
  e->stats.prefix_queries += queries;
  e->stats.prefix_hits += hits;
  e->stats.preemptions += (uint64_t)plan->n_preempted;
  e->stats.step_sizes[size_class(plan->n_tokens)]++;
  e->stats.step_tokens_run += (uint64_t)plan->n_tokens;
  e->stats.running = scheduler_n_running(e->scheduler);
  e->stats.waiting = scheduler_n_waiting(e->scheduler);
  (void)pthread_mutex_unlock(&e->lock);
}

/* When nothing runs. */
static void note_state(ga_engine *e) {
  (void)pthread_mutex_lock(&e->lock);
  count_held(e);
  (void)pthread_mutex_unlock(&e->lock);
}

/* A step has ended. Its tokens are counted before their requests' owners can ask for the counts. */
static void count_step(ga_engine *e, double busy, uint64_t generated) {
  (void)pthread_mutex_lock(&e->lock);
  count_held(e);
  e->stats.busy_seconds += busy;
  e->stats.generated_tokens += generated;
  e->stats.steps++;
  (void)pthread_mutex_unlock(&e->lock);
}

/* The requests that are in the step and have not ended. Their number. */
static int32_t list_stepped(ga_engine *e, const sched_plan *plan) {
  int32_t n = 0;
  for (int32_t i = 0; i < plan->n_items; i++)
    if (plan->items[i].request) e->stepped[n++] = plan->items[i].request->user;
  return n;
}

/* A step that fails ends the requests that were in it; a device that faults ends the engine. */
static ga_status end_failed_step(ga_engine *e, const sched_plan *plan, ga_status status) {
  char why[512];
  strncpy(why, ga_error_text(), sizeof why - 1);
  why[sizeof why - 1] = 0;
  const bool was_ahead = e->steps.is_ahead; /* the next step has been enqueued, and will be again */
  e->steps.is_ahead = false;
  if (status == GA_ERR_DEVICE) return status;
  if (was_ahead && !layer_memory_can_repeat(e->memory))
    return ga_fail_in(GA_ERR_DEVICE, "a step of layers with states");
  GA_TRY(runner_drop_steps(e->runner)); /* what has been enqueued reads the inputs, which the next step overwrites */
  const int32_t n = list_stepped(e, plan);
  scheduler_failed(e->scheduler);
  for (int32_t i = 0; i < n; i++) {
    (void)ga_fail(status, "%s", why);
    end_request(e, e->stepped[i], GA_FINISH_STOPPED, status);
  }
  note_state(e);
  return GA_OK;
}

/* Tokens of the step that requests generate behind; the others are of prompts. */
static int32_t decodes_of(const sched_plan *plan) {
  int32_t n = 0;
  for (int32_t i = 0; i < plan->n_items; i++) n += plan->items[i].n == 1 && plan->items[i].samples;
  return n;
}

static void note_gap(ga_engine *e) {
  step_gaps *gaps = runner_gaps(e->runner);
  const double gap = step_gaps_take(gaps);
  if (gap < 0) return;
  (void)pthread_mutex_lock(&e->lock);
  step_gaps_count(gaps, gap);
  (void)pthread_mutex_unlock(&e->lock);
}

static ga_status run_plan(ga_engine *e, const sched_plan *plan) {
  const double start = ga_seconds();
  const int32_t n_decodes = decodes_of(plan), n_prompt = plan->n_tokens - n_decodes;
  uint64_t generated = 0;
  note_plan(e, plan, start);
  const ga_status status = engine_run_step(e, plan);
  if (status != GA_OK) {
    step_gaps_pause(runner_gaps(e->runner));
    return end_failed_step(e, plan, status);
  }
  note_gap(e);
  const int32_t n = list_stepped(e, plan);
  for (int32_t i = 0; i < n; i++) generated += e->stepped[i]->drawn != GA_TOK_NONE;
  scheduler_done(e->scheduler);
  count_step(e, ga_seconds() - start, generated);
  for (int32_t i = 0; i < n; i++) take_drawn(e, e->stepped[i]);
  const double seconds = ga_seconds() - start;
  pace_note(&e->pace, n_decodes, n_prompt, seconds);
  scheduler_set_chunk(e->scheduler, pace_chunk(&e->pace, e->options.step_tokens));
  scheduler_set_alone(e->scheduler, pace_alone(&e->pace, e->options.step_tokens, e->live && e->live->live_next));
  if (!ga_device_works_in_calls(e->ctx->device)) scheduler_set_even(e->scheduler, pace_even_rows(&e->pace, n_decodes));
  e->costs.token = e->pace.prompt_token;
  scheduler_set_costs(e->scheduler, &e->costs);
  return GA_OK;
}

void engine_end_expired(ga_engine *e, const sched_plan *plan) {
  for (int32_t i = 0; i < plan->n_expired; i++) {
    ga_request *r = plan->expired[i]->user;
    (void)ga_fail(GA_ERR_TIMEOUT, "no step within first_token_deadline, %g s", r->options.first_token_deadline);
    end_request(e, r, GA_FINISH_STOPPED, GA_ERR_TIMEOUT);
  }
}

/* --- the thread --- */

static void take_inbox(ga_engine *e, ga_request *inbox) {
  while (inbox) {
    ga_request *r = inbox;
    inbox = r->next;
    live_add(e, r);
    const ga_status status = scheduler_add(e->scheduler, &r->sched);
    if (status != GA_OK) end_request(e, r, GA_FINISH_STOPPED, status);
  }
}

static void end_cancelled(ga_engine *e) {
  for (ga_request *r = e->live, *next; r; r = next) {
    next = r->live_next;
    if (atomic_load(&r->cancelled)) end_request(e, r, GA_FINISH_STOPPED, GA_OK);
  }
}

/* Waits for something to do; false: the end. */
static bool take_work(ga_engine *e) {
  if (!e->live) step_gaps_pause(runner_gaps(e->runner));
  (void)pthread_mutex_lock(&e->lock);
  while (!e->stop && !e->inbox && !e->has_cancelled && !e->live) (void)pthread_cond_wait(&e->wake, &e->lock);
  ga_request *inbox = e->inbox;
  const bool has_cancelled = e->has_cancelled, stop = e->stop;
  e->inbox = NULL;
  e->inbox_end = &e->inbox;
  e->stats.waiting += e->n_inbox;
  e->n_inbox = 0;
  e->has_cancelled = false;
  (void)pthread_mutex_unlock(&e->lock);
  take_inbox(e, inbox);
  if (has_cancelled) end_cancelled(e);
  return !stop;
}

static void engine_failed(ga_engine *e, ga_status status) {
  (void)pthread_mutex_lock(&e->lock);
  strncpy(e->failure, ga_error_text(), sizeof e->failure - 1);
  e->stats.failed = (int32_t)status;
  (void)pthread_mutex_unlock(&e->lock);
  ga_log(GA_LOG_ERROR, "the engine has failed: %s", e->failure);
}

/* There is no memory for the request whose turn it is, and none will come back: nothing runs. The others go on. */
static ga_status end_next(ga_engine *e, ga_status status) {
  const sched_request *next = scheduler_next(e->scheduler);
  if (status != GA_ERR_NOMEM || !next) return status;
  end_request(e, next->user, GA_FINISH_STOPPED, status);
  note_state(e);
  return GA_OK;
}

/* Have all requests of the step ended? */
static bool is_nobodys(const sched_plan *plan) {
  for (int32_t i = 0; i < plan->n_items; i++)
    if (plan->items[i].request) return false;
  return true;
}

/* Notes whose tokens are not polled, and whose are again. */
static void note_stalled(const ga_engine *e) {
  for (ga_request *r = e->live; r; r = r->live_next) {
    const int32_t most = r->options.max_unread;
    if (most) r->sched.is_stalled = atomic_load(&r->unread) > (r->sched.is_stalled ? most / 2 : most);
  }
}

static ga_status plan_next(ga_engine *e, const sched_plan **plan) {
  note_stalled(e);
  *plan = engine_take_ahead(e);
  if (*plan && !is_nobodys(*plan)) return GA_OK;
  if (*plan) {
    GA_TRY(engine_skip_step(e));
    step_gaps_pause(runner_gaps(e->runner));
  }
  GA_TRY(scheduler_plan(e->scheduler, ga_seconds(), plan));
  engine_end_expired(e, *plan);
  return GA_OK;
}

static ga_status run_once(ga_engine *e) {
  const sched_plan *plan;
  const ga_status status = plan_next(e, &plan);
  if (status != GA_OK) return end_next(e, status);
  if (plan->n_items) return run_plan(e, plan);
  note_state(e);
  GA_REQUIRE(!e->live || plan->n_expired, GA_ERR_INTERNAL, "%d requests wait and %d run, but no step can be planned",
             scheduler_n_waiting(e->scheduler), scheduler_n_running(e->scheduler));
  return GA_OK;
}

static void *engine_main(void *arg) {
  ga_engine *e = arg;
  while (take_work(e)) {
    if (!e->live) {
      note_state(e);
      continue;
    }
    const ga_status status = e->stats.failed ? (ga_status)e->stats.failed : run_once(e);
    if (status == GA_OK) continue;
    if (!e->stats.failed) engine_failed(e, status);
    scheduler_failed(e->scheduler);
    end_all(e, status, e->failure);
    note_state(e);
  }
  scheduler_failed(e->scheduler);
  const ga_status last = runner_drop_steps(e->runner); /* nothing may be under way when buffers go */
  (void)last;                                          /* nobody is left who could be told */
  end_all(e, GA_ERR_CANCELLED, "the engine has ended");
  return NULL;
}

/* --- making and freeing --- */

static ga_status check_rounds_x(const ga_engine *e) {
  const ga_status status = e->sizes.rounds_x ? runner_check_rounds_x(e->runner) : GA_OK;
  return status == GA_OK ? GA_OK : ga_fail_in(status, "engine");
}

/* Batch-invariant rows have to be there before any request comes. */
static ga_status check_deterministic(const ga_engine *e) {
  if (!(e->options.flags & GA_ENGINE_DETERMINISTIC)) return GA_OK;
  const ga_status status = runner_check_invariant(e->runner);
  return status == GA_OK ? GA_OK : ga_fail_in(status, "engine: deterministic");
}

static ga_status list_eog(ga_engine *e) {
  const ga_tokenizer *tok = e->model->tokenizer;
  void *p;
  e->n_vocab = (int32_t)ga_min_i64((int64_t)ga_tokenizer_size(tok), e->model->hparams.vocab);
  for (int32_t id = 0; id < e->n_vocab; id++) e->n_eog += ga_tokenizer_is_eog(tok, id);
  GA_TRY(ga_mem_zalloc((size_t)e->n_eog + 1, sizeof(int32_t), "engine", &p));
  e->eog = p;
  for (int32_t id = 0, n = 0; id < e->n_vocab; id++)
    if (ga_tokenizer_is_eog(tok, id)) e->eog[n++] = id;
  return GA_OK;
}

static ga_status create_engine_steps(ga_engine *e) {
  const size_t rows = (size_t)e->sizes.batch, seqs = (size_t)e->options.max_sequences;
  void *p;
  for (int i = 0; i < 2; i++) {
    engine_step *step = &e->steps.step[i];
    step->engine = e;
    GA_TRY(ga_mem_zalloc(seqs, sizeof(step_part), "engine", &p));
    step->parts = p;
    GA_TRY(ga_mem_zalloc(rows, sizeof(step_row), "engine", &p));
    step->rows = p;
    GA_TRY(ga_mem_zalloc(rows, sizeof(row_draw), "engine", &p));
    step->draws = p;
  }
  GA_TRY(ga_mem_zalloc(seqs, sizeof(ga_request *), "engine", &p));
  e->stepped = p;
  return GA_OK;
}

static ga_status create_runner(ga_engine *e) {
  e->sizes.rounds_x = e->options.flags & GA_ENGINE_E4M3_ACTIVATIONS;
  const runner_options o = {.model = e->model,
                            .cache = &e->cache,
                            .memory = e->memory,
                            .sizes = e->sizes,
                            .max_sequences = e->options.max_sequences,
                            .n_vocab = e->n_vocab,
                            .is_invariant = e->options.flags & GA_ENGINE_DETERMINISTIC,
                            .times_gaps = e->options.flags & GA_ENGINE_TIME_STEPS};
  return runner_create(&o, &e->runner);
}

/* The cache, its units on the host, and what it costs to move units there and back. */
static ga_status create_cache(ga_engine *e, const layer_memory_options *memory) {
  GA_TRY(kv_cache_create(e->model, e->sizes.kv_dtype, memory->n_units, &e->cache));
  ga_ctx *gpu = e->ctx; /* whose host memory is page-locked, where there is one */
  for (int32_t i = 0; i < e->model->n_placements; i++)
    if (!ga_device_in_host_memory(e->model->placements[i].ctx->device)) gpu = e->model->placements[i].ctx;
  GA_TRY(memory_host_create(&e->cache, gpu, memory->n_host, &e->host));
  for (int32_t kind = 0; kind < memory->n_kinds; kind++) GA_TRY(memory_host_time(&e->host, kind, &e->costs.unit[kind]));
  return GA_OK;
}

static void note_sizes(ga_engine *e, const layer_memory_options *memory) {
  e->stats = (ga_engine_stats)GA_ENGINE_STATS_INIT;
  for (int32_t kind = 0; kind < memory->n_kinds; kind++) {
    e->stats.kv_pages += memory->n_units[kind];
    e->stats.swap_pages += memory->n_host[kind];
  }
  e->stats.context = e->sizes.context;
  e->stats.max_sequences = e->options.max_sequences;
  e->stats.step_tokens = e->options.step_tokens;
  e->stats.max_waiting = e->options.max_waiting;
}

static ga_status create_parts(ga_engine *e, const ga_engine_options *options) {
  layer_memory_options memory;
  GA_TRY(engine_sizes(e->model, options, &e->sizes, &e->options, &memory));
  GA_TRY(list_eog(e));
  ga_secret_keys(e->cache_secret, GA_COUNT_OF(e->cache_secret));
  memory.keep_prefixes = engine_keeps_pages(e);
  memory.offload_prefixes = e->options.flags & GA_ENGINE_OFFLOAD_PREFIXES;
  GA_TRY(layer_memory_create(&memory, &e->memory));
  const bool is_cpu = ga_device_works_in_calls(e->ctx->device);
  e->pace.least = is_cpu ? PACE_LEAST_CPU : PACE_LEAST_GPU;
  e->pace.brief = is_cpu ? PACE_BRIEF_CPU : 0;
  e->pace.alone = is_cpu ? PACE_ALONE_CPU : 0;
  const sched_options sched = {.max_sequences = e->options.max_sequences,
                               .step_tokens = e->options.step_tokens,
                               .chunk_tokens = (int32_t)ga_max_i64(1, e->options.step_tokens / 4),
                               .step_tile = is_cpu ? 1 : PACE_TILE_GPU,
                               .short_tokens = is_cpu ? PACE_SHORT_CPU : 0};
  GA_TRY(scheduler_create(&sched, e->memory, &e->scheduler));
  scheduler_set_alone(e->scheduler, pace_alone(&e->pace, e->options.step_tokens, false));
  GA_TRY(create_engine_steps(e));
  GA_TRY(create_cache(e, &memory));
  GA_TRY(create_runner(e));
  scheduler_set_micro_batches(e->scheduler, runner_pipelines(e->runner) ? 2 : 1);
  note_sizes(e, &memory);
  GA_TRY(check_deterministic(e));
  return check_rounds_x(e);
}

static void free_parts(ga_engine *e) {
  runner_destroy(e->runner);
  memory_host_destroy(&e->host);
  kv_cache_destroy(&e->cache);
  scheduler_destroy(e->scheduler);
  layer_memory_destroy(e->memory);
  for (int i = 0; i < 2; i++) {
    ga_mem_free(e->steps.step[i].parts);
    ga_mem_free(e->steps.step[i].rows);
    ga_mem_free(e->steps.step[i].draws);
  }
  ga_mem_free(e->stepped);
  ga_mem_free(e->eog);
  (void)pthread_mutex_destroy(&e->lock);
  (void)pthread_cond_destroy(&e->wake);
  ga_mem_free(e);
}

static ga_status check_engine_model(const ga_model *model) {
  GA_REQUIRE(!model->is_plan, GA_ERR_STATE, "engine: the model was loaded without weights (plan_only)");
  GA_REQUIRE(!model->info.is_encoder, GA_ERR_UNSUPPORTED, "engine: %s is an encoder, it makes embeddings only",
             model->info.arch);
  GA_REQUIRE(!model->comm, GA_ERR_UNSUPPORTED,
             "engine: the model is the part of rank %d of %d; an engine takes a whole one", ga_comm_rank(model->comm),
             ga_comm_size(model->comm));
  GA_REQUIRE(model->tokenizer, GA_ERR_UNSUPPORTED, "engine: the model file has no tokenizer");
  return GA_OK;
}

static ga_status create_engine(ga_model *model, const ga_engine_options *options, ga_engine **out) {
  void *p;
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_engine), "engine", &p));
  ga_engine *e = p;
  e->model = model;
  e->ctx = model->ctx;
  e->inbox_end = &e->inbox;
  e->process = getpid();
  (void)pthread_mutex_init(&e->lock, NULL);
  (void)pthread_cond_init(&e->wake, NULL);
  ga_status status = create_parts(e, options);
  if (status == GA_OK && pthread_create(&e->thread, NULL, engine_main, e))
    status = ga_fail(GA_ERR_DEVICE, "engine: the system refuses a thread");
  if (status != GA_OK) {
    free_parts(e);
    return status;
  }
  *out = e;
  return GA_OK;
}

/* Of the model's first n placements. */
static void release_contexts(const ga_model *model, int32_t n) {
  for (int32_t i = 0; i < n; i++) atomic_store(&model->placements[i].ctx->in_engine, false);
}

/* Has an earlier placement the same context? */
static bool is_repeated(const ga_model *model, int32_t i) {
  for (int32_t k = 0; k < i; k++)
    if (model->placements[k].ctx == model->placements[i].ctx) return true;
  return false;
}

static ga_status claim_contexts(const ga_model *model) {
  for (int32_t i = 0; i < model->n_placements; i++) {
    if (is_repeated(model, i) || !atomic_exchange(&model->placements[i].ctx->in_engine, true)) continue;
    release_contexts(model, i);
    return ga_fail(
        GA_ERR_STATE,
        "engine: another engine uses the model's context; destroy it first, or take a model that shares the weights "
        "in a context of its own (ga_model_share)");
  }
  return GA_OK;
}

ga_status ga_engine_create(ga_model *model, const ga_engine_options *options, ga_engine **out) {
  GA_REQUIRE(model && out, GA_ERR_ARG, "engine: model or out is null");
  *out = NULL;
  GA_TRY(check_engine_model(model));
  GA_TRY(claim_contexts(model));
  const ga_status status = create_engine(model, options, out);
  if (status != GA_OK) release_contexts(model, model->n_placements);
  return status;
}

void ga_engine_destroy(ga_engine *e) {
  if (!e || e->process != getpid()) return; /* a fork has copies of locks, held by threads that it lacks */
  const ga_model *model = e->model;
  (void)pthread_mutex_lock(&e->lock);
  e->stop = true;
  (void)pthread_cond_signal(&e->wake);
  (void)pthread_mutex_unlock(&e->lock);
  (void)pthread_join(e->thread, NULL);
  free_parts(e);
  release_contexts(model, model->n_placements);
}

ga_status ga_engine_get_stats(ga_engine *e, ga_engine_stats *stats) {
  GA_REQUIRE(e && stats, GA_ERR_ARG, "engine stats: engine or stats is null");
  GA_TRY(ga_sized_check_out("engine stats: stats", stats, ga_engine_stats_first));
  GA_TRY(engine_check_process(e->process, "engine stats"));
  (void)pthread_mutex_lock(&e->lock);
  ga_engine_stats made = e->stats;
  made.waiting += e->n_inbox;
  const step_gaps *gaps = runner_gaps(e->runner);
  made.step_gaps = gaps->n;
  made.step_gap_median = step_gaps_quantile(gaps, 0.5);
  made.step_gap_p99 = step_gaps_quantile(gaps, 0.99);
  (void)pthread_mutex_unlock(&e->lock);
  ga_expert_cache_stats cache = GA_EXPERT_CACHE_STATS_INIT;
  GA_TRY(ga_model_expert_cache(e->model, &cache));
  made.expert_lookups = cache.lookups;
  made.expert_hits = cache.hits;
  made.expert_loads = cache.loads;
  made.expert_slots = cache.slots;
  made.expert_slots_used = cache.slots_used;
  ga_sized_give(&made, sizeof made, stats);
  return GA_OK;
}
