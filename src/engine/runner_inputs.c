/* Integer inputs of a step: made on the host from its parts and rows, and sent to the devices of all stages. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "engine/runner_impl.h"

enum { ROW_WORDS = sizeof(ga_sample_row) / sizeof(int32_t), RNG_WORDS = 4 * sizeof(uint64_t) / sizeof(int32_t) };

static step_layout inputs_layout(const runner *r, int64_t tokens, int64_t seqs, int64_t pieces, int64_t rows,
                                 int64_t samples, int64_t stride) {
  const int64_t most = r->options.max_draws;
  step_layout l = {.stride = stride, .samples.n = (int32_t)samples};
  int64_t at = 0;
#define TAKE(field, n) (l.field = at, at += (n))
  TAKE(samples.ids, most); /* first: steps of all sizes have them there */
  TAKE(samples.first, most);
  TAKE(samples.rows, samples * ROW_WORDS); /* these are of 8 bytes, and begin at a multiple of that */
  TAKE(samples.rng, samples * RNG_WORDS);
  TAKE(ids, tokens);
  TAKE(positions, tokens);
  TAKE(q_factors, runner_hparams(r)->temperature.length ? tokens : 0);
  for (int32_t kind = 0; kind < r->n_kinds; kind++) TAKE(slots[kind], tokens);
  TAKE(q_start, seqs + 1);
  TAKE(q_start_prompts, seqs + 1);
  TAKE(kv_len, seqs);
  TAKE(pieces_q_start, pieces ? pieces + 1 : 0);
  TAKE(pieces_q_start_prompts, pieces ? pieces + 1 : 0);
  TAKE(pieces_kv_len, pieces);
  TAKE(pieces_table, pieces * stride);
  for (int32_t kind = 0; kind < r->n_kinds; kind++) {
    l.columns[kind] = layer_memory_kind(r->options.memory, kind)->unit_tokens ? stride : 1;
    TAKE(table[kind], seqs * l.columns[kind]);
  }
  TAKE(out_rows, rows); /* last: steps that are recorded have none */
#undef TAKE
  l.total = at;
  return l;
}

/* Few values, so that the plans that a context remembers stay few: 1, 1.5, 2, 3, 4, 6, 8 ... times 1024. One sequence
 * has plans for each 1024. */
static int64_t kv_class(const runner *r, int64_t n) {
  int64_t c = 1024;
  if (r->options.max_sequences == 1) return exec_rounded(n);
  while (c < n && c + c / 2 < n) c *= 2;
  return c >= n ? c : c + c / 2;
}

/* Pages of a table: of the longest sequence, or of the class of lengths. Behind all, tokens that penalties see. */
int64_t runner_inputs_room(const runner *r) {
  const int64_t seqs = r->options.max_sequences, tokens = r->options.sizes.batch;
  const int64_t stride = ga_div_up(kv_class(r, r->options.sizes.context), GA_KV_PAGE) + 1;
  const int32_t chunk = runner_hparams(r)->chunk; /* a part of n tokens has at most n / chunk + 2 pieces */
  const int64_t pieces = chunk ? tokens / chunk + 2 * seqs : 0;
  return inputs_layout(r, tokens, seqs, pieces, tokens, r->options.max_draws, stride).total + seqs * GA_KV_PAGE;
}

static int32_t max_q_class(const runner *r, int32_t n) {
  int32_t c = 1;
  if (r->options.max_sequences == 1) return n;
  while (c < n) c *= 2;
  return c;
}

/* The factor of a token's queries, as the bits of an f32. */
static void put_q_factor(const runner *r, int32_t *h, const step_layout *l, int64_t at, int32_t position) {
  const ga_temperature *t = &runner_hparams(r)->temperature;
  if (!t->length) return;
  const double turns = floor(((double)position + t->offset) / t->length);
  const float factor = (float)(1 + (double)t->scale * log1p(turns));
  memcpy(&h[l->q_factors + at], &factor, sizeof factor);
}

