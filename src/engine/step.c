/* One step: the plan's tokens through the model, and the rows of logits that they are for. */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "engine/engine.h"

/* --- inputs --- */

/* Offsets in int32 of a step's inputs. */
typedef struct step_layout {
  int64_t ids, positions, slots[MEMORY_KINDS_MAX], q_start, q_start_prompts, kv_len, out_rows, total;
  int64_t table[MEMORY_KINDS_MAX], columns[MEMORY_KINDS_MAX]; /* [seqs, columns] */
  int64_t stride;                                             /* columns of tables of pages */
  step_samples samples;
} step_layout;

enum { ROW_WORDS = sizeof(ga_sample_row) / sizeof(int32_t), RNG_WORDS = 4 * sizeof(uint64_t) / sizeof(int32_t) };

static step_layout inputs_layout(const ga_engine *e, int64_t tokens, int64_t seqs, int64_t rows, int64_t samples,
                                 int64_t stride) {
  const int64_t most = e->options.max_sequences;
  const int32_t n_kinds = layer_memory_n_kinds(e->memory);
  step_layout l = {.stride = stride, .samples.n = (int32_t)samples};
  int64_t at = 0;
#define TAKE(field, n) (l.field = at, at += (n))
  TAKE(samples.ids, most); /* first: steps of all sizes have them there */
  TAKE(samples.first, most);
  TAKE(samples.rows, samples * ROW_WORDS); /* these are of 8 bytes, and begin at a multiple of that */
  TAKE(samples.rng, samples * RNG_WORDS);
  TAKE(ids, tokens);
  TAKE(positions, tokens);
  for (int32_t kind = 0; kind < n_kinds; kind++) TAKE(slots[kind], tokens);
  TAKE(q_start, seqs + 1);
  TAKE(q_start_prompts, seqs + 1);
  TAKE(kv_len, seqs);
  for (int32_t kind = 0; kind < n_kinds; kind++) {
    l.columns[kind] = layer_memory_kind(e->memory, kind)->unit_tokens ? stride : 1;
    TAKE(table[kind], seqs * l.columns[kind]);
  }
  TAKE(out_rows, rows); /* last: steps that are recorded have none */
#undef TAKE
  l.total = at;
  return l;
}

/* Few values, so that the plans that a context remembers stay few: 1, 1.5, 2, 3, 4, 6, 8 ... times 1024. */
static int64_t kv_class(int64_t n) {
  int64_t c = 1024;
  while (c < n && c + c / 2 < n) c *= 2;
  return c >= n ? c : c + c / 2;
}

/* Pages of a table: of the longest sequence, or of the class of lengths. Behind all, tokens that penalties see. */
int64_t step_inputs_room(const ga_engine *e) {
  const int64_t seqs = e->options.max_sequences, tokens = e->sizes.batch;
  const int64_t stride = ga_div_up(kv_class(e->sizes.context), GA_KV_PAGE) + 1;
  return inputs_layout(e, tokens, seqs, tokens, seqs, stride).total + seqs * GA_KV_PAGE;
}

static int32_t max_q_class(int32_t n) {
  int32_t c = 1;
  while (c < n) c *= 2;
  return c;
}

static void put_item_tokens(const ga_engine *e, const sched_item *item, int32_t *h, const step_layout *l, int64_t at) {
  const sched_request *r = item->request;
  for (int32_t i = 0; i < item->n; i++) {
    const int32_t position = item->first + i;
    h[l->ids + at + i] = position < r->n_ids ? r->ids[position] : 0; /* ahead: the device knows it */
    h[l->positions + at + i] = position;
    for (int32_t kind = 0; kind < layer_memory_n_kinds(e->memory); kind++) {
      const int32_t *pages = r->kv.units[kind];
      h[l->slots[kind] + at + i] = pages ? pages[position / GA_KV_PAGE] * GA_KV_PAGE + position % GA_KV_PAGE : -1;
    }
  }
}

/* Units that no query reads are unit 0: attention takes them for masked keys, but they must be pages. */
static void put_item_tables(const ga_engine *e, const sched_item *item, int32_t *h, const step_layout *l,
                            int64_t sequence) {
  for (int32_t kind = 0; kind < layer_memory_n_kinds(e->memory); kind++) {
    int32_t n, *row = h + l->table[kind] + sequence * l->columns[kind];
    const int32_t *units = layer_memory_units(e->memory, &item->request->kv, kind, &n);
    for (int64_t i = 0; i < l->columns[kind]; i++) row[i] = i < n && units[i] >= 0 ? units[i] : 0;
  }
}

