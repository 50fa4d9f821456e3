/* Ranks of an MPI run: OpenMPI's messages, between processes of any hosts. MPI keeps the order of messages between two
 * ranks, so their numbers need not travel. A rank that fails tells all others on a tag of its own, which those who wait
 * look at; one that dies is mpirun's to end. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/sized.h"
#include "dist/comm.h"
#include "dist/mpi_api.h"

enum { TAG_DATA = 1, TAG_MEET = 2, TAG_FAILED = 3 };
#define MOST_MESSAGE ((size_t)1 << 30) /* bytes of one MPI message: they are counted in int */
#define FINAL_WAIT   1.0               /* seconds that a rank which has failed gives its last words */

/* One that was posted: pieces of at most MOST_MESSAGE bytes. */
typedef struct mpi_transfer {
  struct mpi_transfer *next;
  comm_ticket ticket;
  int64_t n;
  mpi_handle requests[];
} mpi_transfer;

typedef struct failure_text {
  int32_t status;
  char text[768];
} failure_text;

typedef struct mpi_comm {
  ga_comm comm;
  const mpi_api *api;
  uint32_t flags;
  double timeout;
  bool began;              /* MPI was started here, and is ended here */
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
    if (c->api->Isend(&c->told[r], (int)sizeof c->told[r], c->api->byte, r, TAG_FAILED, c->api->world, &request))
      continue;
    while (!done && ga_seconds() < deadline) (void)c->api->Test(&request, &done, &(mpi_status){0});
  }
}

/* Another rank's failure, when it has come. */
static ga_status mpi_check(ga_comm *comm) {
  mpi_comm *c = mpi_of(comm);
  int there = 0;
  mpi_status status;
  if (c->failed.status != GA_OK) return mpi_error(c);
  GA_TRY(check_mpi(c->api->Iprobe(MPI_ANY, TAG_FAILED, c->api->world, &there, &status), "Iprobe"));
  if (!there) return GA_OK;
  failure_text f = {0};
  GA_TRY(check_mpi(
      c->api->Recv(&f, (int)sizeof f, c->api->byte, status.source, TAG_FAILED, c->api->world, &(mpi_status){0}),
      "Recv"));
  f.text[sizeof f.text - 1] = 0;
  note_failure(c, (ga_status)f.status, f.text);
  return mpi_error(c);
}

static void mpi_abort_world(ga_comm *comm, ga_status status, const char *why) {
  char text[768];
  (void)snprintf(text, sizeof text, "comm: rank %d gave up: %s", comm->rank, why);
  fail_all(mpi_of(comm), status, text);
}

/* --- messages --- */

