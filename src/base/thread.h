/* Thread pool: parallel regions over a fixed set of threads, built for many short regions per token.
 *
 * A region is a number of pieces. Each piece is run once, by whichever thread is free. The caller works too, as thread
 * 0, and a region ends when its pieces are done: a worker that wakes late finds nothing left and delays nobody. A
 * worker that holds a piece while the system gives its CPU to others delays the region once; it then sleeps for a
 * while, longer each time.
 *
 * Workers spin for a short while after a region, then sleep, so that an idle pool costs nothing. One region at a time;
 * a pool belongs to one caller thread at a time.
 */
#ifndef GA_BASE_THREAD_H
#define GA_BASE_THREAD_H

#include "ga/base.h"

typedef struct ga_pool ga_pool;

/* One piece of a region. thread: of the pool, in [0, n_threads), for scratch of its own. */
typedef void (*ga_piece_fn)(void *arg, int64_t piece, int thread);
/* Items [begin, end) of a region's. */
typedef void (*ga_range_fn)(void *arg, int64_t begin, int64_t end, int thread);

/* CPUs that this process may keep busy, at least 1: of its affinity mask, and within the quota of its cgroups. */
int ga_cpu_count(void);

/* n_threads >= 1, counting the caller; GA_ERR_DEVICE when the system refuses a thread. */
GA_NODISCARD ga_status ga_pool_create(int n_threads, ga_pool **out);
void ga_pool_destroy(ga_pool *pool); /* NULL is fine */
int ga_pool_threads(const ga_pool *pool);

/* Runs fn for pieces [0, n) and returns when all are done. What they wrote is visible to the caller. Pieces are taken
 * in order. pool NULL: all on the calling thread. */
void ga_pool_run(ga_pool *pool, int64_t n, ga_piece_fn fn, void *arg);

/* Runs fn for items [0, n), cut into a few pieces a thread whose borders are multiples of grain (1 or more). */
void ga_pool_run_ranges(ga_pool *pool, int64_t n, int64_t grain, ga_range_fn fn, void *arg);

#endif
