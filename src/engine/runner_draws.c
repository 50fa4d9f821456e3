/* Draws of tokens from rows of logits. The last stage's device draws if it has a row for that, else a CPU does. Of a
 * device whose memory is not the host's the ids alone come back, and the rows that are shown.
 *
 * Parameters, generators and biases go there with each step: the host knows every state of a generator, for each draw
 * moves it on by one. Tokens that penalties see stay there, since they can be as many as the context: the draw puts
 * each new one behind them.
 *
 * A part with drafts draws behind each of them at once, as if all were right. The first draw that differs from its
 * draft is the last one that counts. */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "engine/runner_impl.h"

#define BIAS_ROOM_LEAST 4096 /* entries */

static ga_sample_fused_desc rows_desc(const runner *r, int32_t n) {
  ga_sample_fused_desc d = GA_SAMPLE_FUSED_DESC_INIT;
  d.plain.vocab = r->options.n_vocab;
  d.logits_stride = r->options.model->hparams.vocab;
  d.rows = n;
  return d;
}

static bool draws_in_host_memory(const runner *r) { return ga_device_in_host_memory(r->sampler.ctx->device); }

/* --- making and freeing --- */

/* Allocates memory for the draws, and two places of as many bytes from which the host sends it: the same memory where
 * that is the host's. */
static ga_status alloc_with_places(runner *r, size_t bytes, void **memory, void *places[2]) {
  const bool in_host = draws_in_host_memory(r);
  for (int i = 0; i < 2 && !in_host; i++)
    if (!places[i]) GA_TRY(ga_host_alloc(r->sampler.ctx, bytes, &places[i]));
  GA_TRY(ga_buffer_alloc(r->sampler.ctx, bytes, memory));
  for (int i = 0; i < 2 && in_host; i++) places[i] = *memory;
  return GA_OK;
}

static void free_with_places(runner *r, void *memory, void *places[2]) {
  ga_buffer_free(r->sampler.ctx, memory);
  for (int i = 0; i < 2; i++) {
    if (places[i] != memory) ga_host_free(r->sampler.ctx, places[i]);
    places[i] = NULL;
  }
}

static ga_status send_place(runner *r, void *there, const void *here, size_t bytes) {
  return !bytes || there == here ? GA_OK : ga_copy_to_device_later(r->sampler.ctx, there, here, bytes, NULL);
}

static void free_bias(runner *r) {
  free_with_places(r, r->sampler.bias, r->sampler.bias_host);
  r->sampler.bias = NULL;
  r->sampler.bias_room = 0;
}

/* Recorded steps, and those under way, have the former place. */
static ga_status grow_bias(runner *r, int64_t n) {
  void *p;
  if (n <= r->sampler.bias_room) return GA_OK;
  GA_TRY(ga_stream_sync(r->sampler.ctx, NULL));
  step_graphs_drop(runner_last(r));
  free_bias(r);
  n = ga_max_i64(2 * n, BIAS_ROOM_LEAST);
  GA_TRY(alloc_with_places(r, (size_t)n * sizeof(ga_logit_bias), &p, r->sampler.bias_host));
  r->sampler.bias = p;
  r->sampler.bias_room = n;
  return GA_OK;
}

static ga_status create_row_starts(runner *r) {
  const int32_t n = r->options.max_draws;
  void *host, *there;
  const int32_t vocab = r->options.model->hparams.vocab;
  GA_REQUIRE((int64_t)n * vocab <= INT32_MAX, GA_ERR_SHAPE,
             "max_sequences = %d, with %d logits each; allowed are fewer than 2^31 logits in all", n, vocab);
  GA_TRY(ga_buffer_alloc(runner_last(r)->ctx, (size_t)n * sizeof(int32_t), &there));
  r->sampler.row_starts = there;
  GA_TRY(ga_mem_zalloc((size_t)n, sizeof(int32_t), "draws", &host));
  for (int32_t i = 0; i < n; i++) ((int32_t *)host)[i] = i * vocab;
  const ga_status status = ga_copy_to_device(runner_last(r)->ctx, there, host, (size_t)n * sizeof(int32_t), NULL);
  ga_mem_free(host);
  return status;
}

