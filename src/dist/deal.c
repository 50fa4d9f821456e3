/* Whole documents to ranks, so that all have about equal work: the longest first, each to the rank with least (Graham,
 * 1969). Where that leaves a rank with too much, the longest documents are cut as doc_zigzag does: each over as few
 * ranks as its length asks for (FlexSP, arXiv 2412.01523), those with least; or over all, where that leaves less.
 *
 * Work is counted as a kernel takes it: tiles of 128 queries, each by the keys up to its end and by a start that costs
 * as much as some more. Short chunks fill their tiles badly, so documents are cut only where it pays. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "dist/layout.h"

enum { TILE_ROWS = 128, TILE_KEYS = 230 /* keys that a tile's start and end cost as much as: cuda_attn_us */ };
enum { LARGEST_PARTS = 3 }; /* of a document that is cut: a fair share, a half, a quarter are tried */
/* Work beyond the mean that a rank may take: one part in so many. */
#define SLACK_PART 64

typedef struct dealt_document {
  int64_t count, doc;
} dealt_document;

typedef struct rank_load {
  double work;
  int32_t rank;
} rank_load;

typedef struct dealer {
  const ga_dist_layout *l;
  dealt_document *docs; /* longest first */
  double *cut_work;     /* [ranks] of the documents that are cut */
  int64_t cut;          /* so many of the longest */
  rank_load *loads;     /* a heap: least work at the top */
} dealer;

/* Queries [begin, end) of a document. */
static double work_of(int64_t begin, int64_t end) {
  if (end <= begin) return 0;
  const int64_t tiles = ga_div_up(end - begin, TILE_ROWS);
  const double n = (double)tiles, behind = (double)(begin + tiles * TILE_ROWS - end);
  return n * ((double)begin + TILE_KEYS) + TILE_ROWS * n * (n + 1) / 2 - behind;
}

/* Work of chunks r and 2 degree - 1 - r of 2 degree. */
static double work_of_part(int64_t n, int64_t r, int64_t degree) {
  const int64_t parts = 2 * degree, late = parts - 1 - r;
  return work_of(dist_cut(n, r, parts), dist_cut(n, r + 1, parts)) +
         work_of(dist_cut(n, late, parts), dist_cut(n, late + 1, parts));
}

static int by_length(const void *a, const void *b) {
  const dealt_document *x = a, *y = b;
  if (x->count != y->count) return x->count > y->count ? -1 : 1;
  return x->doc < y->doc ? -1 : x->doc > y->doc;
}

static bool is_less(const rank_load *a, const rank_load *b) {
  return a->work != b->work ? a->work < b->work : a->rank < b->rank;
}

