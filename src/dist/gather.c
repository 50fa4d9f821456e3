#include "dist/gather.h"

#include <stdlib.h>

#include "base/mem.h"
#include "dist/tile.h"

/* A kernel takes 128 rows of one head: so many of them fill a GPU together with the next group's. */
enum { TILE_ROWS = 128, FEWEST_TILES = 128, GROUPS_FORWARD = 4, GROUPS_BACKWARD = 2, MOST_STRETCHES_CUT = 16 };

bool dist_gathers(const dist_problem *p) {
  const bool backward = p->flags & GA_DIST_BACKWARD;
  return p->table == DIST_PRODUCT && p->grid.heads == 1 && p->grid.q == 1 && p->grid.move_kv == GA_DIST_BULK &&
         (!backward || p->grid.move_dkv == GA_DIST_BULK) && p->q->step == 1 && p->kv->step == 1;
}

/* All of the stretch's document is on this rank in one piece, queries and keys. */
static bool has_whole_document(const dist_problem *p, int32_t rank, const dist_stretch *q) {
  const int64_t n_q = p->q->doc_start[q->doc + 1] - p->q->doc_start[q->doc],
                n_k = p->kv->doc_start[q->doc + 1] - p->kv->doc_start[q->doc],
                at = dist_first_of_doc(p->kv, rank, q->doc);
  if (q->count != n_q || at >= dist_stretches(p->kv, rank)) return false;
  const dist_stretch *k = dist_stretch_at(p->kv, rank, at);
  return k->doc == q->doc && k->count == n_k;
}

/* Gradients of sinks are sums over calls, which f32 alone can add. */
static bool may_be_local(const dist_problem *p) {
  return p->kv->documents > 1 && !(p->flags & GA_DIST_BACKWARD && p->flags & GA_DIST_SINKS);
}

static int64_t longest_stretch(const ga_dist_layout *l) {
  int64_t most = 0;
  for (int64_t i = 0; i < l->rank_start[l->ranks]; i++) most = ga_max_i64(most, l->stretches[i].count);
  return most;
}

/* What a rank gathers keys for, on the rank that has most of it: whole tiles of queries, and stretches. */
static void most_gathered(const dist_problem *p, int64_t *most_tiles, int64_t *most_stretches) {
  *most_tiles = *most_stretches = 0;
  for (int32_t r = 0; r < p->ranks; r++) {
    int64_t tiles = 0, stretches = 0;
    for (int64_t i = 0; i < dist_stretches(p->q, r); i++) {
      const dist_stretch *q = dist_stretch_at(p->q, r, i);
      if (may_be_local(p) && has_whole_document(p, r, q)) continue;
      tiles += q->count / TILE_ROWS;
      stretches++;
    }
    *most_tiles = ga_max_i64(*most_tiles, tiles);
    *most_stretches = ga_max_i64(*most_stretches, stretches);
  }
}

/* Backward with fewer heads of keys than of queries: calls of few heads are slower by more than they hide (measured
 * on H200, 8192 tokens a GPU: two groups take 1.13 to 1.35 times as long). */
int32_t dist_gather_groups(const dist_problem *p) {
  int64_t tiles = longest_stretch(p->q) / TILE_ROWS, stretches = 0;
  if (p->kv->documents > 1) most_gathered(p, &tiles, &stretches);
  if (p->flags & GA_DIST_BACKWARD && p->q_heads != p->kv_heads) return 1;
  if (stretches > MOST_STRETCHES_CUT) return 1; /* each is copied by itself for each group */
  const int32_t most = p->flags & GA_DIST_BACKWARD ? GROUPS_BACKWARD : GROUPS_FORWARD;
  for (int32_t n = most; n > 1; n /= 2)
    if (p->kv_heads % n == 0 && tiles * (p->q_heads / n) >= FEWEST_TILES) return n;
  return 1;
}

int64_t dist_gather_bytes(const dist_problem *p, int part, int32_t dtype) {
  return p->kv->tokens * p->kv_heads * dist_gather_dim(p, part) * dist_dtype_bytes(dtype);
}

/* --- calls --- */