/* Does the context have a row for draws of several rows? */
static ga_status can_draw(const runner *r, ga_ctx *ctx, bool *yes) {
  const ga_sample_fused_desc d = rows_desc(r, 1);
  ga_plan *plan;
  const ga_status status = ga_sample_fused_plan(ctx, &d, &plan);
  *yes = status == GA_OK;
  if (*yes) ga_plan_destroy(plan);
  return status == GA_ERR_UNSUPPORTED ? GA_OK : status;
}

/* A CPU, for draws where the device has no row, and to check options of sampling on any thread. */
static ga_status create_sample_ctx(runner *r, bool draws) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = "cpu";
  o.threads = !draws;
  GA_TRY(ga_ctx_create(&o, &r->sample_ctx));
  r->owns_sample_ctx = true;
  return GA_OK;
}

ga_status device_sampler_create(runner *r) {
  runner_stage *last = runner_last(r);
  const bool in_calls = ga_device_works_in_calls(last->ctx->device);
  bool has_row;
  void *p;
  GA_TRY(can_draw(r, last->ctx, &has_row));
  if (!in_calls) GA_TRY(create_sample_ctx(r, !has_row));
  r->sampler.ctx = has_row ? last->ctx : r->sample_ctx;
  GA_TRY(ga_mem_zalloc((size_t)r->options.max_sequences, sizeof(draw_history *), "draws", &p));
  r->sampler.owners = p;
  if (in_calls) return GA_OK;
  GA_TRY(runner_logits_room(r, has_row ? 1 : r->options.sizes.max_out));
  if (!has_row) return GA_OK;
  for (int i = 0; i < 2; i++) GA_TRY(ga_event_create(last->ctx, &r->sampler.drawn[i]));
  GA_TRY(create_row_starts(r));
  r->sampler.on = true;
  return grow_bias(r, 1);
}

void device_sampler_destroy(runner *r) {
  for (int i = 0; i < 2; i++) ga_event_destroy(r->sampler.drawn[i]);
  ga_mem_free(r->sampler.owners);
  ga_buffer_free(runner_last(r)->ctx, r->sampler.row_starts);
  ga_host_free(runner_last(r)->ctx, r->logits);
  if (!r->sampler.ctx) return;
  step_graphs_drop(runner_last(r));
  free_bias(r);
  free_with_places(r, r->sampler.masks, r->sampler.masks_host);
  ga_buffer_free(r->sampler.ctx, r->sampler.sequences);
  if (r->owns_sample_ctx) ga_ctx_destroy(r->sample_ctx);
}

ga_status runner_check_sample(const runner *r, const ga_sample_desc *sample) {
  ga_plan *plan;
  GA_TRY(ga_sample_plan(r->sample_ctx, sample, &plan));
  ga_plan_destroy(plan);
  return GA_OK;
}

/* --- masks --- */

static int64_t mask_words(const runner *r) { return ga_div_up(r->options.n_vocab, 32); }

static ga_status alloc_masks(runner *r) {
  const size_t bytes = (size_t)(r->options.max_draws * mask_words(r)) * sizeof(uint32_t);
  void *p;
  if (r->sampler.masks) return GA_OK;
  step_graphs_drop(runner_last(r)); /* these have none */
  GA_TRY(alloc_with_places(r, bytes, &p, r->sampler.masks_host));
  r->sampler.masks = p;
  return GA_OK;
}

/* Enqueues the mask's way to place n of the step's masks. */
static ga_status put_mask(runner *r, const run_step *step, const uint32_t *mask, int32_t n) {
  const int64_t words = mask_words(r);
  GA_TRY(alloc_masks(r));
  uint32_t *here = (uint32_t *)r->sampler.masks_host[step->place] + n * words;
  memcpy(here, mask, (size_t)words * sizeof *mask);
  return send_place(r, r->sampler.masks + n * words, here, (size_t)words * sizeof *mask);
}

/* --- before the step --- */

static const ga_sample_row no_draw = {.sequence = -1, .logits = -1, .mask = -1};

