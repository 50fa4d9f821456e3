/* Which tiles write sums of gradients, and which add to them: the first that has some rows writes them, so that these
 * need not begin at zero.
 *
 *   partial dQ, dK or dV of a rank    | written by one tile | written by another | no tile writes it first |
 *                                      others add             others add           zeros when it is opened
 *
 * Rows of a stretch and of the heads of a group are written from one row on to another; what else tiles add to begins
 * at zero. So does all of what has groups of heads that overlap, and from then on tiles add alone. */
#include "base/mem.h"
#include "dist/plan.h"
#include "dist/tile.h"

/* About as much is written while a fill begins. */
enum { FILL_BYTES = 4 << 20 };

int64_t dist_fill_rows(int64_t row_bytes) { return FILL_BYTES / row_bytes; }

ga_status dist_add_rows(dist_rows **list, int64_t first, int64_t *n, int64_t *room, dist_rows rows, int64_t apart) {
  dist_rows *last = *n > first ? &(*list)[*n - 1] : NULL;
  if (rows.from >= rows.to) return GA_OK;
  if (last && rows.from - last->to <= apart) {
    last->to = ga_max_i64(last->to, rows.to);
    return GA_OK;
  }
  GA_TRY(dist_grow(list, *n, room, sizeof **list, "rows of zeros"));
  (*list)[(*n)++] = rows;
  return GA_OK;
}

/* Of a stretch and a group of heads. */
typedef struct sum_rows {
  dist_rows written; /* by the first that had them */
  dist_rows added;   /* all that others have added to besides lies in here */
} sum_rows;

typedef struct open_sum {
  dist_step *open;       /* NULL: no sum that tiles may write */
  const int32_t *pieces; /* stretches of the owner, NULL = all */
  int64_t n_pieces;
  dist_heads *groups; /* [n_groups], [most_groups] */
  int32_t n_groups, most_groups;
  bool overlap;   /* some groups have heads in common: tiles add alone */
  sum_rows *rows; /* [most_groups][n_pieces] */
} open_sum;

static bool is_empty(dist_rows r) { return r.from >= r.to; }

/* --- one sum --- */

static void forget_sum(open_sum *o) {
  ga_mem_free(o->groups);
  ga_mem_free(o->rows);
  *o = (open_sum){.open = NULL};
}

static ga_status begin_sum(const ga_dist_plan *plan, dist_step *s, open_sum *o) {
  const bool own = s->slot < DIST_OWN_SLOTS;
  void *p;
  *o = (open_sum){.pieces = own ? NULL : plan->pieces + s->piece,
                  .n_pieces = own ? dist_stretches(dist_layout_of(&plan->p, s->tensor), s->owner) : s->pieces,
                  .most_groups = own ? plan->p.grid.heads : 1};
  GA_TRY(ga_mem_zalloc((size_t)o->most_groups, sizeof *o->groups, "groups of heads", &p));
  o->groups = p;
  GA_TRY(ga_mem_zalloc((size_t)(o->most_groups * o->n_pieces) + 1, sizeof *o->rows, "stretches of a sum", &p));
  o->rows = p;
  o->open = s;
  return GA_OK;
}

