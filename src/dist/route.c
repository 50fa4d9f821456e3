/* Which block goes from whom to whom, and when: to each rank that computes with it, and the results back. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dist/plan.h"

/* A rank that computes with a block. */
typedef struct holder {
  int32_t rank, first, last; /* stages */
  bool sees;                 /* it has a tile that is not empty */
  bool *need;                /* [stretches of the block] */
} holder;

/* A work, by the block of one side. */
typedef struct by_block {
  int32_t owner, group, rank, stage;
  int64_t work;
} by_block;

typedef struct router {
  ga_dist_plan *plan;
  dist_schedule *s;
  by_block *order;
  holder *holders;
  int32_t n_holders, last_stage;
  bool *need; /* [holders x stretches] */
} router;

static int by_block_order(const void *a, const void *b) {
  const by_block *x = a, *y = b;
  const int64_t d[5] = {(int64_t)x->owner - y->owner, (int64_t)x->group - y->group, (int64_t)x->rank - y->rank,
                        (int64_t)x->stage - y->stage, x->work - y->work};
  for (int i = 0; i < 5; i++)
    if (d[i]) return d[i] < 0 ? -1 : 1;
  return 0;
}

static int by_first(const void *a, const void *b) {
  const holder *x = a, *y = b;
  return x->first != y->first ? (x->first < y->first ? -1 : 1) : x->rank - y->rank;
}

static int by_last(const void *a, const void *b) {
  const holder *x = a, *y = b;
  return x->last != y->last ? (x->last < y->last ? -1 : 1) : x->rank - y->rank;
}

/* Marks the stretches of one side that a work's tiles read. */
static void mark_need(const dist_problem *p, const dist_work *w, bool keys, bool *need) {
  const int64_t q_end = dist_work_end(p->q, w->q_owner, w->q_stretch),
                k_end = dist_work_end(p->kv, w->kv_owner, w->k_stretch);
  for (int64_t i = dist_work_begin(w->q_stretch); i < q_end; i++) {
    const dist_stretch *q = dist_stretch_at(p->q, w->q_owner, i);
    int64_t j = ga_max_i64(dist_work_begin(w->k_stretch), dist_first_of_doc(p->kv, w->kv_owner, q->doc));
    for (; j < k_end && dist_stretch_at(p->kv, w->kv_owner, j)->doc == q->doc; j++)
      if (dist_sees(p, q, dist_stretch_at(p->kv, w->kv_owner, j))) need[keys ? j : i] = true;
  }
}

static ga_status add_travel(router *r, dist_travel t, const bool *need) {
  ga_dist_plan *plan = r->plan;
  const int64_t n = dist_stretches(dist_layout_of(&plan->p, t.tensor), t.owner);
  t.piece = plan->n_pieces;
  for (int64_t i = 0; i < n; i++) {
    if (!need[i]) continue;
    GA_TRY(dist_grow(&plan->pieces, plan->n_pieces, &plan->piece_room, sizeof *plan->pieces, "pieces of a plan"));
    plan->pieces[plan->n_pieces++] = (int32_t)i;
  }
  t.pieces = plan->n_pieces - t.piece;
  if (!t.pieces) return GA_OK;
  GA_TRY(dist_grow(&r->s->travels, r->s->n_travels, &r->s->travel_room, sizeof *r->s->travels, "travels of a plan"));
  r->s->travels[r->s->n_travels++] = t;
  return GA_OK;
}

/* Inputs. A relay goes along the holders in the order of their stages, in two levels through the first of each inner
 * ring; what is sent on is what those behind need. */
static ga_status send_inputs(router *r, int32_t tensor, int32_t owner, int32_t group, int32_t move) {
  const ga_dist_grid *g = &r->plan->p.grid;
  const int64_t n = dist_stretches(dist_layout_of(&r->plan->p, tensor), owner);
  const int32_t inner = dist_is_of_keys(tensor) ? g->kv_inner : r->n_holders;
  qsort(r->holders, (size_t)r->n_holders, sizeof *r->holders, by_first);
  for (int32_t k = r->n_holders - 1; k > 0 && move == GA_DIST_RELAY; k--)
    for (int64_t i = 0; i < n; i++) {
      const int32_t before = k % inner ? k - 1 : k - inner;
      r->holders[before].need[i] |= r->holders[k].need[i];
    }
  for (int32_t k = 0; k < r->n_holders; k++) {
    const holder *to = &r->holders[k];
    if (to->rank == owner) continue;
    dist_travel t = {.from = owner, .to = to->rank, .tensor = tensor, .owner = owner, .group = group};
    if (move == GA_DIST_BULK) {
      t.stage = 0;
    } else if (move == GA_DIST_DIRECT || k == 0) {
      const int32_t ahead = move == GA_DIST_DIRECT ? g->prefetch : 1;
      t.stage = to->first > ahead ? to->first - ahead : 0;
    } else {
      const holder *from = &r->holders[k % inner ? k - 1 : k - inner];
      t.from = from->rank;
      t.stage = k % inner ? to->first - 1 : from->first;
    }
    GA_TRY(add_travel(r, t, to->need));
  }
  return GA_OK;
}

static bool any_of(const bool *need, int64_t n) {
  for (int64_t i = 0; i < n; i++)
    if (need[i]) return true;
  return false;
}

