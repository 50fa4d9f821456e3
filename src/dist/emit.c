/* A schedule becomes a program for each rank: in each stage first the exchange, then the tiles, then the merges. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "dist/plan.h"

/* A block that a rank has for a while. */
typedef struct guest {
  int32_t tensor, owner, group;
  int32_t from; /* of a partial result that came: its sender; else -1 */
  int32_t last; /* stage of its last use */
  int32_t slot; /* -1 = not yet, or no more */
  int32_t order;
  bool in_flight;
  int64_t piece, pieces;
} guest;

typedef struct emitter {
  ga_dist_plan *plan;
  dist_program *program;
  int32_t rank, stage;
  const dist_travel **travels; /* of this rank, by stage */
  const dist_work **works;     /* the same, those with tiles */
  int64_t n_travels, n_works;
  int64_t travel_at, work_at; /* the first of this stage */
  bool has_results;           /* some travel brings one here */
  guest *guests;
  int64_t n_guests, guest_room;
  int32_t *index;     /* [index_size] hash table of guests: their number + 1, 0 = none */
  int64_t index_size; /* a power of two */
  guest **by_last;    /* [n_guests] guests in the order of their last use */
  int64_t free_at;    /* of by_last: the first of this stage */
  bool *slot_used;    /* [program->slot_room] */
  int64_t used_room;
  int32_t own_order[DIST_OWN_SLOTS];
} emitter;

static ga_status add_step(emitter *e, dist_step s) {
  dist_program *p = e->program;
  s.stage = e->stage;
  GA_TRY(dist_grow(&p->steps, p->n_steps, &p->room, sizeof *p->steps, "steps of a plan"));
  p->steps[p->n_steps++] = s;
  return GA_OK;
}

static dist_heads heads_of_block(const dist_problem *p, int32_t tensor, int32_t group) {
  const dist_heads q = dist_q_group(p, group);
  return dist_is_of_keys(tensor) ? dist_kv_of(p, q.begin, q.end - q.begin) : q;
}

/* An open result is summed in its memory; any other block travels. */
static int64_t bytes_of_block(const ga_dist_plan *plan, const guest *g, bool open) {
  const dist_heads h = heads_of_block(&plan->p, g->tensor, g->group);
  int64_t rows = 0;
  for (int64_t i = 0; i < g->pieces; i++)
    rows += dist_stretch_at(dist_layout_of(&plan->p, g->tensor), g->owner, plan->pieces[g->piece + i])->count;
  const int32_t dtype = open ? dist_dtype_of(&plan->p, g->tensor) : dist_sent_dtype(&plan->p, g->tensor);
  return rows * (h.end - h.begin) * dist_row_bytes_in(&plan->p, g->tensor, dtype);
}

/* The smallest free slot that is large enough, else the largest, which grows. */
static ga_status take_slot(emitter *e, int64_t bytes, int32_t *slot) {
  dist_program *p = e->program;
  int32_t best = -1;
  for (int32_t i = DIST_OWN_SLOTS; i < p->n_slots; i++) {
    if (e->slot_used[i]) continue;
    const bool fits = p->slot_bytes[i] >= bytes, best_fits = best >= 0 && p->slot_bytes[best] >= bytes;
    if (best < 0 || (fits && !best_fits) || (fits == best_fits && (p->slot_bytes[i] < p->slot_bytes[best]) == fits))
      best = i;
  }
  if (best < 0) {
    int64_t room = p->slot_room;
    GA_TRY(dist_grow(&p->slot_bytes, p->n_slots, &room, sizeof *p->slot_bytes, "slots of a plan"));
    p->slot_room = (int32_t)room;
    GA_TRY(dist_grow(&e->slot_used, p->n_slots, &e->used_room, sizeof *e->slot_used, "slots of a plan"));
    best = p->n_slots++;
  }
  p->slot_bytes[best] = ga_max_i64(p->slot_bytes[best], bytes);
  e->slot_used[best] = true;
  *slot = best;
  return GA_OK;
}

