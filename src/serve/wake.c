#include "serve/wake.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "serve/crew.h"

struct sv_wake {
  pthread_mutex_t lock;
  pthread_cond_t news;
  pthread_t thread;
  sv_waiter *waiters, *queue;
  sv_link *links;
  bool ending, stopping;
};

double sv_seconds(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --- the thread; everything here holds the lock unless it says otherwise --- */

static void sv_resume(sv_waiter *w) {
  if (!w->suspended) return;
  w->suspended = false;
  w->woken = true;
  w->ready = false;
  MHD_resume_connection(w->connection);
}

/* What was notified and is suspended, as a list over next_run. */
static sv_waiter *sv_take_queue(sv_wake *wake) {
  sv_waiter *run = NULL;
  for (sv_waiter *w = wake->queue, *next; w; w = next) {
    next = w->next_queued;
    w->queued = false;
    w->ready = true;
    if (!w->suspended) continue;
    w->next_run = run;
    run = w;
  }
  wake->queue = NULL;
  return run;
}

/* Leaves the lock while it pumps: the engine's thread may wait for it meanwhile, holding locks that a pump needs. */
static void sv_run_queue(sv_wake *wake, sv_waiter *run) {
  for (sv_waiter *w = run, *next; w; w = next) {
    next = w->next_run;
    bool resume = true;
    if (w->pump && !w->gone && !wake->ending) {
      w->ready = false;
      (void)pthread_mutex_unlock(&wake->lock);
      resume = w->pump(w);
      (void)pthread_mutex_lock(&wake->lock);
    }
    if (resume) sv_resume(w);
  }
}

/* Looks whether the client has closed its side. Nothing else tells while a connection is suspended. Returns whether
 * that is news. */
static bool sv_look_at_client(sv_waiter *w) {
  struct pollfd p = {.fd = w->fd, .events = POLLRDHUP};
  char byte;
  if (poll(&p, 1, 0) < 0) return false;
  const ssize_t n = recv(w->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  const bool was_half_closed = w->is_half_closed, has_failed = n < 0 && errno != EAGAIN && errno != EINTR;
  if ((p.revents & (POLLERR | POLLHUP | POLLNVAL)) || has_failed) w->gone = true;
  if ((p.revents & POLLRDHUP) || n == 0) w->is_half_closed = true;
  return w->gone || w->is_half_closed != was_half_closed;
}

static void sv_tick(sv_wake *wake) {
  const double now = sv_seconds();
  for (sv_waiter *w = wake->waiters; w; w = w->next) {
    const bool has_news = w->suspended && sv_look_at_client(w); /* else its fields are the HTTP thread's */
    if (w->suspended && !w->gone && w->pings && !w->woken) w->ping = true;
    if (w->suspended && (has_news || w->ping)) sv_resume(w);
    w->woken = false; /* a ping is nothing new */
  }
  for (sv_link *l = wake->links; l; l = l->next) {
    if (l->until == 0.0 || now < l->until) continue;
    l->until = 0.0;
    (void)shutdown(l->fd, SHUT_RDWR); /* the HTTP thread sees the end and closes it */
  }
}

static void *sv_wake_thread(void *user) {
  sv_wake *wake = user;
  double tick = sv_seconds() + 1.0;
  (void)pthread_mutex_lock(&wake->lock);
  while (!wake->stopping) {
    const double now = sv_seconds();
    if (now >= tick) {
      sv_tick(wake);
      tick = now + 1.0;
    }
    if (!wake->queue) {
      const struct timespec until = {(time_t)tick, (long)((tick - (double)(time_t)tick) * 1e9)};
      (void)pthread_cond_timedwait(&wake->news, &wake->lock, &until);
    }
    sv_run_queue(wake, sv_take_queue(wake));
    for (sv_waiter *w = wake->ending ? wake->waiters : NULL; w; w = w->next) sv_resume(w);
  }
  (void)pthread_mutex_unlock(&wake->lock);
  return NULL;
}

/* --- from outside --- */

ga_status sv_wake_start(sv_wake **out) {
  pthread_condattr_t attr;
  sv_wake *wake = *out = calloc(1, sizeof *wake);
  if (!wake) return ga_error_set(GA_ERR_NOMEM, "server: no memory");
  (void)pthread_mutex_init(&wake->lock, NULL);
  (void)pthread_condattr_init(&attr);
  (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  (void)pthread_cond_init(&wake->news, &attr);
  (void)pthread_condattr_destroy(&attr);
  if (!pthread_create(&wake->thread, NULL, sv_wake_thread, wake)) return GA_OK;
  (void)pthread_cond_destroy(&wake->news);
  (void)pthread_mutex_destroy(&wake->lock);
  free(wake);
  *out = NULL;
  return ga_error_set(GA_ERR_NOMEM, "server: cannot start a thread");
}

void sv_wake_end_waiting(sv_wake *wake) {
  (void)pthread_mutex_lock(&wake->lock);
  wake->ending = true;
  (void)pthread_cond_signal(&wake->news);
  (void)pthread_mutex_unlock(&wake->lock);
}

void sv_wake_stop(sv_wake *wake) {
  if (!wake) return;
  (void)pthread_mutex_lock(&wake->lock);
  wake->stopping = true;
  (void)pthread_cond_signal(&wake->news);
  (void)pthread_mutex_unlock(&wake->lock);
  (void)pthread_join(wake->thread, NULL);
  (void)pthread_cond_destroy(&wake->news);
  (void)pthread_mutex_destroy(&wake->lock);
  free(wake);
}

void sv_waiter_add(sv_wake *wake, sv_waiter *w) {
  (void)pthread_mutex_lock(&wake->lock);
  w->wake = wake;
  w->prev = NULL;
  w->next = wake->waiters;
  if (w->next) w->next->prev = w;
  wake->waiters = w;
  (void)pthread_mutex_unlock(&wake->lock);
}

void sv_waiter_remove(sv_waiter *w) {
  sv_wake *wake = w->wake;
  if (!wake) return;
  (void)pthread_mutex_lock(&wake->lock);
  if (w->prev)
    w->prev->next = w->next;
  else
    wake->waiters = w->next;
  if (w->next) w->next->prev = w->prev;
  for (sv_waiter **q = &wake->queue; w->queued && *q; q = &(*q)->next_queued) {
    if (*q != w) continue;
    *q = w->next_queued;
    break;
  }
  w->wake = NULL;
  (void)pthread_mutex_unlock(&wake->lock);
}

void sv_waiter_notify(void *waiter) {
  sv_waiter *w = waiter;
  sv_wake *wake = w->wake;
  (void)pthread_mutex_lock(&wake->lock);
  if (!w->queued) {
    w->queued = true;
    w->next_queued = wake->queue;
    wake->queue = w;
    if (!w->next_queued) (void)pthread_cond_signal(&wake->news);
  }
  (void)pthread_mutex_unlock(&wake->lock);
}

bool sv_waiter_suspend(sv_waiter *w) {
  sv_wake *wake = w->wake;
  if (sv_is_crew_thread()) return true; /* the connection is suspended, and its HTTP thread calls this again */
  (void)pthread_mutex_lock(&wake->lock);
  const bool suspend = !w->ready && !w->queued && !w->gone && !wake->ending;
  w->ready = false;
  if (suspend) {
    w->suspended = true;
    MHD_suspend_connection(w->connection);
  }
  (void)pthread_mutex_unlock(&wake->lock);
  return suspend;
}

void sv_link_add(sv_wake *wake, sv_link *l) {
  (void)pthread_mutex_lock(&wake->lock);
  l->wake = wake;
  l->prev = NULL;
  l->next = wake->links;
  if (l->next) l->next->prev = l;
  wake->links = l;
  (void)pthread_mutex_unlock(&wake->lock);
}

void sv_link_remove(sv_link *l) {
  sv_wake *wake = l->wake;
  (void)pthread_mutex_lock(&wake->lock);
  if (l->prev)
    l->prev->next = l->next;
  else
    wake->links = l->next;
  if (l->next) l->next->prev = l->prev;
  (void)pthread_mutex_unlock(&wake->lock);
}

void sv_link_expect(sv_link *l, double until) {
  (void)pthread_mutex_lock(&l->wake->lock);
  l->until = until;
  (void)pthread_mutex_unlock(&l->wake->lock);
}
