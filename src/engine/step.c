/* One step: the plan's tokens through the model, and the rows of logits that they are for. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "engine/engine.h"

/* --- inputs --- */

/* Offsets in int32 of a step's inputs. */
typedef struct step_layout {
  int64_t ids, positions, slots[KV_KINDS], q_start, q_start_prompts, kv_len, out_rows, table[KV_KINDS], total;
  int64_t stride; /* of tables */
  step_samples samples;
} step_layout;

enum { ROW_WORDS = sizeof(ga_sample_row) / sizeof(int32_t), RNG_WORDS = 4 * sizeof(uint64_t) / sizeof(int32_t) };

static step_layout inputs_layout(int64_t tokens, int64_t seqs, int64_t rows, int64_t samples, int64_t stride) {
  step_layout l = {.stride = stride, .samples.n = (int32_t)samples};
  int64_t at = 0;
#define TAKE(field, n) (l.field = at, at += (n))
  TAKE(samples.rows, samples * ROW_WORDS); /* first: they are of 8 bytes */
  TAKE(samples.rng, samples * RNG_WORDS);
  TAKE(samples.ids, samples);
  TAKE(samples.first, samples);
  TAKE(ids, tokens);
  TAKE(positions, tokens);
  for (int kind = 0; kind < KV_KINDS; kind++) TAKE(slots[kind], tokens);
  TAKE(q_start, seqs + 1);
  TAKE(q_start_prompts, seqs + 1);
  TAKE(kv_len, seqs);
  for (int kind = 0; kind < KV_KINDS; kind++) TAKE(table[kind], seqs * stride);
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

/* Pages of a table: of the longest sequence, or of the class of lengths. */
int64_t step_inputs_room(const ga_engine *e) {
  const int64_t seqs = e->options.max_sequences, tokens = e->sizes.batch;
  return inputs_layout(tokens, seqs, tokens, seqs, ga_div_up(kv_class(e->sizes.context), GA_KV_PAGE) + 1).total;
}

static int32_t max_q_class(int32_t n) {
  int32_t c = 1;
  while (c < n) c *= 2;
  return c;
}

static void put_item_tokens(const sched_item *item, int32_t *h, const step_layout *l, int64_t at) {
  const sched_request *r = item->request;
  for (int32_t i = 0; i < item->n; i++) {
    const int32_t position = item->first + i;
    h[l->ids + at + i] = position < r->n_ids ? r->ids[position] : 0; /* of a step ahead: the device knows it */
    h[l->positions + at + i] = position;
    for (int kind = 0; kind < KV_KINDS; kind++) {
      const int32_t *table = r->kv.table[kind];
      h[l->slots[kind] + at + i] = table ? table[position / GA_KV_PAGE] * GA_KV_PAGE + position % GA_KV_PAGE : -1;
    }
  }
}

/* Pages that no query sees are page 0: attention takes them for masked keys, but they must be pages. */
static void put_item_tables(const sched_item *item, int32_t *h, const step_layout *l, int64_t sequence) {
  const kv_sequence *kv = &item->request->kv;
  for (int kind = 0; kind < KV_KINDS; kind++) {
    int32_t *row = h + l->table[kind] + sequence * l->stride;
    for (int64_t i = 0; i < l->stride; i++)
      row[i] = kv->table[kind] && i < kv->n_pages && kv->table[kind][i] >= 0 ? kv->table[kind][i] : 0;
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
  for (int kind = 0; kind < KV_KINDS; kind++)
    step.pages[kind] = (ga_step_pages){.slots = d + l->slots[kind], .page_table = d + l->table[kind]};
  return step;
}

/* Sequences of no request, of one token at no slot, so that a step has as many as its class. */
static void pad_inputs(int32_t *h, const step_layout *l, int32_t first, int32_t end) {
  for (int32_t i = first; i < end; i++) {
    h[l->ids + i] = h[l->positions + i] = 0;
    h[l->q_start + i] = i;
    h[l->kv_len + i] = 1;
    for (int kind = 0; kind < KV_KINDS; kind++) {
      h[l->slots[kind] + i] = -1;
      memset(h + l->table[kind] + i * l->stride, 0, (size_t)l->stride * sizeof *h);
    }
  }
}

/* --- rows of logits --- */

/* Which rows are wanted, in the order of the step's tokens. */
static int32_t list_wanted_rows(ga_engine *e, const sched_plan *plan) {
  int32_t n = 0, token = 0;
  for (int32_t i = 0; i < plan->n_items; token += plan->items[i++].n) {
    const sched_item *item = &plan->items[i];
    ga_request *r = item->request->user;
    const int32_t end = item->first + item->n;
    if (r->options.prompt_logprobs && !r->n_scored) engine_give_first(r);
    for (int32_t at = item->first; at < end; at++) {
      const bool scores = r->options.prompt_logprobs && at + 1 < item->request->n_prompt && at + 2 > r->n_scored;
      const bool samples = item->samples && at + 1 == end && r->max_new > 0;
      if (!scores && !samples) continue;
      if (scores) r->n_scored = at + 2;
      e->rows[n++] = (step_row){.request = r, .token = token + at - item->first, .position = at, .samples = samples};
    }
  }
  return n;
}

/* Logits of n rows from `first` on are on the device: to where engine_take_rows can read them. */
static ga_status deliver_block(ga_engine *e, int32_t first, int32_t n) {
  const float *logits = e->exec.buffer[BUF_LOGITS];
  if (e->logits) {
    const size_t bytes = (size_t)n * (size_t)e->model->hparams.vocab * sizeof(float);
    GA_TRY(ga_copy_to_host(e->ctx, e->logits, logits, bytes, NULL));
    logits = e->logits;
  }
  return engine_take_rows(e, first, n, logits);
}

/* The same where the device draws; *sample: draws of the blocks before. The last block has the padding, too. */
static ga_status sample_block(ga_engine *e, const step_samples *at, int32_t first, int32_t n, bool is_last,
                              int32_t *sample) {
  const int32_t begin = *sample;
  for (int32_t i = first; i < first + n; i++) *sample += e->rows[i].samples;
  const int32_t n_draws = (is_last ? at->n : *sample) - begin;
  if (n_draws) GA_TRY(device_rows_sample(e, at, begin, n_draws));
  if (is_last) GA_TRY(step_gaps_end(e->ctx, &e->gaps));
  return device_rows_take(e, at, first, n, begin);
}

/* The model's layers, and the head for the wanted rows, as many at a time as there is room for. */
static ga_status run_wanted_rows(ga_engine *e, ga_step *step, const step_layout *l, int32_t n_rows) {
  int32_t sample = 0;
  const bool all = n_rows == step->n_tokens; /* they are one behind the other */
  step->n_out = (int32_t)ga_min_i64(n_rows, e->exec.max_out);
  if (!all) step->out_rows = e->inputs.device + l->out_rows;
  GA_TRY(step_gaps_begin(e->ctx, &e->gaps));
  GA_TRY(exec_run(&e->exec));
  for (int32_t done = 0; done < n_rows;) {
    const bool is_last = done + step->n_out == n_rows;
    if (is_last && !e->sampler.on) GA_TRY(step_gaps_end(e->ctx, &e->gaps));
    GA_TRY(e->sampler.on ? sample_block(e, &l->samples, done, step->n_out, is_last, &sample)
                         : deliver_block(e, done, step->n_out));
    done += step->n_out;
    if (is_last) break;
    step->n_out = (int32_t)ga_min_i64(n_rows - done, e->exec.max_out);
    step->out_begin = done;
    if (!all) step->out_rows = e->inputs.device + l->out_rows + done;
    GA_TRY(exec_head(&e->exec));
  }
  if (n_rows) return GA_OK;
  GA_TRY(step_gaps_end(e->ctx, &e->gaps));
  return ga_stream_sync(e->ctx, NULL); /* the inputs have been read */
}

/* --- sizes and inputs --- */

static step_shape shape_of_items(const sched_item *items, int32_t n, int32_t n_tokens) {
  step_shape s = {.n_tokens = n_tokens, .n_seqs = n, .max_q = 1, .max_kv = 1, .n_pages = 1};
  for (int32_t i = 0; i < n; i++) {
    const sched_item *item = &items[i];
    s.max_q = (int32_t)ga_max_i64(s.max_q, item->n);
    s.max_kv = (int32_t)ga_max_i64(s.max_kv, item->first + item->n);
    s.n_pages = (int32_t)ga_max_i64(s.n_pages, item->request->kv.n_pages);
    if (s.n_decode == i && item->n == 1) s.n_decode++;
  }
  s.max_kv = (int32_t)kv_class(s.max_kv);
  return s;
}

/* All n_rows sequences generate: as many as their class has, inputs at its places. */
static void shape_as_decodes(step_shape *s, int32_t most) {
  s->is_decode = true;
  s->n_samples = step_class(s->n_rows, most);
  s->n_tokens = s->n_seqs = s->n_decode = s->n_samples;
  s->n_pages = s->max_kv / GA_KV_PAGE;
}

static step_shape step_shape_of(ga_engine *e, const sched_plan *plan) {
  step_shape s = shape_of_items(plan->items, plan->n_items, plan->n_tokens);
  s.n_rows = list_wanted_rows(e, plan);
  if (!e->sampler.on) return s;
  for (int32_t i = 0; i < s.n_rows; i++) s.n_samples += e->rows[i].samples;
  if (s.n_samples == s.n_tokens)
    shape_as_decodes(&s, e->options.max_sequences);
  else if (s.n_samples)
    s.n_samples = step_class(s.n_samples, e->options.max_sequences);
  return s;
}

static void put_step_inputs(const sched_item *items, int32_t n, const step_shape *s, const step_layout *l, int32_t *h) {
  int64_t at = 0;
  for (int32_t i = 0; i < n; i++) {
    put_item_tokens(&items[i], h, l, at);
    put_item_tables(&items[i], h, l, i);
    h[l->q_start + i] = (int32_t)at;
    h[l->kv_len + i] = items[i].first + items[i].n;
    at += items[i].n;
  }
  pad_inputs(h, l, n, s->n_seqs);
  h[l->q_start + s->n_seqs] = s->n_tokens;
  for (int32_t i = s->n_decode; i <= s->n_seqs; i++)
    h[l->q_start_prompts + i - s->n_decode] = h[l->q_start + i] - s->n_decode;
}

static ga_status layout_of(const ga_engine *e, const step_shape *s, step_layout *l) {
  *l = inputs_layout(s->n_tokens, s->n_seqs, s->n_rows, s->n_samples, s->n_pages);
  GA_REQUIRE(l->total <= e->inputs.room, GA_ERR_INTERNAL, "inputs of %lld numbers, room for %lld", (long long)l->total,
             (long long)e->inputs.room);
  return GA_OK;
}

/* int32 [begin, end) of the inputs, from that place of the host. */
static ga_status upload_step_inputs(const ga_engine *e, int place, int64_t begin, int64_t end) {
  return ga_copy_to_device_later(e->ctx, e->inputs.device + begin, e->inputs.host[place] + begin,
                                 (size_t)(end - begin) * sizeof(int32_t), NULL);
}

/* --- pages --- */

/* Pages that change places for the next step. A copy that fails leaves pages that nobody can trust: the engine ends. */
static ga_status move_pages(ga_engine *e) {
  int32_t n;
  const kv_copy *copies = kv_pages_copies(e->pages, &n);
  const ga_status status = kv_host_copy(&e->host, copies, n);
  if (status != GA_OK) return ga_fail_in(GA_ERR_DEVICE, "%d copies of kv pages", n);
  uint64_t out = 0, in = 0;
  for (int32_t i = 0; i < n; i++) {
    const uint64_t bytes = e->host.page_bytes[copies[i].kind];
    out += copies[i].way == KV_TO_HOST ? bytes : 0;
    in += copies[i].way == KV_FROM_HOST ? bytes : 0;
  }
  kv_pages_copied(e->pages);
  if (!out && !in) return GA_OK;
  (void)pthread_mutex_lock(&e->lock);
  e->stats.swapped_out_bytes += out;
  e->stats.swapped_in_bytes += in;
  (void)pthread_mutex_unlock(&e->lock);
  return GA_OK;
}

/* --- steps in which all generate --- */

typedef struct decode_run {
  ga_engine *e;
  const step_samples *at;
} decode_run;

static ga_status run_decode_step(void *user) {
  const decode_run *run = user;
  GA_TRY(exec_run(&run->e->exec));
  GA_TRY(device_rows_keep_first(run->e, run->at));
  return device_rows_sample(run->e, run->at, 0, run->at->n);
}

/* Enqueues the step whose inputs are on their way, and its draws' way to the host. */
static ga_status enqueue_decodes(ga_engine *e, const step_shape *s, const step_layout *l, int place) {
  decode_run run = {e, &l->samples};
  ga_step step = batch_step(e, s, l);
  step.n_out = step.n_tokens;
  e->exec.step = &step;
  GA_TRY(step_gaps_begin(e->ctx, &e->gaps));
  const ga_status status = step_graphs_run(e, step.n_seqs, step.max_kv, run_decode_step, &run);
  e->exec.step = NULL;
  GA_TRY(status);
  GA_TRY(step_gaps_end(e->ctx, &e->gaps));
  return device_rows_fetch(e, &l->samples, s->n_rows, place);
}

/* --- steps that are enqueued before the tokens of the one before are known --- */

/* Nobody could join; no row needs its logits or its token on the host; none is known to be the last. */
static bool may_go_ahead(const ga_engine *e, const sched_plan *plan, int32_t n_rows) {
  if (plan->n_items != n_rows || plan->n_preempted || scheduler_may_admit(e->scheduler)) return false;
  for (int32_t i = 0; i < n_rows; i++) {
    const ga_request *r = e->rows[i].request;
    if (!r || r->row_status != GA_OK || r->options.logprobs >= 0 || rows_n_bias(r)) return false;
    if (r->sched.n_ids - r->sched.n_prompt + 1 >= r->max_new) return false;
  }
  return true;
}

static ga_status enqueue_ahead(ga_engine *e, const sched_plan *plan, int32_t n_rows) {
  step_ahead *ahead = &e->ahead;
  const int place = !e->inputs.at;
  step_layout l;
  if (!may_go_ahead(e, plan, n_rows)) return GA_OK;
  const bool reserved = scheduler_reserve_ahead(e->scheduler);
  GA_TRY(move_pages(e));
  if (!reserved) return GA_OK;
  for (int32_t i = 0; i < n_rows; i++) {
    ahead->rows[i] = e->rows[i];
    ahead->rows[i].position++;
    /* In the order of the rows, whatever the plan's is: drawn tokens lie there. */
    ahead->items[i] =
        (sched_item){.request = &e->rows[i].request->sched, .first = ahead->rows[i].position, .n = 1, .samples = true};
  }
  ahead->n_rows = n_rows;
  step_shape s = shape_of_items(ahead->items, n_rows, n_rows);
  s.n_rows = n_rows;
  shape_as_decodes(&s, e->options.max_sequences);
  GA_TRY(layout_of(e, &s, &l));
  ahead->samples = l.samples;
  put_step_inputs(ahead->items, n_rows, &s, &l, e->inputs.host[place]);
  device_rows_put_ahead(e, &l.samples);
  /* Drawn tokens lie where the step before has them, in the same place for as many rows. */
  GA_TRY(ga_copy_within(e->ctx, e->inputs.device + l.ids, e->inputs.device + l.samples.ids,
                        (size_t)n_rows * sizeof(int32_t)));
  GA_TRY(upload_step_inputs(e, place, 0, l.samples.ids));
  GA_TRY(upload_step_inputs(e, place, l.positions, l.total));
  (void)atomic_fetch_add(&ahead->n_steps, 1);
  return enqueue_decodes(e, &s, &l, place);
}

/* A step that cannot be enqueued ahead is tried again by itself, and tells then. */
static ga_status try_ahead(ga_engine *e, const sched_plan *plan, int32_t n_rows) {
  const ga_status status = enqueue_ahead(e, plan, n_rows);
  if (status == GA_OK || status == GA_ERR_DEVICE) return status;
  e->ahead.n_rows = 0;
  step_gaps_pause(&e->gaps);
  return ga_stream_sync(e->ctx, NULL); /* what has been enqueued reads its place of the inputs */
}

void step_ahead_forget(ga_engine *e, const ga_request *r) {
  for (int32_t i = 0; i < e->ahead.n_rows; i++)
    if (e->ahead.rows[i].request == r) e->ahead.rows[i].request = NULL;
}

ga_status step_ahead_drop(ga_engine *e) {
  e->ahead.n_rows = 0;
  return ga_event_sync(e->sampler.drawn[!e->inputs.at]);
}

/* The step ahead becomes the one under way. */
static ga_status take_over_ahead(ga_engine *e, const sched_plan *plan) {
  const int32_t n_rows = e->ahead.n_rows;
  const step_samples samples = e->ahead.samples;
  memcpy(e->rows, e->ahead.rows, (size_t)n_rows * sizeof *e->rows);
  e->inputs.at = !e->inputs.at;
  e->ahead.n_rows = 0;
  GA_TRY(try_ahead(e, plan, n_rows));
  return device_rows_take_fetched(e, &samples, n_rows);
}

/* --- a step --- */

ga_status engine_run_step(ga_engine *e, const sched_plan *plan) {
  if (e->ahead.n_rows) return take_over_ahead(e, plan);
  GA_TRY(move_pages(e));
  const step_shape s = step_shape_of(e, plan);
  int32_t *h = e->inputs.host[e->inputs.at];
  step_layout l;
  GA_TRY(layout_of(e, &s, &l));
  put_step_inputs(plan->items, plan->n_items, &s, &l, h);
  for (int32_t i = 0; i < s.n_rows; i++) h[l.out_rows + i] = e->rows[i].token;
  if (s.n_samples) GA_TRY(device_rows_put(e, s.n_rows, &l.samples));
  GA_TRY(upload_step_inputs(e, e->inputs.at, 0, l.total));
  if (s.is_decode) {
    GA_TRY(enqueue_decodes(e, &s, &l, e->inputs.at));
    GA_TRY(try_ahead(e, plan, s.n_rows));
    return device_rows_take_fetched(e, &l.samples, s.n_rows);
  }
  ga_step step = batch_step(e, &s, &l);
  e->exec.step = &step;
  return run_wanted_rows(e, &step, &l, s.n_rows);
}