/* Calls of a stretch; dist_tile_calls finds two where some queries stand behind the last key. */
static ga_status add_calls(const dist_problem *p, int32_t rank, int32_t stretch, gather_list *l) {
  const dist_stretch *q = dist_stretch_at(p->q, rank, stretch);
  const int64_t first = p->kv->doc_start[q->doc];
  const dist_stretch keys = {.first = first, .count = p->kv->doc_start[q->doc + 1] - first, .doc = q->doc};
  tile_call found[GATHER_CALLS_A_STRETCH];
  if (!keys.count || !dist_sees(p, q, &keys)) return GA_OK;
  const int n = dist_tile_calls(p, q, &keys, found);
  for (int i = 0; i < n; i++) {
    const tile_call *f = &found[i];
    GA_TRY(dist_grow(&l->calls, l->n_calls, &l->room, sizeof *l->calls, "calls of a rank"));
    gather_call *c = &l->calls[l->n_calls];
    *c = (gather_call){.stretch = stretch,
                       .causal = f->causal,
                       .adds = l->n_calls > 0 || p->kv->documents > 1,
                       .row = q->row + f->q,
                       .n_q = f->n_q,
                       .key = first + f->k,
                       .n_k = f->n_k,
                       .window = f->window};
    const bool all = n == 1 && f->n_q == q->count && f->n_k == keys.count;
    if (all && may_be_local(p) && has_whole_document(p, rank, q)) {
      c->local = true, c->adds = false;
      c->key = dist_stretch_at(p->kv, rank, dist_first_of_doc(p->kv, rank, q->doc))->row;
    }
    const gather_call *before = l->n_calls ? c - 1 : NULL;
    if (p->flags & GA_DIST_BACKWARD && before && dist_stretch_at(p->q, rank, before->stretch)->doc == q->doc)
      c->round = before->round + 1;
    l->n_calls++;
  }
  return GA_OK;
}

/* Local ones first; then by what a call has one of; long ones first. */
static int by_batch(const void *a, const void *b) {
  const gather_call *x = a, *y = b;
  if (x->local != y->local) return x->local ? -1 : 1;
  if (x->round != y->round) return x->round < y->round ? -1 : 1;
  if (x->causal != y->causal) return x->causal ? -1 : 1;
  if (x->window != y->window) return x->window < y->window ? -1 : 1;
  if (x->n_q != y->n_q) return x->n_q > y->n_q ? -1 : 1;
  return x->row < y->row ? -1 : x->row > y->row;
}

/* What a call of packed sequences takes for each grows with the longest: so they may not differ too much. The bounds of
 * rows are those of kernels. */
static bool fits_batch(const dist_problem *p, const gather_list *l, const gather_batch *b, int64_t sum_q,
                       const gather_call *c) {
  const int64_t most_padding = 3, little = 4096, most_tokens = (int64_t)1 << 28, most_rows = (int64_t)1 << 33;
  const gather_call *first = &l->calls[b->first];
  if (p->kv->documents == 1 || p->q->tokens > most_tokens || p->kv->tokens > most_tokens) return false;
  if (c->local != first->local || c->round != first->round || c->causal != first->causal || c->window != first->window)
    return false;
  return (b->n + 1) * b->max_q <= most_padding * (sum_q + c->n_q) + little && b->n + 1 <= most_tokens / p->q_heads &&
         (b->n + 1) * b->max_q <= most_rows / p->q_heads;
}

static ga_status cut_batches(const dist_problem *p, gather_list *l) {
  int64_t sum_q = 0;
  for (int64_t i = 0; i < l->n_calls; i++) {
    const gather_call *c = &l->calls[i];
    gather_batch *b = l->n_batches ? &l->batches[l->n_batches - 1] : NULL;
    if (!b || !fits_batch(p, l, b, sum_q, c)) {
      GA_TRY(dist_grow(&l->batches, l->n_batches, &l->batch_room, sizeof *l->batches, "calls of a rank"));
      b = &l->batches[l->n_batches++];
      *b = (gather_batch){.first = i};
      sum_q = 0;
    }
    b->n++;
    b->max_q = ga_max_i64(b->max_q, c->n_q), b->max_k = ga_max_i64(b->max_k, c->n_k);
    sum_q += c->n_q;
  }
  return GA_OK;
}

/* From the last stretch on: those that see most keys are the longest calls, and the others fill what they leave. */
ga_status dist_gather_list(const dist_problem *p, int32_t rank, gather_list *l) {
  *l = (gather_list){.calls = NULL};
  for (int32_t i = (int32_t)dist_stretches(p->q, rank) - 1; i >= 0; i--) GA_TRY(add_calls(p, rank, i, l));
  if (p->kv->documents > 1 && l->n_calls) qsort(l->calls, (size_t)l->n_calls, sizeof *l->calls, by_batch);
  return cut_batches(p, l);
}

void dist_gather_free(gather_list *l) {
  ga_mem_free(l->calls);
  ga_mem_free(l->batches);
  *l = (gather_list){.calls = NULL};
}