/* Pieces ascend. */
static int64_t piece_number(const open_sum *o, int64_t stretch) {
  int64_t low = 0, high = o->n_pieces;
  if (!o->pieces) return stretch;
  while (low < high) {
    const int64_t mid = low + (high - low) / 2;
    if (o->pieces[mid] < stretch)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

/* NULL where heads overlap with others. */
static sum_rows *rows_of_sum(open_sum *o, dist_heads h, int64_t stretch) {
  int32_t g = 0;
  for (; g < o->n_groups; g++) {
    if (o->groups[g].begin == h.begin && o->groups[g].end == h.end) break;
    if (o->groups[g].begin < h.end && h.begin < o->groups[g].end) o->overlap = true;
  }
  if (g == o->most_groups) o->overlap = true;
  if (o->overlap) return NULL;
  if (g == o->n_groups) o->groups[o->n_groups++] = h;
  return &o->rows[g * o->n_pieces + piece_number(o, stretch)];
}

/* A result of some rows of a stretch is the first that these get. */
static bool is_first(open_sum *o, dist_heads h, int64_t stretch, dist_rows r, bool may_write) {
  sum_rows *s = o->open && !o->overlap ? rows_of_sum(o, h, stretch) : NULL;
  if (!s) return false;
  const bool is_next = is_empty(s->written) || r.from == s->written.to || r.to == s->written.from,
             is_new = is_empty(s->added) || r.to <= s->added.from || r.from >= s->added.to;
  if (may_write && is_next && is_new) {
    if (is_empty(s->written)) s->written = r;
    s->written = (dist_rows){ga_min_i64(s->written.from, r.from), ga_max_i64(s->written.to, r.to)};
    return true;
  }
  if (r.from >= s->written.from && r.to <= s->written.to) return false;
  if (is_empty(s->added)) s->added = r;
  s->added = (dist_rows){ga_min_i64(s->added.from, r.from), ga_max_i64(s->added.to, r.to)};
  return false;
}

/* Of rows of a piece: those that each head has. */
static dist_rows written_rows(const open_sum *o, int64_t piece) {
  dist_rows all = {0, INT64_MAX};
  int32_t heads = 0;
  for (int32_t g = 0; g < o->n_groups; g++) {
    const dist_rows w = o->rows[g * o->n_pieces + piece].written;
    all = (dist_rows){ga_max_i64(all.from, w.from), ga_min_i64(all.to, w.to)};
    heads += o->groups[g].end - o->groups[g].begin;
  }
  return o->overlap || heads < o->open->heads || is_empty(all) ? (dist_rows){0, 0} : all;
}

/* No tile comes any more, or the sum is sent: what is not written begins at zero. */
static ga_status end_sum(ga_dist_plan *plan, open_sum *o) {
  const dist_problem *p = &plan->p;
  dist_step *const s = o->open;
  if (!s) return GA_OK;
  const int64_t row_bytes = (int64_t)s->heads * dist_row_bytes(p, s->tensor), first = plan->n_zeros,
                apart = dist_fill_rows(row_bytes);
  for (int64_t i = 0, row = 0, n; i < o->n_pieces; i++, row += n) {
    const dist_rows w = written_rows(o, i);
    n = dist_stretch_at(dist_layout_of(p, s->tensor), s->owner, o->pieces ? o->pieces[i] : i)->count;
    GA_TRY(dist_add_rows(&plan->zeros, first, &plan->n_zeros, &plan->zero_room, (dist_rows){row, row + w.from}, apart));
    GA_TRY(
        dist_add_rows(&plan->zeros, first, &plan->n_zeros, &plan->zero_room, (dist_rows){row + w.to, row + n}, apart));
  }
  s->zero = first, s->zeros = plan->n_zeros - first;
  forget_sum(o);
  return GA_OK;
}

/* --- a rank's steps --- */

/* A tile that wrote all it has of one key would be taken for one of no other keys (ga/attn_bwd.h). */
static void note_tile(const dist_problem *p, dist_step *s, open_sum *sums) {
  const dist_heads q = {s->head, s->head + s->heads}, kv = dist_kv_of(p, s->head, s->heads);
  tile_call calls[2];
  const int n = dist_step_calls(p, s, calls);
  for (int i = 0; i < n; i++) {
    const tile_call *c = &calls[i];
    if (is_first(&sums[s->slot], q, s->q_stretch, (dist_rows){c->q, c->q + c->n_q}, true))
      s->writes |= DIST_WRITES_DQ << i;
    if (is_first(&sums[s->slot_dkv], kv, s->k_stretch, (dist_rows){c->k, c->k + c->n_k}, c->n_k > 1))
      s->writes |= DIST_WRITES_DKV << i;
  }
}

static void note_merge(const ga_dist_plan *plan, const dist_step *s, open_sum *o) {
  const ga_dist_layout *l = dist_layout_of(&plan->p, s->tensor);
  for (int64_t i = 0; i < s->pieces; i++) {
    const int32_t stretch = plan->pieces[s->piece + i];
    (void)is_first(o, (dist_heads){s->head, s->head + s->heads}, stretch,
                   (dist_rows){0, dist_stretch_at(l, s->owner, stretch)->count}, false);
  }
}

static ga_status note_step(ga_dist_plan *plan, dist_step *s, open_sum *sums) {
  open_sum *const o = &sums[s->slot];
  switch (s->kind) {
  case DIST_OPEN: GA_TRY(end_sum(plan, o)); return begin_sum(plan, s, o);
  case DIST_SEND:
  case DIST_RECEIVE:
  case DIST_FREE: return end_sum(plan, o);
  case DIST_TILE: note_tile(&plan->p, s, sums); return GA_OK;
  case DIST_MERGE: note_merge(plan, s, o); return GA_OK;
  default: return GA_OK;
  }
}

ga_status dist_find_first(ga_dist_plan *plan, int32_t rank) {
  dist_program *g = &plan->programs[rank];
  void *p;
  ga_status status = GA_OK;
  if (!(plan->p.flags & GA_DIST_BACKWARD)) return GA_OK;
  GA_TRY(ga_mem_zalloc((size_t)g->n_slots, sizeof(open_sum), "sums of a rank", &p));
  open_sum *const sums = p;
  for (int64_t i = 0; i < g->n_steps && status == GA_OK; i++) status = note_step(plan, &g->steps[i], sums);
  for (int32_t i = 0; i < g->n_slots; i++) {
    if (status == GA_OK) status = end_sum(plan, &sums[i]);
    forget_sum(&sums[i]);
  }
  ga_mem_free(p);
  return status;
}
