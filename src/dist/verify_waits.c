/* All ranks together: sends match receives, and nobody waits for ever. What a rank may do next depends only on how far
 * the others are, and never less the further they are: if one order of running ends, all do. */
#include <stdlib.h>

#include "base/mem.h"
#include "dist/verify.h"

/* A send or a receive. */
typedef struct transfer {
  int32_t from, to, rank; /* rank: whose step it is */
  int64_t step;
} transfer;

typedef struct waiter {
  dist_verifier *v;
  transfer *sends, *receives;
  int64_t n_sends, n_receives;
  int64_t **partner; /* [rank][step] step of the other side */
  int64_t *done;     /* [rank] steps that are done */
} waiter;

static int transfer_order(const void *a, const void *b) {
  const transfer *x = a, *y = b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  if (x->to != y->to) return x->to < y->to ? -1 : 1;
  return x->step < y->step ? -1 : x->step > y->step;
}

static bool same_block(const ga_dist_plan *plan, const dist_step *a, const dist_step *b) {
  if (a->tensor != b->tensor || a->owner != b->owner || a->head != b->head || a->heads != b->heads ||
      a->pieces != b->pieces || a->bytes != b->bytes)
    return false;
  for (int64_t i = 0; i < a->pieces; i++)
    if (plan->pieces[a->piece + i] != plan->pieces[b->piece + i]) return false;
  return true;
}

static const dist_step *transfer_step(const waiter *w, const transfer *t) {
  return &w->v->plan->programs[t->rank].steps[t->step];
}

static ga_status match_transfers(waiter *w) {
  qsort(w->sends, (size_t)w->n_sends, sizeof *w->sends, transfer_order);
  qsort(w->receives, (size_t)w->n_receives, sizeof *w->receives, transfer_order);
  const int64_t n = ga_min_i64(w->n_sends, w->n_receives);
  for (int64_t i = 0; i < n; i++) {
    const transfer *s = &w->sends[i], *r = &w->receives[i];
    if (s->from != r->from || s->to != r->to)
      return dist_broken(w->v, GA_DIST_RULE_MATCH, s->rank, s->step,
                         "send from rank %d to rank %d; the receives go on with one from rank %d by rank %d", s->from,
                         s->to, r->from, r->to);
    if (!same_block(w->v->plan, transfer_step(w, s), transfer_step(w, r)))
      return dist_broken(w->v, GA_DIST_RULE_MATCH, s->rank, s->step,
                         "what is sent to rank %d is not what its step %lld receives", s->to, (long long)r->step);
    w->partner[s->rank][s->step] = r->step;
    w->partner[r->rank][r->step] = s->step;
  }
  if (w->n_sends == w->n_receives) return GA_OK;
  const bool more = w->n_sends > w->n_receives;
  const transfer *x = more ? &w->sends[n] : &w->receives[n];
  return dist_broken(w->v, GA_DIST_RULE_MATCH, x->rank, x->step, "no step of rank %d belongs to this %s",
                     more ? x->to : x->from, more ? "send" : "receive");
}

static bool is_transfer(const dist_step *s) { return s->kind == DIST_SEND || s->kind == DIST_RECEIVE; }

/* With buffered sends only a WAIT waits: for the send of what its slot was posted for. */
static bool can_go_buffered(const waiter *w, int32_t rank, int64_t *next) {
  const dist_program *g = &w->v->plan->programs[rank];
  const int64_t at = w->done[rank];
  const dist_step *s = &g->steps[at];
  *next = at + 1;
  if (s->kind != DIST_WAIT) return true;
  for (int64_t i = at - 1; i >= 0; i--) {
    const dist_step *r = &g->steps[i];
    if (r->kind == DIST_RECEIVE && r->slot == s->slot) return w->done[r->peer] > w->partner[rank][i];
  }
  return true;
}

/* Where sends wait for their receivers, neighbouring sends and receives are one group, which ends when each partner's
 * group has been reached. */
