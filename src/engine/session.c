#include "engine/session.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"

/* What a step of n tokens writes: ids[n], positions[n], slots[n], kv_len, q_start[2]. Of one token, and how many move
 * on by one from POSITION on: */
enum { STEP_ID, STEP_POSITION, STEP_KV_LEN = 3, STEP_MOVING = 3 };

/* --- making and freeing --- */

/* Units of a session: all pages of its context; of states as many as its plan has counted. */
static ga_status create_memory(ga_session *s, ga_dtype dtype) {
  layer_memory_options o = {.page_tokens = GA_KV_PAGE};
  memory_kinds kinds;
  GA_TRY(memory_kinds_of(&s->model->hparams, dtype, &kinds));
  s->n_pages = (int32_t)ga_div_up(s->context, GA_KV_PAGE);
  o.n_kinds = kinds.n;
  for (int32_t kind = 0; kind < kinds.n; kind++) {
    o.kinds[kind] = kinds.kind[kind];
    o.n_units[kind] = kinds.kind[kind].unit_tokens ? s->n_pages : MEMORY_SESSION_STATES;
  }
  GA_TRY(layer_memory_create(&o, &s->memory));
  GA_TRY(layer_memory_extend(s->memory, &s->sequence, s->context));
  return kv_cache_create(s->model, dtype, o.n_units, &s->kv);
}

static ga_status create_inputs(const ga_session *s, ga_ctx *ctx, session_inputs *in) {
  const int32_t n_kinds = layer_memory_n_kinds(s->memory);
  in->table = 0;
  in->step = (size_t)n_kinds * (size_t)s->n_pages;
  in->sequence = in->step + 3 * (size_t)s->batch + 3;
  void *p;
  GA_TRY(ga_host_alloc(ctx, in->sequence * sizeof(int32_t), &p));
  in->host = p;
  memset(in->host, 0, in->step * sizeof(int32_t));
  for (int32_t kind = 0; kind < n_kinds; kind++) {
    int32_t n;
    const int32_t *units = layer_memory_units(s->memory, &s->sequence, kind, &n);
    memcpy(in->host + in->table + (size_t)kind * (size_t)s->n_pages, units, (size_t)n * sizeof *units);
  }
  GA_TRY(ga_buffer_alloc(ctx, (in->sequence + (size_t)s->context + 1) * sizeof(int32_t), &p));
  in->device = p;
  return ga_copy_to_device(ctx, in->device + in->table, in->host + in->table, in->step * sizeof(int32_t), NULL);
}

static ga_status create_stage(ga_session *s, const ga_placement *placement, const ga_session_sizes *sizes,
                              session_stage *stage) {
  GA_TRY(create_inputs(s, placement->ctx, &stage->inputs));
  GA_TRY(exec_create(s->model, placement, &s->kv, sizes->batch, sizes->max_out, sizes->context, &stage->exec));
  stage->exec.rounds_x = sizes->rounds_x;
  return sizes->rounds_x ? exec_check_rounds_x(&stage->exec) : GA_OK;
}

static ga_status create(ga_session *s, const ga_session_options *options) {
  ga_session_sizes sizes;
  void *p;
  GA_TRY(ga_session_sizes_of(&s->model->hparams, s->model->ctx, options, &sizes));
  GA_REQUIRE(!sizes.rounds_x || sizes.batch > FUSED_FEW, GA_ERR_ARG,
             "session: batch %d with activations of e4m3, which are for steps of more than %d tokens (deterministic "
             "sessions have one)",
             sizes.batch, FUSED_FEW);
  s->context = sizes.context;
  s->batch = sizes.batch;
  s->device_length = -1;
  GA_TRY(ga_mem_zalloc((size_t)s->context, sizeof(int32_t), "session", &p));
  s->tokens = p;
  GA_TRY(create_memory(s, sizes.kv_dtype));
  for (int32_t i = 0; i < s->model->n_placements; i++) {
    const ga_placement *placement = &s->model->placements[i];
    const ga_status status = create_stage(s, placement, &sizes, &s->stages[i]);
    if (status != GA_OK)
      return ga_fail_in(status, "session of %d tokens, %d at once, on %s", s->context, s->batch,
                        placement->plan.device);
  }
  return GA_OK;
}