/* Where a guest stands in the table, or would stand. */
static int32_t *place_of_guest(const emitter *e, int32_t tensor, int32_t owner, int32_t group, int32_t from) {
  const int32_t key[4] = {tensor, owner, group, from};
  uint64_t at = ga_fnv64(GA_FNV64_START, key, sizeof key);
  for (;; at++) {
    int32_t *place = &e->index[at & (uint64_t)(e->index_size - 1)];
    if (!*place) return place;
    const guest *g = &e->guests[*place - 1];
    if (g->tensor == tensor && g->owner == owner && g->group == group && g->from == from) return place;
  }
}

static guest *find_guest(emitter *e, int32_t tensor, int32_t owner, int32_t group, int32_t from) {
  const int32_t *place = place_of_guest(e, tensor, owner, group, from);
  return *place ? &e->guests[*place - 1] : NULL;
}

static ga_status add_guest(emitter *e, const dist_travel *t, int32_t from, int32_t last) {
  GA_TRY(dist_grow(&e->guests, e->n_guests, &e->guest_room, sizeof *e->guests, "blocks of a rank"));
  e->guests[e->n_guests++] = (guest){.tensor = t->tensor,
                                     .owner = t->owner,
                                     .group = t->group,
                                     .from = from,
                                     .last = last,
                                     .slot = -1,
                                     .piece = t->piece,
                                     .pieces = t->pieces};
  int32_t *place = place_of_guest(e, t->tensor, t->owner, t->group, from);
  if (!*place) *place = (int32_t)e->n_guests;
  return GA_OK;
}

static void use_until(emitter *e, int32_t tensor, int32_t owner, int32_t group, int32_t stage) {
  guest *g = find_guest(e, tensor, owner, group, -1);
  if (g && g->last < stage) g->last = stage;
}

/* The blocks that this rank will have, each with the stage of its last use. */
static ga_status find_guests(emitter *e) {
  const bool backward = e->plan->p.flags & GA_DIST_BACKWARD;
  for (int64_t i = 0; i < e->n_travels; i++) {
    const dist_travel *t = e->travels[i];
    const bool result = dist_is_result(t->tensor);
    if (t->to == e->rank) GA_TRY(add_guest(e, t, result ? t->from : -1, result ? t->merge_stage : t->stage));
    if (t->from == e->rank && result) GA_TRY(add_guest(e, t, -1, t->stage));
  }
  for (int64_t i = 0; i < e->n_travels; i++) {
    const dist_travel *t = e->travels[i];
    if (t->from == e->rank && t->owner != e->rank) use_until(e, t->tensor, t->owner, t->group, t->stage);
  }
  for (int64_t i = 0; i < e->n_works; i++) {
    const dist_work *w = e->works[i];
    use_until(e, backward ? DIST_G : DIST_Q, w->q_owner, w->group, w->stage);
    use_until(e, DIST_KV, w->kv_owner, w->group, w->stage);
  }
  return GA_OK;
}

static int by_last_use(const void *a, const void *b) {
  const guest *x = *(const guest *const *)a, *y = *(const guest *const *)b;
  return x->last != y->last ? (x->last < y->last ? -1 : 1) : x < y ? -1 : x > y;
}

/* Guests come once for each travel, at most. */
static ga_status make_index(emitter *e) {
  void *p;
  for (e->index_size = 16; e->index_size < 4 * e->n_travels;) e->index_size *= 2;
  GA_TRY(ga_mem_zalloc((size_t)e->index_size, sizeof *e->index, "blocks of a rank", &p));
  e->index = p;
  return GA_OK;
}

static ga_status sort_guests(emitter *e) {
  void *p;
  GA_TRY(ga_mem_zalloc((size_t)e->n_guests + 1, sizeof *e->by_last, "blocks of a rank", &p));
  e->by_last = p;
  for (int64_t i = 0; i < e->n_guests; i++) e->by_last[i] = &e->guests[i];
  qsort((void *)e->by_last, (size_t)e->n_guests, sizeof *e->by_last, by_last_use);
  e->free_at = 0;
  return GA_OK;
}