static void sift_down(rank_load *heap, int32_t n, int32_t at) {
  const rank_load x = heap[at];
  for (;;) {
    int32_t child = 2 * at + 1;
    if (child + 1 < n && is_less(&heap[child + 1], &heap[child])) child++;
    if (child >= n || !is_less(&heap[child], &x)) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = x;
}

/* Documents go to all ranks, until so many do. */
static void cut_documents(dealer *d, int64_t cut) {
  const int64_t ranks = d->l->ranks;
  for (; d->cut < cut; d->cut++) {
    const int64_t n = d->docs[d->cut].count;
    for (int64_t r = 0; r < ranks; r++) d->cut_work[r] += work_of_part(n, r, ranks);
  }
}

static double most_work(const dealer *d) {
  double most = 0;
  for (int32_t r = 0; r < d->l->ranks; r++) most = d->loads[r].work > most ? d->loads[r].work : most;
  return most;
}

/* The rest goes to ranks as a whole. The most work of a rank. */
static double deal(dealer *d, int32_t *owner) {
  const ga_dist_layout *l = d->l;
  for (int32_t r = 0; r < l->ranks; r++) d->loads[r] = (rank_load){.work = d->cut_work[r], .rank = r};
  for (int32_t r = l->ranks / 2 - 1; r >= 0; r--) sift_down(d->loads, l->ranks, r);
  for (int64_t i = 0; i < l->documents; i++) {
    owner[d->docs[i].doc] = i < d->cut ? -1 : d->loads[0].rank;
    if (i < d->cut) continue;
    d->loads[0].work += work_of(0, d->docs[i].count);
    sift_down(d->loads, l->ranks, 0);
  }
  return most_work(d);
}

static double most_cut_work(const dealer *d) {
  double most = 0;
  for (int32_t r = 0; r < d->l->ranks; r++) most = d->cut_work[r] > most ? d->cut_work[r] : most;
  return most;
}

/* --- each over some ranks --- */

/* The fewest ranks whose parts are at most so much work. */
static int32_t degree_of(const dealer *d, int64_t n, double most) {
  int32_t degree = 2;
  while (degree < d->l->ranks && work_of_part(n, degree - 1, degree) > most) degree++;
  return degree;
}

/* List i: the ranks with least work take the parts of document i. */
static void cut_over_some(dealer *d, int64_t i, double part, dist_dealt *out) {
  const int64_t n = d->docs[i].count, ranks = d->l->ranks;
  const int32_t degree = degree_of(d, n, part);
  int32_t left = (int32_t)ranks;
  for (int32_t r = 0; r < degree; r++) { /* out of the heap: behind it */
    const rank_load x = d->loads[0];
    out->rank[i * ranks + r] = x.rank;
    d->loads[0] = d->loads[--left];
    d->loads[left] = (rank_load){.work = x.work + work_of_part(n, r, degree), .rank = x.rank};
    sift_down(d->loads, left, 0);
  }
  for (int32_t r = (int32_t)ranks / 2 - 1; r >= 0; r--) sift_down(d->loads, (int32_t)ranks, r);
  out->degree[i] = degree;
  out->owner[d->docs[i].doc] = -2 - (int32_t)i;
}

/* The longest `cut` over some ranks each, the rest as a whole. The most work of a rank; cut_most: before the rest. */
static double deal_some(dealer *d, int64_t cut, double part, dist_dealt *out, double *cut_most) {
  const ga_dist_layout *l = d->l;
  for (int32_t r = 0; r < l->ranks; r++) d->loads[r] = (rank_load){.rank = r};
  for (int64_t i = 0; i < cut; i++) cut_over_some(d, i, part, out);
  *cut_most = most_work(d);
  for (int64_t i = cut; i < l->documents; i++) {
    out->owner[d->docs[i].doc] = d->loads[0].rank;
    d->loads[0].work += work_of(0, d->docs[i].count);
    sift_down(d->loads, l->ranks, 0);
  }
  return most_work(d);
}

/* The fewest that leave no rank with much more than the mean, else those that leave it with least: that most work. */
static double choose_some(dealer *d, double share, double part, dist_dealt *out, int64_t *best) {
  const int64_t most_cut = ga_min_i64(DIST_MOST_LISTS, d->l->documents);
  double least = 0, cut_most;
  *best = 0;
  for (int64_t cut = 0; cut <= most_cut && d->l->ranks > 1; cut++) {
    const double most = deal_some(d, cut, part, out, &cut_most);
    if (cut == 0 || most < least) least = most, *best = cut;
    if (least <= share || cut_most >= least) break;
  }
  return least;
}

/* --- each over all ranks, or over some --- */

static double fair_share(const dealer *d) {
  double sum = 0;
  for (int64_t i = 0; i < d->l->documents; i++) sum += work_of(0, d->docs[i].count);
  return sum / d->l->ranks * (1 + 1.0 / SLACK_PART);
}

/* How many are cut: the fewest that leave no rank with much more than the mean, else those that leave it with least.
 * Beyond 64 not every number is tried. most: what that leaves. */
static int64_t choose_cut(dealer *d, double enough, int32_t *owner, double *most_left) {
  const ga_dist_layout *l = d->l;
  double least = 0;
  int64_t best = 0;
  for (int64_t cut = 0;; cut += 1 + cut / 64) {
    if (cut > l->documents) cut = l->documents;
    cut_documents(d, cut);
    if (cut > 0 && most_cut_work(d) >= least) return best; /* it only grows: no later cut is better */
    const double most = deal(d, owner);
    if (cut == 0 || most < least) *most_left = least = most, best = cut;
    if (least <= enough || cut == l->documents) return best;
  }
}

static void deal_all(dealer *d, int64_t cut, int32_t *owner) {
  memset(d->cut_work, 0, (size_t)d->l->ranks * sizeof *d->cut_work);
  d->cut = 0;
  cut_documents(d, cut);
  (void)deal(d, owner);
}

/* Over some where that is as even: fewer ranks get keys of others, and chunks are longer. */
static void deal_best(dealer *d, dist_dealt *out) {
  const double share = fair_share(d);
  double some = 0, all = 0, part = share, cut_most;
  int64_t some_cut = 0;
  for (int i = 0; i < LARGEST_PARTS; i++) { /* smaller parts leave room to even out the rest, and are on more ranks */
    int64_t cut;
    const double limit = share / (1 << i), most = choose_some(d, share, limit, out, &cut);
    if (i == 0 || most < some) some = most, part = limit, some_cut = cut;
    if (some <= share) break;
  }
  if (some > share) {
    const int64_t cut = choose_cut(d, share, out->owner, &all);
    if (all < some) {
      deal_all(d, cut, out->owner);
      return;
    }
  }
  (void)deal_some(d, some_cut, part, out, &cut_most);
}

ga_status dist_deal_documents(const ga_dist_layout *l, dist_dealt *out) {
  dealer d = {.l = l};
  void *docs = NULL, *loads = NULL, *work = NULL;
  ga_status status;
  GA_TRY_OUT(ga_mem_zalloc((size_t)l->documents, sizeof *d.docs, "documents of a layout", &docs));
  GA_TRY_OUT(ga_mem_zalloc((size_t)l->ranks, sizeof *d.loads, "ranks of a layout", &loads));
  GA_TRY_OUT(ga_mem_zalloc((size_t)l->ranks, sizeof *d.cut_work, "ranks of a layout", &work));
  d.docs = docs, d.loads = loads, d.cut_work = work;
  for (int64_t i = 0; i < l->documents; i++)
    d.docs[i] = (dealt_document){.count = l->doc_start[i + 1] - l->doc_start[i], .doc = i};
  qsort(d.docs, (size_t)l->documents, sizeof *d.docs, by_length);
  deal_best(&d, out);
  status = GA_OK;
out:
  ga_mem_free(work);
  ga_mem_free(docs);
  ga_mem_free(loads);
  return status;
}
