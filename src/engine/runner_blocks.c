/* Rows of logits of a step that are used when it is taken: the head computes as many at a time as there is room for. */
#include "base/mem.h"
#include "base/status.h"
#include "engine/runner_impl.h"

static ga_status end_without_rows(runner *r) {
  step_gaps_end(runner_last(r)->ctx, &r->gaps);
  return ga_stream_sync(runner_last(r)->ctx, NULL); /* the inputs have been read */
}

/* Runs the head for n rows from `first` on. */
static ga_status run_block_head(runner *r, const run_step *step, int32_t first, int32_t n) {
  runner_stage *last = runner_last(r);
  last->step.n_out = n;
  if (last->step.out_rows)
    last->step.out_rows = last->device + step->layout.out_rows + first;
  else
    last->step.out_begin = step->rows[first].token;
  return exec_head(&last->exec);
}

ga_status runner_take_blocks(runner *r, const run_step *step) {
  const runner_stage *last = runner_last(r);
  const int32_t n_rows = step->n_rows;
  int32_t sample = 0;
  if (!n_rows) return end_without_rows(r);
  for (int32_t done = 0; done < n_rows;) {
    const int32_t n = (int32_t)ga_min_i64(n_rows - done, last->exec.max_out);
    if (done) GA_TRY(run_block_head(r, step, done, n)); /* else the layers ran it */
    if (done + n == n_rows) step_gaps_end(last->ctx, &r->gaps);
    GA_TRY(device_rows_take(r, step, done, n, &sample));
    done += n;
  }
  return GA_OK;
}
