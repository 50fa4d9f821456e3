/* Conversion of one row of a fused draw into a single draw: the parameters and arrays for code that draws one token. */
#ifndef GA_OPDEF_SAMPLE_ROW_H
#define GA_OPDEF_SAMPLE_ROW_H

#include <math.h>

#include "base/mem.h"
#include "opdef/fused.h"

/* Returns whether row i draws nothing. If so, it writes id -1 and log-probability NaN for the row. */
static inline bool ga_sample_row_is_empty(const ga_sample_fused_io *all, int32_t i) {
  if (all->rows[i].logits >= 0) return false;
  all->plain.id[i] = -1;
  if (all->plain.logprob) all->plain.logprob[i] = NAN;
  return true;
}

static inline ga_sample_desc ga_sample_row_desc(const ga_sample_fused_desc *d, const ga_sample_row *r) {
  return (ga_sample_desc){.vocab = d->plain.vocab,
                          .temperature = r->temperature,
                          .top_p = r->top_p,
                          .min_p = r->min_p,
                          .typical_p = r->typical_p,
                          .repetition_penalty = r->repetition_penalty,
                          .presence_penalty = r->presence_penalty,
                          .frequency_penalty = r->frequency_penalty,
                          .top_k = r->top_k};
}

static inline ga_sample_fused_io ga_sample_row_io(const ga_sample_fused_desc *d, const ga_sample_fused_io *all,
                                                  int32_t i) {
  const ga_sample_row *r = &all->rows[i];
  const ga_sample_io *a = &all->plain;
  ga_sample_fused_io io = {.plain = {.logits = a->logits + r->logits * d->logits_stride,
                                     .bias = r->n_bias ? a->bias + r->bias : NULL,
                                     .n_bias = r->n_bias,
                                     .rng = a->rng + 4 * (size_t)i,
                                     .id = a->id + i,
                                     .logprob = a->logprob ? a->logprob + i : NULL},
                           .mask = r->mask < 0 ? NULL : all->mask + r->mask * ga_div_up(d->plain.vocab, 32)};
  /* io.sequence begins n_history tokens before the place of the drawn token, because penalties read no earlier
   * tokens */
  if (r->sequence >= 0) {
    io.plain.n_history = r->n_history;
    io.sequence = all->sequence + (r->sequence - r->n_history);
    io.n_sequence = &r->n_history;
  }
  return io;
}

#endif