static ga_status post_pieces(mpi_comm *c, mpi_transfer *t, bool send, const void *src, void *dst, size_t bytes) {
  int (*const post)(const void *, int, mpi_handle, int, int, mpi_handle, mpi_handle *) =
      c->flags & GA_COMM_BUFFERED ? c->api->Isend : c->api->Issend;
  for (int64_t i = 0; i < t->n; i++) {
    const size_t at = (size_t)i * MOST_MESSAGE, left = bytes - at;
    const int n = (int)(left < MOST_MESSAGE ? left : MOST_MESSAGE);
    if (send)
      GA_TRY(check_mpi(post(src ? (const char *)src + at : NULL, n, c->api->byte, t->ticket.peer, TAG_DATA,
                            c->api->world, &t->requests[i]),
                       "Isend"));
    else
      GA_TRY(check_mpi(c->api->Irecv(dst ? (char *)dst + at : NULL, n, c->api->byte, t->ticket.peer, TAG_DATA,
                                     c->api->world, &t->requests[i]),
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
  t->n = n;
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

/* Until all requests are done; they become null as they are. MPI moves messages while it is asked about one. */
static ga_status wait_for_mpi(mpi_comm *c, mpi_handle *requests, int64_t n, int32_t peer, const char *what) {
  const double deadline = ga_seconds() + c->timeout;
  for (int64_t rounds = 0;; rounds++) {
    const bool late = ga_seconds() > deadline;
    int64_t left = 0;
    for (int64_t i = 0; i < n; i++) {
      int done = 0;
      GA_TRY(check_mpi(c->api->Test(&requests[i], &done, &(mpi_status){0}), "Test"));
      left += !done;
    }
    if (!left) return GA_OK;
    GA_TRY(mpi_check(&c->comm));
    if (late) {
      char text[256];
      (void)snprintf(text, sizeof text, "comm: rank %d waited %g s for %s%d: %s", c->comm.rank, c->timeout,
                     peer < 0 ? "others than rank " : "rank ", peer < 0 ? c->comm.rank : peer, what);
      fail_all(c, GA_ERR_TIMEOUT, text);
      return mpi_error(c);
    }
    if (rounds > 1000) (void)nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
  }
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
  GA_TRY(wait_for_mpi(c, t->requests, t->n, ticket->peer, what));
  *at = t->next;
  ga_mem_free(t);
  return GA_OK;
}

static ga_status trade_values(mpi_comm *c, uint64_t value, mpi_handle *requests, const char *place) {
  int64_t n = 0;
  for (int32_t r = 0; r < c->comm.size; r++) {
    uint64_t *give = &c->values[r], *take = &c->values[c->comm.size + r];
    *give = *take = value;
    if (r == c->comm.rank) continue;
    GA_TRY(check_mpi(c->api->Irecv(take, 8, c->api->byte, r, TAG_MEET, c->api->world, &requests[n++]), "Irecv"));
    GA_TRY(check_mpi(c->api->Isend(give, 8, c->api->byte, r, TAG_MEET, c->api->world, &requests[n++]), "Isend"));
  }
  return wait_for_mpi(c, requests, n, -1, place);
}

static ga_status mpi_meet(ga_comm *comm, const char *what, uint64_t value) {
  mpi_comm *c = mpi_of(comm);
  char text[256];
  void *requests;
  GA_TRY(mpi_check(comm));
  GA_TRY(ga_mem_zalloc(2 * (size_t)comm->size, sizeof(mpi_handle), "requests", &requests));
  (void)snprintf(text, sizeof text, "all ranks to meet (%s)", what);
  const ga_status status = trade_values(c, value, requests, text);
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

/* --- making and releasing --- */

/* After a failure messages may be under way: MPI is not ended then, and their memory stays. */
static void mpi_destroy(ga_comm *comm) {
  mpi_comm *c = mpi_of(comm);
  const bool good = c->failed.status == GA_OK && !c->transfers;
  if (c->began && good) (void)c->api->Finalize();
  if (!good) return;
  ga_mem_free(c->sent);
  ga_mem_free(c->wanted);
  ga_mem_free(c->told);
  ga_mem_free(c->values);
  ga_mem_free(c);
}

static const comm_vtable mpi_calls = {mpi_send,  mpi_receive,     mpi_wait,   mpi_meet,
                                      mpi_check, mpi_abort_world, mpi_destroy};

static ga_status begin_mpi(const mpi_api *api, bool *began) {
  int is_there = 0, is_over = 0, level = 0;
  GA_TRY(check_mpi(api->Initialized(&is_there), "Initialized"));
  GA_TRY(check_mpi(api->Finalized(&is_over), "Finalized"));
  GA_REQUIRE(!is_over && !has_begun, GA_ERR_STATE, "comm: this process had an MPI communicator; it can have one");
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
  *c =
      (mpi_comm){.comm = {.calls = &mpi_calls}, .api = api, .flags = o.flags, .timeout = o.timeout > 0 ? o.timeout : 5};
  ga_status status = begin_mpi(api, &c->began);
  if (status == GA_OK) status = fill_mpi(c);
  if (status == GA_OK)
    *out = &c->comm;
  else
    mpi_destroy(&c->comm);
  return status;
}
