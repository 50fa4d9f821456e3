#include "engine/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"

/* --- making and freeing --- */

/* Units of a session: all pages of its context; of states as many as its plan has counted. */
static ga_status create_memory(ga_session *s) {
  layer_memory_options o = {.page_tokens = GA_KV_PAGE};
  memory_kinds kinds;
  GA_TRY(memory_kinds_of(&s->model->hparams, s->sizes.kv_dtype, &kinds));
  s->n_pages = (int32_t)ga_div_up(s->sizes.context, GA_KV_PAGE);
  o.n_kinds = kinds.n;
  for (int32_t kind = 0; kind < kinds.n; kind++) {
    o.kinds[kind] = kinds.kind[kind];
    o.n_units[kind] = kinds.kind[kind].unit_tokens ? s->n_pages : MEMORY_SESSION_STATES;
  }
  GA_TRY(layer_memory_create(&o, &s->memory));
  GA_TRY(layer_memory_extend(s->memory, &s->sequence, s->sizes.context));
  return kv_cache_create(s->model, s->sizes.kv_dtype, o.n_units, &s->kv);
}

/* Rows of the head beyond the tokenizer are padding: they have logits but no meaning. */
ga_status session_create_runner(ga_session *s) {
  const ga_model *model = s->model;
  const int64_t n_known = model->tokenizer ? (int64_t)ga_tokenizer_size(model->tokenizer) : model->hparams.vocab;
  const runner_options o = {.model = s->model,
                            .cache = &s->kv,
                            .memory = s->memory,
                            .sizes = s->sizes,
                            .max_sequences = 1,
                            .n_vocab = (int32_t)ga_min_i64(n_known, model->hparams.vocab)};
  GA_TRY(runner_create(&o, &s->runner));
  s->n_taken = s->n_steps = 0;
  return s->sizes.rounds_x ? runner_check_rounds_x(s->runner) : GA_OK;
}

static ga_status create(ga_session *s, const ga_session_options *options) {
  void *p;
  GA_TRY(ga_session_sizes_of(&s->model->hparams, s->model->ctx, options, &s->sizes));
  const int32_t context = s->sizes.context, batch = s->sizes.batch;
  GA_REQUIRE(!s->sizes.rounds_x || batch > FUSED_FEW, GA_ERR_ARG,
             "session: batch %d with activations of e4m3, which are for steps of more than %d tokens (deterministic "
             "sessions have one)",
             batch, FUSED_FEW);
  GA_TRY(ga_mem_zalloc((size_t)context, sizeof(int32_t), "session", &p));
  s->tokens = p;
  GA_TRY(ga_mem_zalloc((size_t)batch, sizeof(row_draw), "session", &p));
  s->rows = p;
  for (int32_t i = 0; i < batch; i++) s->rows[i].shows = true;
  GA_TRY(create_memory(s));
  const ga_status status = session_create_runner(s);
  return status == GA_OK ? GA_OK : ga_fail_in(status, "session of %d tokens, %d at once", context, batch);
}

/* Two threads in one context would race for its thread pool, stream and workspace. */
static ga_status check_engine(const ga_model *model) {
  for (int32_t i = 0; i < model->n_placements; i++)
    GA_REQUIRE(!atomic_load(&model->placements[i].ctx->in_engine), GA_ERR_STATE,
               "session: an engine uses the model's context; destroy it first, or take a model that shares the weights "
               "in a context of its own (ga_model_share)");
  return GA_OK;
}

/* The flags lie in every version of the options. */
static ga_status check_expert_caches(const ga_model *model, const ga_session_options *options) {
  const bool is_deterministic = options && options->flags & GA_SESSION_DETERMINISTIC;
  for (int32_t i = 0; i < model->n_placements && is_deterministic; i++)
    GA_REQUIRE(!model->placements[i].cache, GA_ERR_UNSUPPORTED,
               "session: deterministic, but %s has a cache of experts, on whose contents results depend; without "
               "expert_cache they do not",
               model->placements[i].plan.device);
  return GA_OK;
}

ga_status ga_session_create(ga_model *model, const ga_session_options *options, ga_session **out) {
  GA_REQUIRE(model && out, GA_ERR_ARG, "session: model or out is null");
  *out = NULL;
  GA_REQUIRE(!model->is_plan, GA_ERR_STATE, "session: the model was loaded without weights (plan_only)");
  GA_REQUIRE(!model->info.is_encoder, GA_ERR_UNSUPPORTED, "session: %s is an encoder, it makes embeddings only",
             model->info.arch);
  GA_TRY(check_engine(model));
  GA_TRY(check_expert_caches(model, options));
  void *p;
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_session), "session", &p));
  ga_session *s = p;
  s->model = model;
  ga_status status = create(s, options);
  if (status != GA_OK) {
    ga_session_destroy(s);
    return status;
  }
  *out = s;
  return GA_OK;
}

