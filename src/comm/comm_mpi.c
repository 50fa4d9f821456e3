/* Ranks of an MPI run: OpenMPI's messages, between processes of any hosts. MPI keeps the order of messages between two
 * ranks, so their numbers need not travel. A rank that fails tells all others on a tag of its own, which those who wait
 * look at; one that dies is mpirun's to end. After a failure each rank closes its receives, and says so: then no
 * message under way is read any more, and its memory may go. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sized.h"
#include "comm/comm_fds.h"
#include "comm/mpi_api.h"

enum { TAG_DATA = 1, TAG_MEET = 2, TAG_FAILED = 3, TAG_QUIET = 4 };
#define MOST_MESSAGE ((size_t)1 << 30) /* bytes of one MPI message: they are counted in int */
#define FINAL_WAIT   1.0               /* seconds that a rank which has failed gives its last words */
#define QUIET_WAIT   5.0               /* seconds, or the timeout if longer, until all receives have ended */
#define JOIN_WAIT    30.0              /* the same, in which all ranks come, and in which all leave */

/* One that was posted: pieces of at most MOST_MESSAGE bytes. */
typedef struct mpi_transfer {
  struct mpi_transfer *next;
  comm_ticket ticket;
  int64_t n;
  size_t bytes;
  mpi_handle requests[];
} mpi_transfer;

typedef struct failure_text {
  int32_t status;
  char text[768];
} failure_text;

typedef struct mpi_comm {
  ga_comm comm;
  const mpi_api *api;
  mpi_handle world; /* a copy: the program's own messages are apart */
  uint32_t flags;
  double timeout;
  bool began;              /* MPI was started here, and is ended here */
  bool is_quiet;           /* after a failure: nothing is received any more, and no message is read */
  bool has_heard;          /* the failure is another rank's */
  uint64_t *sent, *wanted; /* [ranks] */
  mpi_transfer *transfers;
  failure_text failed; /* status GA_OK: none */
  failure_text *told;  /* [ranks] what goes to each */
  uint64_t *values;    /* [2 x ranks] of a meeting: given, taken */
} mpi_comm;

static bool has_begun; /* by an end that is there, or was: MPI begins once in a process */

static mpi_comm *mpi_of(ga_comm *comm) { return (mpi_comm *)(void *)comm; }

static ga_status mpi_error(const mpi_comm *c) { return ga_fail((ga_status)c->failed.status, "%s", c->failed.text); }

static ga_status check_mpi(int code, const char *call) {
  GA_REQUIRE(code == 0, GA_ERR_COMM, "comm: MPI_%s gives error %d", call, code);
  return GA_OK;
}

/* --- failures --- */

static void note_failure(mpi_comm *c, ga_status status, const char *text) {
  if (c->failed.status != GA_OK) return;
  c->failed.status = status == GA_ERR_TIMEOUT ? GA_ERR_TIMEOUT : GA_ERR_COMM;
  (void)snprintf(c->failed.text, sizeof c->failed.text, "%s", text);
}

/* To all others; for a moment until the messages are on their way. */
static void fail_all(mpi_comm *c, ga_status status, const char *text) {
  if (c->failed.status != GA_OK) return;
  note_failure(c, status, text);
  const double deadline = ga_seconds() + FINAL_WAIT;
  for (int32_t r = 0; r < c->comm.size; r++) {
    mpi_handle request;
    int done = 0;
    if (r == c->comm.rank) continue;
    c->told[r] = c->failed;
    if (c->api->Isend(&c->told[r], (int)sizeof c->told[r], c->api->byte, r, TAG_FAILED, c->world, &request)) continue;
    while (!done && ga_seconds() < deadline) (void)c->api->Test(&request, &done, &(mpi_status){0});
  }
}

/* Another rank's failure, when it has come. */
static ga_status mpi_check(ga_comm *comm) {
  mpi_comm *c = mpi_of(comm);
  int there = 0;
  mpi_status status;
  if (c->failed.status != GA_OK) return mpi_error(c);
  GA_TRY(check_mpi(c->api->Iprobe(MPI_ANY, TAG_FAILED, c->world, &there, &status), "Iprobe"));
  if (!there) return GA_OK;
  failure_text f = {0};
  GA_TRY(check_mpi(c->api->Recv(&f, (int)sizeof f, c->api->byte, status.source, TAG_FAILED, c->world, &(mpi_status){0}),
                   "Recv"));
  f.text[sizeof f.text - 1] = 0;
  note_failure(c, (ga_status)f.status, f.text);
  c->has_heard = true;
  return mpi_error(c);
}

