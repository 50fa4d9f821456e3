/* Requests that wait, and what their tenants have been served.
 *
 * The order: the lowest priority value; of those, the preempted ones first; then the tenant that has been served least;
 * then the earliest arrival. A lane is what one tenant waits for at one priority. Lanes lie in a heap. A tenant's count
 * grows while its lanes lie there, so that keys in the heap are too low: they are mended at the top only.
 */
#ifndef GA_ENGINE_SCHED_QUEUE_H
#define GA_ENGINE_SCHED_QUEUE_H

#include "engine/sched_heap.h"
#include "engine/scheduler.h"

/* Tenants without requests whose counts are remembered, so that leaving and coming back pays off no debt. */
#define SCHED_IDLE_TENANTS 1024

typedef struct sched_list {
  sched_request *first, *last;
} sched_list;

typedef struct sched_tenant sched_tenant;

typedef struct sched_lane {
  sched_tenant *tenant;
  struct sched_lane *next; /* of the tenant */
  sched_list requests;     /* by arrival */
  int32_t priority, place;
} sched_lane;

struct sched_tenant {
  uint64_t id;
  double served;
  int32_t n_requests, n_waiting; /* all; in lanes */
  int32_t place;                 /* in queue.tenants, while some wait */
  sched_lane *lanes;
  sched_tenant *chain, *older, *newer; /* of its bucket; among the idle ones */
};

typedef struct sched_queue {
  uint64_t key[2];
  sched_tenant **buckets;
  uint32_t n_buckets, n_tenants;
  sched_tenant *oldest, *newest; /* idle */
  int32_t n_idle;
  int32_t n_requests, n_waiting; /* all; in lanes and preempted */
  sched_heap lanes, tenants, deadlines;
  sched_list resumed; /* preempted ones, by priority and arrival */
  double left;        /* count of the tenant that last had nothing more to wait for */
} sched_queue;

/* Puts a request before another one of the list; NULL: at its end. */
void sched_list_put(sched_list *list, sched_request *request, sched_request *before);
void sched_list_take(sched_list *list, sched_request *request);

GA_NODISCARD ga_status sched_queue_init(sched_queue *queue);
void sched_queue_free(sched_queue *queue);
/* Queues a new request. */
GA_NODISCARD ga_status sched_queue_add(sched_queue *queue, sched_request *request);
/* Queues a preempted request again. Allocates no memory, so that it cannot fail. */
void sched_queue_resume(sched_queue *queue, sched_request *request);
/* Removes a waiting request from the queue: it runs next, or is cancelled. */
void sched_queue_take(sched_queue *queue, sched_request *request);
/* Records that a request has ended: its tenant may be idle now. */
void sched_queue_leave(sched_queue *queue, sched_request *request);
/* Returns the waiting request whose turn it is; NULL: none waits. */
sched_request *sched_queue_head(sched_queue *queue);
/* Returns a waiting request whose deadline has passed; NULL: none. */
sched_request *sched_queue_expired(const sched_queue *queue, double now);
/* Counts the request's tokens up to `end` as served to its tenant. Tokens that are computed again count once. */
void sched_queue_charge(sched_request *request, int32_t end);

#endif