static int32_t own_slot(int32_t tensor) {
  switch (tensor) {
  case DIST_Q:
  case DIST_G: return DIST_SLOT_Q;
  case DIST_KV: return DIST_SLOT_KV;
  case DIST_DKV: return DIST_SLOT_DKV;
  default: return DIST_SLOT_OUT;
  }
}

static ga_status block_step(emitter *e, int32_t kind, const guest *g, int32_t peer) {
  const dist_heads h = heads_of_block(&e->plan->p, g->tensor, g->group);
  return add_step(e, (dist_step){.kind = kind,
                                 .tensor = g->tensor,
                                 .owner = g->owner,
                                 .head = h.begin,
                                 .heads = h.end - h.begin,
                                 .slot = g->slot,
                                 .peer = peer,
                                 .piece = g->piece,
                                 .pieces = g->pieces,
                                 .bytes = bytes_of_block(e->plan, g, kind == DIST_OPEN)});
}

/* The slot of a block, own or not, once it can be read; a partial result is opened at its first use. */
static ga_status ready_slot(emitter *e, int32_t tensor, int32_t owner, int32_t group, int32_t from, int32_t *slot,
                            int32_t **order) {
  *order = NULL;
  if (owner == e->rank && from < 0) {
    *slot = own_slot(tensor);
    *order = &e->own_order[*slot];
    return GA_OK;
  }
  guest *g = find_guest(e, tensor, owner, group, from);
  GA_REQUIRE(g && (g->slot >= 0 || (dist_is_result(tensor) && from < 0)), GA_ERR_INTERNAL,
             "dist: rank %d has no block of tensor %d, rank %d, group %d", e->rank, tensor, owner, group);
  if (g->slot < 0) {
    GA_TRY(take_slot(e, bytes_of_block(e->plan, g, true), &g->slot));
    GA_TRY(block_step(e, DIST_OPEN, g, -1));
  }
  if (g->in_flight) {
    GA_TRY(add_step(e, (dist_step){.kind = DIST_WAIT, .slot = g->slot}));
    g->in_flight = false;
  }
  *slot = g->slot;
  *order = &g->order;
  return GA_OK;
}

/* --- the parts of a stage --- */

static ga_status emit_exchange(emitter *e) {
  int32_t slot, *order;
  const int64_t begin = e->travel_at;
  while (e->travel_at < e->n_travels && e->travels[e->travel_at]->stage == e->stage) e->travel_at++;
  for (int64_t i = begin; i < e->travel_at; i++) {
    const dist_travel *t = e->travels[i];
    if (t->from == e->rank) GA_TRY(ready_slot(e, t->tensor, t->owner, t->group, -1, &slot, &order));
  }
  for (int64_t i = begin; i < e->travel_at; i++) {
    const dist_travel *t = e->travels[i];
    if (t->from == e->rank) {
      GA_TRY(ready_slot(e, t->tensor, t->owner, t->group, -1, &slot, &order));
      const guest sent = {.tensor = t->tensor,
                          .owner = t->owner,
                          .group = t->group,
                          .slot = slot,
                          .piece = t->piece,
                          .pieces = t->pieces};
      GA_TRY(block_step(e, DIST_SEND, &sent, t->to));
      continue;
    }
    guest *g = find_guest(e, t->tensor, t->owner, t->group, dist_is_result(t->tensor) ? t->from : -1);
    GA_TRY(take_slot(e, bytes_of_block(e->plan, g, false), &g->slot));
    GA_TRY(block_step(e, DIST_RECEIVE, g, t->from));
    g->in_flight = true;
  }
  return GA_OK;
}

