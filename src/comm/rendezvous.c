/* How ranks that are processes find each other. Rank 0 makes the shared memory and listens on a socket that is named
 * after the run; each other rank connects, says who it is, gets a descriptor of the memory, and reports whether it has
 * joined. Neither has a name in a file system, so nothing is left of them when a process is killed. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/status.h"
#include "comm/comm_processes.h"

#define RETRY  0.01 /* seconds */
#define LINGER 2.0  /* seconds that rank 0 tells an error to those who come */
#define MAGIC  0x4741636f6d6d3032u

typedef struct greeting {
  uint64_t magic, arena_bytes;
  int32_t rank, ranks;
} greeting;

typedef struct answer {
  uint64_t magic, bytes;
  int32_t status; /* GA_OK: a descriptor comes with it */
  char text[512];
} answer;

/* What a rank reports after it got the memory. */
typedef struct report {
  uint64_t magic;
  int32_t status; /* GA_OK: it has joined, and the watchdogs look after it */
  char text[512];
} report;

typedef struct meeting {
  process_comm *c;
  const char *run;
  double seconds, deadline;
  int socket;
  bool has_come[MOST_PROCESSES];
} meeting;

static void nap(void) { (void)nanosleep(&(struct timespec){.tv_nsec = (long)(RETRY * 1e9)}, NULL); }

/* An abstract name: users' runs of one name do not meet. */
static socklen_t address_of(const char *run, struct sockaddr_un *a) {
  *a = (struct sockaddr_un){.sun_family = AF_UNIX};
  const int n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "ga-comm-%u-%016llx", (unsigned)geteuid(),
                         (unsigned long long)ga_fnv64(GA_FNV64_START, run, strlen(run)));
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static ga_status open_socket(meeting *m) {
  m->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  GA_REQUIRE(m->socket >= 0, GA_ERR_COMM, "comm: run '%s': no socket: %s", m->run, strerror(errno));
  return GA_OK;
}

/* --- the memory --- */

static uint64_t head_bytes(int32_t ranks) {
  const uint64_t n = (uint64_t)ranks;
  return ga_round_up(sizeof(shared_head) + 64 + n * sizeof(shared_rank) + n * n * sizeof(shared_link), 4096);
}

uint64_t comm_arena_begin(const process_comm *c, int32_t rank) {
  return head_bytes(c->comm.size) + (uint64_t)rank * c->arena_bytes;
}

static ga_status map_memory(process_comm *c) {
  void *p = mmap(NULL, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, c->fd, 0);
  GA_REQUIRE(p != MAP_FAILED, GA_ERR_COMM,
             "comm: rank %d gets no shared memory: %s (%llu bytes of addresses; message_bytes or a limit of them)",
             c->comm.rank, strerror(errno), (unsigned long long)c->bytes);
  c->memory = p;
  c->head = p;
  c->ranks = (shared_rank *)(void *)(c->memory + ga_round_up(sizeof(shared_head), 64));
  c->shared = (shared_link *)(void *)(c->ranks + c->comm.size);
  return GA_OK;
}

static ga_status make_memory(process_comm *c) {
  struct rlimit limit;
  c->bytes = comm_arena_begin(c, c->comm.size);
  /* Beyond this limit ftruncate raises a signal that ends the process. */
  GA_REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= c->bytes, GA_ERR_COMM,
             "comm: no shared memory: the limit of a file's size (ulimit -f) is %llu bytes; must be %llu at least",
             (unsigned long long)limit.rlim_cur, (unsigned long long)c->bytes);
  c->fd = memfd_create("ga-comm", MFD_CLOEXEC);
  GA_REQUIRE(c->fd >= 0 && ftruncate(c->fd, (off_t)c->bytes) == 0, GA_ERR_COMM, "comm: no shared memory: %s",
             strerror(errno));
  return GA_OK;
}

/* A lock belongs to an open file, which a mapping keeps open, too: each process opens the memory by itself, and before
 * it maps it. */
