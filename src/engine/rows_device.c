/* Rows of logits on a device whose memory is not the host's: tokens are drawn there, and the ids alone come back, and
 * the rows of requests that want log-probabilities.
 *
 * Parameters, generators and biases go there with each step: the host knows every state of a generator, for each draw
 * moves it on by one. Tokens that penalties see stay there, since they can be as many as the context: the draw puts
 * each new one behind them. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/status.h"
#include "engine/engine.h"

#define BIAS_ROOM_LEAST 4096 /* entries */

static ga_sample_fused_desc rows_desc(const ga_engine *e, int32_t n) {
  ga_sample_fused_desc d = GA_SAMPLE_FUSED_DESC_INIT;
  d.plain.vocab = e->n_vocab;
  d.logits_stride = e->model->hparams.vocab;
  d.rows = n;
  return d;
}

/* --- making and freeing --- */

static void free_bias(ga_engine *e) {
  ga_buffer_free(e->ctx, e->sampler.bias);
  for (int i = 0; i < 2; i++) ga_host_free(e->ctx, e->sampler.bias_host[i]);
  e->sampler.bias = e->sampler.bias_host[0] = e->sampler.bias_host[1] = NULL;
  e->sampler.bias_room = 0;
}

/* Recorded steps, and those under way, have the former place. */
static ga_status grow_bias(ga_engine *e, int64_t n) {
  void *p;
  if (n <= e->sampler.bias_room) return GA_OK;
  GA_TRY(ga_stream_sync(e->ctx, NULL));
  step_graphs_drop(e);
  free_bias(e);
  n = ga_max_i64(2 * n, BIAS_ROOM_LEAST);
  for (int i = 0; i < 2; i++) {
    GA_TRY(ga_host_alloc(e->ctx, (size_t)n * sizeof(ga_logit_bias), &p));
    e->sampler.bias_host[i] = p;
  }
  GA_TRY(ga_buffer_alloc(e->ctx, (size_t)n * sizeof(ga_logit_bias), &p));
  e->sampler.bias = p;
  e->sampler.bias_room = n;
  return GA_OK;
}

static ga_status create_row_starts(ga_engine *e) {
  const int32_t n = e->options.max_sequences;
  void *host, *there;
  const int32_t vocab = e->model->hparams.vocab;
  GA_REQUIRE((int64_t)n * vocab <= INT32_MAX, GA_ERR_SHAPE,
             "engine: max_sequences = %d, with %d logits each; allowed are fewer than 2^31 logits in all", n, vocab);
  GA_TRY(ga_buffer_alloc(e->ctx, (size_t)n * sizeof(int32_t), &there));
  e->sampler.row_starts = there;
  GA_TRY(ga_mem_zalloc((size_t)n, sizeof(int32_t), "engine", &host));
  for (int32_t i = 0; i < n; i++) ((int32_t *)host)[i] = i * vocab;
  const ga_status status = ga_copy_to_device(e->ctx, there, host, (size_t)n * sizeof(int32_t), NULL);
  ga_mem_free(host);
  return status;
}

ga_status device_sampler_create(ga_engine *e) {
  const ga_sample_fused_desc d = rows_desc(e, 1);
  ga_plan *plan;
  void *p;
  const ga_status status = ga_sample_fused_plan(e->ctx, &d, &plan);
  if (status == GA_ERR_UNSUPPORTED) return GA_OK; /* rows come to the host */
  GA_TRY(status);
  ga_plan_destroy(plan);
  GA_TRY(ga_mem_zalloc((size_t)e->options.max_sequences, sizeof(ga_request *), "engine", &p));
  e->sampler.owners = p;
  for (int i = 0; i < 2; i++) GA_TRY(ga_event_create(e->ctx, &e->sampler.drawn[i]));
  GA_TRY(create_row_starts(e));
  e->sampler.on = true;
  e->ctx->stream->shares_workspace = true; /* step_graphs.c watches it */
  return grow_bias(e, 1);
}

