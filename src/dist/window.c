#include "dist/window.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "dist/gather.h"

#define ALIGN ((int64_t)256)

/* --- places --- */

/* LSE and parts that begin at multiples of ALIGN take so much at most. */
int64_t dist_device_bytes(int64_t bytes) {
  return (int64_t)ga_round_up((uint64_t)bytes, ALIGN) + ALIGN * (BLOCK_PARTS + 1);
}

void dist_device_align(block_view *v, void *memory) {
  unsigned char *at = memory;
  if (v->lse && memory == (void *)v->lse)
    at += ga_round_up((uint64_t)(v->rows * v->heads) * sizeof *v->lse, (uint64_t)ALIGN);
  for (int c = 0; c < v->n_parts; c++) {
    v->part[c] = at;
    at += ga_round_up((uint64_t)(v->rows * v->heads * v->dim[c] * dist_dtype_bytes(v->dtype)), (uint64_t)ALIGN);
  }
}

size_t dist_device_extent(const block_view *v) {
  uint64_t bytes = 0;
  if (v->lse) bytes = ga_round_up((uint64_t)(v->rows * v->heads) * sizeof *v->lse, (uint64_t)ALIGN);
  for (int c = 0; c < v->n_parts; c++)
    bytes += ga_round_up((uint64_t)(v->rows * v->heads * v->dim[c] * dist_dtype_bytes(v->dtype)), (uint64_t)ALIGN);
  return bytes;
}

block_view dist_device_view(const ga_dist_plan *plan, const dist_step *s, void *memory) {
  block_view v = dist_view_of_step(plan, s, memory);
  dist_device_align(&v, memory);
  return v;
}

static int64_t counters_bytes(int32_t ranks) {
  return (int64_t)ga_round_up(2 * WINDOW_LINE * (uint64_t)ranks + WINDOW_PROGRESS, (uint64_t)ALIGN);
}

static uint32_t *counter(const dist_window *w, int32_t owner, int32_t index) {
  return (uint32_t *)(void *)((char *)w->sides[owner].memory.data + (size_t)index * WINDOW_LINE);
}

uint32_t *dist_window_arrived(const dist_window *w, int32_t owner, int32_t from) { return counter(w, owner, from); }
uint32_t *dist_window_ready(const dist_window *w, int32_t owner, int32_t from) {
  return counter(w, owner, w->plan->p.ranks + from);
}

uint32_t *dist_window_progress(const dist_window *w, int32_t stream) {
  return counter(w, w->comm->rank, 2 * w->plan->p.ranks + stream);
}

void *dist_window_slot(const dist_window *w, int32_t rank, int32_t slot) {
  return (char *)w->sides[rank].memory.data + w->sides[rank].slot_at[slot];
}

void *dist_window_keys(const dist_window *w, int32_t rank, int part) {
  return (char *)w->sides[rank].memory.data + w->sides[rank].keys_at[part];
}

void *dist_window_take(const dist_window *w, int32_t rank, int64_t n) {
  return (char *)w->sides[rank].memory.data + w->sides[rank].take_at[n];
}

/* --- making --- */

/* Slots lie one behind the other. slot_at: NULL, or [n_slots]. */
static int64_t place_slots(const ga_dist_plan *plan, int32_t rank, int64_t *slot_at) {
  const dist_program *g = &plan->programs[rank];
  int64_t at = counters_bytes(plan->p.ranks);
  for (int32_t i = 0; i < g->n_slots; i++) {
    if (slot_at) slot_at[i] = at;
    if (i >= DIST_OWN_SLOTS) at += dist_device_bytes(g->slot_bytes[i]);
  }
  return at;
}

/* Gathered keys take no slots, and each gradient has memory of its own. */
static int64_t place_gathered(const dist_problem *p, int64_t keys_at[GATHER_PARTS]) {
  int64_t at = counters_bytes(p->ranks);
  for (int c = 0; c < GATHER_PARTS; c++) {
    keys_at[c] = at;
    at += (int64_t)ga_round_up((uint64_t)dist_gather_bytes(p, c, p->dtype), (uint64_t)ALIGN);
  }
  return at;
}

