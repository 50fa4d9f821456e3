/* Ranks as threads of one process. One lock guards everything, copies included: this transport is for being right.
 *
 * A message is copied once both sides have posted it; with GA_COMM_BUFFERED the sender's bytes are kept until then.
 * With a seed, messages that could be copied stay until some rank waits. It then copies one at random, and another,
 * until its own is there. So messages overtake each other, those between one pair of ranks, too. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/sized.h"
#include "core/comm.h"

#define MOST_RANKS 4096

typedef struct message {
  struct message *next;
  int32_t from, to;
  uint64_t turn;
  const void *src;
  void *dst, *copy; /* copy: of src, when buffered */
  size_t sent_bytes, wanted_bytes;
  bool is_sent, is_wanted, is_here; /* posted by the sender, by the receiver; copied */
  bool sender_knows, receiver_knows;
} message;

typedef struct world {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int32_t ranks, ends; /* ends: not yet destroyed */
  uint32_t flags;
  bool random;
  ga_rng rng;
  double timeout;
  message *messages;       /* oldest first */
  uint64_t *sent, *wanted; /* [from x ranks + to] posted so far */
  bool *is_gone;           /* [ranks] */
  ga_status failed;
  char text[768];
  uint64_t meetings; /* that have ended */
  int32_t n_met;
  uint64_t *values; /* [ranks] of the one under way */
  int *fds;         /* [ranks] that are traded */
  int32_t readers;  /* ranks between begin_reading and end_reading */
  comm_call *calls; /* [2 x ranks]: in turns, since a rank may be one trade before another that still copies */
  uint64_t *trades; /* [ranks] of calls so far */
  bool *has_met;
} world;

typedef struct thread_comm {
  ga_comm comm;
  world *w;
} thread_comm;

static world *world_of(ga_comm *comm) { return ((thread_comm *)(void *)comm)->w; }

/* The text says what a rank's own error was; to the others it is one of the communicator. */
static void fail_world(world *w, ga_status status, const char *text) {
  if (w->failed != GA_OK) return;
  w->failed = status == GA_ERR_TIMEOUT ? GA_ERR_TIMEOUT : GA_ERR_COMM;
  (void)snprintf(w->text, sizeof w->text, "%s", text);
  (void)pthread_cond_broadcast(&w->changed);
}

static ga_status world_error(const world *w) { return ga_fail(w->failed, "%s", w->text); }

/* --- messages --- */

static ga_status find_message(world *w, int32_t from, int32_t to, uint64_t turn, message **out) {
  message **at = &w->messages;
  for (; *at; at = &(*at)->next)
    if ((*at)->from == from && (*at)->to == to && (*at)->turn == turn) {
      *out = *at;
      return GA_OK;
    }
  void *p;
  GA_TRY(ga_mem_zalloc(1, sizeof(message), "a message", &p));
  *at = *out = p;
  **out = (message){.from = from, .to = to, .turn = turn};
  return GA_OK;
}

static void drop_message(world *w, message *m) {
  for (message **at = &w->messages; *at; at = &(*at)->next)
    if (*at == m) {
      *at = m->next;
      break;
    }
  ga_mem_free(m->copy);
  ga_mem_free(m);
}

static bool can_deliver(const message *m) { return m->is_sent && m->is_wanted && !m->is_here; }

static void deliver(world *w, message *m) {
  if (m->sent_bytes != m->wanted_bytes) {
    char text[256];
    (void)snprintf(text, sizeof text, "comm: rank %d sent %zu bytes as message %llu to rank %d, which wanted %zu",
                   m->from, m->sent_bytes, (unsigned long long)m->turn, m->to, m->wanted_bytes);
    fail_world(w, GA_ERR_COMM, text);
    return;
  }
  if (m->sent_bytes) memcpy(m->dst, m->copy ? m->copy : m->src, m->sent_bytes);
  m->is_here = true;
  (void)pthread_cond_broadcast(&w->changed);
}