static ga_status emit_tile(emitter *e, const dist_work *w, int32_t i, int32_t j) {
  const bool backward = e->plan->p.flags & GA_DIST_BACKWARD;
  const dist_heads h = dist_q_group(&e->plan->p, w->group);
  int32_t *order;
  dist_step s = {.kind = DIST_TILE,
                 .head = h.begin,
                 .heads = h.end - h.begin,
                 .q_owner = w->q_owner,
                 .kv_owner = w->kv_owner,
                 .q_stretch = i,
                 .k_stretch = j,
                 .slot_dkv = -1};
  GA_TRY(ready_slot(e, backward ? DIST_G : DIST_Q, w->q_owner, w->group, -1, &s.slot_q, &order));
  GA_TRY(ready_slot(e, DIST_KV, w->kv_owner, w->group, -1, &s.slot_kv, &order));
  GA_TRY(ready_slot(e, backward ? DIST_DQ : DIST_O, w->q_owner, w->group, -1, &s.slot, &order));
  s.order = (*order)++;
  if (backward) {
    GA_TRY(ready_slot(e, DIST_DKV, w->kv_owner, w->group, -1, &s.slot_dkv, &order));
    s.order_dkv = (*order)++;
  }
  return add_step(e, s);
}

static ga_status emit_work(emitter *e, const dist_work *w) {
  const dist_problem *p = &e->plan->p;
  const int64_t q_end = dist_work_end(p->q, w->q_owner, w->q_stretch),
                k_end = dist_work_end(p->kv, w->kv_owner, w->k_stretch);
  for (int64_t i = dist_work_begin(w->q_stretch); i < q_end; i++) {
    const dist_stretch *q = dist_stretch_at(p->q, w->q_owner, i);
    int64_t j = ga_max_i64(dist_work_begin(w->k_stretch), dist_first_of_doc(p->kv, w->kv_owner, q->doc));
    for (; j < k_end && dist_stretch_at(p->kv, w->kv_owner, j)->doc == q->doc; j++)
      if (dist_sees(p, q, dist_stretch_at(p->kv, w->kv_owner, j))) GA_TRY(emit_tile(e, w, (int32_t)i, (int32_t)j));
  }
  return GA_OK;
}

static ga_status emit_tiles(emitter *e) {
  for (; e->work_at < e->n_works && e->works[e->work_at]->stage == e->stage; e->work_at++)
    GA_TRY(emit_work(e, e->works[e->work_at]));
  return GA_OK;
}

static ga_status emit_merges(emitter *e) {
  for (int64_t i = 0; i < e->n_travels && e->has_results; i++) {
    const dist_travel *t = e->travels[i];
    if (!dist_is_result(t->tensor) || t->to != e->rank || t->merge_stage != e->stage) continue;
    const dist_heads h = heads_of_block(&e->plan->p, t->tensor, t->group);
    dist_step s = {.kind = DIST_MERGE,
                   .tensor = t->tensor,
                   .owner = t->owner,
                   .head = h.begin,
                   .heads = h.end - h.begin,
                   .peer = t->from,
                   .piece = t->piece,
                   .pieces = t->pieces};
    int32_t *order;
    GA_TRY(ready_slot(e, t->tensor, t->owner, t->group, t->from, &s.from, &order));
    GA_TRY(ready_slot(e, t->tensor, t->owner, t->group, -1, &s.slot, &order));
    s.order = (*order)++;
    GA_TRY(add_step(e, s));
  }
  return GA_OK;
}

/* A block that was relayed here and is used no more is let go in any case. */
static ga_status emit_frees(emitter *e) {
  for (; e->free_at < e->n_guests && e->by_last[e->free_at]->last == e->stage; e->free_at++) {
    guest *g = e->by_last[e->free_at];
    if (g->slot < 0) continue;
    if (g->in_flight) GA_TRY(add_step(e, (dist_step){.kind = DIST_WAIT, .slot = g->slot}));
    GA_TRY(add_step(e, (dist_step){.kind = DIST_FREE, .slot = g->slot}));
    e->slot_used[g->slot] = false;
    g->slot = -1;
  }
  return GA_OK;
}

