/* Runs the same work on every rank. Ranks are threads of this process, or processes of which this is one. */
#ifndef GA_VERIFY_DIST_RANKS_H
#define GA_VERIFY_DIST_RANKS_H

#include "ga/comm.h"
#include "ga/ctx.h"
#include "verify/dist/devices.h"

enum { DIST_MOST_RUN_RANKS = 64, DIST_DEFAULT_RANKS = 4 };

/* Options of the verbs that start ranks (run, bench, reduce, links): their number, transport and devices. */
typedef struct dist_ranks {
  int64_t n;             /* number of ranks; 0 = as many as a launcher such as mpirun has started, else 4 */
  int32_t rank;          /* rank of this process; -1 = this process is not a rank */
  const char *transport; /* how ranks are connected: "threads", "processes", "mpi" */
  const char *device;    /* names of devices, one for each rank */
  int64_t seed;          /* seed of a random order in which messages arrive; 0 = messages arrive at once */
  bool buffered;
  double timeout; /* largest number of seconds that a rank waits for another one */
} dist_ranks;
#define DIST_RANKS_INIT \
  { .rank = -1, .transport = "threads", .device = "cpu", .timeout = 5 }

/* Finds the rank of this process and the number of ranks from the launcher's environment variables; threads have no
 * launcher. Returns GA_ERR_ARG if the transport is unknown, needs a launcher, or has another number of ranks than
 * --ranks. */
GA_NODISCARD ga_status dist_find_rank(dist_ranks *r);
/* Returns whether this process must start one process for each rank. */
bool dist_needs_launch(const dist_ranks *r);
/* Returns whether this process prints the results: it is rank 0, or the ranks are threads. */
bool dist_is_first(const dist_ranks *r);

/* One rank with its contexts. `host` is a CPU context with one thread. `device` is the same context if the rank's
 * device is the CPU. */
typedef struct dist_rank {
  ga_comm *comm;
  ga_ctx *host, *device;
} dist_rank;

/* The work of one rank. arg: data that ranks share if they are threads. result: bytes for the rank's own result, which
 * are zeros at first. */
typedef ga_status (*dist_rank_fn)(const dist_rank *rank, void *arg, void *result);

/* Opens the communicator of this process from its launcher's environment variables. *out is NULL for threads. The
 * caller destroys it. */
GA_NODISCARD ga_status dist_open_comm(const dist_ranks *r, ga_comm **out);
/* Runs fn on every rank, and gathers the ranks' results, [ranks][bytes]. comm: communicator of this process, which is
 * one of the ranks; NULL = ranks are threads. If one rank fails, all ranks end with its error text. */
GA_NODISCARD ga_status dist_on_ranks(const dist_ranks *r, ga_comm *comm, dist_rank_fn fn, void *arg, size_t bytes,
                                     void *results);
/* Opens a communicator, runs fn on every rank as dist_on_ranks does, and closes the communicator. */
GA_NODISCARD ga_status dist_meet_and_run(const dist_ranks *r, dist_rank_fn fn, void *arg, size_t bytes, void *results);

#endif
