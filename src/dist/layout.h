/* Internals of layouts, which assign tokens to ranks. A layout consists of stretches: tokens of one document at equal
 * distances. */
#ifndef GA_DIST_LAYOUT_H
#define GA_DIST_LAYOUT_H

#include "ga/dist.h"

/* A stretch: tokens first, first + step, first + 2 step, ... of one document, where step is ga_dist_layout.step. They
 * are consecutive rows of their rank. */
typedef struct dist_stretch {
  /* Index of the first token in the packed batch. */
  int64_t first;
  int64_t count; /* Number of tokens, 1 or more. */
  /* First row in the rank's tensors. */
  int64_t row;
  int64_t doc;
} dist_stretch;

struct ga_dist_layout {
  int32_t ranks, order;
  /* Distance between the tokens of a stretch: the number of ranks in a striped layout, otherwise 1. */
  int64_t step;
  int64_t documents, tokens;
  int64_t *doc_start; /* Index in the packed batch of each document's first token, [documents + 1]. */
  /* Index in `stretches` of the first stretch of each rank, [ranks + 1]. */
  int64_t *rank_start;
  int64_t *rows; /* Number of rows of each rank, [ranks]. */
  /* All stretches, rank after rank. The stretches of a rank are in the order of its rows, which is also the order of
   * tokens. */
  dist_stretch *stretches;
  uint64_t id;
};

/* Returns the start of part i when n things are divided into `parts` nearly equal parts: floor(n i / parts), without
 * overflow. n is at most 2^40, parts at most 2^22. */
static inline int64_t dist_cut(int64_t n, int64_t i, int64_t parts) { return n / parts * i + n % parts * i / parts; }
enum { DIST_MOST_LISTS = 64 };
/* Assignment of documents to ranks. A document that is cut over some ranks, but not all, has a list of these ranks.
 * List i has degree[i] ranks, which begin at rank[i x ranks of the layout]. */
typedef struct dist_dealt {
  /* Owner of each document, [documents]: the rank that has it as a whole. -1: all ranks have chunks of it. -2 - i: the
   * ranks of list i have chunks of it. */
  int32_t *owner;
  int32_t degree[DIST_MOST_LISTS];
  /* Ranks of the lists, [DIST_MOST_LISTS x ranks]. */
  int32_t *rank;
} dist_dealt;
/* Assigns each document of l to one rank, to some ranks or to all, so that ranks have about equal work
 * (GA_DIST_DOCUMENTS). l->doc_start must be set. */
GA_NODISCARD ga_status dist_deal_documents(const ga_dist_layout *l, dist_dealt *out);

static inline int64_t dist_stretches(const ga_dist_layout *l, int32_t rank) {
  return l->rank_start[rank + 1] - l->rank_start[rank];
}
static inline const dist_stretch *dist_stretch_at(const ga_dist_layout *l, int32_t rank, int64_t i) {
  return &l->stretches[l->rank_start[rank] + i];
}

#endif