static ga_status reopen_memory(process_comm *c) {
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", c->fd);
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  GA_REQUIRE(fd >= 0, GA_ERR_COMM, "comm: rank %d cannot open the shared memory (%s): %s", c->comm.rank, path,
             strerror(errno));
  (void)close(c->fd);
  c->fd = fd;
  return GA_OK;
}

/* --- rank 0 --- */

static ga_status listen_for_ranks(meeting *m) {
  struct sockaddr_un a;
  const socklen_t n = address_of(m->run, &a);
  int rc;
  while ((rc = bind(m->socket, (struct sockaddr *)&a, n)) != 0 && errno == EADDRINUSE && ga_seconds() < m->deadline)
    nap();
  GA_REQUIRE(rc == 0, GA_ERR_COMM, "comm: run '%s': rank 0 cannot listen: %s%s", m->run, strerror(errno),
             errno == EADDRINUSE ? "; another process is rank 0 of a run of this name" : "");
  GA_REQUIRE(listen(m->socket, m->c->comm.size) == 0, GA_ERR_COMM, "comm: run '%s': rank 0 cannot listen: %s", m->run,
             strerror(errno));
  return GA_OK;
}

static void send_answer(int socket, const answer *a, int fd) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control = {.bytes = {0}};
  answer copy = *a;
  struct iovec part = {&copy, sizeof copy};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (fd >= 0) {
    message.msg_control = control.bytes, message.msg_controllen = sizeof control.bytes;
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
  }
  (void)sendmsg(socket, &message, MSG_NOSIGNAL); /* a rank that is gone sends no report, which await_report finds */
}

static ga_status check_greeting(const meeting *m, const greeting *g) {
  const process_comm *c = m->c;
  GA_REQUIRE(g->ranks == c->comm.size, GA_ERR_COMM,
             "comm: run '%s': rank %d was started with %d ranks and rank 0 with %d; must be equal", m->run, g->rank,
             g->ranks, c->comm.size);
  GA_REQUIRE(g->arena_bytes == c->arena_bytes, GA_ERR_COMM,
             "comm: run '%s': message_bytes is %llu on rank %d and %llu on rank 0; must be equal", m->run,
             (unsigned long long)g->arena_bytes, g->rank, (unsigned long long)c->arena_bytes);
  GA_REQUIRE(g->rank > 0 && g->rank < c->comm.size && !m->has_come[g->rank], GA_ERR_COMM,
             "comm: run '%s': a second process is rank %d", m->run, g->rank);
  return GA_OK;
}

/* Waits until a rank that was sent the memory has joined. A rank that cannot join, or that is gone, ends the run: it
 * would be waited for to no end. */
static ga_status await_report(const meeting *m, int socket, int32_t rank) {
  report r;
  struct pollfd p = {.fd = socket, .events = POLLIN};
  int ready;
  do {
    const double left = m->deadline - ga_seconds();
    ready = poll(&p, 1, left > 0 ? (int)(left * 1e3) : 0);
  } while (ready < 0 && errno == EINTR);
  GA_REQUIRE(ready > 0, GA_ERR_TIMEOUT, "comm: run '%s': rank %d got the shared memory and did not join in %g s",
             m->run, rank, m->seconds);
  const bool complete = recv(socket, &r, sizeof r, 0) == (ssize_t)sizeof r && r.magic == MAGIC;
  GA_REQUIRE(complete, GA_ERR_COMM, "comm: run '%s': rank %d ended before it joined", m->run, rank);
  r.text[sizeof r.text - 1] = 0;
  GA_REQUIRE(r.status == GA_OK, GA_ERR_COMM, "%s", r.text);
  return GA_OK;
}

