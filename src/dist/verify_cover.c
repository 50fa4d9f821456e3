/* Exact-once cover. A tile is a rectangle queries x keys x heads under the mask. Rectangles that do not overlap, and
 * whose visible pairs add up to those of the mask, cover it exactly once. */
#include <stdlib.h>

#include "base/mem.h"
#include "dist/verify.h"

typedef struct rectangle {
  int64_t doc, q_class, k_class; /* stretches of one class (first mod step) overlap where their tokens do */
  int64_t q, q_end, k, k_end;    /* tokens; the end is behind the last one */
  int32_t head, head_end, rank;
  int64_t step;
} rectangle;

static int rectangle_order(const void *a, const void *b) {
  const rectangle *x = a, *y = b;
  const int64_t d[] = {x->doc - y->doc, x->q_class - y->q_class, x->k_class - y->k_class, x->q - y->q,
                       x->k - y->k,     x->head - y->head,       x->rank - y->rank,       x->step - y->step};
  for (size_t i = 0; i < GA_COUNT_OF(d); i++)
    if (d[i]) return d[i] < 0 ? -1 : 1;
  return 0;
}

/* 1 + 2 + .. + x. */
static ga_u128 triangle(int64_t x) { return x > 0 ? (ga_u128)x * ((ga_u128)x + 1) / 2 : 0; }

/* Pairs i < n, j < m with j - i <= t: those of a half plane, less what lies beyond the last key. */
static ga_u128 below_diagonal(int64_t n, int64_t m, int64_t t) {
  return triangle(t + n) - triangle(t) - triangle(t + n - m) + triangle(t - m);
}

static int64_t steps_down(int64_t distance, int64_t step) {
  return distance >= 0 ? distance / step : -((-distance + step - 1) / step);
}

/* Pairs of n queries from place q on and m keys from place k on, both `step` apart, by places in the document. */
static ga_u128 pairs_in_mask(const dist_problem *p, int64_t q, int64_t n, int64_t k, int64_t m, int64_t step) {
  const ga_u128 all = below_diagonal(n, m, n + m);
  const ga_u128 past = p->flags & GA_DIST_CAUSAL ? below_diagonal(n, m, steps_down(q - k, step)) : all;
  const ga_u128 old = p->window ? below_diagonal(n, m, steps_down(q - p->window - k, step)) : 0;
  return past > old ? past - old : 0;
}

static int64_t keys_before(const dist_problem *p, int64_t doc) {
  const int64_t keys = p->kv->doc_start[doc + 1] - p->kv->doc_start[doc];
  return keys - (p->q->doc_start[doc + 1] - p->q->doc_start[doc]);
}

ga_u128 dist_visible(const ga_dist_plan *plan, const dist_stretch *q, const dist_stretch *k) {
  const dist_problem *p = &plan->p;
  if (q->doc != k->doc) return 0;
  return pairs_in_mask(p, q->first - p->q->doc_start[q->doc] + keys_before(p, q->doc), q->count,
                       k->first - p->kv->doc_start[k->doc], k->count, p->q->step);
}

static ga_u128 pairs_wanted(const dist_problem *p) {
  ga_u128 sum = 0;
  for (int64_t doc = 0; doc < p->q->documents; doc++)
    sum += pairs_in_mask(p, keys_before(p, doc), p->q->doc_start[doc + 1] - p->q->doc_start[doc], 0,
                         p->kv->doc_start[doc + 1] - p->kv->doc_start[doc], 1);
  const uint64_t heads = (uint64_t)p->q_heads;
  return sum * heads;
}

static ga_status check_rectangles(dist_verifier *v, rectangle *all, int64_t n) {
  qsort(all, (size_t)n, sizeof *all, rectangle_order);
  for (int64_t i = 1; i < n; i++) {
    const rectangle *a = &all[i - 1], *b = &all[i];
    if (a->doc != b->doc || a->q_class != b->q_class || a->k_class != b->k_class || a->q_end <= b->q) continue;
    const bool same_q = a->q == b->q && a->q_end == b->q_end, same_k = a->k == b->k && a->k_end == b->k_end;
    if (same_q && (a->k_end <= b->k || (same_k && a->head_end <= b->head))) continue;
    return dist_broken(v, GA_DIST_RULE_COVER, b->rank, b->step,
                       "queries from token %lld by keys from token %lld, head %d: also computed by rank %d, step %lld",
                       (long long)b->q, (long long)b->k, b->head, a->rank, (long long)a->step);
  }
  return GA_OK;
}

static rectangle rectangle_of(const dist_problem *p, const dist_step *s, int32_t rank, int64_t index) {
  const dist_stretch *q = dist_stretch_at(p->q, s->q_owner, s->q_stretch),
                     *k = dist_stretch_at(p->kv, s->kv_owner, s->k_stretch);
  const int64_t step = p->q->step;
  return (rectangle){.doc = q->doc,
                     .q_class = q->first % step,
                     .k_class = k->first % step,
                     .q = q->first,
                     .q_end = q->first + (q->count - 1) * step + 1,
                     .k = k->first,
                     .k_end = k->first + (k->count - 1) * step + 1,
                     .head = s->head,
                     .head_end = s->head + s->heads,
                     .rank = rank,
                     .step = index};
}

ga_status dist_verify_cover(dist_verifier *v) {
  const dist_problem *p = &v->plan->p;
  int64_t n = 0;
  for (int32_t r = 0; r < p->ranks; r++)
    for (int64_t i = 0; i < v->plan->programs[r].n_steps; i++) n += v->plan->programs[r].steps[i].kind == DIST_TILE;
  void *memory;
  GA_TRY(ga_mem_zalloc((size_t)n + 1, sizeof(rectangle), "tiles of a plan", &memory));
  rectangle *all = memory;
  n = 0;
  ga_u128 sum = 0;
  ga_status status = GA_OK;
  for (int32_t r = 0; r < p->ranks && status == GA_OK; r++)
    for (int64_t i = 0; i < v->plan->programs[r].n_steps && status == GA_OK; i++) {
      const dist_step *s = &v->plan->programs[r].steps[i];
      if (s->kind != DIST_TILE) continue;
      const ga_u128 pairs = dist_visible(v->plan, dist_stretch_at(p->q, s->q_owner, s->q_stretch),
                                         dist_stretch_at(p->kv, s->kv_owner, s->k_stretch));
      if (!pairs) status = dist_broken(v, GA_DIST_RULE_COVER, r, i, "no query of the tile sees a key of it");
      const uint64_t heads = (uint64_t)s->heads;
      sum += pairs * heads;
      all[n++] = rectangle_of(p, s, r, i);
    }
  if (status == GA_OK) status = check_rectangles(v, all, n);
  const ga_u128 wanted = pairs_wanted(p);
  if (status == GA_OK && sum != wanted)
    status = dist_broken(v, GA_DIST_RULE_COVER, -1, -1,
                         "%.0f pairs of query, key and head are computed; there are %.0f", (double)sum, (double)wanted);
  ga_mem_free(memory);
  return status;
}
