/* A rank's segment has some buffers for each other rank, and two counters: of chunks that lie in them, which the sender
 * counts, and of chunks that have been taken, which the receiver counts. Both go on from run to run.
 *
 *   sender    stream     copy to buffer 0   1   2   3   ...       host: when a copy is done, filled++
 *   receiver  arrivals   copy from buffer   0   1   2   ...       host: when a copy is done, emptied++
 *
 * A rank looks at all of its counters and copies in turn, so that nobody waits in a circle. */
#include "comm/shared_host.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/abort.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"

/* Bytes. A chunk takes some 40 us at 50 GB/s, and the host some 10 to begin it and to see its end. */
#define MOST_CHUNK   ((size_t)2 << 20)
#define LEAST_CHUNK  ((size_t)64 << 10)
#define MOST_BUFFERS ((size_t)128 << 20)
#define PAGE         ((size_t)4096)
#define FIRST_NAP    1e-3 /* seconds without anything new, after which the host sleeps between looks */
#define NAP_NS       20000

enum { BUFFERS = 4 };

/* In the segment of the sender, for one receiver. */
typedef struct shared_counts {
  _Alignas(64) _Atomic uint64_t filled; /* the sender writes it */
  uint64_t bytes[BUFFERS];              /* of the chunk in each */
  _Alignas(64) _Atomic uint64_t emptied;
} shared_counts;

/* To or from one other rank. */
typedef struct shared_side {
  shared_counts *counts;
  unsigned char *memory; /* BUFFERS chunks */
  ga_event *copied[BUFFERS];
  uint64_t begun, ended; /* copies, since the beginning */
  dist_cursor at;
  void *data; /* of the next chunk */
  size_t bytes;
} shared_side;

typedef struct segment {
  unsigned char *at;
  void *pinned; /* what of it is page-locked; NULL: nothing */
} segment;

struct dist_shared {
  ga_ctx *ctx;
  ga_comm *comm;
  size_t chunk, stride, segment_bytes;
  int fd;            /* of the own segment, until the others have it */
  segment *segments; /* [ranks] */
  shared_side *sends, *receives;
  uint64_t moves; /* copies that have ended */
};

/* --- making --- */

static size_t counts_bytes(const dist_shared *x) {
  return ga_round_up((size_t)x->comm->size * sizeof(shared_counts), PAGE);
}

static void size_segment(dist_shared *x, size_t asked) {
  const size_t n = BUFFERS * (size_t)x->comm->size;
  x->chunk = asked ? asked : MOST_CHUNK;
  while (!asked && x->chunk > LEAST_CHUNK && n * x->chunk > MOST_BUFFERS) x->chunk /= 2;
  x->stride = ga_round_up(x->chunk, PAGE);
  x->segment_bytes = counts_bytes(x) + n * x->stride;
}

/* A write to what is not there would end the process later. A signal has older kernels begin again from the first byte:
 * without those of a timer, of a profiler say, it ends. */
static int take_segment_memory(int fd, size_t bytes) {
  sigset_t all, before;
  int rc;
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  do rc = posix_fallocate(fd, 0, (off_t)bytes);
  while (rc == EINTR);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  return rc;
}

static ga_status make_segment(dist_shared *x) {
  GA_REQUIRE(x->ctx->device->pinning, GA_ERR_UNSUPPORTED, "%s page-locks no memory of others", x->ctx->device->name);
  x->fd = memfd_create("ga-chunks", MFD_CLOEXEC);
  GA_REQUIRE(x->fd >= 0, GA_ERR_UNSUPPORTED, "no shared memory: %s", strerror(errno));
  const int rc = take_segment_memory(x->fd, x->segment_bytes);
  GA_REQUIRE(rc == 0, GA_ERR_UNSUPPORTED, "no shared memory: %zu bytes: %s", x->segment_bytes, strerror(rc));
  return GA_OK;
}

