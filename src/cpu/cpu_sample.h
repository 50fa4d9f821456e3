/* Sampling on the CPU: vector code chooses candidates from the vocabulary, then the sampling chain processes them in
 * double. Each operation equals that of ref_sample.c. */
#ifndef GA_CPU_CPU_SAMPLE_H
#define GA_CPU_CPU_SAMPLE_H

#include "cpu/cpu_layer.h"

/* A token and its logit in one number. Larger numbers have larger logits and, among equal logits, smaller ids; this is
 * the order of ga/sample.h. */
typedef uint64_t sample_key;

/* Vector functions of one instruction set. */
typedef struct sample_scan {
  /* Returns the id of the largest logit, the lowest of equals; -1 when all are NaN or -infinity. */
  int32_t (*largest)(const float *x, int64_t n);
  /* Writes the tokens from *from on whose x is above `least` to out, in order of id, and returns their number. It stops
   * before a block that might exceed `capacity`, and sets *from to that place. */
  int64_t (*above)(const float *x, int64_t n, float least, int64_t *from, sample_key *out, int64_t capacity);
  /* Returns the sum of e^(x - m), with a relative error of at most 1e-5. */
  double (*sum_exp)(const float *x, int64_t n, float m);
} sample_scan;

#define SAMPLE_SLACK 16 /* Largest number of tokens of one block. */

sample_key sample_key_of(float logit, int32_t id);

/* Draws the token of a call without rows, or one token for each row in sequence. */
ga_status cpu_sample_run(const ga_sample_fused_desc *d, const ga_sample_fused_io *io, void *workspace,
                         const sample_scan *scan);

#endif