/* One rank that connects gets the memory, or the text of what is wrong. Others than ranks are passed over. */
static ga_status welcome_rank(meeting *m, ga_status so_far) {
  const int socket = accept4(m->socket, NULL, NULL, SOCK_CLOEXEC);
  struct ucred who;
  socklen_t n = sizeof who;
  greeting g;
  if (socket < 0) return so_far;
  const struct timeval second = {.tv_sec = 1};
  (void)setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0 && who.uid == geteuid() &&
      recv(socket, &g, sizeof g, 0) == (ssize_t)sizeof g && g.magic == MAGIC) {
    if (so_far == GA_OK) so_far = check_greeting(m, &g);
    if (g.rank > 0 && g.rank < m->c->comm.size) m->has_come[g.rank] = true;
    answer a = {.magic = MAGIC, .bytes = m->c->bytes, .status = (int32_t)so_far};
    if (so_far != GA_OK) (void)snprintf(a.text, sizeof a.text, "%s", ga_error_text());
    send_answer(socket, &a, so_far == GA_OK ? m->c->fd : -1);
    if (so_far == GA_OK) so_far = await_report(m, socket, g.rank);
  }
  (void)close(socket);
  return so_far;
}

static int32_t n_missing(const meeting *m, char *list, size_t capacity) {
  int32_t missing = 0;
  *list = 0;
  for (int32_t r = 1; r < m->c->comm.size; r++) {
    if (m->has_come[r]) continue;
    const size_t at = strlen(list);
    if (missing++ < 16) (void)snprintf(list + at, capacity - at, "%s%d", at ? ", " : "", r);
  }
  return missing;
}

/* Also for a while after an error: each rank that comes is told. */
static ga_status welcome_ranks(meeting *m, ga_status status) {
  char list[128];
  char text[512] = "";
  double until = m->deadline;
  while (n_missing(m, list, sizeof list)) {
    if (status != GA_OK && !*text) {
      (void)snprintf(text, sizeof text, "%s", ga_error_text());
      if (ga_seconds() + LINGER < until) until = ga_seconds() + LINGER;
    }
    if (ga_seconds() > until) break;
    struct pollfd p = {.fd = m->socket, .events = POLLIN};
    if (poll(&p, 1, 100) <= 0) continue;
    if (status != GA_OK) (void)ga_error_set(status, "%s", text);
    status = welcome_rank(m, status);
  }
  if (status != GA_OK && !*text) (void)snprintf(text, sizeof text, "%s", ga_error_text());
  if (status != GA_OK) return ga_fail(status, "%s", text);
  const int32_t missing = n_missing(m, list, sizeof list);
  GA_REQUIRE(!missing, GA_ERR_TIMEOUT, "comm: run '%s': rank 0 waited %g s; %d of %d ranks did not come: %s", m->run,
             m->seconds, missing, m->c->comm.size, list);
  return GA_OK;
}

static ga_status meet_as_first(meeting *m) {
  process_comm *c = m->c;
  GA_TRY(listen_for_ranks(m));
  ga_status status = make_memory(c);
  if (status == GA_OK) status = reopen_memory(c);
  if (status == GA_OK) status = map_memory(c);
  if (status == GA_OK) status = comm_mark_alive(c);
  if (status == GA_OK) status = comm_watch(c);
  status = welcome_ranks(m, status);
  if (status != GA_OK && c->head) comm_fail_world(c, status, "%s", ga_error_text());
  return status;
}

/* --- the others --- */

static ga_status connect_to_first(meeting *m) {
  struct sockaddr_un a;
  const socklen_t n = address_of(m->run, &a);
  struct ucred who;
  socklen_t size = sizeof who;
  while (connect(m->socket, (struct sockaddr *)&a, n) != 0) {
    GA_REQUIRE(ga_seconds() < m->deadline, GA_ERR_TIMEOUT,
               "comm: run '%s': rank %d waited %g s for rank 0, which did not come: %s", m->run, m->c->comm.rank,
               m->seconds, strerror(errno));
    nap();
  }
  GA_REQUIRE(getsockopt(m->socket, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == geteuid(), GA_ERR_COMM,
             "comm: run '%s': rank 0 is a process of another user", m->run);
  return GA_OK;
}

static ga_status receive_answer(const meeting *m, answer *a, int *fd) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control = {.bytes = {0}};
  struct iovec part = {a, sizeof *a};
  struct msghdr message = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  const ssize_t n = recvmsg(m->socket, &message, MSG_CMSG_CLOEXEC);
  *fd = -1;
  GA_REQUIRE(n == (ssize_t)sizeof *a && a->magic == MAGIC, GA_ERR_COMM,
             "comm: run '%s': rank %d gets no answer of rank 0: %s", m->run, m->c->comm.rank,
             n < 0 ? strerror(errno) : "it is gone, or of another version");
  const struct cmsghdr *c = CMSG_FIRSTHDR(&message);
  if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof *fd)) memcpy(fd, CMSG_DATA(c), sizeof *fd);
  a->text[sizeof a->text - 1] = 0;
  GA_REQUIRE(a->status == GA_OK, (ga_status)a->status, "%s", a->text);
  return GA_OK;
}

