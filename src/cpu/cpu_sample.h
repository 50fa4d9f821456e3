/* Sampling on the CPU: vector code chooses candidates from the vocabulary, then the sampling chain processes them in
 * double. Each operation equals that of ref_sample.c. */
#ifndef GA_CPU_CPU_SAMPLE_H
#define GA_CPU_CPU_SAMPLE_H

#include "cpu/cpu_layer.h"

/* A token and its logit in one number. Larger numbers have larger logits and, among equal logits, smaller ids; this is
 * the order of ga/sample.h. */
typedef uint64_t sample_key;

/* Functions over the logits of a row, written with the vectors of one instruction set. x has n logits. */
typedef struct sample_scan {
  /* Returns the id of the largest logit, the lowest id among equal logits. Returns -1 if all are NaN or -infinity. */
  int32_t (*largest)(const float *x, int64_t n);
  /* Writes the tokens with ids from *from on whose logit is above `least` to out, in order of id. Returns their number.
   * Stops at the end, or before a block of tokens that might exceed `capacity`, and sets *from to the next id. */
  int64_t (*above)(const float *x, int64_t n, float least, int64_t *from, sample_key *out, int64_t capacity);
  /* Returns the sum of e^(x[i] - m) over n logits, with a relative error of at most 1e-5. */
  double (*sum_exp)(const float *x, int64_t n, float m);
} sample_scan;

#define SAMPLE_SLACK 16 /* Largest number of tokens in a block of sample_scan.above. */

sample_key sample_key_of(float logit, int32_t id);

/* Draws one token if d->rows is 0, else one token for each of d->rows rows, in order. */
ga_status cpu_sample_run(const ga_sample_fused_desc *d, const ga_sample_fused_io *io, void *workspace,
                         const sample_scan *scan);

#endif