/* Copies one of the messages that could be; false when there is none. */
static bool deliver_one(world *w) {
  uint64_t n = 0;
  for (message *m = w->messages; m; m = m->next) n += can_deliver(m);
  if (!n) return false;
  uint64_t pick = ga_rng_below(&w->rng, n);
  for (message *m = w->messages; m; m = m->next)
    if (can_deliver(m) && pick-- == 0) {
      deliver(w, m);
      break;
    }
  return true;
}

static ga_status post_side(world *w, message *m, bool send, const void *src, void *dst, size_t bytes) {
  if (send) {
    m->is_sent = true, m->src = src, m->sent_bytes = bytes;
    if (w->flags & GA_COMM_BUFFERED && bytes) {
      GA_TRY(ga_mem_alloc(bytes, "a message", &m->copy));
      memcpy(m->copy, src, bytes);
    }
  } else {
    m->is_wanted = true, m->dst = dst, m->wanted_bytes = bytes;
  }
  if (can_deliver(m) && !w->random) deliver(w, m);
  (void)pthread_cond_broadcast(&w->changed);
  return GA_OK;
}

static ga_status post_transfer(ga_comm *comm, int32_t peer, bool send, const void *src, void *dst, size_t bytes,
                               comm_ticket *ticket) {
  world *w = world_of(comm);
  const int32_t from = send ? comm->rank : peer, to = send ? peer : comm->rank;
  (void)pthread_mutex_lock(&w->lock);
  ga_status status = w->failed == GA_OK ? GA_OK : world_error(w);
  uint64_t *count = &(send ? w->sent : w->wanted)[(int64_t)from * w->ranks + to];
  *ticket = (comm_ticket){.peer = peer, .is_send = send, .turn = *count};
  message *m = NULL;
  if (status == GA_OK) status = find_message(w, from, to, *count, &m);
  if (status == GA_OK) status = post_side(w, m, send, src, dst, bytes);
  if (status == GA_OK) ++*count;
  (void)pthread_mutex_unlock(&w->lock);
  return status;
}

static ga_status thread_send(ga_comm *comm, int32_t to, const void *data, size_t bytes, comm_ticket *ticket) {
  return post_transfer(comm, to, true, data, NULL, bytes, ticket);
}

static ga_status thread_receive(ga_comm *comm, int32_t from, void *data, size_t bytes, comm_ticket *ticket) {
  return post_transfer(comm, from, false, NULL, data, bytes, ticket);
}

/* --- waiting --- */

static struct timespec deadline_of(const world *w) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  const double whole = (double)(int64_t)w->timeout;
  t.tv_sec += (time_t)whole;
  t.tv_nsec += (long)((w->timeout - whole) * 1e9);
  if (t.tv_nsec >= 1000000000) t.tv_sec++, t.tv_nsec -= 1000000000;
  return t;
}

/* One sleep, or the world's end: when the peer is gone, or was not there in time. The caller looks at what it waits
 * for before each call, so once more after the deadline: it may have come while the lock was another's. */
static void sleep_once(world *w, const struct timespec *deadline, bool *in_time, int32_t rank, int32_t peer,
                       const char *what) {
  char text[512];
  if (w->is_gone[peer]) {
    (void)snprintf(text, sizeof text, "comm: rank %d is gone; rank %d waited for %s", peer, rank, what);
    fail_world(w, GA_ERR_COMM, text);
  } else if (!*in_time) {
    (void)snprintf(text, sizeof text, "comm: rank %d waited %g s for rank %d: %s", rank, w->timeout, peer, what);
    fail_world(w, GA_ERR_TIMEOUT, text);
  } else {
    *in_time = pthread_cond_timedwait(&w->changed, &w->lock, deadline) == 0;
  }
}

static bool has_ended(const world *w, const message *m, bool send) {
  return m->is_here || (send && w->flags & GA_COMM_BUFFERED);
}