static void put_part_tokens(const runner *r, const step_part *part, int32_t *h, const step_layout *l, int64_t at) {
  for (int32_t i = 0; i < part->n; i++) {
    const int32_t position = part->first + i;
    const bool is_drawn = part->draw >= 0 && i + 1 == part->n; /* the device knows it */
    h[l->ids + at + i] = is_drawn ? 0 : part->ids[i];
    h[l->positions + at + i] = position;
    put_q_factor(r, h, l, at + i, position);
    for (int32_t kind = 0; kind < r->n_kinds; kind++) {
      const int32_t *pages = part->memory->units[kind];
      h[l->slots[kind] + at + i] = pages ? pages[position / GA_KV_PAGE] * GA_KV_PAGE + position % GA_KV_PAGE : -1;
    }
  }
}

/* Units that no query reads are unit 0: attention takes them for masked keys, but they must be pages. */
static void put_part_tables(const runner *r, const step_part *part, int32_t *h, const step_layout *l,
                            int64_t sequence) {
  for (int32_t kind = 0; kind < r->n_kinds; kind++) {
    int32_t n, *row = h + l->table[kind] + sequence * l->columns[kind];
    const int32_t *units = layer_memory_units(r->options.memory, part->memory, kind, &n);
    for (int64_t i = 0; i < l->columns[kind]; i++) row[i] = i < n && units[i] >= 0 ? units[i] : 0;
  }
}

/* Sequences of no part, of one token at no slot, so that a step has as many as its class. */
static void pad_inputs(const runner *r, int32_t *h, const step_layout *l, int32_t first, int32_t end) {
  for (int32_t i = first; i < end; i++) {
    h[l->ids + i] = h[l->positions + i] = 0;
    put_q_factor(r, h, l, i, 0);
    h[l->q_start + i] = i;
    h[l->kv_len + i] = 1;
    for (int32_t kind = 0; kind < r->n_kinds; kind++) {
      h[l->slots[kind] + i] = -1;
      const int32_t unit = layer_memory_kind(r->options.memory, kind)->unit_tokens ? 0 : -1;
      for (int64_t c = 0; c < l->columns[kind]; c++) h[l->table[kind] + i * l->columns[kind] + c] = unit;
    }
  }
}

/* --- pieces at chunks --- */

static int32_t pieces_of_part(int32_t chunk, const step_part *part) {
  return chunk ? (part->first + part->n - 1) / chunk - part->first / chunk + 1 : 0;
}

/* The kind of the pages that layers with chunks have. */
static int32_t chunk_kind(const runner *r) {
  int32_t kind = 0;
  while (kind + 1 < r->n_kinds && layer_memory_kind(r->options.memory, kind)->window != runner_hparams(r)->chunk)
    kind++;
  return kind;
}

/* Units of a sequence from its chunk on, for one piece. */
static void put_piece_units(const runner *r, const step_part *part, int32_t first_page, int32_t *row, int64_t stride) {
  int32_t n;
  const int32_t *units = layer_memory_units(r->options.memory, part->memory, chunk_kind(r), &n);
  for (int64_t i = 0; i < stride; i++)
    row[i] = first_page + i < n && units[first_page + i] >= 0 ? units[first_page + i] : 0;
}

/* Cuts a part at chunks. at: the part's first token in the step; piece: number of its first piece. */
static int32_t put_part_pieces(const runner *r, const step_part *part, int32_t *h, const step_layout *l, int64_t at,
                               int32_t piece) {
  const int32_t chunk = runner_hparams(r)->chunk, end = part->first + part->n;
  for (int32_t i = part->first; chunk && i < end; piece++) {
    const int32_t begin = i / chunk * chunk, next = (int32_t)ga_min_i64(begin + (int64_t)chunk, end);
    h[l->pieces_q_start + piece] = (int32_t)at + i - part->first;
    h[l->pieces_kv_len + piece] = next - begin;
    put_piece_units(r, part, begin / GA_KV_PAGE, h + l->pieces_table + piece * l->stride, l->stride);
    i = next;
  }
  return piece;
}

/* Pieces of no part, as pad_inputs has sequences; then where prompts begin. */
static void finish_pieces(const step_shape *s, int32_t *h, const step_layout *l, int32_t n) {
  if (!s->n_pieces) return;
  for (int32_t i = n; i < s->n_pieces; i++) {
    h[l->pieces_q_start + i] = i;
    h[l->pieces_kv_len + i] = 1;
    for (int64_t c = 0; c < l->stride; c++) h[l->pieces_table + i * l->stride + c] = 0;
  }
  h[l->pieces_q_start + s->n_pieces] = s->n_tokens;
  for (int32_t i = s->n_decode; i <= s->n_pieces; i++)
    h[l->pieces_q_start_prompts + i - s->n_decode] = h[l->pieces_q_start + i] - s->n_decode;
}

