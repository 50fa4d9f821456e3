#include "dist/window.h"

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
  return (uint32_t *)(void *)((char *)w->memory.of[owner].data + (size_t)index * WINDOW_LINE);
}

uint32_t *dist_window_arrived(const dist_window *w, int32_t owner, int32_t from) { return counter(w, owner, from); }
uint32_t *dist_window_ready(const dist_window *w, int32_t owner, int32_t from) {
  return counter(w, owner, w->plan->p.ranks + from);
}

uint32_t *dist_window_progress(const dist_window *w, int32_t stream) {
  return counter(w, w->comm->rank, 2 * w->plan->p.ranks + stream);
}

void *dist_window_slot(const dist_window *w, int32_t rank, int32_t slot) {
  return (char *)w->memory.of[rank].data + w->sides[rank].slot_at[slot];
}

void *dist_window_keys(const dist_window *w, int32_t rank, int part) {
  return (char *)w->memory.of[rank].data + w->sides[rank].keys_at[part];
}

void *dist_window_take(const dist_window *w, int32_t rank, int64_t n) {
  return (char *)w->memory.of[rank].data + w->sides[rank].take_at[n];
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

/* --- heads are split --- */

int64_t dist_view_bytes(const block_view *v) {
  return dist_device_bytes(v->rows * v->heads * dist_row_bytes_in(v->p, v->tensor, v->dtype));
}

block_view dist_split_view(const dist_problem *p, int32_t rank, int32_t tensor, void *memory) {
  const int64_t rows = dist_is_of_keys(tensor) ? p->kv->tokens : p->q->tokens;
  const dist_heads q = dist_q_group(p, rank), h = dist_is_of_keys(tensor) ? dist_kv_of(p, q.begin, q.end - q.begin) : q;
  block_view v = dist_view_of_rows(p, tensor, rows, h, memory);
  if (memory) dist_device_align(&v, memory);
  return v;
}

/* memory NULL: without pointers. */
static block_view view_of_area(const dist_problem *p, int32_t rank, split_area area, void *memory) {
  const bool backward = p->flags & GA_DIST_BACKWARD;
  if (area == SPLIT_Q) return dist_split_view(p, rank, backward ? DIST_G : DIST_Q, memory);
  if (area == SPLIT_KV) return dist_split_view(p, rank, DIST_KV, memory);
  const int32_t tensor = area == SPLIT_DKV ? DIST_DKV : backward ? DIST_DQ : DIST_O;
  const dist_heads all = {0, area == SPLIT_DKV ? p->kv_heads : p->q_heads};
  block_view v = dist_view_of_rows(p, tensor, dist_layout_of(p, tensor)->rows[rank], all, memory);
  if (memory) dist_device_align(&v, memory);
  return v;
}

block_view dist_window_area(const dist_window *w, int32_t rank, split_area area) {
  return view_of_area(&w->plan->p, rank, area, (char *)w->memory.of[rank].data + w->sides[rank].split_at[area]);
}

static int64_t place_split(const dist_problem *p, int32_t rank, int64_t at[SPLIT_AREAS]) {
  int64_t bytes = counters_bytes(p->ranks);
  for (int a = 0; a < (p->flags & GA_DIST_BACKWARD ? SPLIT_AREAS : SPLIT_DKV); a++) {
    const block_view v = view_of_area(p, rank, (split_area)a, NULL);
    at[a] = bytes;
    bytes += dist_view_bytes(&v);
  }
  return bytes;
}

/* --- all plans --- */

static bool is_take(const ga_dist_plan *plan, const dist_step *s) {
  return s->kind == DIST_RECEIVE && (s->tensor == DIST_DKV || !dist_gathers(&plan->p));
}

int64_t dist_window_bytes(const ga_dist_plan *plan, int32_t rank) {
  const dist_program *g = &plan->programs[rank];
  int64_t keys_at[GATHER_PARTS], split_at[SPLIT_AREAS];
  if (plan->p.splits_heads) return place_split(&plan->p, rank, split_at);
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
  if (plan->p.splits_heads) {
    (void)place_split(&plan->p, rank, s->split_at);
    return GA_OK;
  }
  if (dist_gathers(&plan->p)) {
    behind_keys = place_gathered(&plan->p, s->keys_at);
  } else {
    GA_TRY(ga_mem_zalloc((size_t)plan->programs[rank].n_slots, sizeof *s->slot_at, "slots of a rank", &p));
    s->slot_at = p;
    (void)place_slots(plan, rank, s->slot_at);
  }
  return list_takes(plan, rank, rank == me ? -1 : me, behind_keys, s);
}

ga_status dist_window_open(const ga_dist_plan *plan, ga_comm *comm, ga_device *device, dist_copies wanted,
                           dist_window *w) {
  void *p;
  *w = (dist_window){.plan = plan, .comm = comm};
  GA_TRY(ga_mem_zalloc((size_t)plan->p.ranks, sizeof *w->sides, "ranks", &p));
  w->sides = p;
  for (int32_t r = 0; r < plan->p.ranks; r++) GA_TRY(place_side(plan, r, comm->rank, &w->sides[r]));
  return dist_rank_memory_open(comm, device, (size_t)dist_window_bytes(plan, comm->rank), wanted, &w->memory);
}

void dist_window_close(dist_window *w) {
  dist_rank_memory_close(&w->memory);
  for (int32_t r = 0; w->sides && r < w->plan->p.ranks; r++) {
    ga_mem_free(w->sides[r].slot_at);
    ga_mem_free((void *)w->sides[r].takes);
    ga_mem_free(w->sides[r].take_at);
  }
  ga_mem_free(w->sides);
  w->sides = NULL;
}