void device_sampler_destroy(ga_engine *e) {
  for (int i = 0; i < 2; i++) ga_event_destroy(e->sampler.drawn[i]);
  ga_mem_free(e->sampler.owners);
  ga_buffer_free(e->ctx, e->sampler.row_starts);
  if (!e->sampler.on) return;
  step_graphs_drop(e);
  e->ctx->stream->shares_workspace = false;
  free_bias(e);
  ga_buffer_free(e->ctx, e->sampler.sequences);
}

/* --- tokens that penalties see --- */

void device_sampler_forget(ga_engine *e, const ga_request *r) {
  if (r->at_sequence >= 0) e->sampler.owners[r->at_sequence] = NULL;
}

static int64_t sequence_length(const ga_engine *e) { return (int64_t)e->sizes.context + 1; }

static ga_status alloc_sequences(ga_engine *e) {
  void *p;
  if (e->sampler.sequences) return GA_OK;
  step_graphs_drop(e); /* these have none */
  GA_TRY(ga_buffer_alloc(e->ctx, (size_t)(e->options.max_sequences * sequence_length(e)) * sizeof(int32_t), &p));
  e->sampler.sequences = p;
  return GA_OK;
}

/* One that is free, or of a request that does not run: no more than max_sequences run. */
static ga_status take_sequence(ga_engine *e, ga_request *r) {
  for (int32_t i = 0; i < e->options.max_sequences; i++) {
    ga_request *owner = e->sampler.owners[i];
    if (owner && owner->sched.state == SCHED_RUNNING) continue;
    if (owner) owner->at_sequence = -1;
    e->sampler.owners[i] = r;
    r->at_sequence = i;
    r->n_on_device = 0;
    return GA_OK;
  }
  return ga_fail(GA_ERR_INTERNAL, "no place for the tokens of a request among %d", e->options.max_sequences);
}

/* Tokens of a request, by way of what the step's place has left: the device need not wait for the host. */
static ga_status upload_tokens(const ga_engine *e, engine_step *step, int32_t *there, const int32_t *ids, int32_t n) {
  const size_t bytes = (size_t)n * sizeof *ids;
  if (n > e->inputs.room - step->used) return ga_copy_to_device(e->ctx, there, ids, bytes, NULL);
  int32_t *here = e->inputs.host[step->place] + step->used;
  memcpy(here, ids, bytes);
  step->used += n;
  return ga_copy_to_device_later(e->ctx, there, here, bytes, NULL);
}

/* Of the last `window` tokens before position n_ids those that the host knows are on the device. */
static ga_status upload_sequence(ga_engine *e, engine_step *step, ga_request *r, int32_t n_ids, int32_t window) {
  GA_TRY(alloc_sequences(e));
  if (r->at_sequence < 0) GA_TRY(take_sequence(e, r));
  const int32_t n = r->sched.n_ids, first = (int32_t)ga_max_i64(r->n_on_device, n_ids - window);
  int32_t *there = e->sampler.sequences + r->at_sequence * sequence_length(e);
  if (first < n) GA_TRY(upload_tokens(e, step, there + first, r->ids + first, n - first));
  r->n_on_device = n;
  return GA_OK;
}

/* --- before the step --- */

/* What the request asks for, of row `row` of its block's logits. */
static ga_sample_row row_of_request(const ga_request *r, int32_t row) {
  const ga_sample_desc *d = &r->sample;
  return (ga_sample_row){.sequence = -1,
                         .logits = row,
                         .mask = -1,
                         .top_k = d->top_k,
                         .temperature = d->temperature,
                         .top_p = d->top_p,
                         .min_p = d->min_p,
                         .typical_p = d->typical_p,
                         .repetition_penalty = d->repetition_penalty,
                         .presence_penalty = d->presence_penalty,
                         .frequency_penalty = d->frequency_penalty};
}

/* Tokens of the request before the one that the step draws: the last may be drawn by the step before. */
static int32_t known_before(const ga_request *r) { return r->sched.n_ids + r->sched.n_drawn; }

