/* ga dist run, bench: the same work on every rank. */
#ifndef GA_VERIFY_DIST_RANKS_H
#define GA_VERIFY_DIST_RANKS_H

#include "verify/dist/dist.h"

enum { DIST_MOST_RUN_RANKS = 64 };

/* What a rank is and has. */
typedef struct dist_rank {
  ga_comm *comm;
  ga_ctx *host, *device; /* of one CPU thread; of the rank's device: host itself where that is the CPU */
} dist_rank;

/* result: bytes of its own, which start as zeros. */
typedef ga_status (*dist_rank_fn)(const dist_rank *rank, void *arg, void *result);

/* Before anything of a device is opened: the variables that its ranks need. */
void dist_prepare_devices(const dist_args *a);
/* Runs fn on every rank, and gathers results[ranks][bytes]. comm: of this process, one of the ranks; NULL = ranks are
 * threads. When one rank fails, all end with its text. */
GA_NODISCARD ga_status dist_on_ranks(const dist_args *a, ga_comm *comm, dist_rank_fn fn, void *arg, size_t bytes,
                                     void *results);
/* The same with the communicator that --transport asks for. */
GA_NODISCARD ga_status dist_meet_and_run(const dist_args *a, dist_rank_fn fn, void *arg, size_t bytes, void *results);
double dist_seconds(void); /* monotonic */

#endif