static ga_status thread_wait(ga_comm *comm, const comm_ticket *t) {
  world *w = world_of(comm);
  char what[128];
  (void)snprintf(what, sizeof what, "message %llu %s", (unsigned long long)t->turn,
                 t->is_send ? "to it to be taken" : "from it");
  (void)pthread_mutex_lock(&w->lock);
  const struct timespec deadline = deadline_of(w);
  bool in_time = true;
  message *m = NULL;
  ga_status status = find_message(w, t->is_send ? comm->rank : t->peer, t->is_send ? t->peer : comm->rank, t->turn, &m);
  while (status == GA_OK && w->failed == GA_OK && !has_ended(w, m, t->is_send))
    if (!deliver_one(w)) sleep_once(w, &deadline, &in_time, comm->rank, t->peer, what);
  if (status == GA_OK && w->failed != GA_OK) status = world_error(w);
  if (status == GA_OK) {
    *(t->is_send ? &m->sender_knows : &m->receiver_knows) = true;
    if (m->sender_knows && m->receiver_knows) drop_message(w, m);
  }
  (void)pthread_mutex_unlock(&w->lock);
  return status;
}

/* The first rank whose value differs from rank 0's ends the world. */
static void compare_values(world *w, const char *what) {
  for (int32_t r = 1; r < w->ranks; r++) {
    if (w->values[r] == w->values[0]) continue;
    char text[512];
    (void)snprintf(text, sizeof text,
                   "comm: %s is %016llx on rank %d and %016llx on rank 0; all ranks must have the same", what,
                   (unsigned long long)w->values[r], r, (unsigned long long)w->values[0]);
    fail_world(w, GA_ERR_COMM, text);
    return;
  }
}

static ga_status thread_meet(ga_comm *comm, const char *what, uint64_t value) {
  world *w = world_of(comm);
  char place[128];
  (void)snprintf(place, sizeof place, "all ranks to meet (%s)", what);
  (void)pthread_mutex_lock(&w->lock);
  const struct timespec deadline = deadline_of(w);
  bool in_time = true;
  const uint64_t meeting = w->meetings;
  w->values[comm->rank] = value;
  w->has_met[comm->rank] = true;
  if (w->failed == GA_OK && ++w->n_met == w->ranks) {
    compare_values(w, what);
    w->n_met = 0;
    memset(w->has_met, 0, (size_t)w->ranks * sizeof *w->has_met);
    w->meetings++;
    (void)pthread_cond_broadcast(&w->changed);
  }
  while (w->failed == GA_OK && w->meetings == meeting) {
    int32_t late = 0;
    for (int32_t r = w->ranks - 1; r >= 0; r--)
      if (!w->has_met[r] && (w->is_gone[r] || !w->is_gone[late])) late = r;
    sleep_once(w, &deadline, &in_time, comm->rank, late, place);
  }
  const ga_status status = w->failed == GA_OK ? GA_OK : world_error(w);
  (void)pthread_mutex_unlock(&w->lock);
  return status;
}

static ga_status thread_check(ga_comm *comm) {
  world *w = world_of(comm);
  (void)pthread_mutex_lock(&w->lock);
  const ga_status status = w->failed == GA_OK ? GA_OK : world_error(w);
  (void)pthread_mutex_unlock(&w->lock);
  return status;
}

static void thread_abort(ga_comm *comm, ga_status status, const char *why) {
  world *w = world_of(comm);
  char text[768];
  (void)snprintf(text, sizeof text, "comm: rank %d gave up: %s", comm->rank, why);
  (void)pthread_mutex_lock(&w->lock);
  fail_world(w, status, text);
  (void)pthread_mutex_unlock(&w->lock);
}

/* --- memory of other ranks --- */

static ga_status thread_trade_calls(ga_comm *comm, const comm_call *mine, comm_call *calls) {
  world *w = world_of(comm);
  (void)pthread_mutex_lock(&w->lock);
  const uint64_t trade = w->trades[comm->rank]++;
  comm_call *turn = w->calls + (int64_t)(trade % 2) * w->ranks;
  turn[comm->rank] = *mine;
  turn[comm->rank].trade = trade; /* a rank that met for something else has an older one here */
  (void)pthread_mutex_unlock(&w->lock);
  GA_TRY(thread_meet(comm, "a collective", 1));
  (void)pthread_mutex_lock(&w->lock);
  memcpy(calls, turn, (size_t)w->ranks * sizeof *calls);
  (void)pthread_mutex_unlock(&w->lock);
  return GA_OK;
}

