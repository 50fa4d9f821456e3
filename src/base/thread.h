/* Thread pool: fork-join over a fixed set of threads, built for many short parallel regions per token.
 *
 * The caller is thread 0. Workers spin for a short while after a region, then sleep, so that an idle pool costs
 * nothing. One region at a time; a pool belongs to one caller thread at a time.
 */
#ifndef GA_BASE_THREAD_H
#define GA_BASE_THREAD_H

#include "ga/base.h"

typedef struct ga_pool ga_pool;

/* Runs on every thread of the pool with its index in [0, n_threads). */
typedef void (*ga_pool_fn)(void *arg, int thread, int n_threads);

/* Usable CPUs of this process (affinity mask), at least 1. */
int ga_cpu_count(void);

/* n_threads >= 1, counting the caller; GA_ERR_DEVICE when the system refuses a thread. */
GA_NODISCARD ga_status ga_pool_create(int n_threads, ga_pool **out);
void ga_pool_destroy(ga_pool *pool); /* NULL is fine */
int ga_pool_threads(const ga_pool *pool);

/* Runs fn on all threads and returns when all have returned. What each wrote is visible to the caller. */
void ga_pool_run(ga_pool *pool, ga_pool_fn fn, void *arg);

/* Inside a region: waits until all threads of the pool have come here. */
void ga_pool_barrier(ga_pool *pool);

/* Inside a region: next unclaimed index of a shared counter that every region starts at 0. */
int64_t ga_pool_next(ga_pool *pool);

/* Splits [0, n) into n_threads pieces whose borders are multiples of `grain`. */
static inline void ga_pool_slice(int64_t n, int64_t grain, int thread, int n_threads, int64_t *begin, int64_t *end) {
  int64_t units = (n + grain - 1) / grain;
  int64_t b = units * thread / n_threads * grain, e = units * (thread + 1) / n_threads * grain;
  *begin = b < n ? b : n;
  *end = e < n ? e : n;
}

#endif