static bool is_take(const ga_dist_plan *plan, const dist_step *s) {
  return s->kind == DIST_RECEIVE && (s->tensor == DIST_DKV || !dist_gathers(&plan->p));
}

int64_t dist_window_bytes(const ga_dist_plan *plan, int32_t rank) {
  const dist_program *g = &plan->programs[rank];
  int64_t keys_at[GATHER_PARTS];
  if (!dist_gathers(&plan->p)) return place_slots(plan, rank, NULL);
  int64_t bytes = place_gathered(&plan->p, keys_at);
  for (int64_t i = 0; i < g->n_steps; i++)
    if (is_take(plan, &g->steps[i])) bytes += dist_device_bytes(g->steps[i].bytes);
  return bytes;
}

/* The receives of a rank from `peer`, or from anybody with peer = -1. at: where gradients begin. */
static ga_status list_takes(const ga_dist_plan *plan, int32_t rank, int32_t peer, int64_t at, window_side *s) {
  const dist_program *g = &plan->programs[rank];
  void *p, *q;
  GA_TRY(ga_mem_zalloc((size_t)g->n_steps + 1, sizeof *s->takes, "receives of a rank", &p));
  s->takes = p;
  GA_TRY(ga_mem_zalloc((size_t)g->n_steps + 1, sizeof *s->take_at, "receives of a rank", &q));
  s->take_at = q;
  for (int64_t i = 0; i < g->n_steps; i++) {
    const dist_step *step = &g->steps[i];
    if (!is_take(plan, step)) continue;
    if (peer < 0 || step->peer == peer) {
      s->takes[s->n_takes] = step;
      s->take_at[s->n_takes++] = at;
    }
    at += dist_device_bytes(step->bytes);
  }
  return GA_OK;
}

static ga_status place_side(const ga_dist_plan *plan, int32_t rank, int32_t me, window_side *s) {
  void *p;
  int64_t behind_keys = 0;
  if (dist_gathers(&plan->p)) {
    behind_keys = place_gathered(&plan->p, s->keys_at);
  } else {
    GA_TRY(ga_mem_zalloc((size_t)plan->programs[rank].n_slots, sizeof *s->slot_at, "slots of a rank", &p));
    s->slot_at = p;
    (void)place_slots(plan, rank, s->slot_at);
  }
  return list_takes(plan, rank, rank == me ? -1 : me, behind_keys, s);
}

static ga_status map_all(dist_window *w, const int *fds, const uint64_t *bytes) {
  for (int32_t r = 0; r < w->plan->p.ranks; r++)
    if (r != w->comm->rank)
      GA_TRY(w->device->ops->share_open(w->device, fds[r], (size_t)bytes[r], &w->sides[r].memory));
  return GA_OK;
}

/* Ranks that have failed so far have ended the communicator, so that none waits here for long. An error of a mapping is
 * in *mapped. */
static ga_status trade_memory(dist_window *w, ga_status *mapped) {
  const int32_t ranks = w->plan->p.ranks;
  const uint64_t mine = w->sides[w->comm->rank].memory.bytes;
  void *p, *q;
  *mapped = GA_OK;
  GA_TRY(ga_mem_zalloc((size_t)ranks, sizeof(int), "ranks", &p));
  int *const fds = p;
  for (int32_t r = 0; r < ranks; r++) fds[r] = -1;
  ga_status status = ga_mem_zalloc((size_t)ranks, sizeof mine, "ranks", &q);
  if (status == GA_OK) {
    status = ga_comm_all_gather(w->comm, &mine, sizeof mine, q);
    if (status == GA_OK) status = w->comm->calls->trade_fds(w->comm, w->sides[w->comm->rank].memory.fd, fds);
    if (status == GA_OK)
      *mapped = map_all(w, fds, q);
    else if (status == GA_ERR_UNSUPPORTED) /* on all ranks */
      *mapped = status, status = GA_OK;
    ga_mem_free(q);
  }
  for (int32_t r = 0; r < ranks; r++)
    if (fds[r] >= 0) (void)close(fds[r]);
  ga_mem_free(p);
  return status;
}

