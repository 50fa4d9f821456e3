/* Thread pool: parallel regions over a fixed set of threads, built for many short regions per token.
 *
 * A region is a number of pieces. Each piece is run once, by any free thread. The caller works too, as thread 0. A
 * region ends when its pieces are done, so a worker that wakes late delays nothing. A worker that is preempted while it
 * holds a piece delays the region once; it then sleeps for a while, longer each time.
 *
 * Workers spin for a short while after a region, then sleep, so that an idle pool costs nothing. One region at a time;
 * a pool belongs to one caller thread at a time.
 */
#ifndef GA_BASE_THREAD_H
#define GA_BASE_THREAD_H

#include "ga/base.h"

typedef struct ga_pool ga_pool;

/* Runs one piece of a region. thread: index in the pool, in [0, n_threads), to choose scratch memory. */
typedef void (*ga_piece_fn)(void *arg, int64_t piece, int thread);
/* Runs items [begin, end) of a region. */
typedef void (*ga_range_fn)(void *arg, int64_t begin, int64_t end, int thread);

/* CPUs that this process may use, at least 1, by its affinity mask and the quota of its cgroups. */
int ga_cpu_count(void);

/* Makes a pool. n_threads >= 1, counting the caller. GA_ERR_DEVICE: the system refuses a thread. */
GA_NODISCARD ga_status ga_pool_create(int n_threads, ga_pool **out);
void ga_pool_destroy(ga_pool *pool); /* NULL is fine */
int ga_pool_threads(const ga_pool *pool);

/* Runs fn for pieces [0, n), begun in order, and returns when all are done. Their writes are visible to the caller.
 * pool NULL: all on the calling thread. */
void ga_pool_run(ga_pool *pool, int64_t n, ga_piece_fn fn, void *arg);

/* Runs fn for items [0, n), divided into a few pieces for each thread, with borders at multiples of grain (1 or
 * more). */
void ga_pool_run_ranges(ga_pool *pool, int64_t n, int64_t grain, ga_range_fn fn, void *arg);

#endif