static ga_status open_own(emitter *e) {
  const dist_problem *p = &e->plan->p;
  const bool backward = p->flags & GA_DIST_BACKWARD;
  GA_TRY(add_step(e, (dist_step){.kind = DIST_OPEN,
                                 .tensor = backward ? DIST_DQ : DIST_O,
                                 .owner = e->rank,
                                 .heads = p->q_heads,
                                 .slot = DIST_SLOT_OUT,
                                 .peer = -1}));
  if (!backward) return GA_OK;
  return add_step(e, (dist_step){.kind = DIST_OPEN,
                                 .tensor = DIST_DKV,
                                 .owner = e->rank,
                                 .heads = p->kv_heads,
                                 .slot = DIST_SLOT_DKV,
                                 .peer = -1});
}

static ga_status emit_rank(emitter *e) {
  dist_program *p = e->program;
  p->n_slots = DIST_OWN_SLOTS;
  int64_t room = 0;
  GA_TRY(dist_grow(&p->slot_bytes, 0, &room, sizeof *p->slot_bytes, "slots of a plan"));
  p->slot_room = (int32_t)room;
  GA_TRY(make_index(e));
  GA_TRY(find_guests(e));
  GA_TRY(sort_guests(e));
  e->stage = 0;
  GA_TRY(open_own(e));
  for (; e->stage < e->plan->stages; e->stage++) {
    GA_TRY(emit_exchange(e));
    GA_TRY(emit_tiles(e));
    GA_TRY(emit_merges(e));
    GA_TRY(emit_frees(e));
  }
  return GA_OK;
}

static int travel_order(const void *a, const void *b) {
  const dist_travel *x = *(const dist_travel *const *)a, *y = *(const dist_travel *const *)b;
  return x->stage != y->stage ? (x->stage < y->stage ? -1 : 1) : x < y ? -1 : x > y;
}

static int work_order(const void *a, const void *b) {
  const dist_work *x = *(const dist_work *const *)a, *y = *(const dist_work *const *)b;
  return x->stage != y->stage ? (x->stage < y->stage ? -1 : 1) : x < y ? -1 : x > y;
}

/* What each rank takes part in, by stage: ranks' lists lie one behind the other. */
typedef struct rank_lists {
  const dist_travel **travels;
  const dist_work **works;
  int64_t *travel_start, *work_start; /* [ranks + 1] */
} rank_lists;

static void shift_starts(int64_t *start, int32_t ranks) {
  for (int32_t r = ranks; r > 0; r--) start[r] = start[r - 1];
  start[0] = 0;
}

/* Counts, turns counts into places, stores; the places then stand at the ends, which are the next ones' begins. */
static void list_travels(const dist_schedule *s, int32_t ranks, const dist_travel **sorted, rank_lists *l) {
  int64_t *const start = l->travel_start;
  for (int64_t i = 0; i < s->n_travels; i++) sorted[i] = &s->travels[i];
  qsort((void *)sorted, (size_t)s->n_travels, sizeof *sorted, travel_order);
  for (int64_t i = 0; i < s->n_travels; i++) start[sorted[i]->from + 1]++, start[sorted[i]->to + 1]++;
  for (int32_t r = 0; r < ranks; r++) start[r + 1] += start[r];
  for (int64_t i = 0; i < s->n_travels; i++) {
    l->travels[start[sorted[i]->from]++] = sorted[i];
    l->travels[start[sorted[i]->to]++] = sorted[i];
  }
  shift_starts(start, ranks);
}

