/* Bytes from each rank to each other, by the closed form of a grid: rank (y q + u) heads + x gets the queries of its
 * team, the keys of its column, and sends results back; each block crosses one link on its way to each rank. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "dist/verify.h"

/* A rank that takes part in one block, with the stretches that pass through it. */
typedef struct stop {
  int32_t rank, order; /* of a relay of results */
  int32_t before;      /* index of the stop that a relay of inputs comes from; -1 = the owner */
  bool *rows;          /* [stretches of the block] */
} stop;

typedef struct tally {
  const ga_dist_plan *plan;
  int64_t *bytes; /* [from x ranks + to] */
  stop *stops;
  int32_t n;
  bool *rows;
} tally;

static int32_t rank_at(const ga_dist_grid *g, int32_t y, int32_t u, int32_t x) { return (y * g->q + u) * g->heads + x; }

static void pay(tally *t, int32_t from, int32_t to, int32_t tensor, int32_t owner, int32_t heads, const bool *rows) {
  const ga_dist_layout *l = tensor == DIST_KV || tensor == DIST_DKV ? t->plan->p.kv : t->plan->p.q;
  int64_t n = 0;
  for (int64_t i = 0; i < dist_stretches(l, owner); i++)
    if (rows[i]) n += dist_stretch_at(l, owner, i)->count;
  t->bytes[(int64_t)from * t->plan->p.ranks + to] += n * dist_bytes_of_row(t->plan, tensor, heads, true);
}

/* Marks what one tile block of a rank reads of one side. */
static void mark(const tally *t, int32_t q_owner, int32_t kv_owner, bool keys, bool *rows) {
  const dist_problem *p = &t->plan->p;
  const int64_t nq = dist_stretches(p->q, q_owner), nk = dist_stretches(p->kv, kv_owner);
  bool any = p->grid.need == GA_DIST_SEND_ALL;
  for (int64_t i = 0, first = 0; i < nq; i++) { /* both sides are in the order of documents */
    const dist_stretch *q = dist_stretch_at(p->q, q_owner, i);
    while (first < nk && dist_stretch_at(p->kv, kv_owner, first)->doc < q->doc) first++;
    for (int64_t j = first; j < nk && dist_stretch_at(p->kv, kv_owner, j)->doc == q->doc; j++) {
      if (!dist_visible(t->plan, q, dist_stretch_at(p->kv, kv_owner, j))) continue;
      rows[keys ? j : i] = true;
      any = true;
    }
  }
  if (any && p->grid.need != GA_DIST_SEND_STRETCHES) memset(rows, true, (size_t)(keys ? nk : nq) * sizeof *rows);
}

static stop *add_stop(tally *t, int64_t stretches, int32_t rank) {
  stop *s = &t->stops[t->n];
  *s = (stop){.rank = rank, .before = t->n - 1, .rows = t->rows + t->n * stretches};
  memset(s->rows, 0, (size_t)stretches * sizeof *s->rows);
  t->n++;
  return s;
}

static void pay_inputs(tally *t, int32_t tensor, int32_t owner, int32_t heads, int32_t move, int64_t stretches) {
  for (int32_t i = t->n - 1; i > 0 && move == GA_DIST_RELAY; i--)
    for (int64_t r = 0; r < stretches; r++)
      if (t->stops[i].rows[r]) t->stops[t->stops[i].before].rows[r] = true;
  for (int32_t i = 0; i < t->n; i++) {
    const stop *s = &t->stops[i];
    const int32_t from = move == GA_DIST_RELAY && i ? t->stops[s->before].rank : owner;
    if (s->rank != owner) pay(t, from, s->rank, tensor, owner, heads, s->rows);
  }
}

static int by_stop_order(const void *a, const void *b) {
  const stop *x = a, *y = b;
  return x->order != y->order ? (x->order < y->order ? -1 : 1) : x->rank - y->rank;
}

static void pay_results(tally *t, int32_t tensor, int32_t owner, int32_t heads, int32_t move, int64_t stretches) {
  qsort(t->stops, (size_t)t->n, sizeof *t->stops, by_stop_order);
  const stop *before = NULL;
  for (int32_t i = 0; i < t->n; i++) {
    stop *s = &t->stops[i];
    bool any = false;
    for (int64_t r = 0; r < stretches; r++) any = any || s->rows[r];
    if (s->rank == owner || !any) continue;
    if (move != GA_DIST_RELAY) {
      pay(t, s->rank, owner, tensor, owner, heads, s->rows);
      continue;
    }
    if (before) pay(t, before->rank, s->rank, tensor, owner, heads, before->rows);
    for (int64_t r = 0; before && r < stretches; r++) s->rows[r] = s->rows[r] || before->rows[r];
    before = s;
  }
  if (before) pay(t, before->rank, owner, tensor, owner, heads, before->rows);
}