/* What a step is, from its items. */
typedef struct step_shape {
  int32_t n_tokens, n_seqs, n_rows, n_samples; /* as they run: padded where is_decode */
  int32_t n_decode, max_q, max_kv, n_pages;
  bool is_decode; /* every sequence has one token and draws the next, on the device */
} step_shape;

static ga_step batch_step(const ga_engine *e, const step_shape *s, const step_layout *l) {
  const int32_t *d = e->inputs.device;
  ga_step step = {.n_tokens = s->n_tokens,
                  .n_seqs = s->n_seqs,
                  .n_decode = s->n_decode,
                  .max_q = max_q_class(s->max_q),
                  .max_kv = s->max_kv,
                  .ids = d + l->ids,
                  .positions = d + l->positions,
                  .q_start = d + l->q_start,
                  .q_start_prompts = d + l->q_start_prompts,
                  .kv_len = d + l->kv_len,
                  .page_stride = l->stride};
  for (int32_t kind = 0; kind < layer_memory_n_kinds(e->memory); kind++)
    step.pages[kind] = (ga_step_pages){.slots = d + l->slots[kind], .page_table = d + l->table[kind]};
  return step;
}

/* Sequences of no request, of one token at no slot, so that a step has as many as its class. */
static void pad_inputs(const ga_engine *e, int32_t *h, const step_layout *l, int32_t first, int32_t end) {
  for (int32_t i = first; i < end; i++) {
    h[l->ids + i] = h[l->positions + i] = 0;
    h[l->q_start + i] = i;
    h[l->kv_len + i] = 1;
    for (int32_t kind = 0; kind < layer_memory_n_kinds(e->memory); kind++) {
      h[l->slots[kind] + i] = -1;
      const int32_t unit = layer_memory_kind(e->memory, kind)->unit_tokens ? 0 : -1;
      for (int64_t c = 0; c < l->columns[kind]; c++) h[l->table[kind] + i * l->columns[kind] + c] = unit;
    }
  }
}

/* --- rows of logits --- */

/* Which rows are wanted, in the order of the step's tokens. */
static void list_wanted_rows(engine_step *step) {
  int32_t n = 0, token = 0;
  for (int32_t i = 0; i < step->plan->n_items; token += step->plan->items[i++].n) {
    const sched_item *item = &step->plan->items[i];
    ga_request *r = item->request->user;
    const int32_t end = item->first + item->n;
    if (r->options.prompt_logprobs && !r->n_scored) engine_give_first(r);
    for (int32_t at = item->first; at < end; at++) {
      const bool scores = r->options.prompt_logprobs && at + 1 < item->request->n_prompt && at + 2 > r->n_scored;
      const bool samples = item->samples && at + 1 == end && r->max_new > 0;
      if (!scores && !samples) continue;
      if (scores) r->n_scored = at + 2;
      step->rows[n++] = (step_row){.request = r, .token = token + at - item->first, .position = at, .samples = samples};
    }
  }
  step->n_rows = n;
}

/* Are all rows for draws, which the device makes? */
static bool only_draws(const ga_engine *e, const engine_step *step) {
  for (int32_t i = 0; i < step->n_rows; i++)
    if (!step->rows[i].samples) return false;
  return e->sampler.on;
}

/* Must logits of the step come to the host? Then no other step may have the buffer before. */
static bool wants_logits(const engine_step *step) {
  for (int32_t i = 0; i < step->n_rows; i++)
    if (step->rows[i].request && step->rows[i].request->options.logprobs >= 0) return true;
  return false;
}

/* Logits of n rows from `first` on are on the device: to where engine_take_rows can read them. */
static ga_status deliver_block(ga_engine *e, const engine_step *step, int32_t first, int32_t n) {
  const float *logits = exec_result(&e->exec);
  if (e->logits) {
    const size_t bytes = (size_t)n * (size_t)e->model->hparams.vocab * sizeof(float);
    GA_TRY(ga_copy_to_host(e->ctx, e->logits, logits, bytes, NULL));
    logits = e->logits;
  }
  return engine_take_rows(e, step, first, n, logits);
}