/* Two threads in one context would race for its thread pool, stream and workspace. */
static ga_status check_engine(const ga_model *model) {
  for (int32_t i = 0; i < model->n_placements; i++)
    GA_REQUIRE(!atomic_load(&model->placements[i].ctx->in_engine), GA_ERR_STATE,
               "session: an engine uses the model's context; destroy it first, or take a model that shares the weights "
               "in a context of its own (ga_model_share)");
  return GA_OK;
}

ga_status ga_session_create(ga_model *model, const ga_session_options *options, ga_session **out) {
  GA_REQUIRE(model && out, GA_ERR_ARG, "session: model or out is null");
  *out = NULL;
  GA_REQUIRE(!model->is_plan, GA_ERR_STATE, "session: the model was loaded without weights (plan_only)");
  GA_REQUIRE(!model->info.is_encoder, GA_ERR_UNSUPPORTED, "session: %s is an encoder, it makes embeddings only",
             model->info.arch);
  GA_TRY(check_engine(model));
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
  for (int32_t i = 0; i < s->model->n_placements; i++) {
    session_stage *stage = &s->stages[i];
    const ga_status read = stage->inputs.unread ? ga_stream_sync(s->model->placements[i].ctx, NULL) : GA_OK;
    (void)read; /* a device that is lost reads no more */
    ga_graph_destroy(stage->graph.graph);
    exec_destroy(&stage->exec);
    ga_buffer_free(s->model->placements[i].ctx, stage->inputs.device);
    ga_host_free(s->model->placements[i].ctx, stage->inputs.host);
  }
  kv_cache_destroy(&s->kv);
  if (s->memory) layer_memory_release(s->memory, 0, &s->sequence, NULL, 0);
  layer_memory_destroy(s->memory);
  ga_mem_free(s->tokens);
  ga_mem_free(s);
}

int32_t ga_session_length(const ga_session *s) { return s->length; }
int32_t ga_session_context(const ga_session *s) { return s->context; }

uint64_t ga_session_kv_bytes(const ga_session *s) { return kv_cache_bytes(&s->kv); }

ga_status ga_session_rewind(ga_session *s, int32_t n_tokens) {
  GA_REQUIRE(n_tokens >= 0 && n_tokens <= s->length, GA_ERR_ARG, "rewind to %d; the session holds %d tokens", n_tokens,
             s->length);
  s->length = n_tokens;
  return GA_OK;
}

/* --- steps --- */

/* Nothing of the inputs is under way to a device any more. */
static void all_read(ga_session *s) {
  for (int32_t i = 0; i < s->model->n_placements; i++) s->stages[i].inputs.unread = false;
}

/* Of one token the addresses are always the same: recorded steps read them. */
static void point_at_inputs(const ga_session *s, session_stage *stage, int32_t at, int32_t n) {
  const int32_t *step = stage->inputs.device + stage->inputs.step;
  stage->step = (ga_step){.n_tokens = n,
                          .n_seqs = 1,
                          .n_decode = n == 1,
                          .max_q = n,
                          .max_kv = at + n,
                          .ids = step,
                          .positions = step + n,
                          .kv_len = step + 3 * (size_t)n,
                          .q_start = step + 3 * (size_t)n + 1,
                          .q_start_prompts = step + 3 * (size_t)n + 1, /* where there is no sequence of one token */
                          .page_stride = s->n_pages};
  for (int32_t kind = 0; kind < layer_memory_n_kinds(s->memory); kind++) /* page i is the i-th of each kind */
    stage->step.pages[kind] =
        (ga_step_pages){.slots = step + 2 * (size_t)n,
                        .page_table = stage->inputs.device + stage->inputs.table + (size_t)kind * (size_t)s->n_pages};
  stage->exec.step = &stage->step;
}

