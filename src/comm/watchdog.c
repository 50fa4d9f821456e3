/* The watchdog of ranks that are processes. Each has a thread that counts up, and looks at what the others count.
 *
 * A process that dies loses its lock on a byte of the shared memory, whatever ended it: the system sees to that. One
 * that is stopped keeps the lock, and counts no more. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "comm/comm_processes.h"

#define PERIOD    0.02 /* seconds between two looks */
#define STALL     3.0  /* without a sign of life; ranks must end within 5 s */
#define OWN_DELAY 0.5  /* between two looks: then this thread was late itself, and says nothing of others */

static struct flock lock_of(int32_t rank, short type) {
  return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
}

ga_status comm_mark_alive(process_comm *c) {
  struct flock lock = lock_of(c->comm.rank, F_WRLCK);
  GA_REQUIRE(fcntl(c->fd, F_OFD_SETLK, &lock) == 0, GA_ERR_COMM,
             "comm: rank %d cannot lock its byte of the shared memory: %s; is another process rank %d?", c->comm.rank,
             strerror(errno), c->comm.rank);
  atomic_store(&c->ranks[c->comm.rank].pid, (int32_t)getpid());
  atomic_store(&c->ranks[c->comm.rank].has_joined, 1);
  return GA_OK;
}

/* The lock is looked at first: a rank that leaves says so before it lets go. */
static bool has_died(const process_comm *c, int32_t rank) {
  struct flock lock = lock_of(rank, F_WRLCK);
  if (fcntl(c->fd, F_OFD_GETLK, &lock) != 0) return false;
  return lock.l_type == F_UNLCK && !atomic_load(&c->ranks[rank].has_left);
}

typedef struct sign_of_life {
  uint32_t beats;
  double seen;
} sign_of_life;

static void look_at(process_comm *c, int32_t rank, sign_of_life *s, double now) {
  const shared_rank *r = &c->ranks[rank];
  if (!atomic_load(&r->has_joined) || atomic_load(&r->has_left)) {
    s->seen = now;
    return;
  }
  const uint32_t beats = atomic_load(&r->beats);
  if (beats != s->beats) *s = (sign_of_life){beats, now};
  if (has_died(c, rank))
    comm_fail_world(c, GA_ERR_COMM, "comm: rank %d has died (process %d)", rank, atomic_load(&r->pid));
  else if (now - s->seen > STALL)
    comm_fail_world(c, GA_ERR_TIMEOUT, "comm: rank %d stands still (process %d): no sign of life for %g s", rank,
                    atomic_load(&r->pid), STALL);
}

static void *watch(void *arg) {
  process_comm *c = arg;
  void *memory;
  sign_of_life *signs = NULL;
  if (ga_mem_zalloc((size_t)c->comm.size, sizeof *signs, "ranks", &memory) == GA_OK) signs = memory;
  double last = 0;
  while (!atomic_load(&c->must_end)) {
    const double now = ga_seconds();
    (void)atomic_fetch_add(&c->ranks[c->comm.rank].beats, 1);
    for (int32_t r = 0; signs && r < c->comm.size; r++) {
      if (now - last > OWN_DELAY) signs[r].seen = now;
      if (r != c->comm.rank && !atomic_load(&c->head->failed)) look_at(c, r, &signs[r], now);
    }
    last = now;
    (void)nanosleep(&(struct timespec){.tv_nsec = (long)(PERIOD * 1e9)}, NULL);
  }
  ga_mem_free(memory);
  return NULL;
}

ga_status comm_watch(process_comm *c) {
  const int rc = pthread_create(&c->watchdog, NULL, watch, c);
  GA_REQUIRE(!rc, GA_ERR_DEVICE, "comm: the system refuses a thread: %s", strerror(rc));
  c->is_watched = true;
  return GA_OK;
}

void comm_unwatch(process_comm *c) {
  if (!c->is_watched) return;
  atomic_store(&c->must_end, true);
  (void)pthread_join(c->watchdog, NULL);
  c->is_watched = false;
}