/* The same where the device draws; *sample: draws of the blocks before. The last block has the padding, too. */
static ga_status sample_block(ga_engine *e, const engine_step *step, int32_t first, int32_t n, bool is_last,
                              int32_t *sample) {
  const int32_t begin = *sample;
  for (int32_t i = first; i < first + n; i++) *sample += step->rows[i].samples;
  const int32_t n_draws = (is_last ? step->samples.n : *sample) - begin;
  if (n_draws) GA_TRY(device_rows_sample(e, &step->samples, begin, n_draws));
  if (is_last) step_gaps_end(e->ctx, &e->gaps);
  return device_rows_take(e, step, first, n, begin);
}

/* The model's layers, and the head for the wanted rows, as many at a time as there is room for. */
static ga_status run_wanted_rows(ga_engine *e, const engine_step *step, ga_step *run, const step_layout *l) {
  const int32_t n_rows = step->n_rows;
  int32_t sample = 0;
  const bool all = n_rows == run->n_tokens; /* they are one behind the other */
  run->n_out = (int32_t)ga_min_i64(n_rows, e->exec.max_out);
  if (!all) run->out_rows = e->inputs.device + l->out_rows;
  step_gaps_begin(e->ctx, &e->gaps);
  GA_TRY(exec_run(&e->exec));
  for (int32_t done = 0; done < n_rows;) {
    const bool is_last = done + run->n_out == n_rows;
    if (is_last && !e->sampler.on) step_gaps_end(e->ctx, &e->gaps);
    GA_TRY(e->sampler.on ? sample_block(e, step, done, run->n_out, is_last, &sample)
                         : deliver_block(e, step, done, run->n_out));
    done += run->n_out;
    if (is_last) break;
    run->n_out = (int32_t)ga_min_i64(n_rows - done, e->exec.max_out);
    run->out_begin = done;
    if (!all) run->out_rows = e->inputs.device + l->out_rows + done;
    GA_TRY(exec_head(&e->exec));
  }
  if (n_rows) return GA_OK;
  step_gaps_end(e->ctx, &e->gaps);
  return ga_stream_sync(e->ctx, NULL); /* the inputs have been read */
}

/* --- sizes and inputs --- */

static step_shape shape_of_items(const sched_plan *plan) {
  step_shape s = {.n_tokens = plan->n_tokens, .n_seqs = plan->n_items, .max_q = 1, .max_kv = 1, .n_pages = 1};
  for (int32_t i = 0; i < plan->n_items; i++) {
    const sched_item *item = &plan->items[i];
    s.max_q = (int32_t)ga_max_i64(s.max_q, item->n);
    s.max_kv = (int32_t)ga_max_i64(s.max_kv, item->first + item->n);
    s.n_pages = (int32_t)ga_max_i64(s.n_pages, item->request->kv.n_pages);
    if (s.n_decode == i && item->n == 1) s.n_decode++;
  }
  s.max_kv = (int32_t)kv_class(s.max_kv);
  return s;
}

/* Steps in which all generate have as many sequences as their class has, and inputs at its places. */
static step_shape shape_of_step(const ga_engine *e, const engine_step *step) {
  step_shape s = shape_of_items(step->plan);
  s.n_rows = step->n_rows;
  if (!e->sampler.on) return s;
  for (int32_t i = 0; i < s.n_rows; i++) s.n_samples += step->rows[i].samples;
  s.is_decode = s.n_samples == s.n_tokens;
  if (s.n_samples) s.n_samples = step_class(s.n_samples, e->options.max_sequences);
  if (!s.is_decode) return s;
  s.n_tokens = s.n_seqs = s.n_decode = s.n_samples;
  s.n_pages = s.max_kv / GA_KV_PAGE;
  return s;
}

static void put_step_inputs(const ga_engine *e, const engine_step *step, const step_shape *s, const step_layout *l,
                            int32_t *h) {
  const sched_item *items = step->plan->items;
  const int32_t n = step->plan->n_items;
  int64_t at = 0;
  for (int32_t i = 0; i < n; i++) {
    put_item_tokens(e, &items[i], h, l, at);
    put_item_tables(e, &items[i], h, l, i);
    h[l->q_start + i] = (int32_t)at;
    h[l->kv_len + i] = items[i].first + items[i].n;
    at += items[i].n;
  }
  if (s->is_decode) pad_inputs(e, h, l, n, s->n_seqs);
  h[l->q_start + s->n_seqs] = s->n_tokens;
  for (int32_t i = s->n_decode; i <= s->n_seqs; i++)
    h[l->q_start_prompts + i - s->n_decode] = h[l->q_start + i] - s->n_decode;
  for (int32_t i = 0; i < s->n_rows; i++) h[l->out_rows + i] = step->rows[i].token;
}

