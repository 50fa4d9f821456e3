/* Requests that wait for the engine, suspended in the HTTP server, and the waking thread, which resumes them.
 *
 * A waiter belongs to the HTTP thread while it is not suspended, and to the waking thread while it is. Only the waking
 * thread resumes, so a suspended waiter stays alive. The engine's thread only marks a waiter (sv_waiter_notify). */
#ifndef GA_SERVE_WAKE_H
#define GA_SERVE_WAKE_H

#include <microhttpd.h>
#include <pthread.h>

#include "ga/base.h"

typedef struct sv_wake sv_wake;

typedef struct sv_waiter {
  struct MHD_Connection *connection;
  int fd; /* socket of the connection */
  /* Called by the waking thread while the waiter is suspended, without a lock. True: resume. NULL: always resume. */
  bool (*pump)(struct sv_waiter *w);
  bool pings;    /* the waiter is resumed once a second, with `ping` set, even if there is no news */
  bool gone;     /* the client has closed the connection */
  bool ping;     /* the waiter has had no news for a second */
  sv_wake *wake; /* `wake` and the fields below belong to the waking thread */
  bool suspended, ready, queued, woken;
  struct sv_waiter *prev, *next, *next_queued, *next_run;
} sv_waiter;

/* A connection whose client is still sending its request. If that takes too long, the connection is closed. */
typedef struct sv_link {
  int fd;
  double until; /* sv_seconds by which the request must be complete; 0 = it is complete and in progress */
  sv_wake *wake;
  struct sv_link *prev, *next;
} sv_link;

/* Returns the seconds of the monotonic clock. */
double sv_seconds(void);

ga_status sv_wake_start(sv_wake **out);
/* Resumes all suspended waiters. From now on no waiter is suspended. */
void sv_wake_end_waiting(sv_wake *wake);
/* Stops the waking thread. No waiter and no link may exist. NULL is fine. */
void sv_wake_stop(sv_wake *wake);

void sv_waiter_add(sv_wake *wake, sv_waiter *w);
void sv_waiter_remove(sv_waiter *w);
/* Marks that a waiter has news. Called from any thread. */
void sv_waiter_notify(void *waiter);
/* Suspends a waiter that has nothing to do. The HTTP thread calls it. False: there is news; the caller pumps again. */
bool sv_waiter_suspend(sv_waiter *w);

void sv_link_add(sv_wake *wake, sv_link *l);
void sv_link_remove(sv_link *l);
void sv_link_expect(sv_link *l, double until);

#endif
