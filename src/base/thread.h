/* Thread pool: parallel regions over a fixed set of threads, designed for many short regions per token.
 *
 * A region is a number of pieces. Each piece is run once, by any free thread. The caller works too, as thread 0. A
 * region ends when its pieces are done, so a worker that wakes late delays nothing. If the system takes the CPU from a
 * worker during a piece, the region has to wait. That worker then takes no part for a while, longer each time.
 *
 * Workers spin for a short while after a region, then sleep, so that an idle pool costs nothing. A pool runs one region
 * at a time and belongs to one caller thread at a time. */
#ifndef GA_BASE_THREAD_H
#define GA_BASE_THREAD_H

#include "ga/base.h"

typedef struct ga_pool ga_pool;

/* A function that runs one piece of a region. thread is the thread's index in the pool, 0 to n_threads - 1, for
 * choosing scratch memory. */
typedef void (*ga_piece_fn)(void *arg, int64_t piece, int thread);
/* A function that ga_pool_run_ranges calls for each piece, the items [begin, end). thread is the thread's index in the
 * pool. */
typedef void (*ga_range_fn)(void *arg, int64_t begin, int64_t end, int thread);

/* Returns the number of CPUs that this process may use by its affinity mask and the quota of its cgroups, at least
 * 1. */
int ga_cpu_count(void);

/* Creates a pool of n_threads threads, at least 1, counting the caller. GA_ERR_DEVICE: the system refuses a thread. */
GA_NODISCARD ga_status ga_pool_create(int n_threads, ga_pool **out);
void ga_pool_destroy(ga_pool *pool); /* frees the pool; NULL is accepted */
int ga_pool_threads(const ga_pool *pool);

/* Runs fn for pieces 0 to n - 1, begun in order, and returns when all are done. The writes of all pieces are visible to
 * the caller. pool NULL: all pieces run on the calling thread. */
void ga_pool_run(ga_pool *pool, int64_t n, ga_piece_fn fn, void *arg);

/* Runs fn for items 0 to n - 1, divided into a few pieces per thread. The borders of pieces are multiples of grain,
 * which is 1 or more. */
void ga_pool_run_ranges(ga_pool *pool, int64_t n, int64_t grain, ga_range_fn fn, void *arg);

#endif
