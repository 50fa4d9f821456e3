/* A free table of tiles. Each goes to a rank that has room for it and gets the fewest bytes for it: equal work for
 * packed documents of any lengths and any mask, in the order that the tokens have. Large tiles first (Graham, 1969). */
#include <stdlib.h>

#include "base/mem.h"
#include "dist/plan.h"

/* Work beyond the mean that a rank takes before bytes no longer count: one part in so many. */
#define SLACK_PART 64
#define MOST_FLAGS ((int64_t)1 << 30)

/* A tile that sees something. */
typedef struct table_tile {
  int64_t pairs;
  int32_t q_owner, kv_owner, q_stretch, k_stretch;
} table_tile;

typedef struct balancer {
  const dist_problem *p;
  dist_schedule *s;
  table_tile *tiles;
  int64_t n_tiles, tile_room;
  int64_t *load;           /* [ranks] */
  int64_t *q_row, *kv_row; /* [ranks + 1] number of a rank's first stretch among all */
  bool *has_q, *has_kv;    /* [ranks x stretches] a rank gets the stretch anyway */
} balancer;

static int by_pairs(const void *a, const void *b) {
  const table_tile *x = a, *y = b;
  if (x->pairs != y->pairs) return x->pairs > y->pairs ? -1 : 1;
  const int32_t d[4] = {x->q_owner - y->q_owner, x->kv_owner - y->kv_owner, x->q_stretch - y->q_stretch,
                        x->k_stretch - y->k_stretch};
  for (int i = 0; i < 4; i++)
    if (d[i]) return d[i];
  return 0;
}

static ga_status place_tile(balancer *b, const table_tile *t, int32_t rank) {
  /* In stage d data comes from the rank d places before: one to one, where tiles stay with one of their owners. */
  const int32_t n = b->p->ranks, other = rank == t->kv_owner ? t->q_owner : t->kv_owner;
  const dist_work w = {.stage = (rank - other + n) % n,
                       .rank = rank,
                       .q_owner = t->q_owner,
                       .kv_owner = t->kv_owner,
                       .q_stretch = t->q_stretch,
                       .k_stretch = t->k_stretch,
                       .sees = true};
  GA_TRY(dist_grow(&b->s->works, b->s->n_works, &b->s->work_room, sizeof *b->s->works, "works of a plan"));
  b->s->works[b->s->n_works++] = w;
  b->load[rank] += t->pairs;
  return GA_OK;
}

static ga_status list_tile(balancer *b, const table_tile *t) {
  GA_TRY(dist_grow(&b->tiles, b->n_tiles, &b->tile_room, sizeof *b->tiles, "tiles of a plan"));
  b->tiles[b->n_tiles++] = *t;
  return GA_OK;
}

static ga_status list_tiles(balancer *b) {
  const dist_problem *p = b->p;
  for (int32_t i = 0; i < p->ranks; i++)
    for (int32_t j = 0; j < p->ranks; j++)
      for (int64_t x = 0; x < dist_stretches(p->q, i); x++) {
        const dist_stretch *q = dist_stretch_at(p->q, i, x);
        for (int64_t y = dist_first_of_doc(p->kv, j, q->doc); y < dist_stretches(p->kv, j); y++) {
          const table_tile t = {dist_pairs(p, q, dist_stretch_at(p->kv, j, y)), i, j, (int32_t)x, (int32_t)y};
          if (dist_stretch_at(p->kv, j, y)->doc != q->doc) break;
          if (t.pairs) GA_TRY(list_tile(b, &t));
        }
      }
  return GA_OK;
}

static bool *flag_of(const balancer *b, const table_tile *t, int32_t rank, bool keys) {
  const int32_t n = b->p->ranks;
  if (keys) return &b->has_kv[rank * b->kv_row[n] + b->kv_row[t->kv_owner] + t->k_stretch];
  return &b->has_q[rank * b->q_row[n] + b->q_row[t->q_owner] + t->q_stretch];
}

