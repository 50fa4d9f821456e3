/* The way of a step's rows from one stage to the next.
 *
 *   stage i        step 0 | copy to buffer 0 | step 1 | copy to buffer 1 | ...
 *   stage i + 1                                step 0 from buffer 0      | step 1 from buffer 1 | ...
 *
 * Stage i may run step n + 1 while stage i + 1 runs step n: each copy waits for events alone. Devices that do not reach
 * one another run stage after stage: exec_take_over.
 */
#include "base/log.h"
#include "base/status.h"
#include "engine/runner_impl.h"

static ga_status create_handover(stage_handover *h, const runner_stage *before, runner_stage *stage) {
  const uint64_t bytes = exec_taken_bytes(&stage->exec);
  void *p;
  for (int i = 0; i < 2; i++) {
    GA_TRY(ga_event_create(before->ctx, &h->sent[i]));
    GA_TRY(ga_event_create(stage->ctx, &h->received[i]));
    GA_TRY(ga_buffer_alloc(stage->ctx, bytes, &p));
    h->buffer[i] = p;
  }
  return GA_OK;
}

/* Does the device of `before` reach the stage's? The answer of a copy of one byte. */
static ga_status reaches(const runner_stage *before, const runner_stage *stage, const stage_handover *h, bool *yes) {
  const ga_status status = ga_send_to_peer(before->ctx, before->device, stage->ctx, h->buffer[0], 1);
  *yes = status == GA_OK;
  return status == GA_ERR_UNSUPPORTED ? GA_OK : status;
}

ga_status runner_create_handovers(runner *r) {
  bool all = r->n_stages > 1;
  for (int32_t i = 0; i < r->n_stages; i++) all = all && !ga_device_works_in_calls(r->stages[i].ctx->device);
  for (int32_t i = 1; i < r->n_stages && all; i++) {
    stage_handover *h = &r->stages[i].handover;
    GA_TRY(create_handover(h, &r->stages[i - 1], &r->stages[i]));
    GA_TRY(reaches(&r->stages[i - 1], &r->stages[i], h, &all));
  }
  for (int32_t i = 0; i < r->n_stages; i++) all = all && !exec_waits(&r->stages[i].exec);
  r->pipelines = all;
  if (r->n_stages > 1)
    ga_log(GA_LOG_INFO, "%d stages of layers %s", r->n_stages,
           all ? "run different steps at the same time"
               : "run one after the other: not all devices reach the next one, or the CPU has experts");
  return GA_OK;
}

void runner_destroy_handover(runner_stage *stage) {
  for (int i = 0; i < 2; i++) {
    ga_event_destroy(stage->handover.sent[i]);
    ga_event_destroy(stage->handover.received[i]);
    ga_buffer_free(stage->ctx, stage->handover.buffer[i]);
  }
}

ga_status runner_hand_over(runner *r, int32_t i, int place) {
  runner_stage *before = &r->stages[i - 1], *stage = &r->stages[i];
  stage_handover *h = &stage->handover;
  if (!r->pipelines) return exec_take_over(&stage->exec, &before->exec);
  if (h->is_used[place]) GA_TRY(ga_stream_wait_peer(before->ctx, h->received[place]));
  GA_TRY(exec_send(&stage->exec, &before->exec, h->buffer[place]));
  GA_TRY(ga_event_record(before->ctx, h->sent[place], NULL));
  GA_TRY(ga_stream_wait_peer(stage->ctx, h->sent[place]));
  GA_TRY(exec_receive(&stage->exec, h->buffer[place]));
  h->is_used[place] = true;
  return ga_event_record(stage->ctx, h->received[place], NULL);
}
