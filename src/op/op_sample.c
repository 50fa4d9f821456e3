#include "base/rng.h"
#include "op/op.h"

static ga_status complete(ga_sample_fused_desc *d) {
  GA_TRY(ga_sample_complete_fields(d));
  if (!d->rows) return GA_OK;
  return ga_complete_rows("sample", "logits_stride", d->rows, d->plain.vocab, &d->logits_stride);
}

#define CHECK_COUNT(what, value)                                                                               \
  GA_REQUIRE((value) >= 0 && (value) <= GA_DIM_MAX, GA_ERR_ARG, "sample: %s is %lld; must be 0 to 2^40", what, \
             (long long)(value))

static ga_status check_counts(const ga_sample_fused_io *io) {
  CHECK_COUNT("n_history", io->plain.n_history);
  CHECK_COUNT("n_bias", io->plain.n_bias);
  CHECK_COUNT("n_advance", io->n_advance);
  return GA_OK;
}

static ga_status check_rows_io(const ga_sample_fused_io *fused) {
  const ga_sample_io *io = &fused->plain;
  GA_CHECK_AT("sample", io->logits, GA_F32, "logits");
  GA_CHECK_AT("sample", io->id, GA_I32, "id");
  GA_CHECK_AT("sample", io->rng, GA_I64, "rng");
  GA_CHECK_AT("sample", fused->rows, GA_I64, "rows");
  GA_CHECK_ALIGN("sample", io->bias, GA_F32, "bias");
  GA_CHECK_ALIGN("sample", io->logprob, GA_F32, "logprob");
  GA_CHECK_ALIGN("sample", fused->sequence, GA_I32, "sequence");
  GA_CHECK_ALIGN("sample", fused->mask, GA_I32, "mask");
  return GA_OK;
}

static ga_status check_io(const ga_sample_fused_desc *desc, const ga_sample_fused_io *fused) {
  const ga_sample_desc *d = &desc->plain;
  const ga_sample_io *io = &fused->plain;
  if (desc->rows) return check_rows_io(fused);
  GA_REQUIRE(!fused->rows && !fused->mask, GA_ERR_ARG, "sample: rows or mask is given, but the plan is of one row");
  GA_TRY(check_counts(fused));
  GA_CHECK_AT("sample", io->logits, GA_F32, "logits");
  GA_CHECK_AT("sample", io->id, GA_I32, "id");
  GA_CHECK_PTR("sample", fused->advance || !fused->n_advance, "advance");
  GA_CHECK_PTR("sample", io->rng || d->temperature == 0, "rng");
  GA_CHECK_PTR("sample", io->history || fused->sequence || !io->n_history, "history");
  GA_CHECK_PTR("sample", io->bias || !io->n_bias, "bias");
  GA_CHECK_PTR("sample", fused->n_sequence || !fused->sequence, "n_sequence");
  GA_CHECK_ALIGN("sample", io->rng, GA_I64, "rng");
  GA_CHECK_ALIGN("sample", io->history, GA_I32, "history");
  GA_CHECK_ALIGN("sample", io->bias, GA_F32, "bias");
  GA_CHECK_ALIGN("sample", io->logprob, GA_F32, "logprob");
  GA_CHECK_ALIGN("sample", fused->advance, GA_I32, "advance");
  GA_CHECK_ALIGN("sample", fused->sequence, GA_I32, "sequence");
  GA_CHECK_ALIGN("sample", fused->n_sequence, GA_I32, "n_sequence");
  return GA_OK;
}

GA_DEFINE_FUSED_OP(sample);

_Static_assert(GA_SAMPLE_ROWS_MAX == 4096, "sample.toml says it as a number");
_Static_assert(sizeof(ga_rng) == 4 * sizeof(uint64_t), "ga_sample_io.rng is a ga_rng");

void ga_sample_seed(uint64_t *rng, uint64_t seed) {
  ga_rng state;
  ga_rng_seed(&state, seed);
  for (int i = 0; i < 4; i++) rng[i] = state.s[i];
}
