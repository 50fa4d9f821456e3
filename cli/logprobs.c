#include "cli/logprobs.h"

#include <math.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cmdline/error.h"

enum { ROWS = 32 }; /* of logits at once */

static double log_total(const float *row, int32_t n) {
  double most = -INFINITY, sum = 0;
  for (int32_t i = 0; i < n; i++) most = (double)row[i] > most ? (double)row[i] : most;
  for (int32_t i = 0; i < n; i++) sum += exp((double)row[i] - most);
  return most + log(sum);
}

static json_t *entry(const ga_tokenizer *tok, int32_t id, double logprob) {
  const ga_text t = ga_tokenizer_piece(tok, id);
  return json_pack("{s:i, s:o, s:o}", "id", id, "text", cmd_json_text(t.data, t.bytes), "logprob",
                   isfinite(logprob) ? json_real(logprob) : json_null());
}

/* The likeliest tokens, by as many passes: they are few. Of equal ones the lower id comes first. */
static json_t *likeliest(const ga_tokenizer *tok, const float *row, int32_t vocab, double sum, int32_t n) {
  json_t *list = json_array();
  int32_t before = -1;
  for (int32_t k = 0; k < n && k < vocab; k++) {
    int32_t best = -1;
    for (int32_t i = 0; i < vocab; i++) {
      const bool taken = before >= 0 && (row[i] > row[before] || (row[i] == row[before] && i <= before));
      if (!taken && (best < 0 || row[i] > row[best])) best = i;
    }
    if (best < 0) break;
    (void)json_array_append_new(list, entry(tok, best, (double)row[best] - sum));
    before = best;
  }
  return list;
}

/* ids[at .. at + n): each is predicted by the row of the token before it. */
static ga_status add_logprobs(ga_session *s, const ga_model *model, const int32_t *inputs, const int32_t *ids,
                              int32_t n, int32_t n_top, float *logits, json_t *list) {
  const ga_tokenizer *tok = ga_model_tokenizer(model);
  const int32_t vocab = ga_model_get_info(model)->vocab;
  TRY(ga_session_eval(s, inputs, n, logits, n, NULL, NULL));
  for (int32_t i = 0; i < n; i++) {
    const float *row = logits + (size_t)i * (size_t)vocab;
    const double sum = log_total(row, vocab);
    json_t *e = entry(tok, ids[i], (double)row[ids[i]] - sum);
    if (n_top && e) (void)json_object_set_new(e, "top", likeliest(tok, row, vocab, sum, n_top));
    if (json_array_append_new(list, e)) return fail_nomem("JSON", 0);
  }
  return GA_OK;
}

ga_status logprobs_json(ga_session *session, const ga_model *model, int32_t before, int32_t last, const int32_t *ids,
                        int32_t n, int32_t n_top, json_t **out) {
  const size_t bytes = (size_t)ROWS * (size_t)ga_model_get_info(model)->vocab * sizeof(float);
  float *logits = malloc(bytes);
  json_t *list = json_array();
  ga_status status = logits && list ? ga_session_rewind(session, before - 1) : fail_nomem("logits", bytes);
  for (int32_t at = 0; at < n && status == GA_OK; at += ROWS) {
    const int32_t rows = n - at < ROWS ? n - at : ROWS;
    int32_t inputs[ROWS];
    for (int32_t i = 0; i < rows; i++) inputs[i] = at + i ? ids[at + i - 1] : last;
    status = add_logprobs(session, model, inputs, ids + at, rows, n_top, logits, list);
  }
  free(logits);
  if (status != GA_OK) {
    json_decref(list);
    list = NULL;
  }
  *out = list;
  return status;
}