/* The memory of messages cannot be let go while MPI may use it: the last way out. MPI ends this process, too. */
static _Noreturn void end_run(mpi_comm *c, const char *why) {
  ga_log(GA_LOG_ERROR, "%s; rank %d ends the MPI run: %s", c->failed.text, c->comm.rank, why);
  (void)c->api->Abort(c->api->world, 1);
  for (;;) (void)pause();
}

/* One that MPI has given up is done, too. */
static bool is_done(const mpi_comm *c, mpi_handle *request) {
  int done = 0;
  if (c->api->Test(request, &done, &(mpi_status){0})) *request = c->api->null_request;
  return done || *request == c->api->null_request;
}

static void cancel_receives(mpi_comm *c) {
  for (mpi_transfer *t = c->transfers; t; t = t->next)
    for (int64_t i = 0; i < t->n && !t->ticket.is_send; i++)
      if (t->requests[i] != c->api->null_request) (void)c->api->Cancel(&t->requests[i]);
}

static void say_quiet(mpi_comm *c) {
  for (int32_t r = 0; r < c->comm.size; r++) {
    mpi_handle request; /* of no bytes: nothing has to stay for it */
    if (r != c->comm.rank) (void)c->api->Isend(NULL, 0, c->api->byte, r, TAG_QUIET, c->world, &request);
  }
}

static bool has_said_quiet(const mpi_comm *c, int32_t rank) {
  int there = 0;
  return c->api->Iprobe(rank, TAG_QUIET, c->world, &there, &(mpi_status){0}) == 0 && there;
}

/* Messages under way that MPI may still read or write. A receive that was not begun is cancelled by now. A send cannot
 * be; it is over when its receiver has said that it receives nothing any more. */
static int64_t count_open(mpi_comm *c, bool sends) {
  int64_t open = 0;
  for (mpi_transfer *t = c->transfers; t; t = t->next)
    for (int64_t i = 0; i < t->n && t->ticket.is_send == sends; i++)
      open += !is_done(c, &t->requests[i]) && !(sends && has_said_quiet(c, t->ticket.peer));
  return open;
}

/* After a failure. MPI moves messages while requests are looked at, so sends are while receives end. */
static void become_quiet(mpi_comm *c) {
  const double deadline = ga_seconds() + (c->timeout > QUIET_WAIT ? c->timeout : QUIET_WAIT);
  bool has_said = false;
  char text[128];
  if (c->is_quiet) return;
  cancel_receives(c);
  for (;;) {
    const int64_t receives = count_open(c, false), sends = count_open(c, true);
    if (!receives && !has_said) say_quiet(c);
    has_said = has_said || !receives;
    if (!receives && !sends) break;
    if (ga_seconds() > deadline) {
      (void)snprintf(text, sizeof text, "%lld receives and %lld sends are under way still", (long long)receives,
                     (long long)sends);
      end_run(c, text);
    }
    (void)nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  }
  c->is_quiet = true;
}

static void mpi_abort_world(ga_comm *comm, ga_status status, const char *why) {
  char text[768];
  (void)snprintf(text, sizeof text, "comm: rank %d gave up: %s", comm->rank, why);
  fail_all(mpi_of(comm), status, text);
  become_quiet(mpi_of(comm));
}

/* --- messages --- */

static size_t piece_bytes(size_t bytes, int64_t piece) {
  const size_t left = bytes - (size_t)piece * MOST_MESSAGE;
  return left < MOST_MESSAGE ? left : MOST_MESSAGE;
}

