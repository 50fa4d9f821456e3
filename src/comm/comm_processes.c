/* Ranks as processes of one host. A sender copies a message into its arena of the shared memory and hangs it behind its
 * last one to that rank; the receiver copies it out, in the same order, into memory that it has posted. A rank that
 * waits takes all messages that it has posted receives for, so that nobody waits in a circle. */
#include "comm/comm_processes.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/thread.h"
#include "comm/comm_fds.h"

#define DEFAULT_ARENA ((uint64_t)16 << 30) /* addresses; memory is taken as messages need it */
#define MOST_ARENA    ((uint64_t)1 << 40)
#define GRAIN         ((uint64_t)1 << 20) /* of memory that an arena asks for */
#define NAP           0.1                 /* seconds that a wait sleeps at most */
#define SPIN          50e-6

static process_comm *process_of(ga_comm *comm) { return (process_comm *)(void *)comm; }

/* --- bells and failures --- */

void comm_ring(process_comm *c, int32_t rank) {
  _Atomic uint32_t *bell = &c->ranks[rank].bell;
  (void)atomic_fetch_add(bell, 1);
  (void)syscall(SYS_futex, bell, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* To be woken takes as long: so it is looked first, where each rank has a CPU. */
static bool rings_soon(const process_comm *c, uint32_t seen) {
  if (!c->has_cpus) return false;
  const _Atomic uint32_t *bell = &c->ranks[c->comm.rank].bell;
  for (const double end = ga_seconds() + SPIN; ga_seconds() < end;)
    if (atomic_load(bell) != seen) return true;
  return false;
}

void comm_sleep(process_comm *c, uint32_t seen, double seconds) {
  if (seconds <= 0 || rings_soon(c, seen)) return;
  const double s = seconds < NAP ? seconds : NAP;
  const struct timespec t = {.tv_nsec = (long)(s * 1e9)};
  (void)syscall(SYS_futex, &c->ranks[c->comm.rank].bell, FUTEX_WAIT, seen, &t, NULL, 0);
}

static void ring_all(process_comm *c) {
  for (int32_t r = 0; r < c->comm.size; r++) comm_ring(c, r);
}

void comm_fail_world(process_comm *c, ga_status status, const char *fmt, ...) {
  uint32_t none = FAILED_NOT;
  if (!atomic_compare_exchange_strong(&c->head->failed, &none, FAILED_WRITING)) return;
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(c->head->text, sizeof c->head->text, fmt, args);
  va_end(args);
  c->head->status = status == GA_ERR_TIMEOUT ? GA_ERR_TIMEOUT : GA_ERR_COMM;
  atomic_store(&c->head->failed, FAILED_SAID);
  ring_all(c);
}

ga_status comm_world_status(process_comm *c) {
  if (atomic_load(&c->head->failed) == FAILED_NOT) return GA_OK;
  const double deadline = ga_seconds() + 1;
  while (atomic_load(&c->head->failed) != FAILED_SAID) {
    GA_REQUIRE(ga_seconds() < deadline, GA_ERR_COMM, "comm: a rank has died while it wrote down an error");
    (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  char text[sizeof c->head->text];
  memcpy(text, c->head->text, sizeof text);
  text[sizeof text - 1] = 0;
  return ga_fail((ga_status)c->head->status, "%s", text);
}

static ga_status process_check(ga_comm *comm) { return comm_world_status(process_of(comm)); }

static void process_abort(ga_comm *comm, ga_status status, const char *why) {
  process_comm *c = process_of(comm);
  comm_fail_world(c, status, "comm: rank %d gave up: %s", comm->rank, why);
}

/* --- the arena --- */

static shared_link *link_between(const process_comm *c, int32_t from, int32_t to) {
  return &c->shared[(int64_t)from * c->comm.size + to];
}

static shared_message *message_at(const process_comm *c, uint64_t offset) {
  return (shared_message *)(void *)(c->memory + offset);
}

/* A message that was taken is let go; its head stays until the receiver has gone on to the next one. */
static void sweep_arena(process_comm *c) {
  int64_t kept = 0;
  for (int64_t i = 0; i < c->n_blocks; i++) {
    arena_block b = c->blocks[i];
    const uint64_t taken = atomic_load(&link_between(c, c->comm.rank, b.to)->taken);
    if (taken > b.turn + 1) continue;
    if (taken > b.turn) b.bytes = sizeof(shared_message);
    c->blocks[kept++] = b;
  }
  c->n_blocks = kept;
}

static ga_status grow_blocks(process_comm *c) {
  if (c->n_blocks < c->block_room) return GA_OK;
  const int64_t room = c->block_room ? 2 * c->block_room : 64;
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)room, sizeof *c->blocks, "messages of a rank", &p));
  if (c->n_blocks) memcpy(p, c->blocks, (size_t)c->n_blocks * sizeof *c->blocks);
  ga_mem_free(c->blocks);
  c->blocks = p;
  c->block_room = room;
  return GA_OK;
}

/* The system gives the memory now, or says that it has none: later a write would end the process. */
static ga_status reach_memory(process_comm *c, uint64_t end) {
  if (end <= c->high) return GA_OK;
  const uint64_t begin = comm_arena_begin(c, c->comm.rank);
  uint64_t high = ga_round_up(end, GRAIN);
  if (high > c->arena_bytes) high = c->arena_bytes;
  int rc;
  do rc = fallocate(c->fd, 0, (off_t)(begin + c->high), (off_t)(high - c->high));
  while (rc != 0 && errno == EINTR);
  GA_REQUIRE(rc == 0, GA_ERR_NOMEM, "comm: rank %d: the system has no %llu bytes of shared memory more: %s",
             c->comm.rank, (unsigned long long)(high - c->high), strerror(errno));
  c->high = high;
  return GA_OK;
}

/* The first gap that is large enough. */
static ga_status take_block(process_comm *c, uint64_t bytes, int32_t to, uint64_t turn, uint64_t *offset) {
  sweep_arena(c);
  GA_TRY(grow_blocks(c));
  uint64_t at = 0;
  int64_t i = 0;
  for (; i < c->n_blocks && c->blocks[i].offset - at < bytes; i++)
    at = ga_round_up(c->blocks[i].offset + c->blocks[i].bytes, sizeof(shared_message));
  GA_REQUIRE(bytes <= c->arena_bytes && at <= c->arena_bytes - bytes, GA_ERR_NOMEM,
             "comm: rank %d has %llu bytes for messages under way; this one has %llu: message_bytes must be more",
             c->comm.rank, (unsigned long long)c->arena_bytes, (unsigned long long)bytes);
  GA_TRY(reach_memory(c, at + bytes));
  memmove(&c->blocks[i + 1], &c->blocks[i], (size_t)(c->n_blocks - i) * sizeof *c->blocks);
  c->blocks[i] = (arena_block){.offset = at, .bytes = bytes, .turn = turn, .to = to};
  c->n_blocks++;
  *offset = comm_arena_begin(c, c->comm.rank) + at;
  return GA_OK;
}

/* --- messages --- */

static ga_status check_peer(const ga_comm *comm, int32_t peer) {
  GA_REQUIRE(peer >= 0 && peer < comm->size && peer != comm->rank, GA_ERR_ARG,
             "comm: rank %d speaks to rank %d; must be another of %d", comm->rank, peer, comm->size);
  return GA_OK;
}

static ga_status process_send(ga_comm *comm, int32_t to, const void *data, size_t bytes, comm_ticket *ticket) {
  process_comm *c = process_of(comm);
  GA_TRY(check_peer(comm, to));
  GA_TRY(comm_world_status(c));
  process_link *link = &c->links[to];
  uint64_t offset = 0;
  GA_TRY(take_block(c, sizeof(shared_message) + bytes, to, link->sent, &offset));
  shared_message *m = message_at(c, offset);
  atomic_store(&m->next, 0);
  m->bytes = bytes;
  if (bytes) memcpy(m + 1, data, bytes);
  atomic_store(link->tail ? &message_at(c, link->tail)->next : &link_between(c, comm->rank, to)->first, offset);
  link->tail = offset;
  *ticket = (comm_ticket){.peer = to, .is_send = true, .turn = link->sent++};
  comm_ring(c, to);
  return GA_OK;
}

static ga_status process_receive(ga_comm *comm, int32_t from, void *data, size_t bytes, comm_ticket *ticket) {
  process_comm *c = process_of(comm);
  GA_TRY(check_peer(comm, from));
  GA_TRY(comm_world_status(c));
  process_link *link = &c->links[from];
  void *p;
  GA_TRY(ga_mem_zalloc(1, sizeof(wanted_message), "a message", &p));
  wanted_message *w = p;
  *w = (wanted_message){.data = data, .bytes = bytes};
  *link->last = w;
  link->last = &w->next;
  *ticket = (comm_ticket){.peer = from, .is_send = false, .turn = link->wanted++};
  return GA_OK;
}

/* False when no message of the rank is there that a receive was posted for. */
static bool take_message(process_comm *c, int32_t from) {
  process_link *link = &c->links[from];
  shared_link *shared = link_between(c, from, c->comm.rank);
  wanted_message *w = link->first;
  if (!w) return false;
  const uint64_t offset = atomic_load(link->cursor ? &message_at(c, link->cursor)->next : &shared->first);
  if (!offset) return false;
  const uint64_t begin = comm_arena_begin(c, from), end = begin + c->arena_bytes;
  const bool within = offset >= begin && offset <= end - sizeof(shared_message);
  const uint64_t bytes = within ? message_at(c, offset)->bytes : 0;
  if (!within || bytes > end - offset - sizeof(shared_message) || bytes != w->bytes) {
    comm_fail_world(c, GA_ERR_COMM, "comm: rank %d sent %llu bytes as message %llu to rank %d, which wanted %zu", from,
                    (unsigned long long)bytes, (unsigned long long)link->taken, c->comm.rank, w->bytes);
    return false;
  }
  if (bytes) memcpy(w->data, message_at(c, offset) + 1, bytes);
  link->cursor = offset;
  link->first = w->next;
  if (!link->first) link->last = &link->first;
  ga_mem_free(w);
  atomic_store(&shared->taken, ++link->taken);
  comm_ring(c, from);
  return true;
}

static void take_all_messages(process_comm *c) {
  for (int32_t r = 0; r < c->comm.size; r++)
    while (take_message(c, r)) continue;
}

/* --- waiting --- */

typedef struct waiting {
  const comm_ticket *ticket; /* NULL: for the others to come to a meeting */
  const char *what;          /* meeting */
} waiting;

static bool is_taken(const process_comm *c, const comm_ticket *t) {
  if (t->is_send) return atomic_load(&link_between(c, c->comm.rank, t->peer)->taken) > t->turn;
  return c->links[t->peer].taken > t->turn;
}

/* The rank that is waited for; one that has left before one that is only late. -1 = none. */
static int32_t who_is_late(const process_comm *c, const waiting *w) {
  if (w->ticket) return is_taken(c, w->ticket) ? -1 : w->ticket->peer;
  int32_t late = -1;
  for (int32_t r = c->comm.size - 1; r >= 0; r--)
    if (atomic_load(&c->ranks[r].meetings) < c->meetings &&
        (late < 0 || atomic_load(&c->ranks[r].has_left) || !atomic_load(&c->ranks[late].has_left)))
      late = r;
  return late;
}

static void describe_wait(const waiting *w, char *text, size_t capacity) {
  if (w->ticket)
    (void)snprintf(text, capacity, "message %llu %s", (unsigned long long)w->ticket->turn,
                   w->ticket->is_send ? "to it to be taken" : "from it");
  else
    (void)snprintf(text, capacity, "all ranks to meet (%s)", w->what);
}

/* What may end the wait is looked at before what is waited for: a rank may do its part and leave in between. */
static ga_status wait_in_world(process_comm *c, const waiting *w) {
  const double deadline = ga_seconds() + c->timeout;
  bool has_left[MOST_PROCESSES];
  char what[160];
  for (;;) {
    const uint32_t bell = atomic_load(&c->ranks[c->comm.rank].bell);
    const double now = ga_seconds();
    for (int32_t r = 0; r < c->comm.size; r++) has_left[r] = atomic_load(&c->ranks[r].has_left) != 0;
    take_all_messages(c);
    const int32_t peer = who_is_late(c, w);
    if (peer < 0) return GA_OK;
    GA_TRY(comm_world_status(c));
    if (has_left[peer] || now > deadline) {
      describe_wait(w, what, sizeof what);
      if (has_left[peer])
        comm_fail_world(c, GA_ERR_COMM, "comm: rank %d is gone; rank %d waited for %s", peer, c->comm.rank, what);
      else
        comm_fail_world(c, GA_ERR_TIMEOUT, "comm: rank %d waited %g s for rank %d: %s", c->comm.rank, c->timeout, peer,
                        what);
      continue;
    }
    comm_sleep(c, bell, deadline - now + 0.001);
  }
}

static ga_status process_wait(ga_comm *comm, const comm_ticket *t) {
  process_comm *c = process_of(comm);
  if (t->is_send && c->flags & GA_COMM_BUFFERED) return comm_world_status(c);
  return wait_in_world(c, &(waiting){.ticket = t});
}

static ga_status process_meet(ga_comm *comm, const char *what, uint64_t value) {
  process_comm *c = process_of(comm);
  shared_rank *self = &c->ranks[comm->rank];
  GA_TRY(comm_world_status(c));
  const int parity = (int)(++c->meetings % 2);
  atomic_store(&self->values[parity], value);
  atomic_store(&self->meetings, c->meetings);
  ring_all(c);
  GA_TRY(wait_in_world(c, &(waiting){.what = what}));
  const uint64_t first = atomic_load(&c->ranks[0].values[parity]);
  for (int32_t r = 1; r < comm->size; r++) {
    const uint64_t x = atomic_load(&c->ranks[r].values[parity]);
    if (x == first) continue;
    comm_fail_world(c, GA_ERR_COMM,
                    "comm: %s is %016llx on rank %d and %016llx on rank 0; all ranks must have the same", what,
                    (unsigned long long)x, r, (unsigned long long)first);
    return comm_world_status(c);
  }
  return GA_OK;
}

/* --- making and releasing --- */

static void process_destroy(ga_comm *comm) {
  process_comm *c = process_of(comm);
  if (c->head) {
    atomic_store(&c->ranks[comm->rank].has_left, 1);
    ring_all(c);
  }
  comm_unwatch(c);
  if (c->memory) (void)munmap(c->memory, c->bytes);
  if (c->fd >= 0) (void)close(c->fd);
  for (int32_t r = 0; c->links && r < comm->size; r++)
    for (wanted_message *w = c->links[r].first, *next; w; w = next) {
      next = w->next;
      ga_mem_free(w);
    }
  ga_mem_free(c->links);
  ga_mem_free(c->blocks);
  ga_mem_free(c);
}

static ga_status process_trade_fds(ga_comm *comm, int fd, int *fds) {
  return comm_trade_fds(comm, process_of(comm)->run_id, fd, fds);
}

static const comm_vtable process_calls = {.send = process_send,
                                          .receive = process_receive,
                                          .wait = process_wait,
                                          .meet = process_meet,
                                          .check = process_check,
                                          .abort = process_abort,
                                          .destroy = process_destroy,
                                          .trade_fds = process_trade_fds};

static ga_status check_options(const ga_comm_process_options *o) {
  GA_REQUIRE(o->ranks >= 1 && o->ranks <= MOST_PROCESSES, GA_ERR_ARG, "comm: ranks is %d; must be 1 to %d", o->ranks,
             MOST_PROCESSES);
  GA_REQUIRE(o->rank >= 0 && o->rank < o->ranks, GA_ERR_ARG, "comm: rank is %d; must be 0 to %d", o->rank,
             o->ranks - 1);
  GA_REQUIRE(o->run && *o->run, GA_ERR_ARG, "comm: run is %s; must be a name that all ranks of the run have",
             o->run ? "empty" : "null");
  GA_REQUIRE(!(o->flags & ~(uint32_t)GA_COMM_BUFFERED), GA_ERR_ARG, "comm: flags 0x%x are unknown", o->flags);
  GA_REQUIRE(o->reserved == 0, GA_ERR_ARG, "comm: reserved is %d; must be 0", o->reserved);
  const double seconds[2] = {o->timeout, o->start_timeout};
  for (int i = 0; i < 2; i++)
    GA_REQUIRE(seconds[i] == 0 || (seconds[i] >= 0.01 && seconds[i] <= 86400), GA_ERR_ARG,
               "comm: %s is %g s; must be 0.01 to 86400, or 0 = %d", i ? "start_timeout" : "timeout", seconds[i],
               i ? 30 : 5);
  GA_REQUIRE(o->message_bytes == 0 || (o->message_bytes >= 4096 && o->message_bytes <= MOST_ARENA), GA_ERR_ARG,
             "comm: message_bytes is %llu; must be 4096 to 2^40, or 0 = 2^34", (unsigned long long)o->message_bytes);
  return GA_OK;
}

static ga_status fill_comm(process_comm *c, const ga_comm_process_options *o) {
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)o->ranks, sizeof *c->links, "ranks", &p));
  c->links = p;
  for (int32_t r = 0; r < o->ranks; r++) c->links[r].last = &c->links[r].first;
  return comm_rendezvous(c, o->run, o->start_timeout > 0 ? o->start_timeout : 30);
}