/* What a rank gets and gives for a tile that it has not got yet: K and V; Q, and O back. */
static int64_t new_bytes(const balancer *b, const table_tile *t, int32_t rank) {
  const dist_problem *p = b->p;
  int64_t n = 0;
  if (rank != t->kv_owner && !*flag_of(b, t, rank, true))
    n += dist_stretch_at(p->kv, t->kv_owner, t->k_stretch)->count * p->kv_heads * dist_row_bytes(p, DIST_KV);
  if (rank != t->q_owner && !*flag_of(b, t, rank, false))
    n += dist_stretch_at(p->q, t->q_owner, t->q_stretch)->count * p->q_heads *
         (dist_row_bytes(p, DIST_Q) + dist_row_bytes(p, DIST_O));
  return n;
}

/* The rank with room for the tile that needs the fewest bytes for it; where none has room, the one with least work. */
static int32_t choose_rank(const balancer *b, const table_tile *t, int64_t most) {
  int32_t best = -1, least = 0;
  int64_t best_bytes = INT64_MAX;
  for (int32_t r = 0; r < b->p->ranks; r++) {
    if (b->load[r] < b->load[least]) least = r;
    if (b->load[r] + t->pairs > most) continue;
    const int64_t bytes = new_bytes(b, t, r);
    if (bytes > best_bytes || (bytes == best_bytes && b->load[r] >= b->load[best])) continue;
    best = r;
    best_bytes = bytes;
  }
  return best < 0 ? least : best;
}

static ga_status place_tiles(balancer *b) {
  const dist_problem *p = b->p;
  int64_t sum = 0;
  for (int32_t r = 0; r < p->ranks; r++) sum += b->load[r];
  for (int64_t n = 0; n < b->n_tiles; n++) sum += b->tiles[n].pairs;
  const int64_t mean = ga_div_up(sum, p->ranks), most = mean + mean / SLACK_PART;
  if (b->n_tiles) qsort(b->tiles, (size_t)b->n_tiles, sizeof *b->tiles, by_pairs);
  for (int64_t n = 0; n < b->n_tiles; n++) {
    const table_tile *t = &b->tiles[n];
    const int32_t rank = choose_rank(b, t, most);
    *flag_of(b, t, rank, true) = *flag_of(b, t, rank, false) = true;
    GA_TRY(place_tile(b, t, rank));
  }
  return GA_OK;
}

static void number_stretches(const ga_dist_layout *l, int64_t *row) {
  for (int32_t r = 0; r < l->ranks; r++) row[r + 1] = row[r] + dist_stretches(l, r);
}

static ga_status check_table(const dist_problem *p) {
  const int64_t q = p->q->rank_start[p->ranks], kv = p->kv->rank_start[p->ranks], most = ga_max_i64(q, kv);
  GA_REQUIRE(most <= MOST_FLAGS / p->ranks, GA_ERR_SHAPE,
             "dist balanced: %d ranks x %lld stretches; their product must be at most 2^30", p->ranks, (long long)most);
  return dist_check_pairs(p);
}

ga_status dist_assign_balanced(const dist_problem *p, dist_schedule *s) {
  balancer b = {.p = p, .s = s};
  const size_t ranks = (size_t)p->ranks;
  void *load = NULL, *rows = NULL, *q = NULL, *kv = NULL;
  ga_status status;
  GA_TRY_OUT(check_table(p));
  GA_TRY_OUT(ga_mem_zalloc(ranks, sizeof *b.load, "ranks", &load));
  GA_TRY_OUT(ga_mem_zalloc(2 * (ranks + 1), sizeof *b.q_row, "ranks", &rows));
  b.load = load, b.q_row = rows, b.kv_row = b.q_row + ranks + 1;
  number_stretches(p->q, b.q_row);
  number_stretches(p->kv, b.kv_row);
  GA_TRY_OUT(ga_mem_zalloc(ranks * (size_t)b.q_row[ranks] + 1, sizeof *b.has_q, "stretches", &q));
  GA_TRY_OUT(ga_mem_zalloc(ranks * (size_t)b.kv_row[ranks] + 1, sizeof *b.has_kv, "stretches", &kv));
  b.has_q = q, b.has_kv = kv;
  GA_TRY_OUT(list_tiles(&b));
  status = place_tiles(&b);
out:
  ga_mem_free(load);
  ga_mem_free(rows);
  ga_mem_free(q);
  ga_mem_free(kv);
  ga_mem_free(b.tiles);
  return status;
}
