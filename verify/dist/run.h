/* Runs a plan on random tensors, by all ranks, and compares with the results of one rank. */
#ifndef GA_VERIFY_DIST_RUN_H
#define GA_VERIFY_DIST_RUN_H

#include "verify/dist/ranks.h"
#include "verify/dist/shape.h"
#include "verify/dist/timeline.h"

typedef struct dist_run_options {
  const dist_ranks *ranks;
  const char *copies;   /* ga_dist_exec_options.copies; NULL = as it chooses */
  const char *timeline; /* a file for the last run's spans; NULL = none */
  int64_t runs;         /* 1 or more */
} dist_run_options;

/* Figures of all ranks. Release with dist_run_free, also after a failure. */
typedef struct dist_run_found {
  double difference, seconds; /* largest difference by the largest value; the slowest rank's fastest run */
  uint64_t sent, other_bits;  /* bytes; numbers whose bits are not those of one device */
  uint64_t bits;              /* a hash of all results */
  char copies[8];             /* how blocks went from GPU to GPU, as ga_dist_exec_copies says */
  dist_timeline timeline;     /* on the first rank, with options.timeline */
} dist_run_found;

/* Verifies the plan's rules (ga_dist_plan_verify), runs it on all ranks, and compares the results with one rank's.
 * GA_ERR_INTERNAL: results differ by more than rounding, or the bytes sent are not those of the plan. */
GA_NODISCARD ga_status dist_run(const dist_run_options *o, const dist_task *t, const ga_dist_plan *plan,
                                dist_run_found *out);
void dist_run_free(dist_run_found *f);

#endif