static ga_status thread_begin_reading(ga_comm *comm) {
  world *w = world_of(comm);
  (void)pthread_mutex_lock(&w->lock);
  const ga_status status = w->failed == GA_OK ? GA_OK : world_error(w);
  if (status == GA_OK) w->readers++;
  (void)pthread_mutex_unlock(&w->lock);
  return status;
}

static void thread_end_reading(ga_comm *comm) {
  world *w = world_of(comm);
  (void)pthread_mutex_lock(&w->lock);
  w->readers--;
  (void)pthread_cond_broadcast(&w->changed);
  (void)pthread_mutex_unlock(&w->lock);
}

static void thread_await_readers(ga_comm *comm) {
  world *w = world_of(comm);
  (void)pthread_mutex_lock(&w->lock);
  while (w->readers) (void)pthread_cond_wait(&w->changed, &w->lock);
  (void)pthread_mutex_unlock(&w->lock);
}

/* Nobody closes his own before all have a copy. */
static ga_status thread_trade_fds(ga_comm *comm, int fd, int *fds) {
  world *w = world_of(comm);
  for (int32_t r = 0; r < w->ranks; r++) fds[r] = -1;
  (void)pthread_mutex_lock(&w->lock);
  w->fds[comm->rank] = fd;
  (void)pthread_mutex_unlock(&w->lock);
  GA_TRY(thread_meet(comm, "descriptors", 0));
  bool all = true;
  for (int32_t r = 0; r < w->ranks; r++) {
    if (r == comm->rank) continue;
    fds[r] = fcntl(w->fds[r], F_DUPFD_CLOEXEC, 0);
    all = all && fds[r] >= 0;
  }
  if (!all) {
    const ga_status status =
        ga_fail(GA_ERR_NOMEM, "comm: rank %d gets no file descriptor: %s", comm->rank, strerror(errno));
    thread_abort(comm, status, ga_error_text());
    return status;
  }
  return thread_meet(comm, "descriptors", 1);
}

/* --- making and releasing --- */

static void free_world(world *w) {
  while (w->messages) drop_message(w, w->messages);
  (void)pthread_cond_destroy(&w->changed);
  (void)pthread_mutex_destroy(&w->lock);
  ga_mem_free(w->sent);
  ga_mem_free(w->wanted);
  ga_mem_free(w->is_gone);
  ga_mem_free(w->values);
  ga_mem_free(w->fds);
  ga_mem_free(w->has_met);
  ga_mem_free(w->calls);
  ga_mem_free(w->trades);
  ga_mem_free(w);
}

static void thread_destroy(ga_comm *comm) {
  world *w = world_of(comm);
  (void)pthread_mutex_lock(&w->lock);
  w->is_gone[comm->rank] = true;
  const bool last = --w->ends == 0;
  (void)pthread_cond_broadcast(&w->changed);
  (void)pthread_mutex_unlock(&w->lock);
  if (last) free_world(w);
  ga_mem_free(comm);
}

static const comm_vtable thread_calls = {.send = thread_send,
                                         .receive = thread_receive,
                                         .wait = thread_wait,
                                         .meet = thread_meet,
                                         .check = thread_check,
                                         .abort = thread_abort,
                                         .destroy = thread_destroy,
                                         .trade_fds = thread_trade_fds,
                                         .trade_calls = thread_trade_calls,
                                         .begin_reading = thread_begin_reading,
                                         .end_reading = thread_end_reading,
                                         .await_readers = thread_await_readers};

