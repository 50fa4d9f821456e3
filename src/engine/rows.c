/* What rows of logits become: a drawn token, log-probabilities. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "engine/engine.h"

ga_status engine_prepare_sampling(ga_engine *e, ga_request *r) {
  return ga_sample_plan(e->sample_ctx, &r->sample, &r->sample_plan);
}

/* --- log-probabilities --- */

/* log of the sum of exponentials, and the largest, of a row, in double. */
static double row_log_sum(const float *x, int64_t n) {
  float most = x[0];
  double sum = 0;
  for (int64_t i = 1; i < n; i++) most = x[i] > most ? x[i] : most;
  for (int64_t i = 0; i < n; i++) sum += (double)expf(x[i] - most);
  return (double)most + log(sum);
}

/* The `want` largest of a row, the largest first; of equal ones the lower id. */
static int32_t top_of(const float *x, int64_t n, int32_t want, double sum, ga_token_logprob *top) {
  int32_t have = 0;
  for (int64_t i = 0; want && i < n; i++) {
    const float logprob = (float)((double)x[i] - sum);
    if (isnan(logprob) || (have == want && logprob <= top[have - 1].logprob)) continue;
    int32_t at = have < want ? have++ : have - 1;
    for (; at > 0 && top[at - 1].logprob < logprob; at--) top[at] = top[at - 1];
    top[at] = (ga_token_logprob){.id = (int32_t)i, .logprob = logprob};
  }
  return have;
}

/* Puts token `id`, told by the row x, into the request's queue. */
static ga_status push_scored(const ga_engine *e, ga_request *r, ga_request_event event, int32_t id, const float *x) {
  ga_token_logprob top[GA_MAX_TOP_LOGPROBS];
  request_token token = {.event = (int32_t)event, .id = id, .logprob = NAN};
  const bool scored = event == GA_REQUEST_PROMPT || r->options.logprobs >= 0;
  if (scored) {
    const double sum = row_log_sum(x, e->n_vocab);
    token.logprob = id < e->n_vocab ? (float)((double)x[id] - sum) : NAN;
    token.n_top = top_of(x, e->n_vocab, (int32_t)ga_max_i64(r->options.logprobs, 0), sum, top);
  }
  return request_push(r, &token, top);
}

void engine_give_first(ga_request *r) {
  const request_token first = {.event = GA_REQUEST_PROMPT, .id = r->ids[0], .logprob = NAN};
  const ga_status noted = rows_note_status(r, request_push(r, &first, NULL));
  (void)noted; /* no device is asked here */
  r->n_scored = 1;
}

ga_status rows_score_prompt(const ga_engine *e, const step_row *row, const float *x) {
  ga_request *r = row->request;
  return push_scored(e, r, GA_REQUEST_PROMPT, r->ids[row->position + 1], x);
}

/* --- sampling --- */

static ga_status grow_workspace(ga_engine *e, const ga_plan *plan) {
  const uint64_t bytes = ga_plan_workspace_bytes(plan);
  if (bytes <= e->sample_workspace_bytes) return GA_OK;
  ga_buffer_free(e->sample_ctx, e->sample_workspace);
  e->sample_workspace = NULL;
  e->sample_workspace_bytes = 0;
  GA_TRY(ga_buffer_alloc(e->sample_ctx, bytes, &e->sample_workspace));
  e->sample_workspace_bytes = bytes;
  return GA_OK;
}

/* Token 0 is also what is drawn when no logit is a number, or when biases ban every token. */
static ga_status check_token_0(const ga_request *r, float first, int32_t n_bias) {
  double biased = (double)first;
  GA_REQUIRE(biased > -INFINITY, GA_ERR_STATE, "every logit is NaN or -infinity (the first is %g) after %d tokens",
             biased, r->sched.n_ids);
  for (int32_t i = 0; i < n_bias; i++)
    if (r->bias[i].id == 0) biased += (double)r->bias[i].bias;
  GA_REQUIRE(biased > -INFINITY, GA_ERR_STATE, "the %d biases ban every token (the logit of token 0 becomes %g)",
             n_bias, biased);
  return GA_OK;
}

int32_t rows_n_bias(const ga_request *r, int32_t n_ids) {
  return n_ids - r->sched.n_prompt >= r->options.min_tokens ? r->n_bias : r->n_bias_all;
}

ga_status rows_accept(ga_engine *e, ga_request *r, int32_t id, float first, const float *x) {
  if (!id) GA_TRY(check_token_0(r, first, rows_n_bias(r, r->sched.n_ids)));
  GA_TRY(push_scored(e, r, GA_REQUEST_TOKEN, id, x));
  r->drawn = id;
  return GA_OK;
}

static ga_status sample_row(ga_engine *e, ga_request *r, const float *x) {
  const int32_t window = (int32_t)ga_min_i64(r->window, r->sched.n_ids);
  int32_t id = 0;
  const ga_sample_io io = {.logits = x,
                           .history = r->ids + r->sched.n_ids - window,
                           .n_history = window,
                           .bias = r->bias,
                           .n_bias = rows_n_bias(r, r->sched.n_ids),
                           .rng = r->rng,
                           .id = &id};
  GA_TRY(grow_workspace(e, r->sample_plan));
  GA_TRY(ga_sample_run(r->sample_plan, &io, e->sample_workspace, NULL));
  return rows_accept(e, r, id, x[0], x);
}

ga_status rows_note_status(ga_request *r, ga_status status) {
  if (status == GA_ERR_DEVICE) return status;
  r->row_status = status;
  if (status != GA_OK) (void)snprintf(r->row_error, sizeof r->row_error, "%s", ga_error_text());
  return GA_OK;
}

/* A row that goes wrong ends its own request; the others go on. */
ga_status engine_take_rows(ga_engine *e, const engine_step *step, int32_t first, int32_t n, const float *logits) {
  for (int32_t i = 0; i < n; i++) {
    const step_row *row = &step->rows[first + i];
    const float *x = logits + (size_t)i * (size_t)e->model->hparams.vocab;
    if (row->request->row_status != GA_OK) continue;
    GA_TRY(
        rows_note_status(row->request, row->samples ? sample_row(e, row->request, x) : rows_score_prompt(e, row, x)));
  }
  return GA_OK;
}
