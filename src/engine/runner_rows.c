/* Parts of the runner's files that draw: errors of single rows, and generators. */
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "base/status.h"
#include "engine/runner_impl.h"

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