static bool can_go_strict(const waiter *w, int32_t rank, int64_t *next) {
  const dist_program *g = &w->v->plan->programs[rank];
  const int64_t at = w->done[rank];
  *next = at + 1;
  if (!is_transfer(&g->steps[at])) return true;
  int64_t end = at;
  for (; end < g->n_steps && is_transfer(&g->steps[end]); end++) {
    const int32_t peer = g->steps[end].peer;
    const dist_program *other = &w->v->plan->programs[peer];
    int64_t begin = w->partner[rank][end];
    while (begin > 0 && is_transfer(&other->steps[begin - 1])) begin--;
    if (w->done[peer] < begin) return false;
  }
  *next = end;
  return true;
}

static ga_status run_programs(waiter *w, bool (*can_go)(const waiter *, int32_t, int64_t *), const char *how) {
  const int32_t ranks = w->v->plan->p.ranks;
  bool moved = true;
  for (int32_t r = 0; r < ranks; r++) w->done[r] = 0;
  while (moved) {
    moved = false;
    for (int32_t r = 0; r < ranks; r++)
      for (int64_t next; w->done[r] < w->v->plan->programs[r].n_steps && can_go(w, r, &next); moved = true)
        w->done[r] = next;
  }
  for (int32_t r = 0; r < ranks; r++)
    if (w->done[r] < w->v->plan->programs[r].n_steps)
      return dist_broken(w->v, GA_DIST_RULE_DEADLOCK, r, w->done[r], "%s, this step waits for ever", how);
  return GA_OK;
}

static void list_transfers(waiter *w, bool store) {
  const ga_dist_plan *plan = w->v->plan;
  w->n_sends = w->n_receives = 0;
  for (int32_t r = 0; r < plan->p.ranks; r++)
    for (int64_t i = 0; i < plan->programs[r].n_steps; i++) {
      const dist_step *s = &plan->programs[r].steps[i];
      if (!is_transfer(s)) continue;
      const bool send = s->kind == DIST_SEND;
      const int64_t at = send ? w->n_sends++ : w->n_receives++;
      if (store)
        (send ? w->sends : w->receives)[at] =
            (transfer){.from = send ? r : s->peer, .to = send ? s->peer : r, .rank = r, .step = i};
    }
}

static ga_status check_waits(waiter *w) {
  list_transfers(w, true);
  GA_TRY(match_transfers(w));
  GA_TRY(run_programs(w, can_go_buffered, "with buffered sends"));
  return run_programs(w, can_go_strict, "with sends that wait for their receiver");
}

ga_status dist_verify_waits(dist_verifier *v) {
  const ga_dist_plan *plan = v->plan;
  waiter w = {.v = v};
  int64_t steps = 0;
  list_transfers(&w, false);
  for (int32_t r = 0; r < plan->p.ranks; r++) steps += plan->programs[r].n_steps;
  void *sends = NULL, *receives = NULL, *partner = NULL, *all = NULL, *done = NULL;
  ga_status status;
  GA_TRY_OUT(ga_mem_zalloc((size_t)w.n_sends + 1, sizeof *w.sends, "sends of a plan", &sends));
  GA_TRY_OUT(ga_mem_zalloc((size_t)w.n_receives + 1, sizeof *w.receives, "receives of a plan", &receives));
  GA_TRY_OUT(ga_mem_zalloc((size_t)plan->p.ranks, sizeof *w.partner, "ranks of a plan", &partner));
  GA_TRY_OUT(ga_mem_zalloc((size_t)steps + 1, sizeof **w.partner, "steps of a plan", &all));
  GA_TRY_OUT(ga_mem_zalloc((size_t)plan->p.ranks, sizeof *w.done, "ranks of a plan", &done));
  w.sends = sends;
  w.receives = receives;
  w.partner = partner;
  w.done = done;
  int64_t *next = all;
  for (int32_t r = 0; r < plan->p.ranks; r++) {
    w.partner[r] = next;
    next += plan->programs[r].n_steps;
  }
  status = check_waits(&w);
out:
  ga_mem_free(sends);
  ga_mem_free(receives);
  ga_mem_free(partner);
  ga_mem_free(all);
  ga_mem_free(done);
  return status;
}