static ga_status upload_inputs(ga_session *s, session_stage *stage, const int32_t *ids, int32_t at, int32_t n) {
  session_inputs *in = &stage->inputs;
  int32_t *step = in->host + in->step;
  if (in->unread) GA_TRY(ga_stream_sync(stage->exec.ctx, NULL));
  for (int32_t i = 0; i < n; i++) {
    step[i] = ids[i];
    step[n + i] = step[2 * n + i] = at + i;
  }
  step[3 * n] = at + n;
  step[3 * n + 1] = 0;
  step[3 * n + 2] = n;
  s->device_length = -1;
  in->unread = true;
  point_at_inputs(s, stage, at, n);
  return ga_copy_to_device_later(stage->exec.ctx, in->device + in->step, step, (3 * (size_t)n + 3) * sizeof *step,
                                 NULL);
}

/* Rows of one chunk, some at a time; the first block is computed by exec_run. base: the chunk's first row; wanted: the
 * first row that out is to have; host: memory for a block, unless they go to out->into. */
static ga_status deliver_rows(ga_session *s, int32_t first, int32_t base, int32_t wanted, const session_out *out,
                              float *host) {
  const size_t vocab = (size_t)s->model->hparams.vocab;
  ga_exec *e = &session_last(s)->exec;
  ga_step *step = &session_last(s)->step;
  for (int32_t at = first; at < step->n_tokens; at += step->n_out) {
    if (at > first) {
      step->out_begin = at;
      step->n_out = (int32_t)ga_min_i64(step->n_tokens - at, e->max_out);
      GA_TRY(exec_head(e));
    }
    float *block = out->into ? out->into + (size_t)(base + at - wanted) * vocab : host;
    GA_TRY(ga_copy_to_host(e->ctx, block, exec_result(e), (size_t)step->n_out * vocab * sizeof(float), NULL));
    GA_TRY(exec_check(e));
    all_read(s);
    for (int32_t i = 0; out->row && i < step->n_out; i++)
      GA_TRY(out->row(out->user, base + at + i, block + (size_t)i * vocab));
  }
  return GA_OK;
}

/* --- decoding --- */

static const session_sample no_sample;

static ga_status run_step(session_stage *stage, const session_sample *sample) {
  GA_TRY(exec_run(&stage->exec));
  const ga_sample_fused_desc d = {.plain = sample->desc};
  return d.plain.vocab ? ga_sample_fused(stage->exec.ctx, &d, &sample->io, NULL) : GA_OK;
}

static ga_status record_step(session_stage *stage, const session_sample *sample) {
  ga_ctx *ctx = stage->exec.ctx;
  GA_TRY(ga_graph_begin(ctx, NULL));
  ga_status status = run_step(stage, sample);
  ga_graph *graph = NULL;
  ga_status ended = ga_graph_end(ctx, NULL, &graph);
  if (status == GA_OK) status = ended;
  if (status != GA_OK) {
    ga_graph_destroy(graph);
    return status;
  }
  stage->graph.graph = graph;
  return GA_OK;
}

/* The step as a graph: the first of a length class runs op by op, which makes its plans and loads its kernels; the
 * second is recorded, and the others replay that. Devices without graphs run every step op by op. */
static ga_status run_decode(session_stage *stage, const session_sample *sample) {
  session_graph *g = &stage->graph;
  const int64_t max_kv = exec_rounded(stage->step.max_kv);
  if (g->off) return run_step(stage, sample);
  if (g->max_kv != max_kv || memcmp(&g->sample, sample, sizeof *sample)) {
    ga_graph_destroy(g->graph);
    *g = (session_graph){.max_kv = max_kv};
    memcpy(&g->sample, sample, sizeof *sample);
    return run_step(stage, sample);
  }
  if (!g->graph) {
    ga_status status = record_step(stage, sample);
    g->off = status == GA_ERR_UNSUPPORTED;
    if (g->off) return run_step(stage, sample);
    GA_TRY(status);
  }
  return ga_graph_launch(stage->exec.ctx, g->graph, NULL);
}