ga_status ga_comm_processes_create(const ga_comm_process_options *options, ga_comm **out) {
  GA_REQUIRE(out, GA_ERR_ARG, "comm: out is null");
  *out = NULL;
  ga_comm_process_options o;
  GA_TRY(GA_SIZED_TAKE("comm: options", ga_comm_process_options, options, &o));
  GA_TRY(check_options(&o));
  void *memory;
  GA_TRY(ga_mem_zalloc(1, sizeof(process_comm), "a communicator", &memory));
  process_comm *c = memory;
  c->comm = (ga_comm){.calls = &process_calls, .rank = o.rank, .size = o.ranks};
  c->has_cpus = ga_cpu_count() >= o.ranks;
  c->comm.timeout = o.timeout > 0 ? o.timeout : 5;
  c->run_id = o.run ? ga_fnv64(GA_FNV64_START, o.run, strlen(o.run)) : 0;
  c->flags = o.flags, c->timeout = o.timeout > 0 ? o.timeout : 5, c->fd = -1;
  c->arena_bytes = ga_round_up(o.message_bytes ? o.message_bytes : DEFAULT_ARENA, 4096);
  const ga_status status = fill_comm(c, &o);
  if (status == GA_OK)
    *out = &c->comm;
  else
    process_destroy(&c->comm);
  return status;
}
