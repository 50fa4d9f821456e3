#include "base/thread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/status.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define PAUSE() _mm_pause()
#else
#define PAUSE() (void)0
#endif

/* Spinning costs the CPU to others, so it is bounded: about 50 us, longer than the gap between two ops of a layer. */
#define SPIN_ROUNDS 2000

typedef struct worker {
  ga_pool *pool;
  int index;
  pthread_t thread;
} worker;

struct ga_pool {
  int n_threads;
  int n_started; /* worker threads really running */
  worker *workers;
  ga_pool_fn fn;
  void *arg;
  pthread_mutex_t lock; /* guards sleeping only; region hand-over is by `epoch` */
  pthread_cond_t wake;
  GA_ALIGNED(GA_CACHE_LINE) atomic_uint epoch;  /* raised to start a region */
  GA_ALIGNED(GA_CACHE_LINE) atomic_int running; /* workers still inside the region */
  GA_ALIGNED(GA_CACHE_LINE) atomic_int arrived; /* barrier */
  atomic_uint phase;
  GA_ALIGNED(GA_CACHE_LINE) atomic_llong next;
  atomic_int sleepers;
  atomic_bool quit;
};

int ga_cpu_count(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set)) return 1;
  int n = CPU_COUNT(&set);
  return n > 0 ? n : 1;
}

static unsigned wait_for_epoch(ga_pool *pool, unsigned seen) {
  for (int i = 0; i < SPIN_ROUNDS; i++) {
    unsigned now = atomic_load_explicit(&pool->epoch, memory_order_acquire);
    if (now != seen) return now;
    PAUSE();
  }
  (void)pthread_mutex_lock(&pool->lock);
  atomic_fetch_add(&pool->sleepers, 1);
  unsigned now;
  while ((now = atomic_load(&pool->epoch)) == seen) (void)pthread_cond_wait(&pool->wake, &pool->lock);
  atomic_fetch_sub(&pool->sleepers, 1);
  (void)pthread_mutex_unlock(&pool->lock);
  return now;
}

static void start_epoch(ga_pool *pool) {
  atomic_fetch_add(&pool->epoch, 1); /* seq_cst: a sleeper either sees it or is seen in `sleepers` */
  if (atomic_load(&pool->sleepers) > 0) {
    (void)pthread_mutex_lock(&pool->lock);
    (void)pthread_cond_broadcast(&pool->wake);
    (void)pthread_mutex_unlock(&pool->lock);
  }
}

static void *worker_main(void *arg) {
  worker *self = arg;
  ga_pool *pool = self->pool;
  unsigned seen = 0;
  for (;;) {
    seen = wait_for_epoch(pool, seen);
    if (atomic_load(&pool->quit)) return NULL;
    pool->fn(pool->arg, self->index, pool->n_threads);
    atomic_fetch_sub_explicit(&pool->running, 1, memory_order_release);
  }
}

static void init_fields(ga_pool *pool, int n_threads) {
  pool->n_threads = n_threads;
  atomic_init(&pool->epoch, 0);
  atomic_init(&pool->running, 0);
  atomic_init(&pool->arrived, 0);
  atomic_init(&pool->phase, 0);
  atomic_init(&pool->next, 0);
  atomic_init(&pool->sleepers, 0);
  atomic_init(&pool->quit, false);
  (void)pthread_mutex_init(&pool->lock, NULL);
  (void)pthread_cond_init(&pool->wake, NULL);
}

/* Signals are the application's: one that a worker took would not wake the thread that waits for it in a read. */
static int start_worker(worker *w) {
  sigset_t all, before;
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  const int rc = pthread_create(&w->thread, NULL, worker_main, w);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  return rc;
}

ga_status ga_pool_create(int n_threads, ga_pool **out) {
  *out = NULL;
  GA_REQUIRE(n_threads >= 1 && n_threads <= 1024, GA_ERR_ARG, "threads: %d; must be 1 to 1024", n_threads);
  void *p;
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_pool), "thread pool", &p));
  ga_pool *pool = p;
  init_fields(pool, n_threads);
  ga_status status = ga_mem_zalloc((size_t)n_threads, sizeof(worker), "thread pool", &p);
  pool->workers = p;
  for (int i = 1; i < n_threads && status == GA_OK; i++) {
    pool->workers[i] = (worker){.pool = pool, .index = i};
    int rc = start_worker(&pool->workers[i]);
    if (rc)
      status = ga_fail(GA_ERR_DEVICE, "threads: cannot start thread %d of %d: %s", i, n_threads, strerror(rc));
    else
      pool->n_started++;
  }
  if (status != GA_OK) {
    ga_pool_destroy(pool);
    return status;
  }
  *out = pool;
  return GA_OK;
}

void ga_pool_destroy(ga_pool *pool) {
  if (!pool) return;
  atomic_store(&pool->quit, true);
  start_epoch(pool);
  for (int i = 1; i <= pool->n_started; i++) (void)pthread_join(pool->workers[i].thread, NULL);
  (void)pthread_cond_destroy(&pool->wake);
  (void)pthread_mutex_destroy(&pool->lock);
  ga_mem_free(pool->workers);
  ga_mem_free(pool);
}

int ga_pool_threads(const ga_pool *pool) { return pool->n_threads; }

/* Waits for `value` to become `target`; yields after a while, for machines with fewer CPUs than threads. */
static void spin_until_zero(atomic_int *value) {
  for (int i = 0; atomic_load_explicit(value, memory_order_acquire) != 0; i++) {
    if (i < SPIN_ROUNDS)
      PAUSE();
    else
      (void)sched_yield();
  }
}

void ga_pool_run(ga_pool *pool, ga_pool_fn fn, void *arg) {
  atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
  if (pool->n_threads == 1) {
    fn(arg, 0, 1);
    return;
  }
  pool->fn = fn;
  pool->arg = arg;
  atomic_store_explicit(&pool->running, pool->n_threads - 1, memory_order_relaxed);
  start_epoch(pool);
  fn(arg, 0, pool->n_threads);
  spin_until_zero(&pool->running);
}

void ga_pool_barrier(ga_pool *pool) {
  if (pool->n_threads == 1) return;
  unsigned phase = atomic_load_explicit(&pool->phase, memory_order_acquire);
  if (atomic_fetch_add(&pool->arrived, 1) == pool->n_threads - 1) {
    atomic_store_explicit(&pool->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->phase, phase + 1, memory_order_release);
    return;
  }
  for (int i = 0; atomic_load_explicit(&pool->phase, memory_order_acquire) == phase; i++) {
    if (i < SPIN_ROUNDS)
      PAUSE();
    else
      (void)sched_yield();
  }
}

int64_t ga_pool_next(ga_pool *pool) { return atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed); }
