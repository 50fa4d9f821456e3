/* A step of the engine: a plan's items become parts for the runner, and its results become tokens of requests. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "engine/engine.h"

/* --- parts --- */

static bool scores_row(const ga_request *r, int32_t at) {
  return r->options.prompt_logprobs && at + 1 < r->sched.n_prompt && at + 2 > r->n_scored;
}

/* A row behind the first wanted one is wanted, too, even if nobody uses it. */
static void want_row(engine_step *step, int32_t part, ga_request *r, int32_t at, bool samples) {
  const bool scores = scores_row(r, at);
  const bool is_behind = step->parts[part].draw >= 0;
  if (!scores && !samples && !step->parts[part].n_wanted) return;
  step->parts[part].n_wanted++;
  if (scores) r->n_scored = at + 2;
  const row_draw none = {.shows = scores};
  step->draws[step->n_rows] = samples ? rows_draw_of(r, r->sched.n_ids + is_behind) : none;
  step->rows[step->n_rows++] =
      (step_row){.request = r, .part = part, .position = at, .samples = samples, .scores = scores};
}

/* What the step is, and which rows of logits are wanted. */
static void list_parts(engine_step *step) {
  step->n_rows = 0;
  for (int32_t i = 0; i < step->plan->n_items; i++) {
    const sched_item *item = &step->plan->items[i];
    ga_request *r = item->request->user;
    const int32_t end = item->first + item->n;
    const bool is_behind = item->request->n_drawn && item->samples;
    step->parts[i] = (step_part){.memory = &item->request->kv,
                                 .ids = r->ids + item->first,
                                 .first = item->first,
                                 .n = item->n,
                                 .adapter = -1,
                                 .draw = is_behind ? r->at_draw : -1};
    if (r->options.prompt_logprobs && !r->n_scored) engine_give_first(r);
    for (int32_t at = item->first; at < end; at++)
      want_row(step, i, r, at, item->samples && at + 1 == end && r->max_new > 0);
  }
}

static void number_draws(const engine_step *step) {
  int32_t n = 0;
  for (int32_t i = 0; i < step->n_rows; i++)
    if (step->rows[i].samples) step->rows[i].request->at_draw = n++;
}

static ga_status enqueue_plan(ga_engine *e, engine_step *step) {
  const runner_step asked = {
      .parts = step->parts, .n_parts = step->plan->n_items, .rows = step->draws, .show = rows_show, .user = step};
  list_parts(step);
  GA_TRY(runner_enqueue(e->runner, &asked, &step->ticket));
  number_draws(step);
  rows_note_results(step, runner_results(e->runner, step->ticket));
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

/* --- steps that are enqueued before the tokens of the one before are known --- */

static engine_step *other_step(ga_engine *e) { return &e->steps.step[!e->steps.at]; }

/* Will any of the item's tokens be scored, which the host does? As list_parts, but notes nothing: a plan that is given
 * up is made again. */
static bool scores_prompt(const sched_item *item) {
  const ga_request *r = item->request->user;
  const int64_t end = ga_min_i64(item->first + item->n, item->request->n_prompt - 1);
  return r->options.prompt_logprobs && end > item->first && end + 1 > r->n_scored;
}

/* A request that has gone wrong draws nothing in the step under way, which has no token for the next one then. */
static bool may_go_ahead(const sched_plan *plan) {
  for (int32_t i = 0; i < plan->n_items; i++)
    if (scores_prompt(&plan->items[i]) || ((const ga_request *)plan->items[i].request->user)->row_status != GA_OK)
      return false;
  return plan->n_items;
}

static ga_status enqueue_ahead(ga_engine *e) {
  engine_step *step = other_step(e);
  scheduler_plan_ahead(e->scheduler, ga_seconds(), &step->plan);
  if (step->plan) engine_end_expired(e, step->plan);
  GA_TRY(move_pages(e));
  if (!step->plan) return GA_OK;
  if (!may_go_ahead(step->plan)) {
    scheduler_drop_ahead(e->scheduler);
    return GA_OK;
  }
  GA_TRY(enqueue_plan(e, step));
  e->steps.is_ahead = true;
  return GA_OK;
}

/* A step that cannot be enqueued ahead is tried again by itself, and fails then. With states it may have been enqueued
 * in part, and cannot be repeated. */
static ga_status try_ahead(ga_engine *e) {
  const ga_status status = enqueue_ahead(e);
  if (status == GA_OK || status == GA_ERR_DEVICE) return status;
  if (!layer_memory_can_repeat(e->memory)) return ga_fail_in(GA_ERR_DEVICE, "a step of layers with states");
  scheduler_drop_ahead(e->scheduler);
  step_gaps_pause(runner_gaps(e->runner));
  return runner_wait(e->runner); /* what has been enqueued reads its place of the inputs */
}

void engine_forget_rows(ga_engine *e, const ga_request *r) {
  engine_step *step = other_step(e);
  for (int32_t i = 0; e->steps.is_ahead && i < step->n_rows; i++) {
    if (step->rows[i].request != r) continue;
    step->rows[i].request = NULL;
    step->draws[i] = (row_draw){.sample = NULL};
  }
}

const sched_plan *engine_take_ahead(ga_engine *e) {
  if (!e->steps.is_ahead) return NULL;
  e->steps.at = !e->steps.at;
  return e->steps.step[e->steps.at].plan;
}

ga_status engine_skip_step(ga_engine *e) {
  e->steps.is_ahead = false;
  return runner_take(e->runner, e->steps.step[e->steps.at].ticket);
}

/* --- a step --- */

ga_status engine_run_step(ga_engine *e, const sched_plan *plan) {
  engine_step *step = &e->steps.step[e->steps.at];
  if (e->steps.is_ahead) {
    e->steps.is_ahead = false;
  } else {
    step->plan = plan;
    GA_TRY(move_pages(e));
    GA_TRY(enqueue_plan(e, step));
  }
  if (runner_may_enqueue(e->runner)) GA_TRY(try_ahead(e));
  GA_TRY(runner_take(e->runner, step->ticket));
  return rows_take_results(step, runner_results(e->runner, step->ticket));
}