void ga_session_destroy(ga_session *s) {
  if (!s) return;
  if (s->runner) {
    const ga_status dropped = session_drop_steps(s);
    (void)dropped; /* a device that is lost reads no more */
  }
  runner_destroy(s->runner);
  kv_cache_destroy(&s->kv);
  if (s->memory) layer_memory_release(s->memory, 0, &s->sequence, NULL, 0);
  layer_memory_destroy(s->memory);
  ga_mem_free(s->rows);
  ga_mem_free(s->tokens);
  ga_mem_free(s);
}

int32_t ga_session_length(const ga_session *s) { return s->length; }
int32_t ga_session_context(const ga_session *s) { return s->sizes.context; }

uint64_t ga_session_kv_bytes(const ga_session *s) { return kv_cache_bytes(&s->kv); }

ga_status ga_session_rewind(ga_session *s, int32_t n_tokens) {
  GA_REQUIRE(n_tokens >= 0 && n_tokens <= s->length, GA_ERR_ARG, "rewind to %d; the session holds %d tokens", n_tokens,
             s->length);
  s->length = n_tokens;
  return GA_OK;
}

/* --- steps --- */

static ga_status take_oldest(ga_session *s) {
  GA_TRY(runner_take(s->runner, s->n_taken));
  s->n_taken++;
  return GA_OK;
}

/* Takes the steps under way but for the newest `keep` of them. */
static ga_status take_steps(ga_session *s, int64_t keep) {
  while (s->n_steps - s->n_taken > keep) GA_TRY(take_oldest(s));
  return GA_OK;
}

ga_status session_drop_steps(ga_session *s) {
  s->n_taken = s->n_steps;
  return runner_drop_steps(s->runner);
}

/* Before the step that begins at `at`: states take a snapshot if they are due, and pending copies are enqueued. */
static ga_status prepare_memory(ga_session *s, int32_t at) {
  int32_t n;
  layer_memory_snapshot(s->memory, &s->sequence, at);
  const unit_copy *copies = layer_memory_copies(s->memory, &n);
  for (int32_t i = 0; i < n; i++) GA_TRY(kv_cache_copy_unit(&s->kv, copies[i].kind, copies[i].from, copies[i].to));
  layer_memory_copied(s->memory);
  return GA_OK;
}

/* Enqueues a step of ids [at, at + n) of the session's tokens. drawn: the last one comes from the step under way.
 * step: rows of the last n_wanted of them. */
static ga_status enqueue_step(ga_session *s, int32_t at, int32_t n, bool is_drawn, int32_t n_wanted,
                              runner_step *step) {
  const step_part part = {.memory = &s->sequence,
                          .ids = s->tokens + at,
                          .first = at,
                          .n = n,
                          .n_wanted = n_wanted,
                          .adapter = -1,
                          .draw = is_drawn ? 0 : -1};
  const bool shows = (step->show || step->into) && n_wanted; /* the runner takes such a step alone */
  int64_t ticket;
  step->parts = &part;
  step->n_parts = 1;
  if (shows || (!is_drawn && !runner_may_enqueue(s->runner))) GA_TRY(take_steps(s, 0));
  GA_TRY(prepare_memory(s, at));
  s->n_evaluated = at + n;
  GA_TRY(runner_enqueue(s->runner, step, &ticket));
  s->n_steps = ticket + 1;
  return GA_OK;
}

/* The same with a draw of the token after the last one. */
static ga_status enqueue_draw(ga_session *s, int32_t at, int32_t n, bool is_drawn, const row_draw *draw) {
  const int64_t place = s->n_steps % 2;
  s->draws[place] = *draw;
  s->draws[place].ids = s->tokens;
  s->draws[place].n_ids = at + n - is_drawn;
  s->n_before[place] = at + n;
  return enqueue_step(s, at, n, is_drawn, 1, &(runner_step){.rows = &s->draws[place]});
}

/* Evaluates tokens again that layer memory could not keep when the session went back to its length. After a failure
 * states are of no length: n_evaluated stays above the session's, so that the next call goes back again. */
