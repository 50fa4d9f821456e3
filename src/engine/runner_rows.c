/* Parts of the runner's files that draw: errors of single rows, and generators. */
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/status.h"
#include "engine/runner_impl.h"

ga_status runner_logits_room(runner *r, int32_t n) {
  ga_ctx *ctx = runner_last(r)->ctx;
  void *p;
  if (n <= r->n_logits) return GA_OK;
  ga_host_free(ctx, r->logits);
  r->logits = NULL;
  r->n_logits = 0;
  GA_TRY(ga_host_alloc(ctx, (size_t)n * (size_t)r->options.model->hparams.vocab * sizeof(float), &p));
  r->logits = p;
  r->n_logits = n;
  return GA_OK;
}

ga_status part_note_status(part_result *result, ga_status status) {
  if (status == GA_OK || status == GA_ERR_DEVICE) return status;
  result->status = status;
  (void)snprintf(result->error, sizeof result->error, "%s", ga_error_text());
  return GA_OK;
}

void rng_advance(const ga_sample_desc *sample, const uint64_t *state, uint64_t next[4]) {
  ga_rng rng;
  memcpy(rng.s, state, sizeof rng.s);
  if (sample->temperature != 0) (void)ga_rng_unit(&rng);
  memcpy(next, rng.s, sizeof rng.s);
}
