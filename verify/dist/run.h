/* Runs a plan on random tensors, by all ranks, and compares with the results of one rank. */
#ifndef GA_VERIFY_DIST_RUN_H
#define GA_VERIFY_DIST_RUN_H

#include "verify/dist/ranks.h"
#include "verify/dist/shape.h"
#include "verify/dist/timeline.h"

typedef struct dist_run_options {
  const dist_ranks *ranks;
  const char *copies;   /* way of copying blocks, as ga_dist_exec_options.copies; NULL = chosen by the executor */
  const char *timeline; /* path of a file for the spans of the last run; NULL = none */
  int64_t runs;         /* number of runs, 1 or more */
} dist_run_options;

/* Figures of all ranks. Release with dist_run_free, also after a failure. */
typedef struct dist_run_found {
  double difference;      /* largest difference / largest value */
  double seconds;         /* seconds of the slowest rank in its fastest run */
  uint64_t sent;          /* bytes sent by all ranks */
  uint64_t other_bits;    /* numbers whose bits differ from those of one device */
  uint64_t bits;          /* hash of all results */
  char copies[8];         /* how blocks went from GPU to GPU, as ga_dist_exec_copies says */
  dist_timeline timeline; /* spans of the last run, on the first rank if options.timeline is not NULL */
} dist_run_found;

/* Verifies the plan's rules (ga_dist_plan_verify), runs it on all ranks, and compares the results with one rank's.
 * GA_ERR_INTERNAL: results differ by more than rounding, or the bytes sent are not those of the plan. */
GA_NODISCARD ga_status dist_run(const dist_run_options *o, const dist_task *t, const ga_dist_plan *plan,
                                dist_run_found *out);
void dist_run_free(dist_run_found *f);

#endif
