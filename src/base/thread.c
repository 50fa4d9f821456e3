#include "base/thread.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/abort.h"
#include "base/cgroup.h"
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
/* A worker asks the system how long it has had a CPU while it waits, where the 0.5 us cost nobody anything; where
 * regions follow one another at once, in front of one now and then. */
#define ASK_ROUND    8
#define ASK_AGAIN_NS 200000
/* A worker that kept a region waiting for t, and was without a CPU for half of that or more, stays out for so many t,
 * and twice as long each time that it is late again soon after: a CPU that others keep busy costs a few milliseconds a
 * second. One that only has the last and longest piece stays, and so does one whose CPU a thread of the system took for
 * a moment: others who compute have it for a millisecond and more. */
#define LEAST_LOST_NS   500000
#define STAY_OUT        40
#define MOST_OUT_NS     ((int64_t)2000000000)
#define MOST_PIECES     ((int64_t)1 << 30) /* of one region: they are counted in 32 bits */
#define RANGES_A_THREAD 4

typedef struct worker {
  ga_pool *pool;
  int index;
  pthread_t thread;
  bool late;                                   /* the caller's: holds a piece that it waits for */
  int64_t without, asked_at;                   /* its own: ns without a CPU, as it last asked; when that was */
  GA_ALIGNED(GA_CACHE_LINE) atomic_bool holds; /* a piece */
  atomic_llong lost;                           /* ns without a CPU; it looks where the caller waits for its piece */
  atomic_llong out_until;                      /* monotonic ns; 0: takes part */
  int64_t last_until, last_out;                /* the caller's: when it was last let in again, after how many ns */
} worker;

struct ga_pool {
  int n_threads;
  int n_started; /* worker threads really running */
  pid_t process; /* where they run: a fork has none of them, and its caller does all pieces */
  worker *workers;
  ga_piece_fn fn; /* of the region; read behind a claim of it alone */
  void *arg;
  int64_t base; /* piece 0 of the region */
  atomic_uint n;
  GA_ALIGNED(GA_CACHE_LINE) atomic_ullong claim; /* region's number << 32 | next piece */
  GA_ALIGNED(GA_CACHE_LINE) atomic_uint epoch;   /* the region's number, which sleepers wait on */
  atomic_int sleepers;
  atomic_uint quit;                           /* those who stay out wait on it */
  GA_ALIGNED(GA_CACHE_LINE) atomic_uint done; /* pieces; the caller waits on it */
  atomic_bool caller_sleeps;
  atomic_bool skips; /* pieces of the region are counted, not run: the caller was asked to stop */
};

static int affinity_count(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set)) return 1;
  int n = CPU_COUNT(&set);
  return n > 0 ? n : 1;
}

int ga_cpu_count(void) {
  const int cpus = affinity_count(), quota = ga_cgroup_cpus("/proc/self/cgroup", "/sys/fs/cgroup");
  return quota > 0 && quota < cpus ? quota : cpus;
}