/* Results. A relay adds them up on the way, in the order of the last stages. */
static ga_status send_results(router *r, int32_t tensor, int32_t owner, int32_t group, int32_t move) {
  const int64_t n = dist_stretches(dist_layout_of(&r->plan->p, tensor), owner);
  qsort(r->holders, (size_t)r->n_holders, sizeof *r->holders, by_last);
  const holder *before = NULL;
  int32_t at = 0;
  for (int32_t k = 0; k < r->n_holders; k++) {
    holder *h = &r->holders[k];
    if (h->rank == owner || !any_of(h->need, n)) continue;
    dist_travel t = {.from = h->rank, .to = owner, .tensor = tensor, .owner = owner, .group = group};
    if (move == GA_DIST_RELAY) {
      if (before) {
        dist_travel hop = t;
        hop.from = before->rank;
        hop.to = h->rank;
        hop.stage = at;
        hop.merge_stage = at > h->last ? at : h->last;
        GA_TRY(add_travel(r, hop, before->need));
        for (int64_t i = 0; i < n; i++) h->need[i] |= before->need[i];
        at = hop.merge_stage + 1;
      } else {
        at = h->last + 1;
      }
      before = h;
      continue;
    }
    t.stage = t.merge_stage = move == GA_DIST_BULK ? r->last_stage + 1 : h->last + 1;
    GA_TRY(add_travel(r, t, h->need));
  }
  if (!before) return GA_OK;
  const dist_travel home = {.stage = at,
                            .merge_stage = at,
                            .from = before->rank,
                            .to = owner,
                            .tensor = tensor,
                            .owner = owner,
                            .group = group};
  return add_travel(r, home, before->need);
}

/* The ranks that compute with the block of works order[0, n), and which stretches they need. */
static void find_holders(router *r, const by_block *order, int64_t n_works, bool keys, int64_t n) {
  const dist_problem *p = &r->plan->p;
  const int32_t need = p->grid.need;
  r->n_holders = 0;
  for (int64_t i = 0; i < n_works; i++) {
    const dist_work *w = &r->s->works[order[i].work];
    if (!r->n_holders || r->holders[r->n_holders - 1].rank != w->rank) {
      bool *row = r->need + r->n_holders * n;
      r->holders[r->n_holders++] = (holder){.rank = w->rank, .first = w->stage, .last = w->stage, .need = row};
      memset(row, need == GA_DIST_SEND_ALL, (size_t)n * sizeof *row);
    }
    holder *h = &r->holders[r->n_holders - 1];
    h->last = w->stage > h->last ? w->stage : h->last;
    if (w->sees && need == GA_DIST_SEND_BLOCKS) memset(h->need, true, (size_t)n * sizeof *h->need);
    if (w->sees && need == GA_DIST_SEND_STRETCHES) mark_need(p, w, keys, h->need);
  }
}

static ga_status route_side(router *r, bool keys) {
  const dist_problem *p = &r->plan->p;
  const bool backward = p->flags & GA_DIST_BACKWARD;
  for (int64_t i = 0; i < r->s->n_works; i++) {
    const dist_work *w = &r->s->works[i];
    r->order[i] = (by_block){keys ? w->kv_owner : w->q_owner, w->group, w->rank, w->stage, i};
    if (w->stage > r->last_stage) r->last_stage = w->stage;
  }
  qsort(r->order, (size_t)r->s->n_works, sizeof *r->order, by_block_order);
  for (int64_t begin = 0, end; begin < r->s->n_works; begin = end) {
    const by_block *b = &r->order[begin];
    for (end = begin; end < r->s->n_works && r->order[end].owner == b->owner && r->order[end].group == b->group;) end++;
    const int64_t n = dist_stretches(keys ? p->kv : p->q, b->owner);
    if (!n) continue;
    find_holders(r, b, end - begin, keys, n);
    GA_TRY(send_inputs(r,
                       keys       ? DIST_KV
                       : backward ? DIST_G
                                  : DIST_Q,
                       b->owner, b->group, keys ? p->grid.move_kv : p->grid.move_q));
    if (keys && !backward) continue;
    find_holders(r, b, end - begin, keys, n); /* a relay has changed what they need */
    GA_TRY(send_results(r,
                        keys       ? DIST_DKV
                        : backward ? DIST_DQ
                                   : DIST_O,
                        b->owner, b->group, keys ? p->grid.move_dkv : p->grid.move_out));
  }
  return GA_OK;
}

ga_status dist_route(ga_dist_plan *plan, dist_schedule *s) {
  const dist_problem *p = &plan->p;
  router r = {.plan = plan, .s = s};
  int64_t most = 1;
  for (int32_t i = 0; i < p->ranks; i++)
    most = ga_max_i64(most, ga_max_i64(dist_stretches(p->q, i), dist_stretches(p->kv, i)));
  void *order = NULL, *holders = NULL, *need = NULL;
  ga_status status;
  GA_TRY_OUT(ga_mem_zalloc((size_t)s->n_works + 1, sizeof *r.order, "works of a plan", &order));
  GA_TRY_OUT(ga_mem_zalloc((size_t)p->ranks, sizeof *r.holders, "ranks of a block", &holders));
  GA_TRY_OUT(ga_mem_zalloc((size_t)(p->ranks * most), sizeof *r.need, "stretches of a block", &need));
  r.order = order;
  r.holders = holders;
  r.need = need;
  GA_TRY_OUT(route_side(&r, false));
  status = route_side(&r, true);
out:
  ga_mem_free(order);
  ga_mem_free(holders);
  ga_mem_free(need);
  return status;
}
