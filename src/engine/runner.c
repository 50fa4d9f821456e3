/* Steps: checked, enqueued stage by stage, and taken. */
#include "engine/runner.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/status.h"
#include "engine/runner_impl.h"

/* --- making and freeing --- */

static ga_status fill_runner_stage(runner *r, const ga_placement *placement, runner_stage *stage) {
  const ga_session_sizes *sizes = &r->options.sizes;
  const size_t bytes = (size_t)r->inputs_room * sizeof(int32_t);
  void *p;
  for (int i = 0; i < 2; i++) {
    GA_TRY(ga_host_alloc(stage->ctx, bytes, &p));
    stage->host[i] = p;
  }
  /* Tokens of rows that draw nothing are copied, too. */
  GA_TRY(ga_buffer_alloc_zeroed(stage->ctx, bytes, "inputs of steps", &p));
  stage->device = p;
  GA_TRY(exec_create(r->options.model, placement, r->options.cache, sizes->batch, sizes->max_out, sizes->context,
                     &stage->exec));
  stage->exec.is_invariant = r->options.is_invariant; /* both before the first program is made */
  stage->exec.rounds_x = sizes->rounds_x;
  return GA_OK;
}

static ga_status create_runner_stage(runner *r, const ga_placement *placement, runner_stage *stage) {
  const ga_status status = fill_runner_stage(r, placement, stage);
  return status == GA_OK
             ? GA_OK
             : ga_fail_in(status, "steps of %d tokens on %s", r->options.sizes.batch, placement->plan.device);
}

static ga_status create_run_steps(runner *r) {
  void *p;
  for (int i = 0; i < 2; i++) {
    r->steps[i].place = i;
    GA_TRY(ga_mem_zalloc((size_t)r->options.sizes.batch, sizeof(run_row), "steps", &p));
    r->steps[i].rows = p;
    GA_TRY(ga_mem_zalloc((size_t)r->options.max_sequences, sizeof(part_result), "steps", &p));
    r->steps[i].results = p;
  }
  return GA_OK;
}

static ga_status create_runner_parts(runner *r) {
  const ga_model *model = r->options.model;
  r->inputs_room = runner_inputs_room(r);
  for (int32_t i = 0; i < r->n_stages; i++) GA_TRY(create_runner_stage(r, &model->placements[i], &r->stages[i]));
  GA_TRY(runner_create_handovers(r));
  GA_TRY(create_run_steps(r));
  GA_TRY(device_sampler_create(r));
  return r->options.times_gaps ? step_gaps_create(runner_last(r)->ctx, &r->gaps) : GA_OK;
}

ga_status runner_create(const runner_options *options, runner **out) {
  void *p;
  *out = NULL;
  GA_TRY(ga_mem_zalloc(1, sizeof(runner), "runner", &p));
  runner *r = p;
  r->options = *options;
  if (r->options.max_draws < options->max_sequences) r->options.max_draws = options->max_sequences;
  r->n_stages = options->model->n_placements;
  r->n_kinds = layer_memory_n_kinds(options->memory);
  for (int32_t i = 0; i < r->n_stages; i++) r->stages[i].ctx = options->model->placements[i].ctx;
  r->sample_ctx = runner_last(r)->ctx;
  const ga_status status = create_runner_parts(r);
  if (status != GA_OK) {
    runner_destroy(r);
    return status;
  }
  *out = r;
  return GA_OK;
}

static void destroy_stage(runner_stage *stage) {
  step_graphs_drop(stage);
  runner_destroy_handover(stage);
  exec_destroy(&stage->exec);
  for (int i = 0; i < 2; i++) ga_host_free(stage->ctx, stage->host[i]);
  ga_buffer_free(stage->ctx, stage->device);
}

void runner_destroy(runner *r) {
  if (!r) return;
  step_gaps_destroy(&r->gaps);
  device_sampler_destroy(r);
  for (int32_t i = 0; i < r->n_stages; i++) destroy_stage(&r->stages[i]);
  for (int i = 0; i < 2; i++) {
    ga_mem_free(r->steps[i].rows);
    ga_mem_free(r->steps[i].results);
  }
  ga_mem_free(r);
}

ga_status runner_check_invariant(runner *r) {
  for (int32_t i = 0; i < r->n_stages; i++) GA_TRY(exec_check_invariant(&r->stages[i].exec, r->options.sizes.context));
  return GA_OK;
}

ga_status runner_check_rounds_x(runner *r) {
  for (int32_t i = 0; i < r->n_stages; i++) GA_TRY(exec_check_rounds_x(&r->stages[i].exec));
  return GA_OK;
}

void runner_watch(runner *r, exec_watch_fn watch, void *user) {
  for (int32_t i = 0; i < r->n_stages; i++) {
    r->stages[i].exec.watch = watch;
    r->stages[i].exec.watch_user = user;
  }
}

int32_t runner_n_vocab(const runner *r) { return r->options.n_vocab; }
bool runner_pipelines(const runner *r) { return r->pipelines && r->sampler.on; }
step_gaps *runner_gaps(runner *r) { return &r->gaps; }

