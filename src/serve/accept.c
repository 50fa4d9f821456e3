#include "serve/accept.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/raw_head.h"
#include "serve/wake.h"

enum {
  SV_EVENTS = 64,
  SV_MAX_LEAVING = 256, /* refused connections that are still read, so that their clients see the answer */
  SV_UNSENT_BYTES = 32768
};

static const double sv_leave_seconds = 1.0, sv_retry_seconds = 0.1;

/* A connection before its first request is known, or after it was refused. */
typedef struct sv_guest {
  int fd;
  bool is_leaving; /* it was refused: what it sends is dropped */
  double until;    /* sv_seconds at which it is closed */
  struct sockaddr_storage address;
  socklen_t address_bytes;
  struct sv_guest *next, *prev;
} sv_guest;

struct sv_acceptor {
  sv_accept_options o;
  int epoll, stop;
  pthread_t thread;
  sv_guest *guests;
  unsigned n_guests, n_leaving; /* n_guests: guests that are not leaving */
  double paused_until;          /* no descriptor was free: accepting goes on then; 0 = it is not paused */
  char bytes[SV_HEAD_BYTES + 1];
};

/* --- guests --- */

static void sv_guest_free(sv_acceptor *a, sv_guest *g) {
  if (g->next) g->next->prev = g->prev;
  *(g->prev ? &g->prev->next : &a->guests) = g->next;
  *(g->is_leaving ? &a->n_leaving : &a->n_guests) -= 1;
  free(g);
}

static void sv_guest_close(sv_acceptor *a, sv_guest *g) {
  (void)close(g->fd); /* epoll forgets it */
  sv_guest_free(a, g);
}

/* Sends the error and ends the connection. A close with unread bytes would reset it before the client has read. */
static void sv_guest_refuse(sv_acceptor *a, sv_guest *g, const sv_fail *fail) {
  char head[256];
  sv_text body = {0};
  sv_put_fail(&body, fail);
  const int n = snprintf(head, sizeof head,
                         "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%s"
                         "Connection: close\r\n\r\n",
                         fail->http, MHD_get_reason_phrase_for((unsigned)fail->http), body.n,
                         fail->http == 503 ? "Retry-After: 1\r\n" : "");
  const bool sent = !body.failed && send(g->fd, head, (size_t)n, MSG_NOSIGNAL | MSG_MORE) == n &&
                    send(g->fd, body.p, body.n, MSG_NOSIGNAL) == (ssize_t)body.n;
  sv_text_free(&body);
  if (!sent || shutdown(g->fd, SHUT_WR) || a->n_leaving >= SV_MAX_LEAVING) {
    sv_guest_close(a, g);
    return;
  }
  g->is_leaving = true;
  g->until = sv_seconds() + sv_leave_seconds;
  a->n_guests--;
  a->n_leaving++;
}

static void sv_guest_hand_over(sv_acceptor *a, sv_guest *g) {
  (void)epoll_ctl(a->epoll, EPOLL_CTL_DEL, g->fd, NULL);
  (void)MHD_add_connection(a->o.daemon, g->fd, (const struct sockaddr *)&g->address, g->address_bytes);
  sv_guest_free(a, g); /* the library closes what it does not take */
}

