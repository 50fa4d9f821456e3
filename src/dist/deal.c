/* Whole documents to ranks, so that all have about equal work: the longest first, each to the rank with least (Graham,
 * 1969). Where that leaves a rank with too much, the longest documents are cut over all ranks as doc_zigzag does.
 *
 * Work is counted as a kernel takes it: tiles of 128 queries, each by the keys up to its end and by a start that costs
 * as much as some more. Short chunks fill their tiles badly, so documents are cut only where it pays. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/status.h"
#include "dist/layout.h"

enum { TILE_ROWS = 128, TILE_KEYS = 230 /* keys that a tile's start and end cost as much as: cuda_attn_us */ };
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
  const int64_t ranks = d->l->ranks, parts = 2 * ranks;
  for (; d->cut < cut; d->cut++) {
    const int64_t n = d->docs[d->cut].count;
    for (int64_t r = 0; r < ranks; r++) {
      const int64_t late = parts - 1 - r;
      d->cut_work[r] += work_of(dist_cut(n, r, parts), dist_cut(n, r + 1, parts)) +
                        work_of(dist_cut(n, late, parts), dist_cut(n, late + 1, parts));
    }
  }
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
  double most = 0;
  for (int32_t r = 0; r < l->ranks; r++) most = d->loads[r].work > most ? d->loads[r].work : most;
  return most;
}

static double most_cut_work(const dealer *d) {
  double most = 0;
  for (int32_t r = 0; r < d->l->ranks; r++) most = d->cut_work[r] > most ? d->cut_work[r] : most;
  return most;
}

/* How many are cut: the fewest that leave no rank with much more than the mean, else those that leave it with least.
 * Beyond 64 not every number is tried. */
static int64_t choose_cut(dealer *d, int32_t *owner) {
  const ga_dist_layout *l = d->l;
  double sum = 0, least = 0;
  int64_t best = 0;
  for (int64_t i = 0; i < l->documents; i++) sum += work_of(0, d->docs[i].count);
  const double enough = sum / l->ranks * (1 + 1.0 / SLACK_PART);
  for (int64_t cut = 0;; cut += 1 + cut / 64) {
    if (cut > l->documents) cut = l->documents;
    cut_documents(d, cut);
    if (cut > 0 && most_cut_work(d) >= least) return best; /* it only grows: no later cut is better */
    const double most = deal(d, owner);
    if (cut == 0 || most < least) least = most, best = cut;
    if (least <= enough || cut == l->documents) return best;
  }
}

ga_status dist_deal_documents(const ga_dist_layout *l, int32_t *owner) {
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
  const int64_t cut = choose_cut(&d, owner);
  memset(d.cut_work, 0, (size_t)l->ranks * sizeof *d.cut_work);
  d.cut = 0;
  cut_documents(&d, cut);
  (void)deal(&d, owner);
  status = GA_OK;
out:
  ga_mem_free(work);
  ga_mem_free(docs);
  ga_mem_free(loads);
  return status;
}