static ga_status post_pieces(mpi_comm *c, mpi_transfer *t, bool send, const void *src, void *dst, size_t bytes) {
  int (*const post)(const void *, int, mpi_handle, int, int, mpi_handle, mpi_handle *) =
      c->flags & GA_COMM_BUFFERED ? c->api->Isend : c->api->Issend;
  for (int64_t i = 0; i < t->n; i++) {
    const size_t at = (size_t)i * MOST_MESSAGE;
    const int n = (int)piece_bytes(bytes, i);
    if (send)
      GA_TRY(check_mpi(post(src ? (const char *)src + at : NULL, n, c->api->byte, t->ticket.peer, TAG_DATA, c->world,
                            &t->requests[i]),
                       "Isend"));
    else
      GA_TRY(check_mpi(c->api->Irecv(dst ? (char *)dst + at : NULL, n, c->api->byte, t->ticket.peer, TAG_DATA, c->world,
                                     &t->requests[i]),
                       "Irecv"));
  }
  return GA_OK;
}

static ga_status post_message(ga_comm *comm, int32_t peer, bool send, const void *src, void *dst, size_t bytes,
                              comm_ticket *ticket) {
  mpi_comm *c = mpi_of(comm);
  GA_REQUIRE(peer >= 0 && peer < comm->size && peer != comm->rank, GA_ERR_ARG,
             "comm: rank %d speaks to rank %d; must be another of %d", comm->rank, peer, comm->size);
  GA_TRY(mpi_check(comm));
  const int64_t n = bytes ? ga_div_up((int64_t)bytes, (int64_t)MOST_MESSAGE) : 1;
  void *p;
  GA_TRY(ga_mem_zalloc(1, sizeof(mpi_transfer) + (size_t)n * sizeof(mpi_handle), "a message", &p));
  mpi_transfer *t = p;
  uint64_t *turn = send ? &c->sent[peer] : &c->wanted[peer];
  t->ticket = *ticket = (comm_ticket){.peer = peer, .is_send = send, .turn = (*turn)++};
  t->n = n, t->bytes = bytes;
  t->next = c->transfers;
  c->transfers = t;
  for (int64_t i = 0; i < n; i++) t->requests[i] = c->api->null_request;
  return post_pieces(c, t, send, src, dst, bytes);
}

static ga_status mpi_send(ga_comm *comm, int32_t to, const void *data, size_t bytes, comm_ticket *ticket) {
  return post_message(comm, to, true, data, NULL, bytes, ticket);
}

static ga_status mpi_receive(ga_comm *comm, int32_t from, void *data, size_t bytes, comm_ticket *ticket) {
  return post_message(comm, from, false, NULL, data, bytes, ticket);
}

/* --- waiting --- */

/* What is waited for. */
typedef struct mpi_batch {
  mpi_handle *requests; /* they become null as they are done */
  int64_t n;
  int32_t peer;              /* -1 = all others */
  const mpi_transfer *taken; /* NULL = not a receive, whose bytes are compared */
  const char *what;
  double seconds;
} mpi_batch;

/* MPI takes a message that is shorter than its receive, and says how long it was. */
static ga_status test_request(mpi_comm *c, const mpi_batch *b, int64_t i, bool *done) {
  mpi_status status = {0};
  int flag = 1;
  const bool was_open = b->requests[i] != c->api->null_request;
  const int code = was_open ? c->api->Test(&b->requests[i], &flag, &status) : 0;
  *done = flag;
  if (b->taken) {
    const size_t wanted = piece_bytes(b->taken->bytes, i);
    GA_REQUIRE(code != MPI_TOO_LONG, GA_ERR_COMM, "comm: rank %d sent more than the %zu bytes that rank %d wanted",
               b->peer, wanted, c->comm.rank);
    GA_REQUIRE(code || !was_open || !flag || status.bytes == wanted, GA_ERR_COMM,
               "comm: rank %d sent %zu bytes to rank %d, which wanted %zu", b->peer, status.bytes, c->comm.rank,
               wanted);
  }
  return check_mpi(code, "Test");
}

/* Until all requests are done. MPI moves messages while it is asked about one. */
static ga_status try_to_wait(mpi_comm *c, const mpi_batch *b) {
  const double deadline = ga_seconds() + b->seconds;
  for (int64_t rounds = 0;; rounds++) {
    const bool late = ga_seconds() > deadline;
    int64_t left = 0;
    for (int64_t i = 0; i < b->n; i++) {
      bool done;
      GA_TRY(test_request(c, b, i, &done));
      left += !done;
    }
    if (!left) return GA_OK;
    GA_TRY(mpi_check(&c->comm));
    GA_REQUIRE(!late, GA_ERR_TIMEOUT, "comm: rank %d waited %g s for %s%d: %s", c->comm.rank, b->seconds,
               b->peer < 0 ? "others than rank " : "rank ", b->peer < 0 ? c->comm.rank : b->peer, b->what);
    if (rounds > 1000) (void)nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  }
}

