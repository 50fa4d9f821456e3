#include "engine/sched_queue.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/status.h"

/* --- lists --- */

void sched_list_put(sched_list *list, sched_request *request, sched_request *before) {
  request->next = before;
  request->prev = before ? before->prev : list->last;
  *(request->prev ? &request->prev->next : &list->first) = request;
  *(before ? &before->prev : &list->last) = request;
}

void sched_list_take(sched_list *list, sched_request *request) {
  *(request->prev ? &request->prev->next : &list->first) = request->next;
  *(request->next ? &request->next->prev : &list->last) = request->prev;
  request->next = request->prev = NULL;
}

/* --- tenants --- */

static sched_tenant **tenant_bucket(const sched_queue *queue, uint64_t id) {
  return &queue->buckets[(uint32_t)ga_siphash(queue->key, id, NULL, 0) & (queue->n_buckets - 1)];
}

static sched_tenant *find_tenant(const sched_queue *queue, uint64_t id) {
  sched_tenant *tenant = *tenant_bucket(queue, id);
  while (tenant && tenant->id != id) tenant = tenant->chain;
  return tenant;
}

static ga_status grow_buckets(sched_queue *queue) {
  void *p;
  if (queue->n_tenants < queue->n_buckets) return GA_OK;
  sched_tenant **old = queue->buckets;
  const uint32_t n_old = queue->n_buckets, n = n_old ? n_old * 2 : 64;
  GA_TRY(ga_mem_zalloc(n, sizeof(sched_tenant *), "tenants", &p));
  queue->buckets = p;
  queue->n_buckets = n;
  for (uint32_t i = 0; i < n_old; i++) {
    for (sched_tenant *tenant = old[i], *next; tenant; tenant = next) {
      sched_tenant **bucket = tenant_bucket(queue, tenant->id);
      next = tenant->chain;
      tenant->chain = *bucket;
      *bucket = tenant;
    }
  }
  ga_mem_free(old);
  return GA_OK;
}

static void free_tenant(sched_queue *queue, sched_tenant *tenant) {
  sched_tenant **at = tenant_bucket(queue, tenant->id);
  while (*at != tenant) at = &(*at)->chain;
  *at = tenant->chain;
  queue->n_tenants--;
  ga_mem_free(tenant);
}

static void tenant_awakes(sched_queue *queue, sched_tenant *tenant) {
  *(tenant->older ? &tenant->older->newer : &queue->oldest) = tenant->newer;
  *(tenant->newer ? &tenant->newer->older : &queue->newest) = tenant->older;
  tenant->older = tenant->newer = NULL;
  queue->n_idle--;
}

static void tenant_idles(sched_queue *queue, sched_tenant *tenant) {
  tenant->older = queue->newest;
  *(queue->newest ? &queue->newest->newer : &queue->oldest) = tenant;
  queue->newest = tenant;
  if (++queue->n_idle <= SCHED_IDLE_TENANTS) return;
  sched_tenant *oldest = queue->oldest;
  tenant_awakes(queue, oldest);
  free_tenant(queue, oldest);
}

/* A new one is idle. */
static ga_status get_tenant(sched_queue *queue, uint64_t id, sched_tenant **out) {
  void *p;
  *out = find_tenant(queue, id);
  if (*out) return GA_OK;
  GA_TRY(grow_buckets(queue));
  GA_TRY(ga_mem_zalloc(1, sizeof(sched_tenant), "tenants", &p));
  sched_tenant *tenant = p, **bucket = tenant_bucket(queue, id);
  tenant->id = id;
  tenant->place = -1;
  tenant->chain = *bucket;
  *bucket = tenant;
  queue->n_tenants++;
  tenant_idles(queue, tenant);
  *out = tenant;
  return GA_OK;
}

/* The least count of those that wait. */
static double least_served(sched_queue *queue) {
  while (queue->tenants.n) {
    const sched_entry *top = &queue->tenants.entries[0];
    const double served = ((const sched_tenant *)top->item)->served;
    if (top->key.minor >= served) return served;
    sched_heap_move(&queue->tenants, 0, (sched_key){0, served, 0});
  }
  return queue->left;
}