/* Tokens that the step before draws, to where this one reads them: those that lie one behind the other in both at
 * once. */
static ga_status copy_drawn(const ga_engine *e, const engine_step *step, const step_layout *l) {
  const sched_plan *plan = step->plan;
  int32_t from = 0, to = 0, n = 0, token = 0;
  for (int32_t i = 0; i <= plan->n_items; i++) {
    const sched_item *item = i < plan->n_items ? &plan->items[i] : NULL;
    const bool drawn = item && item->request->n_drawn && item->samples;
    const int32_t draw = drawn ? ((const ga_request *)item->request->user)->at_draw : -1;
    if (n && !(drawn && draw == from + n && token == to + n)) {
      GA_TRY(ga_copy_within(e->ctx, e->inputs.device + l->ids + to, e->inputs.device + l->samples.ids + from,
                            (size_t)n * sizeof(int32_t)));
      n = 0;
    }
    if (drawn && !n) from = draw, to = token;
    n += drawn;
    token += item ? item->n : 0;
  }
  return GA_OK;
}

static void number_draws(const engine_step *step) {
  int32_t n = 0;
  for (int32_t i = 0; i < step->n_rows; i++)
    if (step->rows[i].samples) step->rows[i].request->at_draw = n++;
}

/* Makes the step's inputs, and enqueues their way to the device. */
static ga_status send_step_inputs(ga_engine *e, engine_step *step, step_shape *s, step_layout *l) {
  *s = shape_of_step(e, step);
  *l = inputs_layout(e, s->n_tokens, s->n_seqs, s->n_rows, s->n_samples, s->n_pages);
  GA_REQUIRE(l->total <= e->inputs.room, GA_ERR_INTERNAL, "inputs of %lld numbers, room for %lld", (long long)l->total,
             (long long)e->inputs.room);
  step->samples = l->samples;
  step->used = l->total;
  put_step_inputs(e, step, s, l, e->inputs.host[step->place]);
  if (s->n_samples) GA_TRY(device_rows_put(e, step));
  const int64_t begin = l->samples.rows; /* behind what the device tells the host */
  GA_TRY(ga_copy_to_device_later(e->ctx, e->inputs.device + begin, e->inputs.host[step->place] + begin,
                                 (size_t)(l->total - begin) * sizeof(int32_t), NULL));
  GA_TRY(copy_drawn(e, step, l));
  number_draws(step);
  return GA_OK;
}

/* --- pages --- */

/* Pages that change places for the next step. A copy that fails leaves pages that nobody can trust: the engine ends. */
static ga_status move_pages(ga_engine *e) {
  int32_t n;
  const unit_copy *copies = layer_memory_copies(e->memory, &n);
  const ga_status status = memory_host_copy(&e->host, copies, n);
  if (status != GA_OK) return ga_fail_in(GA_ERR_DEVICE, "%d copies of units of layer memory", n);
  uint64_t out = 0, in = 0;
  for (int32_t i = 0; i < n; i++) {
    const uint64_t bytes = memory_host_unit_bytes(&e->host, copies[i].kind);
    out += copies[i].way == UNIT_TO_HOST ? bytes : 0;
    in += copies[i].way == UNIT_FROM_HOST ? bytes : 0;
  }
  layer_memory_copied(e->memory);
  if (!out && !in) return GA_OK;
  (void)pthread_mutex_lock(&e->lock);
  e->stats.swapped_out_bytes += out;
  e->stats.swapped_in_bytes += in;
  (void)pthread_mutex_unlock(&e->lock);
  return GA_OK;
}

/* --- steps whose logits stay on the device --- */

typedef struct device_run {
  ga_engine *e;
  const step_samples *at;
} device_run;

static ga_status run_on_device(void *user) {
  const device_run *run = user;
  GA_TRY(exec_run(&run->e->exec));
  if (!run->at->n) return GA_OK;
  GA_TRY(device_rows_keep_first(run->e, run->at, run->e->exec.step->n_out));
  return device_rows_sample(run->e, run->at, 0, run->at->n);
}

/* Enqueues the step whose inputs are on their way, and its draws' way to the host. It is recorded if all generate. */
static ga_status enqueue_step(ga_engine *e, engine_step *step, const step_shape *s, const step_layout *l) {
  device_run run = {e, &step->samples};
  ga_step tokens = batch_step(e, s, l);
  tokens.n_out = s->is_decode ? s->n_tokens : s->n_rows;
  if (!s->is_decode) tokens.out_rows = e->inputs.device + l->out_rows;
  e->exec.step = &tokens;
  step_gaps_begin(e->ctx, &e->gaps);
  const ga_status status =
      s->is_decode ? step_graphs_run(e, s->n_seqs, s->max_kv, run_on_device, &run) : run_on_device(&run);
  e->exec.step = NULL;
  GA_TRY(status);
  step_gaps_end(e->ctx, &e->gaps);
  (void)atomic_fetch_add(&e->steps.n_steps, 1);
  return device_rows_fetch(e, step);
}