static ga_status wait_for_mpi(mpi_comm *c, const mpi_batch *b) {
  const ga_status status = try_to_wait(c, b);
  if (status == GA_OK) return GA_OK;
  fail_all(c, status, ga_error_text());
  return mpi_error(c);
}

static ga_status mpi_wait(ga_comm *comm, const comm_ticket *ticket) {
  mpi_comm *c = mpi_of(comm);
  mpi_transfer **at = &c->transfers;
  while (*at && ((*at)->ticket.peer != ticket->peer || (*at)->ticket.is_send != ticket->is_send ||
                 (*at)->ticket.turn != ticket->turn))
    at = &(*at)->next;
  mpi_transfer *t = *at;
  GA_REQUIRE(t, GA_ERR_INTERNAL, "comm: rank %d waits for a message a second time", comm->rank);
  char what[64];
  (void)snprintf(what, sizeof what, "message %llu %s", (unsigned long long)ticket->turn,
                 ticket->is_send ? "to it to be taken" : "from it");
  const mpi_batch b = {t->requests, t->n, ticket->peer, ticket->is_send ? NULL : t, what, c->timeout};
  GA_TRY(wait_for_mpi(c, &b));
  *at = t->next;
  ga_mem_free(t);
  return GA_OK;
}

static ga_status trade_values(mpi_comm *c, uint64_t value, mpi_handle *requests, const char *place, double seconds) {
  int64_t n = 0;
  for (int32_t r = 0; r < c->comm.size; r++) {
    uint64_t *give = &c->values[r], *take = &c->values[c->comm.size + r];
    *give = *take = value;
    if (r == c->comm.rank) continue;
    GA_TRY(check_mpi(c->api->Irecv(take, 8, c->api->byte, r, TAG_MEET, c->world, &requests[n++]), "Irecv"));
    GA_TRY(check_mpi(c->api->Isend(give, 8, c->api->byte, r, TAG_MEET, c->world, &requests[n++]), "Isend"));
  }
  const mpi_batch b = {requests, n, -1, NULL, place, seconds};
  return wait_for_mpi(c, &b);
}

static ga_status meet_within(mpi_comm *c, const char *what, uint64_t value, double seconds) {
  const ga_comm *comm = &c->comm;
  char text[256];
  void *requests;
  GA_TRY(mpi_check(&c->comm));
  GA_TRY(ga_mem_zalloc(2 * (size_t)comm->size, sizeof(mpi_handle), "requests", &requests));
  (void)snprintf(text, sizeof text, "all ranks to meet (%s)", what);
  const ga_status status = trade_values(c, value, requests, text, seconds);
  ga_mem_free(requests);
  GA_TRY(status);
  const uint64_t *taken = c->values + comm->size;
  for (int32_t r = 1; r < comm->size; r++) {
    if (taken[r] == taken[0]) continue;
    (void)snprintf(text, sizeof text,
                   "comm: %s is %016llx on rank %d and %016llx on rank 0; all ranks must have the same", what,
                   (unsigned long long)taken[r], r, (unsigned long long)taken[0]);
    fail_all(c, GA_ERR_COMM, text);
    return mpi_error(c);
  }
  return GA_OK;
}

static ga_status mpi_meet(ga_comm *comm, const char *what, uint64_t value) {
  mpi_comm *c = mpi_of(comm);
  return meet_within(c, what, value, c->timeout);
}

/* --- making and releasing --- */

static double wait_for_ends(const mpi_comm *c) { return c->timeout > JOIN_WAIT ? c->timeout : JOIN_WAIT; }

static void free_mpi(mpi_comm *c) {
  ga_mem_free(c->sent);
  ga_mem_free(c->wanted);
  ga_mem_free(c->told);
  ga_mem_free(c->values);
  ga_mem_free(c);
}