static int64_t now_ns(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* --- sleeping --- */

/* Returns at once unless *word is still `value`; it may return early, too. */
static void futex_wait(atomic_uint *word, unsigned value) {
  (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake_all(atomic_uint *word) {
  (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1 << 30, NULL, NULL, 0);
}

/* The time, and of this thread's time since some moment the ns that it had no CPU. */
static void ask_system(worker *self) {
  struct timespec t;
  self->asked_at = now_ns();
  if (!clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t))
    self->without = self->asked_at - (t.tv_sec * (int64_t)1000000000 + t.tv_nsec);
}

static unsigned wait_for_epoch(worker *self, unsigned seen) {
  ga_pool *pool = self->pool;
  unsigned now;
  for (int i = 0; i < SPIN_ROUNDS; i++) {
    if ((now = atomic_load_explicit(&pool->epoch, memory_order_acquire)) != seen) {
      if (now_ns() - self->asked_at > ASK_AGAIN_NS) ask_system(self);
      return now;
    }
    if (i == ASK_ROUND) ask_system(self);
    PAUSE();
  }
  atomic_fetch_add(&pool->sleepers, 1);
  while ((now = atomic_load(&pool->epoch)) == seen) futex_wait(&pool->epoch, seen);
  atomic_fetch_sub(&pool->sleepers, 1);
  ask_system(self);
  return now;
}

static void raise_epoch(ga_pool *pool) {
  atomic_fetch_add(&pool->epoch, 1); /* seq_cst: a sleeper either sees it or is seen in `sleepers` */
  if (atomic_load(&pool->sleepers) > 0) futex_wake_all(&pool->epoch);
}

/* --- pieces --- */

/* The next piece of region `epoch`, or -1 when it has none left or is over. A claim that succeeds keeps the region open
 * until finish_piece: so fn, arg and base, read after it, are this region's. */
static int64_t claim_piece(ga_pool *pool, unsigned epoch) {
  unsigned long long word = atomic_load_explicit(&pool->claim, memory_order_acquire);
  do {
    const unsigned next = (unsigned)word;
    if ((unsigned)(word >> 32) != epoch || next >= atomic_load_explicit(&pool->n, memory_order_acquire)) return -1;
  } while (!atomic_compare_exchange_weak_explicit(&pool->claim, &word, word + 1, memory_order_acquire,
                                                  memory_order_acquire));
  return (int64_t)(unsigned)word;
}

/* The caller sleeps until a last piece is done, which may be this one: how long the thread had no CPU meanwhile. */
static void note_lost(worker *w) {
  const int64_t before = w->without;
  ask_system(w);
  atomic_store_explicit(&w->lost, w->without - before, memory_order_relaxed);
}

static void run_pieces(ga_pool *pool, unsigned epoch, int thread) {
  atomic_bool *holds = &pool->workers[thread].holds;
  for (int64_t i; (i = claim_piece(pool, epoch)) >= 0;) {
    atomic_store_explicit(holds, true, memory_order_relaxed);
    if (!thread && ga_abort_ops_asked()) atomic_store_explicit(&pool->skips, true, memory_order_relaxed);
    if (!atomic_load_explicit(&pool->skips, memory_order_relaxed)) pool->fn(pool->arg, pool->base + i, thread);
    if (thread && atomic_load_explicit(&pool->caller_sleeps, memory_order_relaxed)) note_lost(&pool->workers[thread]);
    atomic_store_explicit(holds, false, memory_order_relaxed);
    const unsigned n = atomic_load_explicit(&pool->n, memory_order_relaxed);
    const unsigned done = atomic_fetch_add(&pool->done, 1) + 1; /* seq_cst: the caller sees it or is seen to sleep */
    if (done == n && atomic_load(&pool->caller_sleeps)) futex_wake_all(&pool->done);
  }
}

/* --- workers --- */

static bool is_out(const worker *w) {
  const int64_t until = atomic_load_explicit(&w->out_until, memory_order_relaxed);
  return until && now_ns() < until;
}

/* Sleeps, so that the system may give the CPU to a thread whose own is taken. */
static void stay_out(worker *w) {
  int64_t until, left;
  while ((until = atomic_load_explicit(&w->out_until, memory_order_relaxed)) && (left = until - now_ns()) > 0) {
    const struct timespec t = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
    if (atomic_load(&w->pool->quit)) return;
    (void)syscall(SYS_futex, &w->pool->quit, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
  }
  if (!until) return;
  atomic_store_explicit(&w->out_until, 0, memory_order_relaxed);
  ask_system(w);
}

static void *worker_main(void *arg) {
  worker *self = arg;
  ga_pool *pool = self->pool;
  unsigned seen = 0;
  ask_system(self);
  for (;;) {
    stay_out(self);
    seen = wait_for_epoch(self, seen);
    if (atomic_load(&pool->quit)) return NULL;
    if (is_out(self)) continue;
    run_pieces(pool, seen, self->index);
  }
}

static void init_fields(ga_pool *pool, int n_threads) {
  pool->n_threads = n_threads;
  atomic_init(&pool->n, 0);
  atomic_init(&pool->claim, 0);
  atomic_init(&pool->epoch, 0);
  atomic_init(&pool->sleepers, 0);
  atomic_init(&pool->quit, 0);
  atomic_init(&pool->done, 0);
  atomic_init(&pool->caller_sleeps, false);
  atomic_init(&pool->skips, false);
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
  pool->process = getpid();
  ga_status status = ga_mem_zalloc((size_t)n_threads, sizeof(worker), "thread pool", &p);
  pool->workers = p;
  for (int i = 1; i < n_threads && status == GA_OK; i++) {
    pool->workers[i].pool = pool;
    pool->workers[i].index = i;
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
  atomic_store(&pool->quit, 1);
  futex_wake_all(&pool->quit);
  raise_epoch(pool);
  if (pool->process != getpid()) pool->n_started = 0; /* this is a fork */
  for (int i = 1; i <= pool->n_started; i++) (void)pthread_join(pool->workers[i].thread, NULL);
  ga_mem_free(pool->workers);
  ga_mem_free(pool);
}

int ga_pool_threads(const ga_pool *pool) { return pool->n_threads; }

/* --- regions --- */

static void mark_late(ga_pool *pool) {
  for (int i = 1; i < pool->n_threads; i++)
    pool->workers[i].late = atomic_load_explicit(&pool->workers[i].holds, memory_order_relaxed);
}

/* Those that have kept the caller waiting for `ns`, until now. */
static void send_out(ga_pool *pool, int64_t now, int64_t ns) {
  for (int i = 1; i < pool->n_threads; i++) {
    worker *w = &pool->workers[i];
    const int64_t lost = atomic_exchange_explicit(&w->lost, 0, memory_order_relaxed);
    if (!w->late || lost < LEAST_LOST_NS || lost < ns / 2) continue;
    const bool soon = now < w->last_until + w->last_out;
    w->last_out = ga_min_i64(soon ? ga_max_i64(2 * w->last_out, STAY_OUT * ns) : STAY_OUT * ns, MOST_OUT_NS);
    w->last_until = now + w->last_out;
    atomic_store_explicit(&w->out_until, w->last_until, memory_order_relaxed);
  }
}

static void wait_for_pieces(ga_pool *pool, unsigned n) {
  for (int i = 0; i < SPIN_ROUNDS; i++) {
    if (atomic_load_explicit(&pool->done, memory_order_acquire) == n) return;
    PAUSE();
  }
  const int64_t start = now_ns();
  mark_late(pool);
  atomic_store(&pool->caller_sleeps, true);
  for (unsigned done; (done = atomic_load(&pool->done)) != n;) futex_wait(&pool->done, done);
  atomic_store(&pool->caller_sleeps, false);
  const int64_t end = now_ns();
  send_out(pool, end, end - start);
}

static void run_region(ga_pool *pool, int64_t base, unsigned n, ga_piece_fn fn, void *arg) {
  const unsigned epoch = atomic_load_explicit(&pool->epoch, memory_order_relaxed) + 1;
  /* Closed first: a worker of the region before that reads the new n must not claim a piece by its own word. */
  atomic_store(&pool->claim, (unsigned long long)epoch << 32 | UINT32_MAX);
  pool->fn = fn;
  pool->arg = arg;
  pool->base = base;
  atomic_store_explicit(&pool->skips, false, memory_order_relaxed);
  atomic_store_explicit(&pool->n, n, memory_order_release);
  atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
  atomic_store_explicit(&pool->claim, (unsigned long long)epoch << 32, memory_order_release);
  raise_epoch(pool);
  run_pieces(pool, epoch, 0);
  wait_for_pieces(pool, n);
}

void ga_pool_run(ga_pool *pool, int64_t n, ga_piece_fn fn, void *arg) {
  if (!pool || pool->n_threads == 1 || n < 2) {
    for (int64_t i = 0; i < n && !ga_abort_ops_asked(); i++) fn(arg, i, 0);
    return;
  }
  for (int64_t base = 0; base < n; base += MOST_PIECES)
    run_region(pool, base, (unsigned)ga_min_i64(n - base, MOST_PIECES), fn, arg);
}

typedef struct ranges {
  ga_range_fn fn;
  void *arg;
  int64_t n, grain, pieces;
} ranges;

static void run_range(void *arg, int64_t piece, int thread) {
  const ranges *r = arg;
  const int64_t units = (r->n + r->grain - 1) / r->grain;
  const int64_t begin = units * piece / r->pieces * r->grain, end = units * (piece + 1) / r->pieces * r->grain;
  if (begin < end) r->fn(r->arg, begin, ga_min_i64(end, r->n), thread);
}

/* One thread takes all at once, unless it may be asked to stop meanwhile. */
#define RANGES_ALONE 16

void ga_pool_run_ranges(ga_pool *pool, int64_t n, int64_t grain, ga_range_fn fn, void *arg) {
  const bool alone = !pool || pool->n_threads == 1;
  if (n <= 0) return;
  if (alone && !ga_abort_ops_listens()) {
    fn(arg, 0, n, 0);
    return;
  }
  ranges r = {.fn = fn, .arg = arg, .n = n, .grain = grain};
  r.pieces = ga_min_i64((n + grain - 1) / grain, alone ? RANGES_ALONE : (int64_t)RANGES_A_THREAD * pool->n_threads);
  ga_pool_run(pool, r.pieces, run_range, &r);
}
