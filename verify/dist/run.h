/* `ga dist run`: all ranks run a plan on random tensors. The results are compared with the results of one rank that
 * computes everything. */
#ifndef GA_VERIFY_DIST_RUN_H
#define GA_VERIFY_DIST_RUN_H

#include "verify/dist/ranks.h"
#include "verify/dist/shape.h"
#include "verify/dist/timeline.h"

typedef struct dist_run_options {
  const dist_ranks *ranks;
  /* way of copying blocks, such as "peer" (ga_dist_exec_options.copies); NULL = the executor chooses */
  const char *copies;
  const char *timeline; /* path of a file to which the timeline of the last run is written; NULL = none */
  int64_t runs;         /* number of runs, 1 or more */
} dist_run_options;

/* Results of the runs of all ranks. The caller frees them with dist_run_free, also after a failure. */
typedef struct dist_run_found {
  double difference;   /* largest difference to the results of one rank / largest value */
  double seconds;      /* time of the fastest run on the slowest rank, in seconds */
  uint64_t sent;       /* bytes that all ranks have sent in one run */
  uint64_t other_bits; /* number of results whose bits differ from the results of one device */
  uint64_t bits;       /* hash of the bits of all results */
  char copies[8];      /* way in which blocks were copied, as ga_dist_exec_copies returns it */
  /* timeline of the last run; it is filled in on the first rank, and only if options.timeline is not NULL */
  dist_timeline timeline;
} dist_run_found;

/* Verifies the plan's rules (ga_dist_plan_verify), runs the plan on all ranks, and compares the results with one
 * rank's. Returns GA_ERR_INTERNAL if results differ by more than rounding, or if another number of bytes was sent than
 * the plan has. */
GA_NODISCARD ga_status dist_run(const dist_run_options *o, const dist_task *t, const ga_dist_plan *plan,
                                dist_run_found *out);
void dist_run_free(dist_run_found *f);

#endif