/* Stops of queries of `owner` for heads of group x: the ranks of its team, from its own place on. */
static void stops_of_queries(tally *t, int32_t owner, int32_t x) {
  const ga_dist_grid *g = &t->plan->p.grid;
  const int32_t y = owner / g->heads / g->q, own = owner / g->heads % g->q;
  t->n = 0;
  for (int32_t v = 0; v < g->q; v++) {
    const int32_t u = (own + v) % g->q;
    stop *s = add_stop(t, dist_stretches(t->plan->p.q, owner), rank_at(g, y, u, x));
    const bool together = g->move_q == GA_DIST_BULK || (g->kv > 1 && g->move_kv != GA_DIST_BULK);
    s->order = together ? 0 : v;
    for (int32_t w = 0; w < g->kv; w++)
      for (int32_t m = 0; m < g->heads; m++) mark(t, owner, rank_at(g, w, u, m), false, s->rows);
  }
}

/* Of keys: the ranks of its column; with a double ring in the order of (outer, inner) distance. */
static void stops_of_keys(tally *t, int32_t owner, int32_t x) {
  const ga_dist_grid *g = &t->plan->p.grid;
  const int32_t u = owner / g->heads % g->q, own = owner / g->heads / g->q, inner = g->kv_inner;
  const int32_t outer = g->kv / inner;
  t->n = 0;
  for (int32_t k = 0; k < g->kv; k++) {
    const int32_t y = (own / inner + k / inner) % outer * inner + (own % inner + k % inner) % inner;
    stop *s = add_stop(t, dist_stretches(t->plan->p.kv, owner), rank_at(g, y, u, x));
    if (k % inner == 0) s->before = k - inner;
    s->order = g->move_kv == GA_DIST_BULK ? 0 : k;
    for (int32_t w = 0; w < g->q; w++)
      for (int32_t m = 0; m < g->heads; m++) mark(t, rank_at(g, y, w, m), owner, true, s->rows);
  }
}

static void pay_grid(tally *t) {
  const dist_problem *p = &t->plan->p;
  const ga_dist_grid *g = &p->grid;
  const bool backward = p->flags & GA_DIST_BACKWARD;
  const int32_t group = p->q_heads / p->kv_heads;
  for (int32_t owner = 0; owner < p->ranks; owner++)
    for (int32_t x = 0; x < g->heads; x++) {
      const int32_t head = (int32_t)((int64_t)x * p->q_heads / g->heads),
                    end = (int32_t)(((int64_t)x + 1) * p->q_heads / g->heads);
      const int32_t kv_heads = (end - 1) / group - head / group + 1;
      const int64_t nq = dist_stretches(p->q, owner), nk = dist_stretches(p->kv, owner);
      stops_of_queries(t, owner, x);
      pay_inputs(t, backward ? DIST_G : DIST_Q, owner, end - head, g->move_q, nq);
      stops_of_queries(t, owner, x);
      pay_results(t, backward ? DIST_DQ : DIST_O, owner, end - head, g->move_out, nq);
      stops_of_keys(t, owner, x);
      pay_inputs(t, DIST_KV, owner, kv_heads, g->move_kv, nk);
      if (!backward) continue;
      stops_of_keys(t, owner, x);
      pay_results(t, DIST_DKV, owner, kv_heads, g->move_dkv, nk);
    }
}

/* DistFlashAttn: rank r gets keys of r - t for t <= ranks / 2; those before t get queries of ranks + r - t. */
static void pay_helpers(tally *t) {
  const dist_problem *p = &t->plan->p;
  const bool backward = p->flags & GA_DIST_BACKWARD;
  for (int32_t q = 0; q < p->ranks; q++)
    for (int32_t k = 0; k < q; k++) {
      const bool helped = 2 * (q - k) > p->ranks;
      t->n = 0;
      if (helped) {
        const stop *s = add_stop(t, dist_stretches(p->q, q), k);
        mark(t, q, k, false, s->rows);
        pay(t, q, k, backward ? DIST_G : DIST_Q, q, p->q_heads, s->rows);
        pay(t, k, q, backward ? DIST_DQ : DIST_O, q, p->q_heads, s->rows);
        continue;
      }
      const stop *s = add_stop(t, dist_stretches(p->kv, k), q);
      mark(t, q, k, true, s->rows);
      pay(t, k, q, DIST_KV, k, p->kv_heads, s->rows);
      if (backward) pay(t, q, k, DIST_DKV, k, p->kv_heads, s->rows);
    }
}