/* Of the own segment all buffers are page-locked; of another's those for this rank. */
static ga_status map_segment(dist_shared *x, int32_t rank, int fd) {
  const ga_pinning *pinning = x->ctx->device->pinning;
  segment *s = &x->segments[rank];
  const bool own = rank == x->comm->rank;
  const size_t each = BUFFERS * x->stride;
  void *p = mmap(NULL, x->segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  GA_REQUIRE(p != MAP_FAILED, GA_ERR_UNSUPPORTED, "no shared memory: %s", strerror(errno));
  s->at = p;
  unsigned char *const part = s->at + counts_bytes(x) + (own ? 0 : each * (size_t)x->comm->rank);
  GA_TRY(pinning->pin(x->ctx->device, part, own ? each * (size_t)x->comm->size : each));
  s->pinned = part;
  return GA_OK;
}

static ga_status map_segments(dist_shared *x, const int *fds) {
  for (int32_t r = 0; r < x->comm->size; r++) GA_TRY(map_segment(x, r, r == x->comm->rank ? x->fd : fds[r]));
  return GA_OK;
}

static ga_status make_side(const dist_shared *x, int32_t from, int32_t to, shared_side *s) {
  unsigned char *const at = x->segments[from].at;
  s->counts = (shared_counts *)(void *)at + to;
  s->memory = at + counts_bytes(x) + BUFFERS * x->stride * (size_t)to;
  for (int i = 0; i < BUFFERS; i++) GA_TRY(ga_event_create(x->ctx, &s->copied[i]));
  return GA_OK;
}

static ga_status make_sides(dist_shared *x) {
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)x->comm->size, sizeof *x->sends, "ranks", &p));
  x->sends = p;
  GA_TRY(ga_mem_zalloc((size_t)x->comm->size, sizeof *x->receives, "ranks", &p));
  x->receives = p;
  for (int32_t r = 0; r < x->comm->size; r++) {
    if (r == x->comm->rank) continue;
    GA_TRY(make_side(x, x->comm->rank, r, &x->sends[r]));
    GA_TRY(make_side(x, r, x->comm->rank, &x->receives[r]));
  }
  return GA_OK;
}

/* *mapped: what this rank could do. trade_fds refuses on all ranks, or on none. */
static ga_status trade_segments(dist_shared *x, ga_status *mapped) {
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)x->comm->size, sizeof(int), "ranks", &p));
  int *const fds = p;
  ga_status status = x->comm->calls->trade_fds(x->comm, x->fd, fds);
  *mapped = status;
  if (status == GA_OK) {
    *mapped = map_segments(x, fds);
    for (int32_t r = 0; r < x->comm->size; r++)
      if (fds[r] >= 0) (void)close(fds[r]);
    (void)close(x->fd); /* mappings stay */
    x->fd = -1;
  } else if (status == GA_ERR_UNSUPPORTED) {
    status = GA_OK;
  }
  ga_mem_free(p);
  return status;
}

static ga_status share_segments(dist_shared *x, ga_status *can) {
  ga_status status, mapped;
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)x->comm->size, sizeof *x->segments, "ranks", &p));
  x->segments = p;
  *can = dist_copies_agree(x->comm, make_segment(x), &status);
  if (status != GA_OK || *can != GA_OK) return status;
  GA_TRY(trade_segments(x, &mapped));
  *can = dist_copies_agree(x->comm, mapped, &status);
  if (status != GA_OK || *can != GA_OK) return status;
  return make_sides(x);
}

ga_status dist_shared_create(ga_ctx *ctx, ga_comm *comm, size_t asked, dist_shared **out, ga_status *can) {
  void *p;
  *out = NULL;
  *can = GA_OK;
  GA_TRY(ga_mem_zalloc(1, sizeof(dist_shared), "messages of devices", &p));
  dist_shared *x = p;
  *x = (dist_shared){.ctx = ctx, .comm = comm, .fd = -1};
  size_segment(x, asked);
  const ga_status status = share_segments(x, can);
  if (status == GA_OK && *can == GA_OK)
    *out = x;
  else
    dist_shared_destroy(x);
  return status;
}

static void free_sides(const dist_shared *x, shared_side *sides) {
  for (int32_t r = 0; sides && r < x->comm->size; r++)
    for (int i = 0; i < BUFFERS; i++) ga_event_destroy(sides[r].copied[i]);
  ga_mem_free(sides);
}

void dist_shared_destroy(dist_shared *x) {
  if (!x) return;
  free_sides(x, x->sends);
  free_sides(x, x->receives);
  for (int32_t r = 0; x->segments && r < x->comm->size; r++) {
    if (x->segments[r].pinned) x->ctx->device->pinning->unpin(x->ctx->device, x->segments[r].pinned);
    if (x->segments[r].at) (void)munmap(x->segments[r].at, x->segment_bytes);
  }
  if (x->fd >= 0) (void)close(x->fd);
  ga_mem_free(x->segments);
  ga_mem_free(x);
}

uint64_t dist_shared_moves(const dist_shared *x) { return x->moves; }

/* --- chunks --- */

typedef struct shared_run {
  dist_shared *x;
  ga_stream *stream, *arrivals;
  const ga_link_message *messages;
  int64_t n;
  const ga_patience *own;
  bool moved, is_done; /* in this look at all ranks */
} shared_run;

static unsigned char *chunk_memory(const dist_shared *x, const shared_side *s, uint64_t chunk) {
  return s->memory + chunk % BUFFERS * x->stride;
}

/* The next chunk, if there is one. */
static bool see_chunk(const shared_run *run, shared_side *s, int32_t peer, bool is_send) {
  return s->bytes || dist_next_chunk(&s->at, run->messages, run->n, peer, is_send, run->x->chunk, &s->data, &s->bytes);
}

