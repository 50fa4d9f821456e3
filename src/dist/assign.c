/* Who computes which block of tiles, and in which stage. */
#include <string.h>

#include "base/mem.h"
#include "dist/plan.h"

#define MOST_WORKS ((int64_t)1 << 26)
#define MOST_TILES ((uint64_t)1 << 26) /* steps of 96 bytes, and as much again in the verifier */

ga_status dist_grow(void *array, int64_t n, int64_t *room, size_t each, const char *what) {
  if (n < *room) return GA_OK;
  const int64_t more = *room ? 2 * *room : 64;
  void *p, *old;
  memcpy(&old, array, sizeof old);
  GA_TRY(ga_mem_zalloc((size_t)more, each, what, &p));
  if (n) memcpy(p, old, (size_t)n * each);
  ga_mem_free(old);
  memcpy(array, &p, sizeof p);
  *room = more;
  return GA_OK;
}

/* First stretch of the rank whose document is doc or behind it. */
int64_t dist_first_of_doc(const ga_dist_layout *l, int32_t rank, int64_t doc) {
  int64_t low = 0, high = dist_stretches(l, rank);
  while (low < high) {
    const int64_t mid = (low + high) / 2;
    if (dist_stretch_at(l, rank, mid)->doc < doc)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

static bool block_sees(const dist_problem *p, int32_t q_owner, int32_t kv_owner) {
  for (int64_t i = 0; i < dist_stretches(p->q, q_owner); i++) {
    const dist_stretch *q = dist_stretch_at(p->q, q_owner, i);
    for (int64_t j = dist_first_of_doc(p->kv, kv_owner, q->doc); j < dist_stretches(p->kv, kv_owner); j++) {
      const dist_stretch *k = dist_stretch_at(p->kv, kv_owner, j);
      if (k->doc != q->doc) break;
      if (dist_sees(p, q, k)) return true;
    }
  }
  return false;
}

static ga_status add_work(const dist_problem *p, dist_schedule *s, const dist_work *w) {
  GA_TRY(dist_grow(&s->works, s->n_works, &s->work_room, sizeof *s->works, "works of a plan"));
  s->works[s->n_works] = *w;
  s->works[s->n_works].q_stretch = s->works[s->n_works].k_stretch = -1;
  s->works[s->n_works++].sees = block_sees(p, w->q_owner, w->kv_owner);
  return GA_OK;
}

/* Of a ring of n: the place that a block comes from at step k, in rings of `inner`. */
static int32_t ring_source(int32_t at, int32_t k, int32_t n, int32_t inner) {
  const int32_t outer = n / inner, o = (at / inner + outer - k / inner) % outer;
  return o * inner + (at % inner + inner - k % inner) % inner;
}

/* Rank (y q + u) heads + x has queries of ranks (y q + ..), keys of ranks (.. q + u), heads of group x: its own rows
 * are among both. Queries come first, then keys. */
static ga_status assign_rank(const dist_problem *p, dist_schedule *s, int32_t rank) {
  const ga_dist_grid *g = &p->grid;
  const int32_t h = g->heads, x = rank % h, u = rank / h % g->q, y = rank / h / g->q;
  const int32_t base = h > 1 ? 1 : 0; /* groups of heads are exchanged in a stage of their own */
  const int32_t q_stages = g->move_q == GA_DIST_BULK ? 1 : g->q;
  for (int32_t k = 0; k < g->kv; k++)
    for (int32_t v = 0; v < g->q; v++) {
      const int32_t q_stage = g->move_q == GA_DIST_BULK ? 0 : v;
      const int32_t kv_stage = g->move_kv == GA_DIST_BULK || k == 0 ? 0 : q_stages - 1 + k;
      const int32_t q_block = y * g->q + (u + g->q - v) % g->q,
                    kv_block = ring_source(y, k, g->kv, g->kv_inner) * g->q + u;
      for (int32_t m = 0; m < h * h; m++) {
        const dist_work w = {.stage = base + (q_stage > kv_stage ? q_stage : kv_stage),
                             .rank = rank,
                             .q_owner = q_block * h + m / h,
                             .kv_owner = kv_block * h + m % h,
                             .group = x};
        GA_TRY(add_work(p, s, &w));
      }
    }
  return GA_OK;
}

/* Stage t: rank r >= t takes its queries by keys of r - t. A rank r < t is done with its own; it takes queries of
 * ranks + r - t by its own keys. With t = ranks / 2 both would be the same tiles. */
static ga_status assign_helpers(const dist_problem *p, dist_schedule *s) {
  const int32_t n = p->ranks;
  for (int32_t i = 0; i < n; i++)
    for (int32_t j = i + 1; j < n; j++)
      GA_REQUIRE(!block_sees(p, i, j), GA_ERR_UNSUPPORTED,
                 "dist distflash: queries of rank %d see keys of rank %d; it must be causal, with a contiguous layout "
                 "and as many queries as keys",
                 i, j);
  for (int32_t t = 0; t <= n / 2; t++)
    for (int32_t r = 0; r < n; r++) {
      if (r < t && 2 * t == n) continue;
      const dist_work w = {.stage = t, .rank = r, .q_owner = r >= t ? r : n + r - t, .kv_owner = r >= t ? r - t : r};
      GA_TRY(add_work(p, s, &w));
    }
  return GA_OK;
}

/* ranks is at most 4096 and the product of the grid: ranks^2 heads is at most 2^36. */
static ga_status check_works(const dist_problem *p) {
  const ga_dist_grid *g = &p->grid;
  const int64_t works = (int64_t)p->ranks * p->ranks * g->heads;
  GA_REQUIRE(works <= MOST_WORKS, GA_ERR_SHAPE,
             "dist: %d ranks, grid of %d heads x %d q x %d kv: %lld works, ranks^2 x heads of the grid; must be at "
             "most 2^26",
             p->ranks, g->heads, g->q, g->kv, (long long)works);
  return GA_OK;
}

static void count_stretches(const ga_dist_layout *l, int64_t *of_doc) {
  for (int64_t i = 0; i < l->rank_start[l->ranks]; i++) of_doc[l->stretches[i].doc]++;
}

/* Pairs that the mask empties are counted, too: they are looked at. */
ga_status dist_check_pairs(const dist_problem *p) {
  void *memory;
  GA_TRY(ga_mem_zalloc(2 * (size_t)p->q->documents, sizeof(int64_t), "documents", &memory));
  int64_t *q = memory, *kv = q + p->q->documents;
  count_stretches(p->q, q);
  count_stretches(p->kv, kv);
  uint64_t sum = 0, pairs;
  for (int64_t i = 0; i < p->q->documents; i++)
    if (!ga_mul_ok((uint64_t)q[i], (uint64_t)kv[i], &pairs) || !ga_add_ok(sum, pairs, &sum)) sum = UINT64_MAX;
  ga_mem_free(memory);
  const uint64_t groups = (uint64_t)p->grid.heads;
  GA_REQUIRE(
      sum <= MOST_TILES / groups, GA_ERR_SHAPE,
      "dist: %llu pairs of stretches x %d groups of heads; must be at most 2^26: ranks, documents or chunks must "
      "be fewer",
      (unsigned long long)sum, p->grid.heads);
  return GA_OK;
}

ga_status dist_assign(const dist_problem *p, dist_schedule *s) {
  if (p->table == DIST_BALANCED) return dist_assign_balanced(p, s);
  if (p->table != DIST_HELPERS) GA_TRY(check_works(p));
  GA_TRY(dist_check_pairs(p));
  if (p->table == DIST_HELPERS) return assign_helpers(p, s);
  for (int32_t r = 0; r < p->ranks; r++) GA_TRY(assign_rank(p, s, r));
  return GA_OK;
}