static ga_status join_memory(meeting *m, int fd, uint64_t bytes) {
  process_comm *c = m->c;
  GA_REQUIRE(fd >= 0, GA_ERR_COMM,
             "comm: run '%s': rank %d lost the descriptor of the shared memory; may it open more files (ulimit -n)?",
             m->run, c->comm.rank);
  c->fd = fd;
  c->bytes = bytes;
  GA_TRY(reopen_memory(c));
  GA_TRY(map_memory(c));
  GA_TRY(comm_mark_alive(c));
  return comm_watch(c);
}

static ga_status meet_first(meeting *m) {
  process_comm *c = m->c;
  GA_TRY(connect_to_first(m));
  const struct timeval wait = {.tv_sec = (time_t)m->seconds + 1};
  (void)setsockopt(m->socket, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
  const greeting g = {.magic = MAGIC, .arena_bytes = c->arena_bytes, .rank = c->comm.rank, .ranks = c->comm.size};
  answer a;
  int fd;
  GA_REQUIRE(send(m->socket, &g, sizeof g, MSG_NOSIGNAL) == (ssize_t)sizeof g, GA_ERR_COMM,
             "comm: run '%s': rank %d cannot speak to rank 0: %s", m->run, c->comm.rank, strerror(errno));
  GA_TRY(receive_answer(m, &a, &fd));
  const ga_status status = join_memory(m, fd, a.bytes);
  report r = {.magic = MAGIC, .status = (int32_t)status};
  if (status != GA_OK) (void)snprintf(r.text, sizeof r.text, "%s", ga_error_text());
  (void)send(m->socket, &r, sizeof r, MSG_NOSIGNAL); /* rank 0 may be gone, which the watchdog finds */
  return status;
}

/* --- both --- */

/* Rank 0 opens the world when all have joined; before that a rank may fail to, or die. */
static ga_status wait_for_all(meeting *m) {
  process_comm *c = m->c;
  shared_rank *self = &c->ranks[c->comm.rank];
  for (;;) {
    const uint32_t bell = atomic_load(&self->bell);
    GA_TRY(comm_world_status(c));
    int32_t joined = 0;
    for (int32_t r = 0; r < c->comm.size; r++) joined += atomic_load(&c->ranks[r].has_joined) != 0;
    if (joined == c->comm.size) return GA_OK;
    if (ga_seconds() > m->deadline + 1) /* rank 0 counts who is missing, and ends before */
      comm_fail_world(c, GA_ERR_TIMEOUT, "comm: run '%s': %d of %d ranks came in %g s", m->run, joined, c->comm.size,
                      m->seconds);
    comm_sleep(c, bell, RETRY);
  }
}

ga_status comm_rendezvous(process_comm *c, const char *run, double seconds) {
  meeting m = {.c = c, .run = run, .seconds = seconds, .deadline = ga_seconds() + seconds, .socket = -1};
  ga_status status = open_socket(&m);
  if (status == GA_OK) status = c->comm.rank == 0 ? meet_as_first(&m) : meet_first(&m);
  if (m.socket >= 0) (void)close(m.socket);
  if (status == GA_OK) status = wait_for_all(&m);
  return status;
}