/* row: of its block of logits. bias: where its biases begin. */
static ga_status put_sample_row(ga_engine *e, engine_step *step, ga_request *r, int32_t row, int32_t bias,
                                ga_sample_row *out) {
  const int32_t n_ids = known_before(r), n_bias = rows_n_bias(r, n_ids);
  const int32_t window = (int32_t)ga_min_i64(r->window, n_ids);
  *out = row_of_request(r, row);
  out->bias = bias;
  out->n_bias = n_bias;
  if (n_bias) memcpy(e->sampler.bias_host[step->place] + bias, r->bias, (size_t)n_bias * sizeof *r->bias);
  if (!window) return GA_OK;
  GA_TRY(upload_sequence(e, step, r, n_ids, window));
  out->sequence = r->at_sequence * sequence_length(e) + n_ids; /* the draw puts its token there */
  out->n_history = window;
  return GA_OK;
}

/* The request's generator behind one draw more. */
static void advance_rng(const ga_request *r, uint64_t state[4]) {
  ga_rng rng;
  memcpy(state, r->rng, sizeof r->rng);
  if (r->sample.temperature == 0) return;
  memcpy(rng.s, r->rng, sizeof rng.s);
  (void)ga_rng_unit(&rng);
  memcpy(state, rng.s, sizeof rng.s);
}

static void put_no_rows(int32_t *h, const step_samples *at, int32_t first) {
  ga_sample_row *rows = (ga_sample_row *)(void *)(h + at->rows);
  uint64_t *rng = (uint64_t *)(void *)(h + at->rng);
  for (int32_t i = first; i < at->n; i++) {
    rows[i] = (ga_sample_row){.sequence = -1, .logits = -1, .mask = -1};
    memset(rng + 4 * i, 0, 4 * sizeof *rng);
  }
}

static int64_t count_biases(const engine_step *step) {
  int64_t n = 0;
  for (int32_t i = 0; i < step->n_rows; i++)
    if (step->rows[i].samples) n += rows_n_bias(step->rows[i].request, known_before(step->rows[i].request));
  return n;
}

ga_status device_rows_put(ga_engine *e, engine_step *step) {
  const step_samples *at = &step->samples;
  int32_t *h = e->inputs.host[step->place];
  ga_sample_row *rows = (ga_sample_row *)(void *)(h + at->rows);
  uint64_t *rng = (uint64_t *)(void *)(h + at->rng);
  int32_t n = 0, n_bias = 0;
  GA_TRY(grow_bias(e, count_biases(step)));
  for (int32_t i = 0; i < step->n_rows; i++) {
    ga_request *r = step->rows[i].request;
    if (!step->rows[i].samples) continue;
    GA_TRY(rows_note_status(r, put_sample_row(e, step, r, i % e->exec.max_out, n_bias, &rows[n])));
    if (r->row_status != GA_OK) rows[n] = (ga_sample_row){.sequence = -1, .logits = -1, .mask = -1};
    if (r->sched.n_drawn)
      advance_rng(r, rng + 4 * n);
    else
      memcpy(rng + 4 * n, r->rng, sizeof r->rng);
    n++;
    n_bias += rows_n_bias(r, known_before(r));
  }
  put_no_rows(h, at, n);
  const size_t bytes = (size_t)n_bias * sizeof(ga_logit_bias);
  return bytes ? ga_copy_to_device_later(e->ctx, e->sampler.bias, e->sampler.bias_host[step->place], bytes, NULL)
               : GA_OK;
}

/* --- the draws --- */

ga_status device_rows_sample(ga_engine *e, const step_samples *at, int32_t first, int32_t n) {
  const ga_sample_fused_desc d = rows_desc(e, n);
  int32_t *in = e->inputs.device;
  const ga_sample_fused_io io = {.plain = {.logits = exec_result(&e->exec),
                                           .bias = e->sampler.bias,
                                           .rng = (uint64_t *)(void *)(in + at->rng) + 4 * first,
                                           .id = in + at->ids + first},
                                 .sequence = e->sampler.sequences,
                                 .rows = (const ga_sample_row *)(const void *)(in + at->rows) + first};
  return ga_sample_fused(e->ctx, &d, &io, NULL);
}