/* Idle time earns no credit: a tenant that begins to wait is lifted to the least of the others. */
static void tenant_waits(sched_queue *queue, sched_tenant *tenant) {
  if (tenant->n_waiting++) return;
  const double least = least_served(queue);
  if (tenant->served < least) tenant->served = least;
  sched_heap_put(&queue->tenants, (sched_key){0, tenant->served, 0}, tenant, &tenant->place);
}

static void tenant_waits_less(sched_queue *queue, sched_tenant *tenant) {
  if (--tenant->n_waiting) return;
  sched_heap_take(&queue->tenants, tenant->place);
  queue->left = tenant->served;
}

void sched_queue_charge(sched_request *request, int32_t end) {
  if (end <= request->served) return;
  const int32_t from = request->served > request->n_found ? (int32_t)request->served : request->n_found;
  if (end > from) request->account->served += end - from;
  request->served = end;
}

/* --- lanes --- */

static sched_key lane_key(const sched_lane *lane) {
  return (sched_key){lane->priority, lane->tenant->served, lane->requests.first->arrival};
}

static ga_status get_lane(sched_tenant *tenant, int32_t priority, bool is_short, sched_lane **out) {
  void *p;
  for (*out = tenant->lanes; *out; *out = (*out)->next)
    if ((*out)->priority == priority && (*out)->is_short == is_short) return GA_OK;
  GA_TRY(ga_mem_zalloc(1, sizeof(sched_lane), "queue of requests", &p));
  sched_lane *lane = p;
  *lane =
      (sched_lane){.tenant = tenant, .next = tenant->lanes, .priority = priority, .is_short = is_short, .place = -1};
  tenant->lanes = *out = lane;
  return GA_OK;
}

static void free_lane(sched_lane *lane) {
  sched_lane **at = &lane->tenant->lanes;
  while (*at != lane) at = &(*at)->next;
  *at = lane->next;
  ga_mem_free(lane);
}

static sched_heap *heap_of(sched_queue *queue, const sched_lane *lane) {
  return lane->is_short ? &queue->short_lanes : &queue->lanes;
}

static void put_in_lane(sched_queue *queue, sched_lane *lane, sched_request *request) {
  sched_request *after = lane->requests.last;
  while (after && after->arrival > request->arrival) after = after->prev;
  sched_list_put(&lane->requests, request, after ? after->next : lane->requests.first);
  request->lane = lane;
  if (lane->place < 0)
    sched_heap_put(heap_of(queue, lane), lane_key(lane), lane, &lane->place);
  else if (lane->requests.first == request)
    sched_heap_move(heap_of(queue, lane), lane->place, lane_key(lane));
}

static void take_from_lane(sched_queue *queue, sched_request *request) {
  sched_lane *lane = request->lane;
  const bool was_first = lane->requests.first == request;
  request->lane = NULL;
  sched_list_take(&lane->requests, request);
  if (!lane->requests.first) {
    sched_heap_take(heap_of(queue, lane), lane->place);
    free_lane(lane);
  } else if (was_first) {
    sched_heap_move(heap_of(queue, lane), lane->place, lane_key(lane));
  }
}

/* --- the queue --- */

ga_status sched_queue_init(sched_queue *queue) {
  *queue = (sched_queue){.n_buckets = 0};
  ga_secret_keys(queue->key, GA_COUNT_OF(queue->key));
  return grow_buckets(queue);
}

void sched_queue_free(sched_queue *queue) {
  while (queue->oldest) {
    sched_tenant *tenant = queue->oldest;
    tenant_awakes(queue, tenant);
    free_tenant(queue, tenant);
  }
  ga_mem_free(queue->buckets);
  sched_heap_free(&queue->lanes);
  sched_heap_free(&queue->short_lanes);
  sched_heap_free(&queue->tenants);
  sched_heap_free(&queue->deadlines);
}

static void await_deadline(sched_queue *queue, sched_request *request) {
  if (request->first_deadline <= 0 || request->n_ids > request->n_prompt) return;
  sched_heap_put(&queue->deadlines, (sched_key){0, request->first_deadline, 0}, request, &request->at_deadline);
}

