/* Sampling on the CPU: the chain in plain double arithmetic, equal to that of ref_sample.c operation by operation, over
 * candidates that vector code has picked out of the vocabulary. */
#ifndef GA_CPU_CPU_SAMPLE_H
#define GA_CPU_CPU_SAMPLE_H

#include "cpu/cpu_layer.h"

/* A token and its logit in one number, whose descending order is that of ga/sample.h: logit down, then id up. */
typedef uint64_t sample_key;

/* Vector code of one instruction set. */
typedef struct sample_scan {
  /* Id of the largest logit, the lowest of equals; -1 when all are NaN or -infinity. */
  int32_t (*largest)(const float *x, int64_t n);
  /* Puts the tokens from `from` on with x > least, in order of id, into out; stops before the block that might not fit
   * into `capacity`. Returns how many; *from: where it stopped. */
  int64_t (*above)(const float *x, int64_t n, float least, int64_t *from, sample_key *out, int64_t capacity);
  /* Sum of e^(x - m), within 1e-5 of the true one. */
  double (*sum_exp)(const float *x, int64_t n, float m);
} sample_scan;

#define SAMPLE_SLACK 16 /* the most tokens of one block */

sample_key sample_key_of(float logit, int32_t id);

ga_status cpu_sample_run(const ga_sample_desc *d, const ga_sample_fused_io *a, void *workspace,
                         const sample_scan *scan);

#endif