/* A free table: what the tiles of a rank read of another crosses the link once, and results go straight back. */
static void pay_tiles(tally *t, int32_t rank, int32_t owner) {
  const dist_problem *p = &t->plan->p;
  const bool backward = p->flags & GA_DIST_BACKWARD;
  const int64_t nq = dist_stretches(p->q, owner), nk = dist_stretches(p->kv, owner);
  bool *const q = t->rows, *const kv = t->rows + nq;
  bool any_q = false, any_kv = false;
  memset(t->rows, 0, (size_t)(nq + nk) * sizeof *t->rows);
  for (int64_t i = 0; i < t->plan->programs[rank].n_steps; i++) {
    const dist_step *s = &t->plan->programs[rank].steps[i];
    if (s->kind != DIST_TILE) continue;
    if (s->q_owner == owner) q[s->q_stretch] = any_q = true;
    if (s->kv_owner == owner) kv[s->k_stretch] = any_kv = true;
  }
  if (p->grid.need != GA_DIST_SEND_STRETCHES) {
    memset(q, any_q, (size_t)nq * sizeof *q);
    memset(kv, any_kv, (size_t)nk * sizeof *kv);
  }
  pay(t, owner, rank, backward ? DIST_G : DIST_Q, owner, p->q_heads, q);
  pay(t, rank, owner, backward ? DIST_DQ : DIST_O, owner, p->q_heads, q);
  pay(t, owner, rank, DIST_KV, owner, p->kv_heads, kv);
  if (backward) pay(t, rank, owner, DIST_DKV, owner, p->kv_heads, kv);
}

static void pay_table(tally *t) {
  for (int32_t rank = 0; rank < t->plan->p.ranks; rank++)
    for (int32_t owner = 0; owner < t->plan->p.ranks; owner++)
      if (rank != owner) pay_tiles(t, rank, owner);
}

static ga_status compare_links(dist_verifier *v, const tally *t) {
  const int32_t ranks = v->plan->p.ranks;
  for (int32_t r = 0; r < ranks; r++)
    for (int64_t i = 0; i < v->plan->programs[r].n_steps; i++) {
      const dist_step *s = &v->plan->programs[r].steps[i];
      if (s->kind == DIST_SEND) t->bytes[(int64_t)r * ranks + s->peer] -= s->bytes;
    }
  for (int64_t i = 0; i < (int64_t)ranks * ranks; i++)
    if (t->bytes[i])
      return dist_broken(v, GA_DIST_RULE_BYTES, (int32_t)(i / ranks), -1,
                         "%lld bytes %s than the closed form to rank %d", llabs(t->bytes[i]),
                         t->bytes[i] > 0 ? "fewer" : "more", (int32_t)(i % ranks));
  return GA_OK;
}

ga_status dist_verify_bytes(dist_verifier *v) {
  const dist_problem *p = &v->plan->p;
  int64_t most = 1;
  for (int32_t i = 0; i < p->ranks; i++)
    most = ga_max_i64(most, ga_max_i64(dist_stretches(p->q, i), dist_stretches(p->kv, i)));
  tally t = {.plan = v->plan};
  void *bytes = NULL, *stops = NULL, *rows = NULL;
  ga_status status;
  GA_TRY_OUT(ga_mem_zalloc((size_t)p->ranks * (size_t)p->ranks, sizeof *t.bytes, "links of a plan", &bytes));
  GA_TRY_OUT(ga_mem_zalloc((size_t)p->ranks, sizeof *t.stops, "ranks of a block", &stops));
  GA_TRY_OUT(ga_mem_zalloc((size_t)((p->ranks + 1) * most), sizeof *t.rows, "stretches of a block", &rows));
  t.bytes = bytes;
  t.stops = stops;
  t.rows = rows;
  if (p->table == DIST_HELPERS)
    pay_helpers(&t);
  else if (p->table == DIST_BALANCED)
    pay_table(&t);
  else
    pay_grid(&t);
  status = compare_links(v, &t);
out:
  ga_mem_free(bytes);
  ga_mem_free(stops);
  ga_mem_free(rows);
  return status;
}