/* --- sizes --- */

static step_shape shape_of_parts(const runner *r, const runner_step *asked) {
  step_shape s = {.n_seqs = asked->n_parts, .max_q = 1, .max_kv = 1, .n_pages = 1};
  for (int32_t i = 0; i < asked->n_parts; i++) {
    const step_part *part = &asked->parts[i];
    s.n_tokens += part->n;
    s.max_q = (int32_t)ga_max_i64(s.max_q, part->n);
    s.max_kv = (int32_t)ga_max_i64(s.max_kv, part->first + part->n);
    s.n_pages = (int32_t)ga_max_i64(s.n_pages, part->memory->n_pages);
    s.n_pieces += pieces_of_part(runner_hparams(r)->chunk, part);
    if (s.n_decode == i && part->n == 1) s.n_decode++;
  }
  s.max_kv = (int32_t)kv_class(r, s.max_kv);
  return s;
}

/* Steps in which all generate have as many sequences as their class has, and inputs at its places. */
static step_shape shape_of_step(const runner *r, const run_step *step) {
  step_shape s = shape_of_parts(r, &step->asked);
  s.n_rows = step->n_rows;
  const bool is_single = r->options.max_sequences == 1;
  s.is_recorded = is_single && s.n_tokens == 1 && s.n_rows == 1 && runner_records(r);
  if (s.is_recorded) s.n_pages = s.max_kv / GA_KV_PAGE;
  s.n_samples = step->n_draws;
  if (!r->sampler.on) return s;
  s.is_decode = s.n_samples == s.n_tokens && s.max_q == 1;
  if (s.n_samples) s.n_samples = step_class(s.n_samples, s.is_decode ? r->options.max_sequences : r->options.max_draws);
  if (!s.is_decode) return s;
  s.is_recorded = true;
  s.n_tokens = s.n_seqs = s.n_decode = s.n_samples;
  if (s.n_pieces) s.n_pieces = s.n_seqs;
  s.n_pages = s.max_kv / GA_KV_PAGE;
  return s;
}

static void put_step_inputs(const runner *r, const run_step *step, int32_t *h) {
  const step_shape *s = &step->shape;
  const step_layout *l = &step->layout;
  const int32_t n = step->asked.n_parts;
  int64_t at = 0;
  int32_t pieces = 0;
  for (int32_t i = 0; i < n; i++) {
    const step_part *part = &step->asked.parts[i];
    put_part_tokens(r, part, h, l, at);
    put_part_tables(r, part, h, l, i);
    pieces = put_part_pieces(r, part, h, l, at, pieces);
    h[l->q_start + i] = (int32_t)at;
    h[l->kv_len + i] = part->first + part->n;
    at += part->n;
  }
  if (s->is_decode) pad_inputs(r, h, l, n, s->n_seqs);
  h[l->q_start + s->n_seqs] = s->n_tokens;
  for (int32_t i = s->n_decode; i <= s->n_seqs; i++)
    h[l->q_start_prompts + i - s->n_decode] = h[l->q_start + i] - s->n_decode;
  finish_pieces(s, h, l, pieces);
  for (int32_t i = 0; i < s->n_rows; i++) h[l->out_rows + i] = step->rows[i].token;
}

/* --- to the devices --- */

/* The step as the stage's device has it. */
static void point_stage(const runner *r, runner_stage *stage, const step_shape *s, const step_layout *l) {
  const int32_t *d = stage->device;
  stage->step = (ga_step){.n_tokens = s->n_tokens,
                          .n_seqs = s->n_seqs,
                          .n_decode = s->n_decode,
                          .max_q = max_q_class(r, s->max_q),
                          .max_kv = s->max_kv,
                          .ids = d + l->ids,
                          .positions = d + l->positions,
                          .q_start = d + l->q_start,
                          .q_start_prompts = d + l->q_start_prompts,
                          .kv_len = d + l->kv_len,
                          .page_stride = l->stride};
  if (runner_hparams(r)->temperature.length) stage->step.q_factors = (const float *)(const void *)(d + l->q_factors);
  if (s->n_pieces)
    stage->step.pieces =
        (struct ga_step_pieces){.n = s->n_pieces,
                                .max_kv = (int32_t)ga_min_i64(s->max_kv, exec_rounded(runner_hparams(r)->chunk)),
                                .q_start = d + l->pieces_q_start,
                                .q_start_prompts = d + l->pieces_q_start_prompts,
                                .kv_len = d + l->pieces_kv_len,
                                .page_table = d + l->pieces_table};
  for (int32_t kind = 0; kind < r->n_kinds; kind++)
    stage->step.pages[kind] = (ga_step_pages){.slots = d + l->slots[kind], .page_table = d + l->table[kind]};
  stage->exec.step = &stage->step;
}