ga_status sched_queue_add(sched_queue *queue, sched_request *request) {
  sched_tenant *tenant;
  sched_lane *lane;
  GA_TRY(sched_heap_reserve(&queue->lanes, queue->lanes.n + 1));
  GA_TRY(sched_heap_reserve(&queue->short_lanes, queue->short_lanes.n + 1));
  GA_TRY(sched_heap_reserve(&queue->tenants, queue->tenants.n + 1));
  GA_TRY(sched_heap_reserve(&queue->deadlines, queue->n_requests + 1));
  GA_TRY(get_tenant(queue, request->tenant, &tenant));
  GA_TRY(get_lane(tenant, request->priority, request->n_short > 0, &lane));
  if (tenant->n_requests++ == 0) tenant_awakes(queue, tenant);
  tenant_waits(queue, tenant);
  request->account = tenant;
  request->at_deadline = -1;
  put_in_lane(queue, lane, request);
  await_deadline(queue, request);
  queue->n_requests++;
  queue->n_waiting++;
  return GA_OK;
}

void sched_queue_resume(sched_queue *queue, sched_request *request) {
  sched_request *after = queue->resumed.last;
  while (after && (after->priority > request->priority ||
                   (after->priority == request->priority && after->arrival > request->arrival)))
    after = after->prev;
  sched_list_put(&queue->resumed, request, after ? after->next : queue->resumed.first);
  await_deadline(queue, request);
  queue->n_waiting++;
}

void sched_queue_take(sched_queue *queue, sched_request *request) {
  if (request->lane) {
    take_from_lane(queue, request);
    tenant_waits_less(queue, request->account);
  } else {
    sched_list_take(&queue->resumed, request);
  }
  if (request->at_deadline >= 0) sched_heap_take(&queue->deadlines, request->at_deadline);
  queue->n_waiting--;
}

void sched_queue_leave(sched_queue *queue, sched_request *request) {
  sched_tenant *tenant = request->account;
  request->account = NULL;
  queue->n_requests--;
  if (--tenant->n_requests == 0) tenant_idles(queue, tenant);
}

/* The lane at the top of a heap, whose key is corrected; NULL: the heap is empty. */
static sched_lane *top_lane(sched_heap *heap) {
  sched_lane *lane = NULL;
  while (heap->n) {
    lane = heap->entries[0].item;
    const sched_key key = lane_key(lane);
    if (heap->entries[0].key.minor >= key.minor) break;
    sched_heap_move(heap, 0, key);
  }
  return lane;
}

static bool precedes(const sched_lane *a, const sched_lane *b) {
  const sched_key x = lane_key(a), y = lane_key(b);
  if (x.major != y.major) return x.major < y.major;
  return x.minor != y.minor ? x.minor < y.minor : x.last < y.last;
}

sched_request *sched_queue_short(sched_queue *queue) {
  const sched_lane *lane = top_lane(&queue->short_lanes);
  return lane ? lane->requests.first : NULL;
}

int32_t sched_queue_short_tokens(const sched_queue *queue, int32_t most) {
  const sched_lane *lane = queue->short_lanes.n ? queue->short_lanes.entries[0].item : NULL;
  int64_t n = 0;
  for (const sched_request *r = lane ? lane->requests.first : NULL; r && n < most; r = r->next) n += r->n_short;
  return n < most ? (int32_t)n : most;
}

int32_t sched_queue_n_eager(const sched_queue *queue) {
  int32_t n = queue->n_waiting;
  for (const sched_request *r = queue->resumed.first; r; r = r->next) n -= r->is_stalled;
  return n;
}

sched_request *sched_queue_head(sched_queue *queue) {
  const sched_lane *lane = top_lane(&queue->lanes), *brief = top_lane(&queue->short_lanes);
  if (brief && (!lane || precedes(brief, lane))) lane = brief;
  sched_request *resumed = queue->resumed.first;
  while (resumed && resumed->is_stalled) resumed = resumed->next;
  if (resumed && (!lane || resumed->priority <= lane->priority)) return resumed;
  return lane ? lane->requests.first : queue->resumed.first;
}

sched_request *sched_queue_expired(const sched_queue *queue, double now) {
  return queue->deadlines.n && queue->deadlines.entries[0].key.minor <= now ? queue->deadlines.entries[0].item : NULL;
}
