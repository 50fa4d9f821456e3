/* Requests that wait for the engine, suspended in the HTTP server, and the one thread that wakes them.
 *
 * Who may touch a waiter: the HTTP thread while it is not suspended; this thread while it is. Only this thread resumes,
 * so a suspended waiter stays alive. The engine's thread only marks it (sv_waiter_notify). */
#ifndef GA_SERVE_WAKE_H
#define GA_SERVE_WAKE_H

#include <microhttpd.h>
#include <pthread.h>

#include "ga/base.h"

typedef struct sv_wake sv_wake;

typedef struct sv_waiter {
  struct MHD_Connection *connection;
  int fd; /* its socket */
  /* Called by the waking thread while suspended, without a lock: true = resume. NULL = always. */
  bool (*pump)(struct sv_waiter *w);
  bool pings;    /* resume it once a second, with `ping` set, though nothing is new */
  bool gone;     /* the client has closed the connection */
  bool ping;     /* nothing was new for a second */
  sv_wake *wake; /* what follows is the waking thread's */
  bool suspended, ready, queued, woken;
  struct sv_waiter *prev, *next, *next_queued, *next_run;
} sv_waiter;

/* A connection whose client still sends. A slow one is closed. */
typedef struct sv_link {
  int fd;
  double until; /* sv_seconds by which the request must be here; 0 = the server works on it */
  sv_wake *wake;
  struct sv_link *prev, *next;
} sv_link;

/* Seconds of a clock that never goes back. */
double sv_seconds(void);

ga_status sv_wake_start(sv_wake **out);
/* From now on nothing is suspended any more, and what is suspended goes on at once. */
void sv_wake_end_waiting(sv_wake *wake);
/* No waiter and no link is left. NULL is fine. */
void sv_wake_stop(sv_wake *wake);

void sv_waiter_add(sv_wake *wake, sv_waiter *w);
void sv_waiter_remove(sv_waiter *w);
/* Something is new. From any thread. */
void sv_waiter_notify(void *waiter);
/* By the HTTP thread, when there is nothing to do. False: there is, look again. */
bool sv_waiter_suspend(sv_waiter *w);

void sv_link_add(sv_wake *wake, sv_link *l);
void sv_link_remove(sv_link *l);
void sv_link_expect(sv_link *l, double until);

#endif