/* n tokens that the step before draws, from draw `from` on, to the first stage's ids from `to` on. */
static ga_status copy_draws(runner *r, const step_layout *l, int32_t from, int32_t to, int32_t n) {
  runner_stage *first = &r->stages[0], *last = runner_last(r);
  int32_t *there = first->device + l->ids + to;
  const int32_t *here = last->device + l->samples.ids + from;
  const size_t bytes = (size_t)n * sizeof(int32_t);
  if (there == here) return GA_OK;
  return first == last ? ga_copy_within(first->ctx, there, here, bytes)
                       : ga_copy_between(first->ctx, there, last->ctx, here, bytes);
}

/* Tokens that the step before draws, to where this one reads them: those that lie one behind the other in both at
 * once. */
static ga_status copy_drawn(runner *r, const run_step *step) {
  const runner_step *asked = &step->asked;
  int32_t from = 0, to = 0, n = 0, token = 0;
  for (int32_t i = 0; i <= asked->n_parts; i++) {
    const step_part *part = i < asked->n_parts ? &asked->parts[i] : NULL;
    const int32_t draw = part ? part->draw : -1;
    if (part) token += part->n;
    if (n && !(draw >= 0 && draw == from + n && token - 1 == to + n)) {
      GA_TRY(copy_draws(r, &step->layout, from, to, n));
      n = 0;
    }
    if (draw >= 0 && !n) from = draw, to = token - 1;
    n += draw >= 0;
  }
  return GA_OK;
}

/* One sequence that generates has its token where the draw before puts it, so that nothing need be copied. */
static void place_ids(const runner *r, const step_shape *s, step_layout *l) {
  if (s->is_decode && r->options.max_sequences == 1) l->ids = l->samples.ids;
}

/* Finds where the numbers begin that the host makes; drawn tokens and the first logits of their rows lie before. */
static int64_t first_sent(const run_step *step) {
  const step_layout *l = &step->layout;
  return l->ids == l->samples.ids && step->asked.parts[0].draw < 0 ? l->ids : l->samples.rows;
}

/* All stages get the same numbers, from `begin` on. */
static ga_status send_to_stages(runner *r, const run_step *step, int64_t begin) {
  const size_t bytes = (size_t)(step->layout.total - begin) * sizeof(int32_t);
  const int32_t *made = runner_last(r)->host[step->place] + begin;
  for (int32_t i = 0; i < r->n_stages; i++) {
    runner_stage *stage = &r->stages[i];
    int32_t *host = stage->host[step->place] + begin;
    if (host != made) memcpy(host, made, bytes);
    GA_TRY(ga_copy_to_device_later(stage->ctx, stage->device + begin, host, bytes, NULL));
    point_stage(r, stage, &step->shape, &step->layout);
  }
  return GA_OK;
}

ga_status runner_send_inputs(runner *r, run_step *step) {
  step_layout *l = &step->layout;
  step->shape = shape_of_step(r, step);
  const step_shape *s = &step->shape;
  *l = inputs_layout(r, s->n_tokens, s->n_seqs, s->n_pieces, s->n_rows, s->n_samples, s->n_pages);
  place_ids(r, s, l);
  GA_REQUIRE(l->total <= r->inputs_room, GA_ERR_INTERNAL, "inputs of %lld numbers, room for %lld", (long long)l->total,
             (long long)r->inputs_room);
  step->used = l->total;
  put_step_inputs(r, step, runner_last(r)->host[step->place]);
  if (s->n_samples) GA_TRY(device_rows_put(r, step));
  GA_TRY(send_to_stages(r, step, first_sent(step)));
  return copy_drawn(r, step);
}