/* A part's layers of the step, behind those of the part before it. */
static ga_status run_stage(ga_session *s, int32_t i) {
  session_stage *stage = &s->stages[i];
  const ga_step *step = &stage->step;
  if (i) GA_TRY(exec_take_over(&stage->exec, &s->stages[i - 1].exec));
  return step->n_tokens == 1 && step->n_out == 1 ? run_decode(stage, &no_sample) : exec_run(&stage->exec);
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

/* One chunk at position `at` of the session, row `base` of the call. */
static ga_status run_chunk(ga_session *s, const int32_t *ids, int32_t at, int32_t n, int32_t base, int32_t wanted,
                           const session_out *out, float *host) {
  const int32_t first = (int32_t)ga_min_i64(n, ga_max_i64(0, wanted - base));
  GA_TRY(prepare_memory(s, at));
  s->n_evaluated = at + n;
  for (int32_t i = 0; i < s->model->n_placements; i++) {
    ga_step *step = &s->stages[i].step;
    GA_TRY(upload_inputs(s, &s->stages[i], ids, at, n));
    step->out_begin = first;
    step->n_out = (int32_t)ga_min_i64(n - first, session_last(s)->exec.max_out);
    GA_TRY(run_stage(s, i));
  }
  return out->into || out->row ? deliver_rows(s, first, base, wanted, out, host) : GA_OK;
}

/* Evaluates tokens again that layer memory could not keep when the session went back to its length. */
static ga_status restore_length(ga_session *s) {
  const session_out none = {0};
  if (s->n_evaluated <= s->length) return GA_OK;
  s->n_evaluated = layer_memory_rewind(s->memory, 0, &s->sequence, s->tokens, s->n_evaluated, s->length);
  while (s->n_evaluated < s->length) {
    const int32_t at = s->n_evaluated, left = s->length - at;
    const int32_t n = layer_memory_chunk(s->memory, at, (int32_t)ga_min_i64(s->batch, left));
    GA_TRY(run_chunk(s, s->tokens + at, at, n, 0, n, &none, NULL));
  }
  return GA_OK;
}

/* Tells the device of the token to come and of the `window` tokens that penalties see, it included, unless the last
 * step has left all that there. */
static ga_status set_next_token(ga_session *s, int32_t id, int32_t window) {
  session_stage *stage = &s->stages[0];
  const session_inputs *in = &stage->inputs;
  if (s->device_length == s->length && in->host[in->step + STEP_ID] == id && window <= s->window) {
    point_at_inputs(s, stage, s->length, 1);
    return GA_OK;
  }
  const int32_t end = s->length + 1, first = (int32_t)ga_max_i64(0, end - window);
  s->tokens[s->length] = id;
  s->window = window;
  if (window)
    GA_TRY(ga_copy_to_device(stage->exec.ctx, in->device + in->sequence + first, s->tokens + first,
                             (size_t)(end - first) * sizeof id, NULL));
  return upload_inputs(s, stage, &id, s->length, 1);
}

/* Ranks that share a model evaluate the same ids, or compute garbage together: they compare a hash (FNV-1a). */
static ga_status meet_ranks(const ga_session *s, const int32_t *ids, int32_t n) {
  uint64_t hash = 14695981039346656037u ^ (uint64_t)s->length;
  if (!s->model->comm) return GA_OK;
  for (int32_t i = 0; i < n; i++) hash = (hash ^ (uint32_t)ids[i]) * 1099511628211u;
  return ga_comm_meet(s->model->comm, "ids that a session evaluates", hash);
}

/* A rank that fails ends the communicator, so that the others learn why and do not wait. */
static ga_status leave_ranks(const ga_session *s, ga_status status) {
  if (status != GA_OK && s->model->comm) ga_comm_abort(s->model->comm, ga_error_text());
  return status;
}

ga_status session_step(ga_session *s, int32_t id, const session_sample *sample) {
  session_stage *stage = &s->stages[0];
  int32_t *step = stage->inputs.device + stage->inputs.step;
  session_sample own;
  GA_REQUIRE(s->model->n_placements == 1, GA_ERR_INTERNAL, "a step of %d placements in one launch",
             s->model->n_placements);
  GA_REQUIRE(s->length < s->context, GA_ERR_SHAPE, "context is full: %d tokens", s->length);
  memcpy(&own, sample, sizeof own);
  own.io.plain.id = step + STEP_ID;
  own.io.advance = step + STEP_POSITION;
  own.io.n_advance = STEP_MOVING;
  if (own.io.plain.n_history) {
    own.io.sequence = stage->inputs.device + stage->inputs.sequence;
    own.io.n_sequence = step + STEP_KV_LEN;
  }
  GA_TRY(meet_ranks(s, &id, 1));
  GA_TRY(restore_length(s));
  GA_TRY(prepare_memory(s, s->length));
  GA_TRY(set_next_token(s, id, (int32_t)own.io.plain.n_history));
  stage->step.n_out = 1;
  s->n_evaluated = s->length + 1;
  s->device_length = -1;
  GA_TRY(leave_ranks(s, run_decode(stage, &own)));
  s->tokens[s->length++] = id;
  s->device_length = s->length;
  return GA_OK;
}

ga_status session_sampled(ga_session *s, int32_t *id) {
  session_inputs *in = &s->stages[0].inputs;
  GA_TRY(ga_copy_to_host(s->stages[0].exec.ctx, id, in->device + in->step + STEP_ID, sizeof *id, NULL));
  GA_TRY(exec_check(&s->stages[0].exec));
  all_read(s);
  in->host[in->step + STEP_ID] = *id;
  return GA_OK;
}

static ga_status check_ids(const ga_session *s, const int32_t *ids, int32_t n) {
  GA_REQUIRE(s && ids && n >= 1, GA_ERR_ARG, "eval: session or ids is null, or n is %d; must be at least 1", n);
  GA_REQUIRE(n <= s->context - s->length, GA_ERR_SHAPE, "context is full: %d tokens held, %d more do not fit in %d",
             s->length, n, s->context);
  for (int32_t i = 0; i < n; i++)
    GA_REQUIRE(ids[i] >= 0 && ids[i] < s->model->hparams.vocab, GA_ERR_ARG, "eval: id %d at %d; must be 0 to %d",
               ids[i], i, s->model->hparams.vocab - 1);
  return GA_OK;
}

static ga_status append_tokens(ga_session *s, const int32_t *ids, int32_t n, const session_out *out, float *host,
                               ga_progress_fn progress, void *user) {
  GA_TRY(restore_length(s));
  for (int32_t done = 0; done < n;) {
    const int32_t most = (int32_t)ga_min_i64(s->batch, n - done);
    const int32_t chunk = layer_memory_chunk(s->memory, s->length + done, most);
    GA_TRY(run_chunk(s, ids + done, s->length + done, chunk, done, n - out->n_rows, out, host));
    done += chunk;
    GA_REQUIRE(!progress || !progress(user, (uint64_t)done, (uint64_t)n), GA_ERR_CANCELLED,
               "stopped after %d of %d tokens", done, n);
  }
  memcpy(s->tokens + s->length, ids, (size_t)n * sizeof(int32_t));
  s->length += n;
  return GA_OK;
}

ga_status session_append(ga_session *s, const int32_t *ids, int32_t n, const session_out *out, ga_progress_fn progress,
                         void *user) {
  const session_out none = {0};
  void *host = NULL;
  GA_TRY(check_ids(s, ids, n));
  GA_TRY(check_engine(s->model));
  GA_TRY(meet_ranks(s, ids, n));
  if (!out) out = &none;
  const session_stage *last = session_last(s);
  if (out->row)
    GA_TRY(ga_host_alloc(last->exec.ctx, (size_t)last->exec.max_out * (size_t)s->model->hparams.vocab * sizeof(float),
                         &host));
  const ga_status status = leave_ranks(s, append_tokens(s, ids, n, out, host, progress, user));
  ga_host_free(last->exec.ctx, host);
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
