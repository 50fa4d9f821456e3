/* Processes of a host give each other file descriptors, over datagram sockets that no file system knows. */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/status.h"
#include "comm/comm_fds.h"

#define FD_MAGIC 0x4741636f6d6d6664u

/* What comes with a descriptor. */
typedef struct fd_note {
  uint64_t magic, run;
  int32_t from, to;
} fd_note;

typedef struct fd_trade {
  ga_comm *comm;
  uint64_t run;
  int socket, fd;
  int *fds;
  int32_t left; /* to come */
} fd_trade;

static socklen_t name_of_rank(uint64_t run, int32_t rank, struct sockaddr_un *a) {
  *a = (struct sockaddr_un){.sun_family = AF_UNIX};
  const int n = snprintf(a->sun_path + 1, sizeof a->sun_path - 1, "ga-fds-%u-%016llx-%d", (unsigned)geteuid(),
                         (unsigned long long)run, rank);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static ga_status open_own_socket(fd_trade *t) {
  struct sockaddr_un a;
  const int yes = 1;
  const socklen_t n = name_of_rank(t->run, t->comm->rank, &a);
  t->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  GA_REQUIRE(t->socket >= 0 && setsockopt(t->socket, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) == 0 &&
                 bind(t->socket, (struct sockaddr *)&a, n) == 0,
             GA_ERR_COMM, "comm: rank %d has no socket for file descriptors: %s", t->comm->rank, strerror(errno));
  return GA_OK;
}

/* False: the receiver's queue is full for now, or as many descriptors are under way as the user may have open. */
static ga_status try_send_fd(const fd_trade *t, int32_t to, bool *sent) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control = {.bytes = {0}};
  struct sockaddr_un a;
  fd_note note = {.magic = FD_MAGIC, .run = t->run, .from = t->comm->rank, .to = to};
  struct iovec part = {&note, sizeof note};
  struct msghdr m = {.msg_name = &a,
                     .msg_namelen = name_of_rank(t->run, to, &a),
                     .msg_iov = &part,
                     .msg_iovlen = 1,
                     .msg_control = control.bytes,
                     .msg_controllen = sizeof control.bytes};
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof t->fd);
  memcpy(CMSG_DATA(c), &t->fd, sizeof t->fd);
  *sent = sendmsg(t->socket, &m, MSG_NOSIGNAL) == (ssize_t)sizeof note;
  GA_REQUIRE(*sent || errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ETOOMANYREFS, GA_ERR_COMM,
             "comm: rank %d cannot give rank %d a file descriptor: %s", t->comm->rank, to, strerror(errno));
  return GA_OK;
}

/* The only descriptor of a message, -1 = none. Where there are several all are closed: a rank sends one. */
static int only_fd(const struct cmsghdr *c) {
  const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  int fd = -1;
  for (size_t i = 0; i < n; i++) {
    memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
    if (n > 1) (void)close(fd);
  }
  return n == 1 ? fd : -1;
}

/* Takes one message, if there is one. A message that no rank of this run and this user sent is dropped. The system
 * delivers a rank's message without its descriptor if this process may open no more files: an error, because that
 * descriptor is lost. */
static ga_status take_fd(fd_trade *t) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
  } control = {.bytes = {0}};
  fd_note note = {0};
  struct iovec part = {&note, sizeof note};
  struct msghdr m = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  struct ucred who = {.uid = (uid_t)-1};
  int fd = -1;
  const ssize_t n = recvmsg(t->socket, &m, MSG_CMSG_CLOEXEC);
  if (n < 0) return GA_OK;
  for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
    if (c->cmsg_level != SOL_SOCKET) continue;
    if (c->cmsg_type == SCM_RIGHTS) fd = only_fd(c);
    if (c->cmsg_type == SCM_CREDENTIALS && c->cmsg_len == CMSG_LEN(sizeof who)) memcpy(&who, CMSG_DATA(c), sizeof who);
  }
  const bool ours = n == (ssize_t)sizeof note && note.magic == FD_MAGIC && note.run == t->run &&
                    note.to == t->comm->rank && note.from >= 0 && note.from < t->comm->size && note.from != note.to &&
                    who.uid == geteuid();
  GA_REQUIRE(fd >= 0 || !ours, GA_ERR_COMM,
             "comm: rank %d lost the file descriptor that rank %d sent; may it open more files (ulimit -n)?",
             t->comm->rank, note.from);
  if (fd >= 0 && ours && t->fds[note.from] < 0) {
    t->fds[note.from] = fd;
    t->left--;
  } else if (fd >= 0) {
    (void)close(fd);
  }
  return GA_OK;
}

static ga_status send_and_take(fd_trade *t) {
  const int32_t ranks = t->comm->size, me = t->comm->rank;
  const double deadline = ga_seconds() + t->comm->timeout;
  int32_t sent = 1;
  while (sent < ranks || t->left) {
    bool done = false;
    GA_TRY(t->comm->calls->check(t->comm));
    GA_REQUIRE(ga_seconds() < deadline, GA_ERR_TIMEOUT, "comm: rank %d waited %g s for file descriptors of %d ranks",
               me, t->comm->timeout, t->left);
    if (sent < ranks) GA_TRY(try_send_fd(t, (me + sent) % ranks, &done));
    sent += done;
    struct pollfd p = {.fd = t->socket, .events = POLLIN};
    if (poll(&p, 1, done ? 0 : 10) > 0) GA_TRY(take_fd(t));
  }
  return GA_OK;
}

/* All have their sockets before anybody sends, and all descriptors before anybody closes his. */
ga_status comm_trade_fds(ga_comm *comm, uint64_t run, int fd, int *fds) {
  fd_trade t = {.comm = comm, .run = run, .socket = -1, .fd = fd, .fds = fds, .left = comm->size - 1};
  for (int32_t r = 0; r < comm->size; r++) fds[r] = -1;
  ga_status status = open_own_socket(&t);
  if (status == GA_OK) status = ga_comm_meet(comm, "sockets", 0);
  if (status == GA_OK) status = send_and_take(&t);
  if (status != GA_OK) comm->calls->abort(comm, status, ga_error_text());
  if (status == GA_OK) status = ga_comm_meet(comm, "descriptors", 0);
  if (t.socket >= 0) (void)close(t.socket);
  for (int32_t r = 0; r < comm->size && status != GA_OK; r++) {
    if (fds[r] >= 0) (void)close(fds[r]);
    fds[r] = -1;
  }
  return status;
}