/* MPI_Finalize waits for all ranks without end: they meet before it. After a failure messages may be under way: MPI is
 * not ended then, and what it may read stays. A program that began MPI may have ended it by now. */
static void mpi_destroy(ga_comm *comm) {
  mpi_comm *c = mpi_of(comm);
  int is_over = 0;
  (void)c->api->Finalized(&is_over);
  if (!is_over && c->failed.status == GA_OK) {
    const ga_status status = c->began ? meet_within(c, "end of MPI", 0, wait_for_ends(c)) : mpi_check(comm);
    if (status == GA_ERR_TIMEOUT && !c->has_heard) end_run(c, "MPI cannot end without all ranks");
  }
  if (c->failed.status != GA_OK) {
    if (!is_over) become_quiet(c);
    return;
  }
  if (c->began) (void)c->api->Finalize();
  free_mpi(c);
}

/* --- descriptors --- */

/* What tells hosts apart, and networks of sockets within one; and a name that no other run has. */
typedef struct mpi_host {
  uint64_t host, run;
} mpi_host;

static uint64_t hash_of_file(uint64_t hash, const char *path) {
  char text[128] = "";
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : 0;
  if (fd >= 0) (void)close(fd);
  return ga_fnv64(hash, text, n > 0 ? (size_t)n : 0);
}

static mpi_host own_host(void) {
  char text[128] = "";
  mpi_host h;
  h.host = hash_of_file(GA_FNV64_START, "/proc/sys/kernel/random/boot_id");
  h.host = hash_of_file(h.host, "/proc/sys/kernel/hostname");
  const ssize_t n = readlink("/proc/self/ns/net", text, sizeof text);
  h.host = ga_fnv64(h.host, text, n > 0 ? (size_t)n : 0);
  const struct {
    double now;
    int64_t pid;
  } unique = {ga_seconds(), getpid()};
  h.run = ga_fnv64(h.host, &unique, sizeof unique);
  return h;
}

static ga_status mpi_trade_fds(ga_comm *comm, int fd, int *fds) {
  const mpi_host mine = own_host();
  int32_t other = 0;
  void *p;
  for (int32_t r = 0; r < comm->size; r++) fds[r] = -1;
  GA_TRY(ga_mem_zalloc((size_t)comm->size, sizeof mine, "ranks", &p));
  const mpi_host *const all = p;
  const ga_status status = ga_comm_all_gather(comm, &mine, sizeof mine, p);
  for (int32_t r = comm->size - 1; r > 0; r--)
    if (all[r].host != all[0].host) other = r;
  const uint64_t run = all[0].run;
  ga_mem_free(p);
  GA_TRY(status);
  GA_REQUIRE(!other, GA_ERR_UNSUPPORTED, "comm: rank %d is on another host than rank 0", other);
  return comm_trade_fds(comm, run, fd, fds);
}

static const comm_vtable mpi_calls = {.send = mpi_send,
                                      .receive = mpi_receive,
                                      .wait = mpi_wait,
                                      .meet = mpi_meet,
                                      .check = mpi_check,
                                      .abort = mpi_abort_world,
                                      .destroy = mpi_destroy,
                                      .trade_fds = mpi_trade_fds};

/* MPI that the program has begun may be for one thread only, which is then the one that calls. */
static ga_status check_threads(const mpi_api *api) {
  int level = 0, is_main = 0;
  GA_TRY(check_mpi(api->Query_thread(&level), "Query_thread"));
  GA_TRY(check_mpi(api->Is_thread_main(&is_main), "Is_thread_main"));
  GA_REQUIRE(level >= MPI_THREADS_SERIAL || is_main, GA_ERR_STATE,
             "comm: MPI was begun for calls of its main thread only (level %d); this is another thread, which needs "
             "MPI_THREAD_SERIALIZED (%d)",
             level, MPI_THREADS_SERIAL);
  return GA_OK;
}

