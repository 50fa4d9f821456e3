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
    h[l->ids + at + i] = r->ids[position];
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
  return device_rows_take(e, at, first, n, begin);
}

/* The model's layers, and the head for the wanted rows, as many at a time as there is room for. */
static ga_status run_wanted_rows(ga_engine *e, ga_step *step, const step_layout *l, int32_t n_rows) {
  int32_t sample = 0;
  const bool all = n_rows == step->n_tokens; /* they are one behind the other */
  step->n_out = (int32_t)ga_min_i64(n_rows, e->exec.max_out);
  if (!all) step->out_rows = e->inputs.device + l->out_rows;
  GA_TRY(exec_run(&e->exec));
  for (int32_t done = 0; done < n_rows;) {
    const bool is_last = done + step->n_out == n_rows;
    GA_TRY(e->sampler.on ? sample_block(e, &l->samples, done, step->n_out, is_last, &sample)
                         : deliver_block(e, done, step->n_out));
    done += step->n_out;
    if (is_last) break;
    step->n_out = (int32_t)ga_min_i64(n_rows - done, e->exec.max_out);
    step->out_begin = done;
    if (!all) step->out_rows = e->inputs.device + l->out_rows + done;
    GA_TRY(exec_head(&e->exec));
  }
  return n_rows ? GA_OK : ga_stream_sync(e->ctx, NULL); /* the inputs have been read */
}

/* --- steps in which all generate --- */

typedef struct decode_run {
  ga_engine *e;
  const step_samples *at;
} decode_run;

static ga_status run_decode_step(void *user) {
  const decode_run *run = user;
  GA_TRY(exec_run(&run->e->exec));
  return device_rows_sample(run->e, run->at, 0, run->at->n);
}

static ga_status decode_rows(ga_engine *e, ga_step *step, const step_layout *l, int32_t n_rows) {
  decode_run run = {e, &l->samples};
  step->n_out = step->n_tokens;
  GA_TRY(step_graphs_run(e, step->n_seqs, step->max_kv, run_decode_step, &run));
  return device_rows_take(e, &l->samples, 0, n_rows, 0);
}

/* --- a step --- */

static step_shape step_shape_of(ga_engine *e, const sched_plan *plan) {
  const int32_t most = e->options.max_sequences;
  step_shape s = {.n_tokens = plan->n_tokens, .n_seqs = plan->n_items, .max_q = 1, .max_kv = 1, .n_pages = 1};
  for (int32_t i = 0; i < plan->n_items; i++) {
    const sched_item *item = &plan->items[i];
    s.max_q = (int32_t)ga_max_i64(s.max_q, item->n);
    s.max_kv = (int32_t)ga_max_i64(s.max_kv, item->first + item->n);
    s.n_pages = (int32_t)ga_max_i64(s.n_pages, item->request->kv.n_pages);
    if (s.n_decode == i && item->n == 1) s.n_decode++;
  }
  s.max_kv = (int32_t)kv_class(s.max_kv);
  s.n_rows = list_wanted_rows(e, plan);
  if (!e->sampler.on) return s;
  for (int32_t i = 0; i < s.n_rows; i++) s.n_samples += e->rows[i].samples;
  s.is_decode = s.n_samples == s.n_tokens;
  if (s.n_samples) s.n_samples = step_class(s.n_samples, most);
  if (!s.is_decode) return s;
  s.n_tokens = s.n_seqs = s.n_decode = s.n_samples;
  s.n_pages = s.max_kv / GA_KV_PAGE; /* places are those of the class */
  return s;
}

static void put_step_inputs(const ga_engine *e, const sched_plan *plan, const step_shape *s, const step_layout *l) {
  int32_t *h = e->inputs.host;
  int64_t at = 0;
  for (int32_t i = 0; i < plan->n_items; i++) {
    const sched_item *item = &plan->items[i];
    put_item_tokens(item, h, l, at);
    put_item_tables(item, h, l, i);
    h[l->q_start + i] = (int32_t)at;
    h[l->kv_len + i] = item->first + item->n;
    at += item->n;
  }
  pad_inputs(h, l, plan->n_items, s->n_seqs);
  h[l->q_start + s->n_seqs] = s->n_tokens;
  for (int32_t i = s->n_decode; i <= s->n_seqs; i++)
    h[l->q_start_prompts + i - s->n_decode] = h[l->q_start + i] - s->n_decode;
  for (int32_t i = 0; i < s->n_rows; i++) h[l->out_rows + i] = e->rows[i].token;
}

ga_status engine_run_step(ga_engine *e, const sched_plan *plan) {
  for (int32_t i = 0; i < plan->n_copies; i++)
    GA_TRY(kv_cache_copy_page(&e->cache, plan->copies[i].kind, plan->copies[i].from, plan->copies[i].to));
  const step_shape s = step_shape_of(e, plan);
  const step_layout l = inputs_layout(s.n_tokens, s.n_seqs, s.n_rows, s.n_samples, s.n_pages);
  GA_REQUIRE(l.total <= e->inputs.room, GA_ERR_INTERNAL, "inputs of %lld numbers, room for %lld", (long long)l.total,
             (long long)e->inputs.room);
  put_step_inputs(e, plan, &s, &l);
  if (s.n_samples) GA_TRY(device_rows_put(e, s.n_rows, &l.samples));
  ga_step step = batch_step(e, &s, &l);
  e->exec.step = &step;
  GA_TRY(ga_copy_to_device_later(e->ctx, e->inputs.device, e->inputs.host, (size_t)l.total * sizeof(int32_t), NULL));
  return s.is_decode ? decode_rows(e, &step, &l, s.n_rows) : run_wanted_rows(e, &step, &l, s.n_rows);
}