static ga_status restore_length(ga_session *s) {
  ga_status status = GA_OK;
  if (s->n_evaluated <= s->length) return GA_OK;
  s->n_evaluated = layer_memory_rewind(s->memory, 0, &s->sequence, s->tokens, s->n_evaluated, s->length);
  while (s->n_evaluated < s->length && status == GA_OK) {
    const int32_t at = s->n_evaluated, left = s->length - at;
    const int32_t n = layer_memory_chunk(s->memory, at, (int32_t)ga_min_i64(s->sizes.batch, left));
    status = enqueue_step(s, at, n, false, 0, &(runner_step){.rows = NULL});
  }
  if (status != GA_OK) s->n_evaluated = s->length + 1;
  return status;
}

/* --- ranks --- */

/* Ranks that share a model evaluate the same ids, or compute garbage together: they compare a hash (FNV-1a). */
static ga_status meet_ranks(const ga_session *s, const int32_t *ids, int32_t n) {
  uint64_t hash = 14695981039346656037u ^ (uint64_t)s->length;
  if (!s->model->comm) return GA_OK;
  for (int32_t i = 0; i < n; i++) hash = (hash ^ (uint32_t)ids[i]) * 1099511628211u;
  return ga_comm_meet(s->model->comm, "ids that a session evaluates", hash);
}

ga_status session_fail(ga_session *s, ga_status status) {
  char why[512];
  if (status == GA_OK) return GA_OK;
  (void)snprintf(why, sizeof why, "%s", ga_error_text());
  const ga_status dropped = session_drop_steps(s);
  (void)dropped; /* the first error tells more */
  return ga_fail(status, "%s", why);
}

/* A rank that fails ends the communicator, so that the others learn why and do not wait. */
static ga_status end_call(ga_session *s, ga_status status) {
  if (status != GA_OK && s->model->comm) ga_comm_abort(s->model->comm, ga_error_text());
  return session_fail(s, status);
}

/* --- appending --- */

typedef struct append_call {
  const session_out *out;
  int32_t wanted; /* first id of the call whose row is shown */
  int32_t base;   /* id of the call to which row 0 of the step under way belongs */
} append_call;

static ga_status show_row(void *user, int32_t row, int32_t id, const float *logits) {
  const append_call *call = user;
  (void)id;
  return call->out->row(call->out->user, call->base + row, logits);
}

/* Runs ids [done, done + n) of the call. */
static ga_status append_chunk(ga_session *s, append_call *call, int32_t done, int32_t n, bool is_last) {
  const int32_t first = (int32_t)ga_min_i64(n, ga_max_i64(0, call->wanted - done)), at = s->length + done;
  const session_out *out = call->out;
  if (is_last && out->draw) {
    GA_TRY(enqueue_draw(s, at, n, false, out->draw));
    return take_steps(s, 1);
  }
  call->base = done + first;
  runner_step step = {.rows = s->rows, .show = out->row ? show_row : NULL, .user = call};
  if (out->into && n > first)
    step.into = out->into + (size_t)(call->base - call->wanted) * (size_t)s->model->hparams.vocab;
  GA_TRY(enqueue_step(s, at, n, false, n - first, &step));
  return take_steps(s, first == n);
}

static ga_status append_tokens(ga_session *s, const int32_t *ids, int32_t n, append_call *call, ga_progress_fn progress,
                               void *user) {
  GA_TRY(restore_length(s));
  memcpy(s->tokens + s->length, ids, (size_t)n * sizeof(int32_t));
  for (int32_t done = 0; done < n;) {
    const int32_t most = (int32_t)ga_min_i64(s->sizes.batch, n - done);
    const int32_t chunk = layer_memory_chunk(s->memory, s->length + done, most);
    GA_TRY(append_chunk(s, call, done, chunk, done + chunk == n));
    done += chunk;
    GA_REQUIRE(!progress || !progress(user, (uint64_t)done, (uint64_t)n), GA_ERR_CANCELLED,
               "stopped after %d of %d tokens", done, n);
  }
  s->length += n;
  return GA_OK;
}

static ga_status check_ids(const ga_session *s, const int32_t *ids, int32_t n) {
  GA_REQUIRE(s && ids && n >= 1, GA_ERR_ARG, "eval: session or ids is null, or n is %d; must be at least 1", n);
  GA_REQUIRE(n <= s->sizes.context - s->length, GA_ERR_SHAPE,
             "context is full: %d tokens held, %d more do not fit in %d", s->length, n, s->sizes.context);
  for (int32_t i = 0; i < n; i++)
    GA_REQUIRE(ids[i] >= 0 && ids[i] < s->model->hparams.vocab, GA_ERR_ARG, "eval: id %d at %d; must be 0 to %d",
               ids[i], i, s->model->hparams.vocab - 1);
  return GA_OK;
}