/* --- steps that are enqueued before the tokens of the one before are known --- */

static engine_step *other_step(ga_engine *e) { return &e->steps.step[!e->steps.at]; }

/* Will any of the item's tokens be scored, which the host does? As list_wanted_rows, but notes nothing: a plan that is
 * given up is made again. */
static bool scores_prompt(const sched_item *item) {
  const ga_request *r = item->request->user;
  const int64_t end = ga_min_i64(item->first + item->n, item->request->n_prompt - 1);
  return r->options.prompt_logprobs && end > item->first && end + 1 > r->n_scored;
}

/* A request that has gone wrong draws nothing in the step under way, which has no token for the next one then. */
static bool may_go_ahead(const ga_engine *e, const sched_plan *plan) {
  for (int32_t i = 0; i < plan->n_items; i++)
    if (scores_prompt(&plan->items[i]) || ((const ga_request *)plan->items[i].request->user)->row_status != GA_OK)
      return false;
  return plan->n_items && e->sampler.on;
}

static ga_status enqueue_ahead(ga_engine *e) {
  engine_step *step = other_step(e);
  step_shape s;
  step_layout l;
  scheduler_plan_ahead(e->scheduler, ga_seconds(), &step->plan);
  if (step->plan) engine_end_expired(e, step->plan);
  GA_TRY(move_pages(e));
  if (!step->plan) return GA_OK;
  if (!may_go_ahead(e, step->plan)) {
    scheduler_drop_ahead(e->scheduler);
    return GA_OK;
  }
  list_wanted_rows(step);
  GA_TRY(send_step_inputs(e, step, &s, &l));
  GA_TRY(enqueue_step(e, step, &s, &l));
  e->steps.is_ahead = true;
  (void)atomic_fetch_add(&e->steps.n_ahead, 1);
  return GA_OK;
}

/* A step that cannot be enqueued ahead is tried again by itself, and fails then. With states it may have been enqueued
 * in part, and cannot be repeated. */
static ga_status try_ahead(ga_engine *e) {
  const ga_status status = enqueue_ahead(e);
  if (status == GA_OK || status == GA_ERR_DEVICE) return status;
  if (!layer_memory_can_repeat(e->memory)) return ga_fail_in(GA_ERR_DEVICE, "a step of layers with states");
  scheduler_drop_ahead(e->scheduler);
  step_gaps_pause(&e->gaps);
  return ga_stream_sync(e->ctx, NULL); /* what has been enqueued reads its place of the inputs */
}

void engine_forget_rows(ga_engine *e, const ga_request *r) {
  engine_step *step = other_step(e);
  for (int32_t i = 0; e->steps.is_ahead && i < step->n_rows; i++)
    if (step->rows[i].request == r) step->rows[i].request = NULL;
}

const sched_plan *engine_take_ahead(ga_engine *e) {
  if (!e->steps.is_ahead) return NULL;
  e->steps.at = !e->steps.at;
  return e->steps.step[e->steps.at].plan;
}

ga_status engine_skip_step(ga_engine *e) {
  e->steps.is_ahead = false;
  return ga_event_sync(e->sampler.drawn[e->steps.step[e->steps.at].place]);
}

/* --- a step --- */

ga_status engine_run_step(ga_engine *e, const sched_plan *plan) {
  engine_step *step = &e->steps.step[e->steps.at];
  step_shape s;
  step_layout l;
  if (e->steps.is_ahead) {
    e->steps.is_ahead = false;
  } else {
    step->plan = plan;
    GA_TRY(move_pages(e));
    list_wanted_rows(step);
    GA_TRY(send_step_inputs(e, step, &s, &l));
    if (!only_draws(e, step)) {
      ga_step run = batch_step(e, &s, &l);
      e->exec.step = &run;
      return run_wanted_rows(e, step, &run, &l);
    }
    GA_TRY(enqueue_step(e, step, &s, &l));
  }
  if (!wants_logits(step)) GA_TRY(try_ahead(e));
  return device_rows_take_fetched(e, step);
}