runner_counts runner_count(runner *r) {
  step_graphs *graphs = &runner_last(r)->graphs;
  return (runner_counts){.draws_on_device = r->sampler.on,
                         .n_steps = atomic_load(&r->n_steps),
                         .n_ahead = atomic_load(&r->n_ahead),
                         .n_recordable = atomic_load(&graphs->n_steps),
                         .n_replayed = atomic_load(&graphs->n_replayed)};
}

/* --- parts and rows --- */

static ga_status check_part(const runner *r, const step_part *part) {
  GA_REQUIRE(part->adapter == -1, GA_ERR_UNSUPPORTED, "adapter %d; steps have none (-1)", part->adapter);
  GA_REQUIRE(part->n >= 1 && part->first >= 0 && part->first <= r->options.sizes.context - part->n, GA_ERR_INTERNAL,
             "a part of %d tokens from %d on", part->n, part->first);
  GA_REQUIRE(part->n_wanted >= 0 && part->n_wanted <= part->n, GA_ERR_INTERNAL, "%d rows of %d tokens", part->n_wanted,
             part->n);
  GA_REQUIRE(part->draw < 0 || r->n_enqueued > r->n_taken, GA_ERR_INTERNAL, "draw %d of no step", part->draw);
  return GA_OK;
}

static ga_status check_parts(const runner *r, const runner_step *asked) {
  int64_t n_tokens = 0;
  GA_REQUIRE(asked->n_parts >= 1 && asked->n_parts <= r->options.max_sequences, GA_ERR_INTERNAL,
             "a step of %d parts; at most %d", asked->n_parts, r->options.max_sequences);
  for (int32_t i = 0; i < asked->n_parts; i++) {
    GA_TRY(check_part(r, &asked->parts[i]));
    n_tokens += asked->parts[i].n;
  }
  GA_REQUIRE(n_tokens <= r->options.sizes.batch, GA_ERR_INTERNAL, "a step of %lld tokens; at most %d",
             (long long)n_tokens, r->options.sizes.batch);
  return GA_OK;
}

/* Checks the use of token k of a part, behind n_draws draws of it. */
static ga_status check_draw(const step_part *part, int32_t k, const row_draw *draw, int32_t n_draws) {
  const bool is_last = k + 1 == part->n;
  GA_REQUIRE(draw->sample || !n_draws, GA_ERR_INTERNAL, "a row that draws nothing behind one that draws");
  GA_REQUIRE(!draw->sample || is_last || part->draw < 0, GA_ERR_UNSUPPORTED, "drafts, the last of which is draw %d",
             part->draw);
  return GA_OK;
}

/* Lists the rows of a part that have a use. row, token: its first ones. */
static ga_status list_part_rows(run_step *step, int32_t i, int32_t row, int32_t token) {
  const step_part *part = &step->asked.parts[i];
  int32_t n_draws = 0;
  for (int32_t k = part->n - part->n_wanted; k < part->n; k++, row++) {
    const row_draw *draw = &step->asked.rows[row];
    GA_TRY(check_draw(part, k, draw, n_draws));
    if (!draw->sample && !draw->shows) continue;
    step->rows[step->n_rows++] = (run_row){.row = row,
                                           .part = i,
                                           .token = token + k,
                                           .n_before = draw->n_ids + (part->draw >= 0),
                                           .draws = draw->sample != NULL,
                                           .is_behind = part->draw >= 0,
                                           .at_draw = n_draws,
                                           .draft = k + 1 < part->n ? part->ids[k + 1] : -1};
    n_draws += draw->sample != NULL;
  }
  step->n_draws += n_draws;
  return GA_OK;
}

/* Lists the rows of the step that have a use. */
static ga_status list_used_rows(const runner *r, run_step *step) {
  int32_t row = 0, token = 0;
  step->n_rows = step->n_draws = 0;
  for (int32_t i = 0; i < step->asked.n_parts; i++) {
    GA_TRY(list_part_rows(step, i, row, token));
    row += step->asked.parts[i].n_wanted;
    token += step->asked.parts[i].n;
  }
  GA_REQUIRE(step->n_draws <= r->options.max_draws, GA_ERR_INTERNAL, "%d rows that draw; at most %d", step->n_draws,
             r->options.max_draws);
  return GA_OK;
}

/* Are all rows for draws, which the device makes, and is there room for them at once? */
static bool only_draws(const runner *r, const run_step *step) {
  return r->sampler.on && step->n_draws == step->n_rows && step->n_rows <= r->stages[r->n_stages - 1].exec.max_out;
}

/* --- stages --- */

typedef struct stage_run {
  runner *r;
  runner_stage *stage;
  const run_step *step;
} stage_run;

/* The layers of a stage; the last one draws, too. */
static ga_status run_layers(void *user) {
  const stage_run *run = user;
  const step_samples *at = &run->step->layout.samples;
  GA_TRY(exec_run(&run->stage->exec));
  if (run->stage != runner_last(run->r) || run->step->in_blocks || !at->n) return GA_OK;
  GA_TRY(device_rows_keep_first(run->r, at, run->stage->step.n_out));
  return device_rows_sample(run->r, at, 0, at->n);
}

