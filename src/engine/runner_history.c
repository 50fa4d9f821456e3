/* Tokens of sequences that penalties see, where the draws are made. */
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "engine/runner_impl.h"

void runner_forget(runner *r, draw_history *history) {
  if (history->place >= 0) r->sampler.owners[history->place] = NULL;
  *history = (draw_history)DRAW_HISTORY_INIT;
}

static int64_t sequence_length(const runner *r) { return (int64_t)r->options.sizes.context + 1; }

static int64_t sequences_length(const runner *r) { return r->options.max_sequences * sequence_length(r); }

/* Recorded steps have the former place. n_drafted: tokens of rows with drafts. */
static ga_status grow_sequences(runner *r, int64_t n_drafted) {
  device_sampler *sampler = &r->sampler;
  const int64_t all = sequences_length(r);
  void *p;
  if (sampler->sequences && n_drafted <= sampler->drafted_room) return GA_OK;
  n_drafted *= 2;
  step_graphs_drop(runner_last(r));
  GA_TRY(ga_buffer_alloc(sampler->ctx, (size_t)(all + n_drafted) * sizeof(int32_t), &p));
  ga_status status = GA_OK;
  if (sampler->sequences) status = ga_copy_within(sampler->ctx, p, sampler->sequences, (size_t)all * sizeof(int32_t));
  if (status == GA_OK) status = ga_stream_sync(sampler->ctx, NULL);
  ga_buffer_free(sampler->ctx, status == GA_OK ? sampler->sequences : p);
  GA_TRY(status);
  sampler->sequences = p;
  sampler->drafted_room = n_drafted;
  return GA_OK;
}

void device_sampler_unuse(runner *r) {
  for (int32_t i = 0; r->sampler.owners && i < r->options.max_sequences; i++)
    if (r->sampler.owners[i] && r->sampler.owners[i]->ticket == r->n_enqueued) r->sampler.owners[i]->ticket = -1;
}

/* Takes a place that is free, or the one unused for longest, of a sequence that no step under way has. */
static ga_status take_place(runner *r, draw_history *history) {
  int32_t best = -1;
  for (int32_t i = 0; i < r->options.max_sequences; i++) {
    const draw_history *owner = r->sampler.owners[i];
    if (owner && owner->ticket >= r->n_taken) continue;
    if (best < 0 || !owner || owner->ticket < r->sampler.owners[best]->ticket) best = i;
    if (!owner) break;
  }
  GA_REQUIRE(best >= 0, GA_ERR_INTERNAL, "no place for the tokens of a sequence among %d", r->options.max_sequences);
  if (r->sampler.owners[best]) r->sampler.owners[best]->place = -1;
  r->sampler.owners[best] = history;
  *history = (draw_history){.place = best};
  return GA_OK;
}

/* Tokens of a sequence, by way of what the step's place has left: the device need not wait for the host. */
static ga_status upload_tokens(runner *r, run_step *step, int32_t *there, const int32_t *ids, int32_t n) {
  const size_t bytes = (size_t)n * sizeof *ids;
  if (ga_device_in_host_memory(r->sampler.ctx->device) || n > r->inputs_room - step->used)
    return ga_copy_to_device(r->sampler.ctx, there, ids, bytes, NULL);
  int32_t *here = runner_last(r)->host[step->place] + step->used;
  memcpy(here, ids, bytes);
  step->used += n;
  return ga_copy_to_device_later(r->sampler.ctx, there, here, bytes, NULL);
}

ga_status history_put(runner *r, run_step *step, int32_t i, int32_t window, int64_t *sequence) {
  const row_draw *draw = run_row_draw(step, i);
  const int32_t n_before = step->rows[i].n_before;
  draw_history *history = draw->history;
  GA_TRY(grow_sequences(r, 0));
  if (history->place < 0) GA_TRY(take_place(r, history));
  history->ticket = r->n_enqueued;
  const int32_t n = draw->n_ids, first = (int32_t)ga_max_i64(history->n_known, n_before - window);
  int32_t *there = r->sampler.sequences + history->place * sequence_length(r);
  if (first < n) GA_TRY(upload_tokens(r, step, there + first, draw->ids + first, n - first));
  history->n_known = n;
  *sequence = history->place * sequence_length(r) + n_before;
  return GA_OK;
}

/* --- rows with drafts: each has its tokens apart, since it may draw another token than the next row has seen --- */

int64_t history_apart(const run_step *step, int32_t i) {
  const run_row *row = &step->rows[i];
  const int64_t window = row->draws ? ga_min_i64(run_row_draw(step, i)->window, row->n_before) : 0;
  return window && run_row_is_drafted(row) ? window + 1 : 0; /* and the token that is drawn */
}

ga_status history_make_room(runner *r, const run_step *step) {
  int64_t n = 0;
  for (int32_t i = 0; i < step->n_rows; i++) n += history_apart(step, i);
  return n ? grow_sequences(r, n) : GA_OK;
}

ga_status history_put_apart(runner *r, run_step *step, int32_t i, int32_t window, int64_t at, int64_t *sequence) {
  const row_draw *draw = run_row_draw(step, i);
  const int64_t place = sequences_length(r) + at;
  *sequence = place + window;
  return upload_tokens(r, step, r->sampler.sequences + place, draw->ids + draw->n_ids - window, window);
}