static ga_status begin_mpi(const mpi_api *api, bool *began) {
  int is_there = 0, is_over = 0, level = 0;
  GA_TRY(check_mpi(api->Initialized(&is_there), "Initialized"));
  GA_TRY(check_mpi(api->Finalized(&is_over), "Finalized"));
  GA_REQUIRE(!is_over && !has_begun, GA_ERR_STATE, "comm: this process had an MPI communicator; it can have one");
  if (is_there) GA_TRY(check_threads(api));
  has_begun = true;
  *began = !is_there;
  if (is_there) return GA_OK;
  GA_TRY(check_mpi(api->Init_thread(NULL, NULL, MPI_THREADS_SERIAL, &level), "Init_thread"));
  GA_REQUIRE(level >= MPI_THREADS_SERIAL, GA_ERR_UNSUPPORTED, "comm: this MPI takes calls of one thread only");
  return GA_OK;
}

static ga_status fill_mpi(mpi_comm *c) {
  int rank = 0, ranks = 0;
  void *p;
  GA_TRY(check_mpi(c->api->Comm_rank(c->api->world, &rank), "Comm_rank"));
  GA_TRY(check_mpi(c->api->Comm_size(c->api->world, &ranks), "Comm_size"));
  c->comm.rank = rank, c->comm.size = ranks;
  const size_t n = (size_t)ranks;
  GA_TRY(ga_mem_zalloc(n, sizeof *c->sent, "ranks", &p));
  c->sent = p;
  GA_TRY(ga_mem_zalloc(n, sizeof *c->wanted, "ranks", &p));
  c->wanted = p;
  GA_TRY(ga_mem_zalloc(n, sizeof *c->told, "ranks", &p));
  c->told = p;
  GA_TRY(ga_mem_zalloc(2 * n, sizeof *c->values, "ranks", &p));
  c->values = p;
  return GA_OK;
}

/* Errors of the copy are given back, where those of MPI_COMM_WORLD end the process. */
static ga_status copy_world(mpi_comm *c) {
  const double seconds = wait_for_ends(c), deadline = ga_seconds() + seconds;
  mpi_handle request;
  int done = 0;
  GA_TRY(check_mpi(c->api->Comm_idup(c->api->world, &c->world, &request), "Comm_idup"));
  while (!done) {
    const bool late = ga_seconds() > deadline;
    GA_TRY(check_mpi(c->api->Test(&request, &done, &(mpi_status){0}), "Test"));
    GA_REQUIRE(done || !late, GA_ERR_TIMEOUT, "comm: rank %d waited %g s for all of %d ranks to join", c->comm.rank,
               seconds, c->comm.size);
    if (!done) (void)nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  }
  return check_mpi(c->api->Comm_set_errhandler(c->world, c->api->errors_return), "Comm_set_errhandler");
}

ga_status ga_comm_mpi_create(const ga_comm_mpi_options *options, ga_comm **out) {
  GA_REQUIRE(out, GA_ERR_ARG, "comm: out is null");
  *out = NULL;
  ga_comm_mpi_options o;
  GA_TRY(GA_SIZED_TAKE("comm: options", ga_comm_mpi_options, options, &o));
  GA_REQUIRE(!(o.flags & ~(uint32_t)GA_COMM_BUFFERED), GA_ERR_ARG, "comm: flags 0x%x are unknown", o.flags);
  GA_REQUIRE(o.reserved == 0, GA_ERR_ARG, "comm: reserved is %d; must be 0", o.reserved);
  GA_REQUIRE(o.timeout == 0 || (o.timeout >= 0.01 && o.timeout <= 86400), GA_ERR_ARG,
             "comm: timeout is %g s; must be 0.01 to 86400, or 0 = 5", o.timeout);
  const mpi_api *api;
  void *memory;
  GA_TRY(mpi_api_load(&api));
  GA_TRY(ga_mem_zalloc(1, sizeof(mpi_comm), "a communicator", &memory));
  mpi_comm *c = memory;
  *c = (mpi_comm){.comm = {.calls = &mpi_calls, .timeout = o.timeout > 0 ? o.timeout : 5},
                  .api = api,
                  .flags = o.flags,
                  .timeout = o.timeout > 0 ? o.timeout : 5};
  ga_status status = begin_mpi(api, &c->began);
  if (status == GA_OK) status = fill_mpi(c);
  if (status != GA_OK) {
    free_mpi(c);
    return status;
  }
  status = copy_world(c); /* MPI writes into it: when this fails its memory stays */
  if (status == GA_OK) *out = &c->comm;
  return status;
}