static void list_works(const dist_schedule *s, int32_t ranks, const dist_work **sorted, rank_lists *l) {
  int64_t *const start = l->work_start;
  int64_t n = 0;
  for (int64_t i = 0; i < s->n_works; i++)
    if (s->works[i].sees) sorted[n++] = &s->works[i];
  qsort((void *)sorted, (size_t)n, sizeof *sorted, work_order);
  for (int64_t i = 0; i < n; i++) start[sorted[i]->rank + 1]++;
  for (int32_t r = 0; r < ranks; r++) start[r + 1] += start[r];
  for (int64_t i = 0; i < n; i++) l->works[start[sorted[i]->rank]++] = sorted[i];
  shift_starts(start, ranks);
}

static ga_status make_lists(const dist_schedule *s, int32_t ranks, rank_lists *l) {
  void *p, *sorted;
  GA_TRY(ga_mem_zalloc(2 * (size_t)s->n_travels + 1, sizeof *l->travels, "travels of ranks", &p));
  l->travels = p;
  GA_TRY(ga_mem_zalloc((size_t)s->n_works + 1, sizeof *l->works, "works of ranks", &p));
  l->works = p;
  GA_TRY(ga_mem_zalloc((size_t)ranks + 1, sizeof *l->travel_start, "ranks", &p));
  l->travel_start = p;
  GA_TRY(ga_mem_zalloc((size_t)ranks + 1, sizeof *l->work_start, "ranks", &p));
  l->work_start = p;
  GA_TRY(ga_mem_zalloc((size_t)(s->n_travels + s->n_works) + 1, sizeof(void *), "a sorted schedule", &sorted));
  list_travels(s, ranks, sorted, l);
  list_works(s, ranks, sorted, l);
  ga_mem_free(sorted);
  return GA_OK;
}

static void free_lists(const rank_lists *l) {
  ga_mem_free((void *)l->travels);
  ga_mem_free((void *)l->works);
  ga_mem_free(l->travel_start);
  ga_mem_free(l->work_start);
}

static void start_rank(emitter *e, const rank_lists *l) {
  const int32_t r = e->rank;
  e->program = &e->plan->programs[r];
  e->travels = l->travels + l->travel_start[r], e->n_travels = l->travel_start[r + 1] - l->travel_start[r];
  e->works = l->works + l->work_start[r], e->n_works = l->work_start[r + 1] - l->work_start[r];
  e->n_guests = e->travel_at = e->work_at = 0;
  e->has_results = false;
  for (int64_t i = 0; i < e->n_travels; i++)
    if (e->travels[i]->to == r && dist_is_result(e->travels[i]->tensor)) e->has_results = true;
  memset(e->own_order, 0, sizeof e->own_order);
}

static int32_t count_stages(const dist_schedule *s) {
  int32_t last = 0;
  for (int64_t i = 0; i < s->n_works; i++) last = s->works[i].stage > last ? s->works[i].stage : last;
  for (int64_t i = 0; i < s->n_travels; i++) {
    const dist_travel *t = &s->travels[i];
    last = t->stage > last ? t->stage : last;
    last = t->merge_stage > last ? t->merge_stage : last;
  }
  return last + 1;
}

ga_status dist_emit(ga_dist_plan *plan, const dist_schedule *s) {
  emitter e = {.plan = plan};
  rank_lists lists = {0};
  ga_status status;
  plan->stages = count_stages(s);
  GA_TRY_OUT(make_lists(s, plan->p.ranks, &lists));
  GA_TRY_OUT(dist_grow(&e.slot_used, 0, &e.used_room, sizeof *e.slot_used, "slots of a plan"));
  for (e.rank = 0; e.rank < plan->p.ranks; e.rank++) {
    start_rank(&e, &lists);
    memset(e.slot_used, 0, (size_t)e.used_room * sizeof *e.slot_used);
    status = emit_rank(&e);
    ga_mem_free(e.index);
    ga_mem_free((void *)e.by_last);
    e.index = NULL, e.by_last = NULL;
    if (status == GA_OK) status = dist_find_first(plan, e.rank);
    if (status != GA_OK) break;
  }
out:
  free_lists(&lists);
  ga_mem_free(e.guests);
  ga_mem_free(e.slot_used);
  return status;
}