ga_status session_append(ga_session *s, const int32_t *ids, int32_t n, const session_out *out, ga_progress_fn progress,
                         void *user) {
  const session_out none = {0};
  GA_TRY(check_ids(s, ids, n));
  GA_TRY(check_engine(s->model));
  GA_TRY(meet_ranks(s, ids, n));
  if (!out) out = &none;
  append_call call = {.out = out, .wanted = n - out->n_rows};
  return end_call(s, append_tokens(s, ids, n, &call, progress, user));
}

/* --- drawing --- */

bool session_may_step(const ga_session *s) { return runner_may_enqueue(s->runner); }

static ga_status enqueue_token(ga_session *s, int32_t id, const row_draw *draw) {
  const bool is_drawn = id == SESSION_DRAWN;
  GA_REQUIRE(s->length < s->sizes.context, GA_ERR_SHAPE, "context is full: %d tokens", s->length);
  GA_TRY(restore_length(s));
  s->tokens[s->length] = is_drawn ? 0 : id;
  GA_TRY(enqueue_draw(s, s->length, 1, is_drawn, draw));
  s->length++;
  return GA_OK;
}

ga_status session_step(ga_session *s, int32_t id, const row_draw *draw) {
  GA_TRY(meet_ranks(s, &id, 1));
  return end_call(s, enqueue_token(s, id, draw));
}

static ga_status take_drawn_token(ga_session *s, part_result *out) {
  const int64_t ticket = s->n_taken;
  const int32_t at = s->n_before[ticket % 2];
  GA_TRY(take_oldest(s));
  *out = *runner_results(s->runner, ticket);
  GA_REQUIRE(out->status == GA_OK, out->status, "%s", out->error);
  if (at < s->length) s->tokens[at] = out->next; /* the step under way evaluates it */
  return GA_OK;
}

ga_status session_take(ga_session *s, part_result *out) {
  const bool is_ahead = s->n_steps - s->n_taken > 1;
  const ga_status status = end_call(s, take_drawn_token(s, out));
  if (status != GA_OK && is_ahead) s->length--; /* its last token was never drawn */
  return status;
}

/* --- public evaluation --- */

ga_status ga_session_eval(ga_session *s, const int32_t *ids, int32_t n, float *logits, int32_t n_logits,
                          ga_progress_fn progress, void *user) {
  GA_REQUIRE(n_logits >= 0 && n_logits <= n && (logits || !n_logits), GA_ERR_ARG,
             "eval: %d rows of logits for %d tokens%s", n_logits, n, logits ? "" : ", but logits is null");
  GA_REQUIRE(s, GA_ERR_ARG, "eval: session is null");
  return session_append(s, ids, n, &(session_out){.n_rows = n_logits, .into = n_logits ? logits : NULL}, progress,
                        user);
}

typedef struct score_rows {
  const int32_t *ids;
  double *logprobs;
  int32_t first, n;
  size_t vocab;
} score_rows;

/* log softmax at one id: x[id] - log sum exp x, in double. */
static double logprob_of(const float *x, size_t n, int32_t id) {
  float most = x[0];
  for (size_t i = 1; i < n; i++) most = x[i] > most ? x[i] : most;
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += (double)expf(x[i] - most);
  return (double)x[id] - (double)most - log(sum);
}

static ga_status score_row(void *user, int32_t row, const float *logits) {
  score_rows *c = user;
  if (row + 1 < c->n) c->logprobs[row - c->first] = logprob_of(logits, c->vocab, c->ids[row + 1]);
  return GA_OK;
}

ga_status ga_session_score(ga_session *s, const int32_t *ids, int32_t n, int32_t first, double *logprobs,
                           ga_progress_fn progress, void *user) {
  GA_REQUIRE(s && logprobs && first >= 0 && first < n, GA_ERR_ARG, "score: first is %d of %d ids, or a pointer is null",
             first, n);
  score_rows c = {.ids = ids, .logprobs = logprobs, .first = first, .n = n, .vocab = (size_t)s->model->hparams.vocab};
  return session_append(s, ids, n, &(session_out){.n_rows = n - first, .row = score_row, .user = &c}, progress, user);
}