/* A draw by these options, of row `row` of its block's logits. */
static ga_sample_row row_of_sample(const ga_sample_desc *d, int32_t row) {
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

/* Places of a step's draws: the n-th one's biases, and tokens of a row with drafts. */
typedef struct draw_places {
  int32_t n, bias;
  int64_t drafted;
} draw_places;

/* Row i of the step. */
static ga_status put_sample_row(runner *r, run_step *step, int32_t i, const draw_places *at, ga_sample_row *out) {
  const row_draw *draw = run_row_draw(step, i);
  const int32_t n_before = step->rows[i].n_before, window = (int32_t)ga_min_i64(draw->window, n_before);
  *out = row_of_sample(draw->sample, i % runner_last(r)->exec.max_out);
  out->bias = at->bias;
  out->n_bias = draw->n_bias;
  if (draw->n_bias)
    memcpy((ga_logit_bias *)r->sampler.bias_host[step->place] + at->bias, draw->bias,
           (size_t)draw->n_bias * sizeof *draw->bias);
  if (draw->mask) {
    GA_TRY(put_mask(r, step, draw->mask, at->n));
    out->mask = at->n;
  }
  if (!window) return GA_OK;
  out->n_history = window;
  return run_row_is_drafted(&step->rows[i]) ? history_put_apart(r, step, i, window, at->drafted, &out->sequence)
                                            : history_put(r, step, i, window, &out->sequence);
}

/* The state of the generator before the row's draw, if all drafts before it are right. */
static void put_generator(const run_row *row, const row_draw *draw, uint64_t *rng) {
  memcpy(rng, draw->rng, 4 * sizeof *rng);
  for (int32_t k = 0; k < row->at_draw + row->is_behind; k++) rng_advance(draw->sample, rng, rng);
}

static void put_no_rows(int32_t *h, const step_samples *at, int32_t first) {
  ga_sample_row *rows = (ga_sample_row *)(void *)(h + at->rows);
  uint64_t *rng = (uint64_t *)(void *)(h + at->rng);
  for (int32_t i = first; i < at->n; i++) {
    rows[i] = no_draw;
    memset(rng + 4 * i, 0, 4 * sizeof *rng);
  }
}

static int64_t count_biases(const run_step *step) {
  int64_t n = 0;
  for (int32_t i = 0; i < step->n_rows; i++) n += step->rows[i].draws ? run_row_draw(step, i)->n_bias : 0;
  return n;
}

ga_status device_rows_put(runner *r, run_step *step) {
  const step_samples *at = &step->layout.samples;
  int32_t *h = runner_last(r)->host[step->place];
  ga_sample_row *rows = (ga_sample_row *)(void *)(h + at->rows);
  uint64_t *rng = (uint64_t *)(void *)(h + at->rng);
  draw_places place = {.drafted = 0};
  GA_TRY(grow_bias(r, count_biases(step)));
  GA_TRY(history_make_room(r, step));
  for (int32_t i = 0; i < step->n_rows; i++) {
    const row_draw *draw = run_row_draw(step, i);
    part_result *result = run_row_result(step, i);
    if (!step->rows[i].draws) continue;
    GA_TRY(part_note_status(result, put_sample_row(r, step, i, &place, &rows[place.n])));
    if (result->status != GA_OK) rows[place.n] = no_draw;
    put_generator(&step->rows[i], draw, rng + 4 * place.n);
    place.n++;
    place.bias += draw->n_bias;
    place.drafted += history_apart(step, i);
  }
  put_no_rows(h, at, place.n);
  return send_place(r, r->sampler.bias, r->sampler.bias_host[step->place], (size_t)place.bias * sizeof(ga_logit_bias));
}

/* --- the draws --- */

/* in: the step's inputs where the draws are made. */
static ga_status enqueue_draws(runner *r, const step_samples *at, int32_t first, int32_t n, int32_t *in,
                               const float *logits) {
  const ga_sample_fused_desc d = rows_desc(r, n);
  const ga_sample_fused_io io = {.plain = {.logits = logits,
                                           .bias = r->sampler.bias,
                                           .rng = (uint64_t *)(void *)(in + at->rng) + 4 * first,
                                           .id = in + at->ids + first},
                                 .sequence = r->sampler.sequences,
                                 .rows = (const ga_sample_row *)(const void *)(in + at->rows) + first,
                                 .mask = r->sampler.masks};
  return ga_sample_fused(r->sampler.ctx, &d, &io, NULL);
}

ga_status device_rows_sample(runner *r, const step_samples *at, int32_t first, int32_t n) {
  runner_stage *last = runner_last(r);
  return enqueue_draws(r, at, first, n, last->device, exec_result(&last->exec));
}

/* All logits are a table of one column here. */
ga_status device_rows_keep_first(runner *r, const step_samples *at, int32_t n) {
  runner_stage *last = runner_last(r);
  ga_embed_desc d = GA_EMBED_DESC_INIT;
  d.tokens = n;
  d.vocab = (int64_t)n * r->options.model->hparams.vocab;
  d.width = 1;
  d.w_dtype = GA_F32;
  const ga_embed_io io = {
      .ids = r->sampler.row_starts, .table = exec_result(&last->exec), .y = last->device + at->first};
  return ga_embed(last->ctx, &d, &io, NULL);
}

ga_status device_rows_fetch(runner *r, const run_step *step) {
  const runner_stage *last = runner_last(r);
  const step_samples *at = &step->layout.samples;
  const int64_t end = at->first + step->n_rows; /* behind the ids */
  if (step->n_rows)
    GA_TRY(ga_copy_to_host_later(last->ctx, last->host[step->place] + at->ids, last->device + at->ids,
                                 (size_t)(end - at->ids) * sizeof(int32_t), NULL));
  return ga_event_record(last->ctx, r->sampler.drawn[step->place], NULL);
}

/* Brings the logits of n rows of the step, from row `begin` on, to the host. at: row of `begin` in its block. */
static ga_status fetch_logits(runner *r, const run_step *step, int32_t begin, int32_t at, int32_t n,
                              const float **rows) {
  const runner_stage *last = runner_last(r);
  const size_t vocab = (size_t)r->options.model->hparams.vocab;
  float *to = step->asked.into ? step->asked.into + (size_t)step->rows[begin].row * vocab : NULL;
  if (!to) GA_TRY(runner_logits_room(r, n));
  *rows = to ? to : r->logits;
  return ga_copy_to_host(last->ctx, to ? to : r->logits, exec_result(&last->exec) + (size_t)at * vocab,
                         (size_t)n * vocab * sizeof(float), NULL);
}

/* Takes the draw of row i of the step; first: the first logit of the row. */
static ga_status take_draw(runner *r, const run_step *step, int32_t i, int32_t id, float first) {
  const run_row *row = &step->rows[i];
  const row_draw *draw = run_row_draw(step, i);
  part_result *result = run_row_result(step, i);
  uint64_t next[4];
  GA_REQUIRE(id >= 0 && id < r->options.n_vocab, GA_ERR_INTERNAL, "token %d was drawn from %d", id, r->options.n_vocab);
  rng_advance(draw->sample, draw->rng, next);
  memcpy(draw->rng, next, sizeof next);
  if (draw->history && draw->history->place >= 0 && !run_row_is_drafted(row))
    draw->history->n_known = row->n_before + 1;
  result->next = id;
  result->first = first;
  result->n_accepted += id == row->draft;
  return GA_OK;
}

/* Gives the logits x of a wanted row to the caller: in `into`, where a GPU has put them already, and by show. */
static ga_status show_row_of(const runner *r, const run_step *step, int32_t row, int32_t id, const float *x) {
  const runner_step *asked = &step->asked;
  const size_t vocab = (size_t)r->options.model->hparams.vocab;
  float *to = asked->into ? asked->into + (size_t)row * vocab : NULL;
  if (to && to != x) memcpy(to, x, vocab * sizeof *x);
  return asked->show ? asked->show(asked->user, row, id, x) : GA_OK;
}

/* Takes row i of the step, and shows it if it is to be shown: x has its logits then, else NULL. */
static ga_status take_device_row(runner *r, const run_step *step, int32_t i, int32_t id, float first, const float *x) {
  const row_draw *draw = run_row_draw(step, i);
  part_result *result = run_row_result(step, i);
  if ((!draw->sample && !draw->shows) || result->status != GA_OK) return GA_OK;
  if (draw->sample && step->rows[i].at_draw > result->n_accepted) return GA_OK; /* a draft before it was wrong */
  if (draw->sample) GA_TRY(part_note_status(result, take_draw(r, step, i, id, x ? x[0] : first)));
  if (!x || result->status != GA_OK) return GA_OK;
  return show_row_of(r, step, step->rows[i].row, draw->sample ? id : -1, x);
}

ga_status device_rows_take_fetched(runner *r, const run_step *step) {
  const int32_t *host = runner_last(r)->host[step->place], *ids = host + step->layout.samples.ids;
  const float *first = (const float *)(const void *)(host + step->layout.samples.first);
  GA_TRY(ga_event_sync(r->sampler.drawn[step->place]));
  GA_TRY(exec_check(&runner_last(r)->exec));
  for (int32_t i = 0; i < step->n_rows; i++) {
    const float *x = NULL;
    if (run_row_draw(step, i)->shows) GA_TRY(fetch_logits(r, step, i, i, 1, &x));
    GA_TRY(take_device_row(r, step, i, ids[i], first[i], x));
  }
  return GA_OK;
}

/* Brings the draws of a block, which begin at `sample`, to the host. */
static ga_status fetch_draws(runner *r, const run_step *step, int32_t sample, int32_t n) {
  const runner_stage *last = runner_last(r);
  const int64_t at = step->layout.samples.ids + sample;
  return ga_copy_to_host(last->ctx, last->host[step->place] + at, last->device + at, (size_t)n * sizeof(int32_t), NULL);
}

/* Logits of rows of a block in host memory, from row `begin` of the step on. */
typedef struct host_logits {
  const float *rows; /* NULL: none */
  int32_t begin;
} host_logits;

/* Brings all rows from the first to the last one that is shown to the host. */
static ga_status fetch_shown(runner *r, const run_step *step, int32_t first, int32_t n, host_logits *logits) {
  int32_t begin = first, end = first;
  for (int32_t i = first; i < first + n; i++) {
    if (!run_row_draw(step, i)->shows) continue;
    if (end == first) begin = i;
    end = i + 1;
  }
  if (end == begin) return GA_OK;
  logits->begin = begin;
  return fetch_logits(r, step, begin, begin - first, end - begin, &logits->rows);
}

/* Draws on the device; what the host needs comes to it. */
static ga_status draw_on_device(runner *r, const run_step *step, int32_t first, int32_t n, int32_t sample,
                                int32_t n_draws, host_logits *logits) {
  if (n_draws) GA_TRY(device_rows_sample(r, &step->layout.samples, sample, n_draws));
  if (n_draws) GA_TRY(fetch_draws(r, step, sample, n_draws));
  return fetch_shown(r, step, first, n, logits);
}

/* Draws on a CPU, to which all logits come unless they are there. */
static ga_status draw_on_host(runner *r, const run_step *step, int32_t first, int32_t n, int32_t sample,
                              int32_t n_draws, host_logits *logits) {
  runner_stage *last = runner_last(r);
  *logits = (host_logits){exec_result(&last->exec), first};
  if (!ga_device_in_host_memory(last->ctx->device)) GA_TRY(fetch_logits(r, step, first, 0, n, &logits->rows));
  return n_draws ? enqueue_draws(r, &step->layout.samples, sample, n_draws, last->host[step->place], logits->rows)
                 : GA_OK;
}

/* The first logit of row i of a block. */
static ga_status first_logit(runner *r, int32_t i, float *out) {
  const runner_stage *last = runner_last(r);
  const size_t at = (size_t)i * (size_t)r->options.model->hparams.vocab;
  return ga_copy_to_host(last->ctx, out, exec_result(&last->exec) + at, sizeof *out, NULL);
}

ga_status device_rows_take(runner *r, const run_step *step, int32_t first, int32_t n, int32_t *sample) {
  const size_t vocab = (size_t)r->options.model->hparams.vocab;
  const int32_t *ids = runner_last(r)->host[step->place] + step->layout.samples.ids;
  host_logits logits = {NULL, first};
  int32_t n_draws = 0;
  for (int32_t i = first; i < first + n; i++) n_draws += step->rows[i].draws;
  GA_TRY(r->sampler.on ? draw_on_device(r, step, first, n, *sample, n_draws, &logits)
                       : draw_on_host(r, step, first, n, *sample, n_draws, &logits));
  GA_TRY(exec_check(&runner_last(r)->exec));
  for (int32_t i = first; i < first + n; i++) {
    const int32_t id = step->rows[i].draws ? ids[(*sample)++] : -1;
    const bool shows = run_row_draw(step, i)->shows;
    const float *x = shows || !r->sampler.on ? logits.rows + (size_t)(i - logits.begin) * vocab : NULL;
    float logit = x ? x[0] : 0;
    if (!id && !x) GA_TRY(first_logit(r, i - first, &logit));
    GA_TRY(take_device_row(r, step, i, id, logit, shows ? x : NULL));
  }
  return GA_OK;
}