/* A stage behind the one before it. Its part is recorded if all sequences generate. */
static ga_status run_runner_stage(runner *r, const run_step *step, int32_t i) {
  runner_stage *stage = &r->stages[i];
  stage_run run = {r, stage, step};
  if (i) GA_TRY(runner_hand_over(r, i, step->place));
  if (stage == runner_last(r)) step_gaps_begin(stage->ctx, &r->gaps);
  const step_shape *s = &step->shape;
  const step_size size = {s->n_seqs, s->max_kv, s->n_samples, !step->in_blocks};
  return s->is_recorded && !exec_waits(&stage->exec) ? step_graphs_run(stage, size, run_layers, &run)
                                                     : run_layers(&run);
}

/* Rows that the head computes at once, and which they are. */
static void choose_rows(const runner *r, const run_step *step, runner_stage *stage) {
  const step_shape *s = &step->shape;
  const int32_t max_out = r->stages[r->n_stages - 1].exec.max_out;
  stage->step.n_out = step->in_blocks ? (int32_t)ga_min_i64(step->n_rows, max_out)
                      : s->is_decode  ? s->n_tokens
                                      : s->n_rows;
  if (run_rows_follow(step))
    stage->step.out_begin = step->n_rows ? step->rows[0].token : 0;
  else
    stage->step.out_rows = stage->device + step->layout.out_rows;
}

static ga_status run_stages(runner *r, const run_step *step) {
  for (int32_t i = 0; i < r->n_stages; i++) choose_rows(r, step, &r->stages[i]);
  for (int32_t i = 0; i < r->n_stages; i++) GA_TRY(run_runner_stage(r, step, i));
  if (step->in_blocks) return GA_OK;
  step_gaps_end(runner_last(r)->ctx, &r->gaps);
  (void)atomic_fetch_add(&r->n_steps, 1);
  return device_rows_fetch(r, step);
}

/* --- steps --- */

bool runner_may_enqueue(const runner *r) {
  if (r->n_enqueued == r->n_taken) return true;
  for (int32_t i = 0; i < r->n_stages;
       i++) { /* such a stage would keep the tokens of this step until the next is done */
    const bool in_calls = r->n_stages > 1 && ga_device_works_in_calls(r->stages[i].ctx->device);
    if (in_calls || exec_waits(&r->stages[i].exec)) return false;
  }
  const run_step *newest = &r->steps[(r->n_enqueued - 1) % 2];
  if (newest->in_blocks || r->n_enqueued - r->n_taken > 1) return false;
  for (int32_t i = 0; i < newest->n_rows; i++) /* of several draws it is not known yet which one counts */
    if (run_row_draw(newest, i)->shows || newest->rows[i].at_draw) return false;
  return true;
}

ga_status runner_enqueue(runner *r, const runner_step *asked, int64_t *ticket) {
  run_step *step = &r->steps[r->n_enqueued % 2];
  const bool is_ahead = r->n_enqueued > r->n_taken;
  GA_REQUIRE(runner_may_enqueue(r), GA_ERR_INTERNAL, "a step behind %d, the newest of which must be taken first",
             (int)(r->n_enqueued - r->n_taken));
  GA_TRY(check_parts(r, asked));
  step->asked = *asked;
  for (int32_t i = 0; i < asked->n_parts; i++) step->results[i] = (part_result){.next = -1};
  GA_TRY(list_used_rows(r, step));
  step->in_blocks = !only_draws(r, step);
  GA_REQUIRE(!step->in_blocks || !is_ahead, GA_ERR_INTERNAL, "a step whose rows come to the host, behind another");
  ga_status status = runner_send_inputs(r, step);
  if (status == GA_OK) status = run_stages(r, step);
  if (status != GA_OK) device_sampler_unuse(r); /* no step under way has what it took */
  GA_TRY(status);
  step->asked.parts = NULL; /* the caller's, who may have others there now */
  if (is_ahead) (void)atomic_fetch_add(&r->n_ahead, 1);
  *ticket = r->n_enqueued++;
  return GA_OK;
}

ga_status runner_take(runner *r, int64_t ticket) {
  const run_step *step = &r->steps[r->n_taken % 2];
  GA_REQUIRE(ticket == r->n_taken && ticket < r->n_enqueued, GA_ERR_INTERNAL, "step %lld; the oldest is %lld",
             (long long)ticket, (long long)r->n_taken);
  GA_TRY(step->in_blocks ? runner_take_blocks(r, step) : device_rows_take_fetched(r, step));
  r->n_taken++;
  return GA_OK;
}

const part_result *runner_results(const runner *r, int64_t ticket) { return r->steps[ticket % 2].results; }

/* Waits for all, also behind one that fails. */
ga_status runner_wait(runner *r) {
  ga_status status = GA_OK;
  for (int32_t i = 0; i < r->n_stages; i++) {
    const ga_status one = ga_stream_sync(r->stages[i].ctx, NULL);
    if (status == GA_OK) status = one;
  }
  return status;
}

ga_status runner_drop_steps(runner *r) {
  r->n_taken = r->n_enqueued;
  return runner_wait(r);
}