static void close_memory(dist_window *w) {
  for (int32_t r = 0; w->sides && r < w->plan->p.ranks; r++) {
    ga_shared *m = &w->sides[r].memory;
    if (m->data && w->copies == DIST_COPIES_PEER) w->device->ops->share_close(w->device, m);
    if (m->data && w->copies != DIST_COPIES_PEER) w->device->ops->free(w->device, m->data);
    *m = (ga_shared){.fd = -1};
  }
}

static ga_status make_own_shared(dist_window *w) {
  const ga_device_ops *ops = w->device->ops;
  bool allowed;
  GA_TRY(ga_peers_allowed(&allowed));
  GA_REQUIRE(allowed, GA_ERR_UNSUPPORTED, "GA_PEER is off");
  GA_REQUIRE(ops->share_alloc, GA_ERR_UNSUPPORTED, "%s shares no memory with other devices", w->device->name);
  return ops->share_alloc(w->device, (size_t)dist_window_bytes(w->plan, w->comm->rank),
                          &w->sides[w->comm->rank].memory);
}

/* Each rank maps the memory of all others, or none does: *can then has the first error. */
static ga_status share_memory(dist_window *w, ga_status *can) {
  ga_status status, mapped;
  w->copies = DIST_COPIES_PEER;
  *can = dist_copies_agree(w->comm, make_own_shared(w), &status);
  if (status != GA_OK || *can != GA_OK) return status;
  GA_TRY(trade_memory(w, &mapped));
  *can = dist_copies_agree(w->comm, mapped, &status);
  return status;
}

/* What a device or a host cannot do, and not what it has too little of. */
static bool may_go_without(ga_status status) { return status == GA_ERR_UNSUPPORTED || status == GA_ERR_DEVICE; }

/* A program may make an executor for each shape. */
static void warn_once(const dist_window *w) {
  static atomic_flag told = ATOMIC_FLAG_INIT;
  if (w->comm->rank == 0 && !atomic_flag_test_and_set(&told))
    ga_log(GA_LOG_WARN, "dist: the devices do not write into each other's memory (%s): blocks go through host memory",
           w->why_host);
}

static ga_status make_memory_of_ranks(dist_window *w, dist_copies wanted) {
  ga_status can;
  if (wanted == DIST_COPIES_AUTO || wanted == DIST_COPIES_PEER) {
    GA_TRY(share_memory(w, &can));
    if (can == GA_OK) return GA_OK;
    close_memory(w);
    if (wanted == DIST_COPIES_PEER || !may_go_without(can))
      return ga_fail_in(can, "dist: the devices do not write into each other's memory");
    (void)snprintf(w->why_host, sizeof w->why_host, "%s", ga_error_text());
    warn_once(w);
  } else if (wanted == DIST_COPIES_HOST) {
    (void)snprintf(w->why_host, sizeof w->why_host, "it was asked for");
  }
  ga_shared *own = &w->sides[w->comm->rank].memory;
  w->copies = wanted == DIST_COPIES_LINK ? DIST_COPIES_LINK : DIST_COPIES_HOST;
  own->bytes = (size_t)dist_window_bytes(w->plan, w->comm->rank);
  return w->device->ops->alloc_zeroed(w->device, own->bytes, &own->data);
}

ga_status dist_window_open(const ga_dist_plan *plan, ga_comm *comm, ga_device *device, dist_copies wanted,
                           dist_window *w) {
  void *p;
  *w = (dist_window){.plan = plan, .comm = comm, .device = device};
  GA_TRY(ga_mem_zalloc((size_t)plan->p.ranks, sizeof *w->sides, "ranks", &p));
  w->sides = p;
  for (int32_t r = 0; r < plan->p.ranks; r++) w->sides[r].memory.fd = -1;
  for (int32_t r = 0; r < plan->p.ranks; r++) GA_TRY(place_side(plan, r, comm->rank, &w->sides[r]));
  return make_memory_of_ranks(w, wanted);
}

void dist_window_close(dist_window *w) {
  close_memory(w);
  for (int32_t r = 0; w->sides && r < w->plan->p.ranks; r++) {
    ga_mem_free(w->sides[r].slot_at);
    ga_mem_free((void *)w->sides[r].takes);
    ga_mem_free(w->sides[r].take_at);
  }
  ga_mem_free(w->sides);
  w->sides = NULL;
}