static ga_status start_locks(world *w) {
  pthread_condattr_t attr;
  int rc = pthread_condattr_init(&attr);
  if (!rc) rc = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  if (!rc) rc = pthread_mutex_init(&w->lock, NULL);
  if (!rc) rc = pthread_cond_init(&w->changed, &attr);
  GA_REQUIRE(!rc, GA_ERR_DEVICE, "comm: the system refuses a lock (error %d)", rc);
  (void)pthread_condattr_destroy(&attr);
  return GA_OK;
}

static ga_status fill_world(world *w, const ga_comm_threads_options *o) {
  const size_t n = (size_t)o->ranks;
  void *p[8];
  *w = (world){.ranks = o->ranks,
               .ends = o->ranks,
               .flags = o->flags,
               .random = o->seed != 0,
               .timeout = o->timeout > 0 ? o->timeout : 5};
  ga_rng_seed(&w->rng, o->seed);
  GA_TRY(start_locks(w));
  GA_TRY(ga_mem_zalloc(n * n, sizeof *w->sent, "pairs of ranks", &p[0]));
  w->sent = p[0];
  GA_TRY(ga_mem_zalloc(n * n, sizeof *w->wanted, "pairs of ranks", &p[1]));
  w->wanted = p[1];
  GA_TRY(ga_mem_zalloc(n, sizeof *w->is_gone, "ranks", &p[2]));
  w->is_gone = p[2];
  GA_TRY(ga_mem_zalloc(n, sizeof *w->values, "ranks", &p[3]));
  w->values = p[3];
  GA_TRY(ga_mem_zalloc(n, sizeof *w->has_met, "ranks", &p[4]));
  w->has_met = p[4];
  GA_TRY(ga_mem_zalloc(n, sizeof *w->fds, "ranks", &p[5]));
  w->fds = p[5];
  GA_TRY(ga_mem_zalloc(2 * n, sizeof *w->calls, "ranks", &p[6]));
  w->calls = p[6];
  GA_TRY(ga_mem_zalloc(n, sizeof *w->trades, "ranks", &p[7]));
  w->trades = p[7];
  return GA_OK;
}

ga_status ga_comm_threads_create(const ga_comm_threads_options *options, ga_comm **out) {
  GA_REQUIRE(out, GA_ERR_ARG, "comm: out is null");
  ga_comm_threads_options o;
  GA_TRY(GA_SIZED_TAKE("comm: options", ga_comm_threads_options, options, &o));
  GA_REQUIRE(o.ranks >= 1 && o.ranks <= MOST_RANKS, GA_ERR_ARG, "comm: ranks is %d; must be 1 to %d", o.ranks,
             MOST_RANKS);
  GA_REQUIRE(!(o.flags & ~(uint32_t)GA_COMM_BUFFERED), GA_ERR_ARG, "comm: flags 0x%x are unknown", o.flags);
  GA_REQUIRE(o.timeout == 0 || (o.timeout >= 0.01 && o.timeout <= 86400), GA_ERR_ARG,
             "comm: timeout is %g s; must be 0.01 to 86400, or 0 = 5", o.timeout);
  for (int32_t r = 0; r < o.ranks; r++) out[r] = NULL;
  void *memory;
  GA_TRY(ga_mem_zalloc(1, sizeof(world), "a communicator", &memory));
  world *w = memory;
  ga_status status = fill_world(w, &o);
  for (int32_t r = 0; r < o.ranks && status == GA_OK; r++) {
    status = ga_mem_zalloc(1, sizeof(thread_comm), "a communicator", &memory);
    if (status != GA_OK) break;
    thread_comm *c = memory;
    *c = (thread_comm){.comm = {.calls = &thread_calls,
                                .rank = r,
                                .size = o.ranks,
                                .timeout = w->timeout,
                                .reach = GA_COMM_SAME_MEMORY},
                       .w = w};
    out[r] = &c->comm;
  }
  if (status == GA_OK) return GA_OK;
  for (int32_t r = 0; r < o.ranks; r++) {
    ga_mem_free(out[r]);
    out[r] = NULL;
  }
  free_world(w);
  return status;
}
