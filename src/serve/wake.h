/* HTTP requests that wait for the engine ("waiters"). Their connections are suspended in the HTTP server, and the
 * waking thread resumes them.
 *
 * A waiter belongs to the HTTP thread while it is not suspended, and to the waking thread while it is. Only the waking
 * thread resumes waiters, so that a suspended waiter stays alive. The engine's thread only marks a waiter
 * (sv_waiter_notify). */
#ifndef GA_SERVE_WAKE_H
#define GA_SERVE_WAKE_H

#include <microhttpd.h>
#include <pthread.h>

#include "ga/base.h"

typedef struct sv_wake sv_wake;

typedef struct sv_waiter {
  struct MHD_Connection *connection;
  int fd; /* socket of the connection */
  /* Called by the waking thread, without a lock, when a suspended waiter has news. Returns whether to resume the
   * waiter. NULL: always resume. */
  bool (*pump)(struct sv_waiter *w);
  bool pings; /* the waiter is resumed once a second, with `ping` set, even if there is no news */
  bool gone;  /* the client has closed its connection, so that it receives nothing any more */
  /* the client has closed its side for sending: it waits for the answer, or has gone, which only a write can find
   * out */
  bool is_half_closed;
  bool ping;     /* the waiter was resumed because it had no news for a second */
  sv_wake *wake; /* `wake` and the fields below belong to the waking thread */
  bool suspended, ready, queued, woken;
  struct sv_waiter *prev, *next, *next_queued, *next_run;
} sv_waiter;

/* A connection whose client is still sending its request. The connection is closed if that takes too long. */
typedef struct sv_link {
  int fd;
  /* time by which the request must be complete, from sv_seconds; 0 = the request is complete and in progress */
  double until;
  sv_wake *wake;
  struct sv_link *prev, *next;
} sv_link;

/* Returns the time of the monotonic clock in seconds. */
double sv_seconds(void);

ga_status sv_wake_start(sv_wake **out);
/* Resumes all suspended waiters. Afterwards no waiter is suspended any more. */
void sv_wake_end_waiting(sv_wake *wake);
/* Stops the waking thread and frees wake. No waiter and no link may exist. NULL is accepted. */
void sv_wake_stop(sv_wake *wake);

void sv_waiter_add(sv_wake *wake, sv_waiter *w);
void sv_waiter_remove(sv_waiter *w);
/* Marks that a waiter (sv_waiter) has news. Any thread may call it. */
void sv_waiter_notify(void *waiter);
/* Suspends the connection of a waiter that has nothing to do. The HTTP thread calls it. Returns false if the waiter has
 * news: the caller handles them and tries again. A thread of the crew always gets true; the HTTP thread then calls the
 * route again. */
bool sv_waiter_suspend(sv_waiter *w);

void sv_link_add(sv_wake *wake, sv_link *l);
void sv_link_remove(sv_link *l);
void sv_link_expect(sv_link *l, double until);

#endif
