/* What rows of logits become: a drawn token, log-probabilities. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "engine/engine.h"

/* What a row's status becomes; GA_ERR_DEVICE ends the step. */
static ga_status note_row_status(ga_request *r, ga_status status) {
  if (status == GA_ERR_DEVICE) return status;
  r->row_status = status;
  if (status != GA_OK) (void)snprintf(r->row_error, sizeof r->row_error, "%s", ga_error_text());
  return GA_OK;
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
  const ga_status noted = note_row_status(r, request_push(r, &first, NULL));
  (void)noted; /* no device is asked here */
  r->n_scored = 1;
}

static ga_status score_prompt(const ga_engine *e, const step_row *row, const float *x) {
  ga_request *r = row->request;
  return push_scored(e, r, GA_REQUEST_PROMPT, r->ids[row->position + 1], x);
}

/* --- draws --- */

/* Biases that count behind n_ids tokens: those that ban every end of generation only until there are min_tokens. */
static int32_t n_bias_of(const ga_request *r, int32_t n_ids) {
  return n_ids - r->sched.n_prompt >= r->options.min_tokens ? r->n_bias : r->n_bias_all;
}

row_draw rows_draw_of(ga_request *r, int32_t n_ids) {
  return (row_draw){.sample = &r->sample,
                    .ids = r->ids,
                    .n_ids = r->sched.n_ids,
                    .window = r->window,
                    .bias = r->bias,
                    .n_bias = n_bias_of(r, n_ids),
                    .rng = r->rng,
                    .history = &r->history,
                    .shows = r->options.logprobs >= 0};
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

/* A token has been drawn from logits that begin with `first`; x: all of them, where the request wants
 * log-probabilities. */
static ga_status accept_draw(const ga_engine *e, ga_request *r, int32_t id, float first, const float *x) {
  if (!id) GA_TRY(check_token_0(r, first, n_bias_of(r, r->sched.n_ids)));
  GA_TRY(push_scored(e, r, GA_REQUEST_TOKEN, id, x));
  r->drawn = id;
  return GA_OK;
}

/* --- results --- */

ga_status rows_show(void *user, int32_t row, int32_t id, const float *logits) {
  const engine_step *step = user;
  const ga_engine *e = step->engine;
  const step_row *at = &step->rows[row];
  ga_request *r = at->request;
  if (!r || r->row_status != GA_OK) return GA_OK;
  return note_row_status(r, at->samples ? accept_draw(e, r, id, logits[0], logits) : score_prompt(e, at, logits));
}

/* A part that goes wrong ends its own request; the others go on. */
static void note_result(ga_request *r, const part_result *result) {
  if (result->status == GA_OK) return;
  r->row_status = result->status;
  (void)snprintf(r->row_error, sizeof r->row_error, "%s", result->error);
}

void rows_note_results(const engine_step *step, const part_result *results) {
  for (int32_t i = 0; i < step->n_rows; i++)
    if (step->rows[i].request) note_result(step->rows[i].request, &results[step->rows[i].part]);
}

ga_status rows_take_results(const engine_step *step, const part_result *results) {
  rows_note_results(step, results);
  for (int32_t i = 0; i < step->n_rows; i++) {
    const step_row *row = &step->rows[i];
    const part_result *result = &results[row->part];
    ga_request *r = row->request;
    if (!r || !row->samples || step->draws[i].shows || r->row_status != GA_OK) continue;
    GA_TRY(note_row_status(r, accept_draw(step->engine, r, result->next, result->first, NULL)));
  }
  return GA_OK;
}