/* All logits are a table of one column here. */
ga_status device_rows_keep_first(const ga_engine *e, const step_samples *at, int32_t n) {
  ga_embed_desc d = GA_EMBED_DESC_INIT;
  d.tokens = n;
  d.vocab = (int64_t)n * e->model->hparams.vocab;
  d.width = 1;
  d.w_dtype = GA_F32;
  return ga_embed(
      e->ctx, &d,
      &(ga_embed_io){.ids = e->sampler.row_starts, .table = exec_result(&e->exec), .y = e->inputs.device + at->first},
      NULL);
}

ga_status device_rows_fetch(ga_engine *e, const engine_step *step) {
  const step_samples *at = &step->samples;
  const int64_t end = at->first + step->n_rows; /* behind the ids */
  if (step->n_rows)
    GA_TRY(ga_copy_to_host_later(e->ctx, e->inputs.host[step->place] + at->ids, e->inputs.device + at->ids,
                                 (size_t)(end - at->ids) * sizeof(int32_t), NULL));
  return ga_event_record(e->ctx, e->sampler.drawn[step->place], NULL);
}

/* Row i of the logits on the device; n of its numbers. */
static ga_status fetch_logits(ga_engine *e, int32_t i, size_t n) {
  const float *logits = exec_result(&e->exec);
  return ga_copy_to_host(e->ctx, e->logits, logits + (size_t)i * (size_t)e->model->hparams.vocab, n * sizeof(float),
                         NULL);
}

/* first: the row's first logit; NULL: it is still on the device. */
static ga_status take_draw(ga_engine *e, ga_request *r, int32_t i, int32_t id, const float *first) {
  uint64_t next[4];
  GA_REQUIRE(id >= 0 && id < e->n_vocab, GA_ERR_INTERNAL, "token %d was drawn from %d", id, e->n_vocab);
  advance_rng(r, next);
  memcpy(r->rng, next, sizeof next);
  if (r->at_sequence >= 0) r->n_on_device = r->sched.n_ids + 1;
  const size_t n = r->options.logprobs >= 0 ? (size_t)e->n_vocab : id == 0 && !first;
  if (n) GA_TRY(fetch_logits(e, i, n));
  return rows_accept(e, r, id, n ? e->logits[0] : first ? *first : 0, e->logits);
}

ga_status device_rows_take_fetched(ga_engine *e, const engine_step *step) {
  const int32_t *ids = e->inputs.host[step->place] + step->samples.ids;
  const float *first = (const float *)(const void *)(e->inputs.host[step->place] + step->samples.first);
  GA_TRY(ga_event_sync(e->sampler.drawn[step->place]));
  for (int32_t i = 0; i < step->n_rows; i++) {
    ga_request *r = step->rows[i].request;
    if (!r || r->row_status != GA_OK) continue;
    GA_TRY(rows_note_status(r, take_draw(e, r, i, ids[i], &first[i])));
  }
  return GA_OK;
}

ga_status device_rows_take(ga_engine *e, const engine_step *step, int32_t first, int32_t n, int32_t sample) {
  const int64_t at = step->samples.ids;
  int32_t *ids = e->inputs.host[step->place] + at, n_draws = 0;
  for (int32_t i = first; i < first + n; i++) n_draws += step->rows[i].samples;
  if (n_draws)
    GA_TRY(
        ga_copy_to_host(e->ctx, ids + sample, e->inputs.device + at + sample, (size_t)n_draws * sizeof(int32_t), NULL));
  for (int32_t i = 0; i < n; i++) {
    const step_row *row = &step->rows[first + i];
    ga_request *r = row->request;
    const int32_t id = row->samples ? ids[sample++] : GA_TOK_NONE;
    if (r->row_status != GA_OK) continue;
    ga_status status;
    if (row->samples) {
      status = take_draw(e, r, i, id, NULL);
    } else {
      status = fetch_logits(e, i, (size_t)e->n_vocab);
      if (status == GA_OK) status = rows_score_prompt(e, row, e->logits);
    }
    GA_TRY(rows_note_status(r, status));
  }
  return GA_OK;
}
