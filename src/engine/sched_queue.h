/* The queue of waiting requests, and the number of tokens that each tenant has been served.
 *
 * The order: stalled requests last; the lowest priority value first; then preempted requests; then the tenant that has
 * been served least; then the earliest arrival. A lane is the list of a tenant's waiting requests of one priority,
 * either short or long ones (sched_options.short_tokens). Lanes of short requests are in one heap, lanes of long
 * requests in another. A tenant's count of served tokens grows while its lanes are in a heap, so keys in the heap may
 * be too low. Only the top key is corrected, when it is used.
 */
#ifndef GA_ENGINE_SCHED_QUEUE_H
#define GA_ENGINE_SCHED_QUEUE_H

#include "engine/sched_heap.h"
#include "engine/scheduler.h"

/* Largest number of tenants without requests whose counts are kept, so that a tenant that leaves and returns keeps its
 * count. */
#define SCHED_IDLE_TENANTS 1024

typedef struct sched_list {
  sched_request *first, *last;
} sched_list;

typedef struct sched_tenant sched_tenant;

typedef struct sched_lane {
  sched_tenant *tenant;
  struct sched_lane *next; /* next lane of the same tenant */
  sched_list requests;     /* waiting requests in order of arrival */
  int32_t priority;
  bool is_short; /* the lane has short requests: it is in sched_queue.short_lanes, not in sched_queue.lanes */
  int32_t place; /* index in the heap sched_queue.short_lanes or sched_queue.lanes */
} sched_lane;

struct sched_tenant {
  uint64_t id;
  double served;      /* number of tokens that have been served to the tenant */
  int32_t n_requests; /* number of the tenant's requests, including those that run */
  int32_t n_waiting;  /* number of the tenant's requests that wait in its lanes */
  int32_t place;      /* index in the heap sched_queue.tenants, while some of its requests wait */
  sched_lane *lanes;
  sched_tenant *chain; /* next tenant of the same hash bucket */
  sched_tenant *older; /* in the list of idle tenants: the neighbour that has been idle for longer */
  sched_tenant *newer;
};

typedef struct sched_queue {
  uint64_t key[2];
  sched_tenant **buckets;
  uint32_t n_buckets, n_tenants;
  sched_tenant *oldest, *newest; /* ends of the list of idle tenants */
  int32_t n_idle;
  int32_t n_requests; /* number of requests that were added and have not left, including those that run */
  int32_t n_waiting;  /* number of requests that wait in lanes or are preempted */
  sched_heap lanes, short_lanes, tenants, deadlines;
  sched_list resumed; /* preempted requests, by priority and arrival */
  double left;        /* `served` of the tenant whose last waiting request left the queue most recently */
} sched_queue;

/* Inserts a request before `before`, a request of the list; NULL: at the end. */
void sched_list_put(sched_list *list, sched_request *request, sched_request *before);
void sched_list_take(sched_list *list, sched_request *request);

GA_NODISCARD ga_status sched_queue_init(sched_queue *queue);
void sched_queue_free(sched_queue *queue);
/* Queues a new request, which the caller owns and which stays valid until sched_queue_leave. GA_ERR_NOMEM: it is not
 * queued. */
GA_NODISCARD ga_status sched_queue_add(sched_queue *queue, sched_request *request);
/* Queues a preempted request again. Allocates no memory, so that it cannot fail. */
void sched_queue_resume(sched_queue *queue, sched_request *request);
/* Removes a waiting request from the queue: it runs next, or is cancelled. */
void sched_queue_take(sched_queue *queue, sched_request *request);
/* Records that a request has ended: its tenant may be idle now. */
void sched_queue_leave(sched_queue *queue, sched_request *request);
/* Returns the number of waiting requests that are not stalled (sched_request.is_stalled). */
int32_t sched_queue_n_eager(const sched_queue *queue);
/* Returns the waiting request that runs next, a stalled one only if no other waits; NULL: none waits. */
sched_request *sched_queue_head(sched_queue *queue);
/* Returns the first of the short requests that have not run yet; NULL: none waits. */
sched_request *sched_queue_short(sched_queue *queue);
/* Returns how many tokens the request that sched_queue_short returns, and the requests after it in its lane, need to
 * evaluate; at most `most`. */
int32_t sched_queue_short_tokens(const sched_queue *queue, int32_t most);
/* Returns a waiting request whose deadline has passed; NULL: none. */
sched_request *sched_queue_expired(const sched_queue *queue, double now);
/* Counts the request's tokens up to `end` as served to its tenant. Tokens that are computed again count once. */
void sched_queue_charge(sched_request *request, int32_t end);

#endif