static void sv_guest_read(sv_acceptor *a, sv_guest *g) {
  sv_fail fail = {0};
  if (g->is_leaving) {
    ssize_t n;
    while ((n = recv(g->fd, a->bytes, sizeof a->bytes, MSG_DONTWAIT)) > 0) continue;
    if (!n || (errno != EAGAIN && errno != EWOULDBLOCK)) sv_guest_close(a, g);
    return;
  }
  const ssize_t n = recv(g->fd, a->bytes, sizeof a->bytes, MSG_PEEK | MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  const sv_head_state state = n > 0 ? sv_scan_head(a->bytes, (size_t)n, &fail) : SV_HEAD_PARTIAL;
  if (n <= 0)
    sv_guest_close(a, g);
  else if (state == SV_HEAD_WHOLE)
    sv_guest_hand_over(a, g);
  else if (state == SV_HEAD_BAD)
    sv_guest_refuse(a, g, &fail);
}

/* --- accepting --- */

static unsigned sv_n_connections(const sv_acceptor *a) {
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(a->o.daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
  return a->n_guests + (info ? info->num_connections : 0);
}

static void sv_admit_guest(sv_acceptor *a, int fd, const struct sockaddr_storage *address, socklen_t bytes) {
  const int on = 1, unsent = SV_UNSENT_BYTES;
  /* Edges: a part of a head that stays in the socket is no news. */
  struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
  sv_guest *g = event.data.ptr = calloc(1, sizeof *g);
  if (!g) {
    (void)close(fd);
    return;
  }
  const bool is_full = sv_n_connections(a) >= a->o.max_connections;
  *g = (sv_guest){.fd = fd, .address = *address, .address_bytes = bytes, .next = a->guests};
  g->until = sv_seconds() + a->o.request_seconds;
  if (g->next) g->next->prev = g;
  a->guests = g;
  a->n_guests++;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  /* A client that does not read is noticed after so many bytes, not after megabytes in the system's buffers. */
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
  if (epoll_ctl(a->epoll, EPOLL_CTL_ADD, fd, &event)) {
    sv_guest_close(a, g);
  } else if (is_full) {
    sv_fail fail = {0};
    (void)sv_refuse(&fail, 503, "too_many_connections", NULL, "The server has %u connections, which is its limit.",
                    a->o.max_connections);
    sv_guest_refuse(a, g, &fail);
  }
}

static void sv_listen_for(const sv_acceptor *a, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = NULL};
  (void)epoll_ctl(a->epoll, EPOLL_CTL_MOD, a->o.listen_fd, &event);
}

static void sv_accept(sv_acceptor *a) {
  for (int i = 0; i < SV_EVENTS; i++) {
    struct sockaddr_storage address;
    socklen_t bytes = sizeof address;
    const int fd = accept4(a->o.listen_fd, (struct sockaddr *)&address, &bytes, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      sv_admit_guest(a, fd, &address, bytes);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      a->paused_until = sv_seconds() + sv_retry_seconds;
      sv_listen_for(a, 0);
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;
    }
  }
}

/* --- the thread --- */

static void sv_close_late_guests(sv_acceptor *a) {
  const double now = sv_seconds();
  for (sv_guest *g = a->guests, *next; g; g = next) {
    next = g->next;
    if (now >= g->until) sv_guest_close(a, g);
  }
  if (!(a->paused_until > 0) || now < a->paused_until) return;
  a->paused_until = 0;
  sv_listen_for(a, EPOLLIN);
}

static void *sv_acceptor_thread(void *user) {
  sv_acceptor *a = user;
  struct epoll_event events[SV_EVENTS];
  for (double tick = 0;;) {
    const int n = epoll_wait(a->epoll, events, SV_EVENTS, a->paused_until > 0 ? 50 : a->guests ? 250 : -1);
    for (int i = 0; i < n; i++) {
      if (events[i].data.ptr == a) return NULL; /* sv_acceptor_stop */
      if (events[i].data.ptr)
        sv_guest_read(a, events[i].data.ptr);
      else
        sv_accept(a);
    }
    if (sv_seconds() < tick) continue;
    sv_close_late_guests(a);
    tick = sv_seconds() + 0.05;
  }
}

static bool sv_acceptor_open(sv_acceptor *a) {
  struct epoll_event listen = {.events = EPOLLIN}, stop = {.events = EPOLLIN, .data.ptr = a};
  a->epoll = epoll_create1(EPOLL_CLOEXEC);
  a->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return a->epoll >= 0 && a->stop >= 0 && !epoll_ctl(a->epoll, EPOLL_CTL_ADD, a->o.listen_fd, &listen) &&
         !epoll_ctl(a->epoll, EPOLL_CTL_ADD, a->stop, &stop) &&
         !pthread_create(&a->thread, NULL, sv_acceptor_thread, a);
}

static void sv_acceptor_free(sv_acceptor *a) {
  while (a->guests) sv_guest_close(a, a->guests);
  if (a->epoll >= 0) (void)close(a->epoll);
  if (a->stop >= 0) (void)close(a->stop);
  free(a);
}

ga_status sv_acceptor_start(const sv_accept_options *options, sv_acceptor **out) {
  sv_acceptor *a = *out = calloc(1, sizeof *a);
  if (!a) return ga_error_set(GA_ERR_NOMEM, "server: no memory");
  a->o = *options;
  a->epoll = a->stop = -1;
  if (sv_acceptor_open(a)) return GA_OK;
  const int why = errno;
  sv_acceptor_free(a);
  *out = NULL;
  return ga_error_set(GA_ERR_IO, "server: cannot accept connections: %s", strerror(why));
}

void sv_acceptor_stop(sv_acceptor *a) {
  if (!a) return;
  (void)eventfd_write(a->stop, 1);
  (void)pthread_join(a->thread, NULL);
  sv_acceptor_free(a);
}
