#include "dist/gather.h"

#include "base/mem.h"
#include "dist/tile.h"

/* A kernel takes 128 rows of one head: so many of them fill a GPU together with the next group's. */
enum { TILE_ROWS = 128, FEWEST_TILES = 128, GROUPS_FORWARD = 4, GROUPS_BACKWARD = 2 };

bool dist_gathers(const dist_problem *p) {
  const bool backward = p->flags & GA_DIST_BACKWARD;
  return p->table == DIST_PRODUCT && p->grid.heads == 1 && p->grid.q == 1 && p->grid.move_kv == GA_DIST_BULK &&
         (!backward || p->grid.move_dkv == GA_DIST_BULK) && p->q->step == 1 && p->kv->step == 1;
}

static int64_t longest_stretch(const ga_dist_layout *l) {
  int64_t most = 0;
  for (int64_t i = 0; i < l->rank_start[l->ranks]; i++) most = ga_max_i64(most, l->stretches[i].count);
  return most;
}

/* Backward with fewer heads of keys than of queries: calls of few heads are slower by more than they hide (measured
 * on H200, 8192 tokens a GPU: two groups take 1.13 to 1.35 times as long). */
int32_t dist_gather_groups(const dist_problem *p) {
  const int64_t tiles = longest_stretch(p->q) / TILE_ROWS;
  if (p->flags & GA_DIST_BACKWARD && p->q_heads != p->kv_heads) return 1;
  const int32_t most = p->flags & GA_DIST_BACKWARD ? GROUPS_BACKWARD : GROUPS_FORWARD;
  for (int32_t n = most; n > 1; n /= 2)
    if (p->kv_heads % n == 0 && tiles * (p->q_heads / n) >= FEWEST_TILES) return n;
  return 1;
}

int64_t dist_gather_bytes(const dist_problem *p, int part, int32_t dtype) {
  return p->kv->tokens * p->kv_heads * dist_gather_dim(p, part) * dist_dtype_bytes(dtype);
}

/* --- calls --- */

typedef struct call_list {
  gather_call *calls;
  int64_t n, room;
} call_list;

/* Calls of a stretch; dist_tile_calls finds two where some queries stand behind the last key. */
static ga_status add_calls(const dist_problem *p, int32_t rank, int32_t stretch, bool is_first, call_list *l) {
  const dist_stretch *q = dist_stretch_at(p->q, rank, stretch);
  const int64_t first = p->kv->doc_start[q->doc];
  const dist_stretch keys = {.first = first, .count = p->kv->doc_start[q->doc + 1] - first, .doc = q->doc};
  tile_call found[2];
  if (!keys.count || !dist_sees(p, q, &keys)) return GA_OK;
  const int n = dist_tile_calls(p, q, &keys, found);
  for (int i = 0; i < n; i++) {
    GA_TRY(dist_grow(&l->calls, l->n, &l->room, sizeof *l->calls, "calls of a rank"));
    l->calls[l->n++] = (gather_call){.stretch = stretch,
                                     .causal = found[i].causal,
                                     .adds = i > 0 || !is_first,
                                     .q = found[i].q,
                                     .n_q = found[i].n_q,
                                     .key = first + found[i].k,
                                     .n_k = found[i].n_k,
                                     .window = found[i].window};
  }
  return GA_OK;
}

/* From the last stretch on: those that see most keys are the longest calls, and the others fill what they leave. */
ga_status dist_gather_list(const dist_problem *p, int32_t rank, gather_call **calls, int64_t *n) {
  call_list l = {0};
  ga_status status = GA_OK;
  for (int32_t i = (int32_t)dist_stretches(p->q, rank) - 1; i >= 0 && status == GA_OK; i--) {
    status = add_calls(p, rank, i, !l.n && p->kv->documents == 1, &l);
  }
  *calls = l.calls, *n = l.n;
  return status;
}
