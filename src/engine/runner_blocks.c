/* Rows of logits of a step that come to the host: the head computes as many at a time as there is room for. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "engine/runner_impl.h"

/* --- draws on the host --- */

static ga_status grow_workspace(runner *r, const ga_plan *plan) {
  const uint64_t bytes = ga_plan_workspace_bytes(plan);
  if (bytes <= r->sample_workspace_bytes) return GA_OK;
  ga_buffer_free(r->sample_ctx, r->sample_workspace);
  r->sample_workspace = NULL;
  r->sample_workspace_bytes = 0;
  GA_TRY(ga_buffer_alloc(r->sample_ctx, bytes, &r->sample_workspace));
  r->sample_workspace_bytes = bytes;
  return GA_OK;
}

/* Replaces *x by logits of which those of forbidden tokens are -infinity. */
static ga_status hide_forbidden(runner *r, const uint32_t *mask, const float **x) {
  void *p;
  if (!mask) return GA_OK;
  if (!r->masked) {
    GA_TRY(ga_mem_alloc((size_t)r->options.n_vocab * sizeof(float), "masked logits", &p));
    r->masked = p;
  }
  for (int32_t i = 0; i < r->options.n_vocab; i++) r->masked[i] = mask[i / 32] >> i % 32 & 1 ? (*x)[i] : -INFINITY;
  *x = r->masked;
  return GA_OK;
}

static ga_status draw_on_host(runner *r, const run_row *row, const row_draw *draw, const float *x,
                              part_result *result) {
  const int32_t window = (int32_t)ga_min_i64(draw->window, row->n_before);
  int32_t id = 0;
  result->first = x[0];
  GA_TRY(grow_workspace(r, draw->plan));
  GA_TRY(hide_forbidden(r, draw->mask, &x));
  const ga_sample_io io = {.logits = x,
                           .history = draw->ids + row->n_before - window,
                           .n_history = window,
                           .bias = draw->bias,
                           .n_bias = draw->n_bias,
                           .rng = draw->rng,
                           .id = &id};
  GA_TRY(ga_sample_run(draw->plan, &io, r->sample_workspace, NULL));
  result->next = id;
  return GA_OK;
}

/* A row that goes wrong ends its own part; the others go on. */
static ga_status take_host_rows(runner *r, const run_step *step, int32_t first, int32_t n, const float *logits) {
  for (int32_t i = first; i < first + n; i++) {
    const row_draw *draw = run_row_draw(step, i);
    part_result *result = run_row_result(step, i);
    const float *x = logits + (size_t)(i - first) * (size_t)r->options.model->hparams.vocab;
    if (result->status != GA_OK) continue;
    if (draw->sample) GA_TRY(part_note_status(result, draw_on_host(r, &step->rows[i], draw, x, result)));
    if (draw->shows && result->status == GA_OK)
      GA_TRY(step->asked.show(step->asked.user, step->rows[i].row, draw->sample ? result->next : -1, x));
  }
  return GA_OK;
}

/* --- blocks --- */

/* Logits of n rows from `first` on are on the device. */
static ga_status deliver_block(runner *r, const run_step *step, int32_t first, int32_t n) {
  const runner_stage *last = runner_last(r);
  const float *logits = exec_result(&last->exec);
  if (r->logits) {
    const size_t bytes = (size_t)n * (size_t)r->options.model->hparams.vocab * sizeof(float);
    GA_TRY(ga_copy_to_host(last->ctx, r->logits, logits, bytes, NULL));
    logits = r->logits;
  }
  return take_host_rows(r, step, first, n, logits);
}

/* The same where the device draws; *sample: draws of the blocks before. The last block has the padding, too. */
static ga_status sample_block(runner *r, const run_step *step, int32_t first, int32_t n, bool is_last,
                              int32_t *sample) {
  const int32_t begin = *sample;
  const step_samples *at = &step->layout.samples;
  for (int32_t i = first; i < first + n; i++) *sample += step->rows[i].draws;
  const int32_t n_draws = (is_last ? at->n : *sample) - begin;
  if (n_draws) GA_TRY(device_rows_sample(r, at, begin, n_draws));
  if (is_last) step_gaps_end(runner_last(r)->ctx, &r->gaps);
  return device_rows_take(r, step, first, n, begin);
}

static ga_status end_without_rows(runner *r) {
  step_gaps_end(runner_last(r)->ctx, &r->gaps);
  return ga_stream_sync(runner_last(r)->ctx, NULL); /* the inputs have been read */
}

ga_status runner_take_blocks(runner *r, const run_step *step) {
  runner_stage *last = runner_last(r);
  ga_step *run = &last->step;
  const int32_t n_rows = step->n_rows;
  int32_t sample = 0;
  if (!n_rows) return end_without_rows(r);
  for (int32_t done = 0; done < n_rows;) {
    const bool is_last = done + run->n_out == n_rows;
    if (is_last && !r->sampler.on) step_gaps_end(last->ctx, &r->gaps);
    GA_TRY(r->sampler.on ? sample_block(r, step, done, run->n_out, is_last, &sample)
                         : deliver_block(r, step, done, run->n_out));
    done += run->n_out;
    if (is_last) break;
    run->n_out = (int32_t)ga_min_i64(n_rows - done, last->exec.max_out);
    if (run->out_rows)
      run->out_rows = last->device + step->layout.out_rows + done;
    else
      run->out_begin = step->rows[done].token;
    GA_TRY(exec_head(&last->exec));
  }
  return GA_OK;
}