/* A copy that is done is counted for the other side. */
static ga_status end_copy(shared_run *run, shared_side *s, _Atomic uint64_t *count) {
  bool done;
  if (s->ended == s->begun) return GA_OK;
  GA_TRY(run->x->ctx->device->ops->event_query(s->copied[s->ended % BUFFERS], &done));
  if (!done) return GA_OK;
  atomic_store_explicit(count, ++s->ended, memory_order_release);
  run->x->moves++;
  run->moved = true;
  return GA_OK;
}

static ga_status begin_send(shared_run *run, shared_side *s, int32_t peer) {
  const dist_shared *x = run->x;
  if (!see_chunk(run, s, peer, true)) return GA_OK;
  if (s->begun - atomic_load_explicit(&s->counts->emptied, memory_order_acquire) >= BUFFERS) return GA_OK;
  s->counts->bytes[s->begun % BUFFERS] = s->bytes;
  GA_TRY(ga_copy_to_host_later(x->ctx, chunk_memory(x, s, s->begun), s->data, s->bytes, run->stream));
  GA_TRY(ga_event_record(x->ctx, s->copied[s->begun++ % BUFFERS], run->stream));
  s->bytes = 0;
  run->moved = true;
  return GA_OK;
}

static ga_status begin_receive(shared_run *run, shared_side *s, int32_t peer) {
  const dist_shared *x = run->x;
  if (!see_chunk(run, s, peer, false)) return GA_OK;
  if (atomic_load_explicit(&s->counts->filled, memory_order_acquire) == s->begun) return GA_OK;
  const uint64_t sent = s->counts->bytes[s->begun % BUFFERS];
  GA_REQUIRE(sent == s->bytes, GA_ERR_COMM, "dist: rank %d sent %llu bytes to rank %d, which wanted %zu", peer,
             (unsigned long long)sent, x->comm->rank, s->bytes);
  GA_TRY(ga_copy_to_device_later(x->ctx, s->data, chunk_memory(x, s, s->begun), s->bytes, run->arrivals));
  GA_TRY(ga_event_record(x->ctx, s->copied[s->begun++ % BUFFERS], run->arrivals));
  s->bytes = 0;
  run->moved = true;
  return GA_OK;
}

/* One look at all ranks. */
static ga_status look_at_ranks(shared_run *run) {
  dist_shared *x = run->x;
  run->is_done = true;
  run->moved = false;
  for (int32_t r = 0; r < x->comm->size; r++) {
    shared_side *s = &x->sends[r], *t = &x->receives[r];
    if (r == x->comm->rank) continue;
    GA_TRY(end_copy(run, s, &s->counts->filled));
    GA_TRY(begin_send(run, s, r));
    GA_TRY(end_copy(run, t, &t->counts->emptied));
    GA_TRY(begin_receive(run, t, r));
    run->is_done = run->is_done && s->ended == s->begun && t->ended == t->begun && !see_chunk(run, s, r, true) &&
                   !see_chunk(run, t, r, false);
  }
  return GA_OK;
}

/* Copies wait for what the own streams compute before them, too: that may take longer than a wait for others. */
static ga_status rest_between(const shared_run *run, double idle) {
  const dist_shared *x = run->x;
  GA_TRY(x->comm->calls->check(x->comm));
  GA_TRY(ga_abort_poll("dist"));
  if (idle >= x->comm->timeout) {
    const ga_status status = run->own->ask ? run->own->ask(run->own->user) : GA_ERR_TIMEOUT;
    GA_REQUIRE(status != GA_ERR_TIMEOUT, GA_ERR_TIMEOUT, "dist: rank %d waited %g s for messages through host memory",
               x->comm->rank, x->comm->timeout);
    GA_TRY(status);
  }
  if (idle < FIRST_NAP)
    (void)sched_yield();
  else
    (void)nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
  return GA_OK;
}

ga_status dist_shared_run(dist_shared *x, ga_stream *stream, ga_stream *arrivals, const ga_link_message *messages,
                          int64_t n, const ga_patience *own) {
  shared_run run = {.x = x, .stream = stream, .arrivals = arrivals, .messages = messages, .n = n, .own = own};
  double moved = ga_seconds();
  GA_TRY(x->comm->calls->check(x->comm)); /* arrays of a call that failed are never touched again */
  for (int32_t r = 0; r < x->comm->size; r++) {
    x->sends[r].at = x->receives[r].at = (dist_cursor){0};
    x->sends[r].bytes = x->receives[r].bytes = 0;
  }
  for (;;) {
    GA_TRY(look_at_ranks(&run));
    if (run.is_done) return GA_OK;
    const double now = ga_seconds();
    if (run.moved)
      moved = now;
    else
      GA_TRY(rest_between(&run, now - moved));
  }
}
