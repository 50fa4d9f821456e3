#include "dist/gather.h"

#include <stdlib.h>

#include "base/mem.h"
#include "dist/tile.h"

/* A kernel takes 128 rows of one head: so many of them fill a GPU together with the next group's. */
enum { TILE_ROWS = 128, FEWEST_TILES = 128, GROUPS_FORWARD = 4, GROUPS_BACKWARD = 2, MOST_STRETCHES_CUT = 16 };
enum { F32 = 4 };

bool dist_gathers(const dist_problem *p) {
  const bool backward = p->flags & GA_DIST_BACKWARD;
  return p->table == DIST_PRODUCT && p->grid.heads == 1 && p->grid.q == 1 && p->grid.move_kv == GA_DIST_BULK &&
         (!backward || p->grid.move_dkv == GA_DIST_BULK) && p->q->step == 1 && p->kv->step == 1;
}

bool dist_may_split_heads(const dist_problem *p) {
  const ga_dist_grid *g = &p->grid;
  const int moves[] = {g->move_q, g->move_kv, g->move_out, g->move_dkv};
  for (int i = 0; i < (p->flags & GA_DIST_BACKWARD ? 4 : 3); i++)
    if (moves[i] != GA_DIST_BULK) return false;
  return p->table == DIST_PRODUCT && p->ranks > 1 && g->heads == p->ranks && p->kv_heads % p->ranks == 0 &&
         p->q->step == 1 && p->kv->step == 1 && !(p->flags & GA_DIST_SINKS);
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

/* Heads of a rank, of all tokens. Backward a kernel takes 128 keys of one head of keys; with few of them two groups
 * took up to 1.5 times as long (H100). */
static int32_t split_groups(const dist_problem *p) {
  const int32_t most = p->flags & GA_DIST_BACKWARD ? GROUPS_BACKWARD : GROUPS_FORWARD, heads = p->kv_heads / p->ranks;
  if (p->q->rank_start[p->ranks] > (int64_t)MOST_STRETCHES_CUT * p->ranks) return 1; /* each is copied by itself */
  const bool backward = p->flags & GA_DIST_BACKWARD;
  const int32_t q_heads = p->q_heads / p->ranks;
  for (int32_t n = most; n > 1; n /= 2) {
    const int64_t tiles = backward ? p->kv->tokens / TILE_ROWS * (heads / n) : p->q->tokens / TILE_ROWS * (q_heads / n);
    if (heads % n == 0 && tiles >= (backward ? 2 : 1) * FEWEST_TILES) return n;
  }
  return 1;
}

/* Backward with fewer heads of keys than of queries: calls of few heads are slower by more than they hide (measured
 * on H200, 8192 tokens a GPU: two groups take 1.13 to 1.35 times as long). */
int32_t dist_gather_groups(const dist_problem *p) {
  if (p->splits_heads) return split_groups(p);
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

/* Gradients of sinks are sums over the calls of all documents: none is the first. */
static bool sinks_of_documents(const dist_problem *p) {
  return p->flags & GA_DIST_BACKWARD && p->flags & GA_DIST_SINKS && p->kv->documents > 1;
}

/* Heads are split: all of a document in one call. */
static ga_status add_document(const dist_problem *p, int64_t doc, gather_list *l) {
  const int64_t *const q_at = p->q->doc_start, *const kv_at = p->kv->doc_start;
  const dist_stretch q = {.first = q_at[doc], .count = q_at[doc + 1] - q_at[doc], .doc = doc},
                     keys = {.first = kv_at[doc], .count = kv_at[doc + 1] - kv_at[doc], .doc = doc};
  tile_call found[GATHER_CALLS_A_STRETCH];
  if (!q.count || !keys.count || !dist_sees(p, &q, &keys)) return GA_OK;
  const int n = dist_tile_calls(p, &q, &keys, found);
  GA_REQUIRE(n == 1, GA_ERR_INTERNAL, "dist: document %lld has %d calls; must be 1", (long long)doc, n);
  GA_TRY(dist_grow(&l->calls, l->n_calls, &l->room, sizeof *l->calls, "calls of a rank"));
  l->calls[l->n_calls++] = (gather_call){.doc = doc,
                                         .causal = found->causal,
                                         .row = q.first + found->q,
                                         .n_q = found->n_q,
                                         .key = keys.first + found->k,
                                         .n_k = found->n_k,
                                         .window = found->window};
  return GA_OK;
}

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
                       .doc = q->doc,
                       .causal = f->causal,
                       .row = q->row + f->q,
                       .n_q = f->n_q,
                       .key = first + f->k,
                       .n_k = f->n_k,
                       .window = f->window};
    const bool all = n == 1 && f->n_q == q->count && f->n_k == keys.count;
    if (all && may_be_local(p) && has_whole_document(p, rank, q)) {
      c->local = true;
      c->key = dist_stretch_at(p->kv, rank, dist_first_of_doc(p->kv, rank, q->doc))->row;
    }
    const gather_call *before = l->n_calls ? c - 1 : NULL;
    if (p->flags & GA_DIST_BACKWARD && before && dist_stretch_at(p->q, rank, before->stretch)->doc == q->doc)
      c->round = before->round + 1;
    c->adds = c->round > 0 || sinks_of_documents(p);
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

/* --- what calls do not write --- */

static int by_first_row(const void *a, const void *b) {
  const dist_rows *x = a, *y = b;
  return x->from < y->from ? -1 : x->from > y->from;
}

/* What calls write, in ascending order: queries, or tokens of keys. Keys of local documents count as written where
 * nobody reads their sums. */
static int64_t list_written(const dist_problem *p, const gather_list *l, bool keys, dist_rows *out) {
  const bool all_sent = p->grid.need != GA_DIST_SEND_STRETCHES;
  int64_t n = 0;
  for (int64_t i = 0; i < l->n_calls; i++) {
    const gather_call *c = &l->calls[i];
    const int64_t doc = c->doc;
    if (keys && (c->adds || (c->local && all_sent))) continue;
    out[n++] = !keys      ? (dist_rows){c->row, c->row + c->n_q}
               : c->local ? (dist_rows){p->kv->doc_start[doc], p->kv->doc_start[doc + 1]}
                          : (dist_rows){c->key, c->key + c->n_k};
  }
  qsort(out, (size_t)n, sizeof *out, by_first_row);
  return n;
}

/* The rows of `all` that are not in `written`. */
static ga_status add_gaps(dist_rows **list, int64_t *n, int64_t *room, dist_rows all, const dist_rows *written,
                          int64_t n_written, int64_t apart) {
  int64_t at = all.from;
  for (int64_t i = 0; i < n_written && written[i].from < all.to; i++) {
    if (written[i].to <= at) continue;
    GA_TRY(dist_add_rows(list, 0, n, room, (dist_rows){at, ga_min_i64(written[i].from, all.to)}, apart));
    at = ga_max_i64(at, written[i].to);
  }
  return dist_add_rows(list, 0, n, room, (dist_rows){at, all.to}, apart);
}

/* Documents that the rank has some of, queries or keys, from *q and *kv on of its stretches; false: no more. */
static bool next_own_document(const dist_problem *p, int32_t rank, int64_t *q, int64_t *kv, int64_t *doc) {
  const int64_t n_q = dist_stretches(p->q, rank), n_kv = dist_stretches(p->kv, rank);
  const int64_t doc_q = *q < n_q ? dist_stretch_at(p->q, rank, *q)->doc : INT64_MAX,
                doc_kv = *kv < n_kv ? dist_stretch_at(p->kv, rank, *kv)->doc : INT64_MAX;
  *doc = ga_min_i64(doc_q, doc_kv);
  while (*q < n_q && dist_stretch_at(p->q, rank, *q)->doc == *doc) ++*q;
  while (*kv < n_kv && dist_stretch_at(p->kv, rank, *kv)->doc == *doc) ++*kv;
  return *doc < INT64_MAX;
}

/* Peers get sums of what these have; of all tokens where whole blocks are sent. */
static ga_status find_key_zeros(const dist_problem *p, int32_t rank, gather_list *l, const dist_rows *written,
                                int64_t n) {
  const int64_t apart = dist_fill_rows((int64_t)F32 * p->kv_heads * (p->head_dim + p->v_dim));
  const dist_rows all = {0, p->kv->tokens};
  int64_t q = 0, kv = 0, doc;
  if (p->kv->documents == 1 || p->grid.need != GA_DIST_SEND_STRETCHES)
    return add_gaps(&l->kv_zeros, &l->n_kv_zeros, &l->kv_room, all, written, n, apart);
  for (int64_t from = 0; next_own_document(p, rank, &q, &kv, &doc);) {
    const dist_rows of_doc = {p->kv->doc_start[doc], p->kv->doc_start[doc + 1]};
    while (from < n && written[from].to <= of_doc.from) from++;
    GA_TRY(add_gaps(&l->kv_zeros, &l->n_kv_zeros, &l->kv_room, of_doc, written + from, n - from, apart));
  }
  return GA_OK;
}

static ga_status find_zeros(const dist_problem *p, int32_t rank, gather_list *l) {
  const int64_t apart = dist_fill_rows((int64_t)F32 * p->q_heads * p->head_dim);
  const dist_rows own = {0, p->q->rows[rank]};
  void *memory;
  l->sink_zeros = p->flags & GA_DIST_SINKS && (!l->n_calls || sinks_of_documents(p));
  GA_TRY(ga_mem_zalloc((size_t)l->n_calls + 1, sizeof(dist_rows), "calls of a rank", &memory));
  dist_rows *const written = memory;
  int64_t n = list_written(p, l, false, written);
  ga_status status = add_gaps(&l->q_zeros, &l->n_q_zeros, &l->q_room, own, written, n, apart);
  n = list_written(p, l, true, written);
  if (status == GA_OK) status = find_key_zeros(p, rank, l, written, n);
  ga_mem_free(memory);
  return status;
}

/* From the last stretch on: those that see most keys are the longest calls, and the others fill what they leave. */
ga_status dist_gather_list(const dist_problem *p, int32_t rank, gather_list *l) {
  *l = (gather_list){.calls = NULL};
  for (int64_t i = 0; i < p->q->documents && p->splits_heads; i++) GA_TRY(add_document(p, i, l));
  for (int32_t i = (int32_t)dist_stretches(p->q, rank) - 1; i >= 0 && !p->splits_heads; i--)
    GA_TRY(add_calls(p, rank, i, l));
  if (p->kv->documents > 1 && l->n_calls) qsort(l->calls, (size_t)l->n_calls, sizeof *l->calls, by_batch);
  GA_TRY(cut_batches(p, l));
  return p->flags & GA_DIST_BACKWARD && !p->splits_heads ? find_zeros(p, rank, l) : GA_OK;
}

void dist_gather_free(gather_list *l) {
  ga_mem_free(l->calls);
  ga_mem_free(l->batches);
  ga_mem_free(l->q_zeros);
  ga_mem_free(l->kv_zeros);
  *l = (gather_list){.calls = NULL};
}
