/* Layouts from the inside: stretches of tokens at equal distances. */
#ifndef GA_DIST_LAYOUT_H
#define GA_DIST_LAYOUT_H

#include "ga/dist.h"

/* Tokens first, first + step, ... of one document; step is the layout's. They are consecutive rows of their rank. */
typedef struct dist_stretch {
  int64_t first; /* token of the packed batch */
  int64_t count; /* 1 or more */
  int64_t row;   /* of the rank */
  int64_t doc;
} dist_stretch;

struct ga_dist_layout {
  int32_t ranks, order;
  int64_t step; /* ranks when striped, else 1 */
  int64_t documents, tokens;
  int64_t *doc_start;      /* [documents + 1] */
  int64_t *rank_start;     /* [ranks + 1] first stretch of each rank */
  int64_t *rows;           /* [ranks] */
  dist_stretch *stretches; /* rank after rank, in the order of rows, which is that of tokens */
  uint64_t id;
};

/* floor(n i / parts) without overflow: n is at most 2^40, parts at most 2^22. */
static inline int64_t dist_cut(int64_t n, int64_t i, int64_t parts) { return n / parts * i + n % parts * i / parts; }
/* Documents that are cut over some ranks: list i has degree[i] of them, from rank[i x ranks of the layout] on. */
enum { DIST_MOST_LISTS = 64 };
typedef struct dist_dealt {
  int32_t *owner; /* [documents] rank that has it as a whole; -1 = all have chunks of it; -2 - i = those of list i */
  int32_t degree[DIST_MOST_LISTS];
  int32_t *rank; /* [DIST_MOST_LISTS x ranks] */
} dist_dealt;
/* Gives each document of l to one rank, to some or to all, so that work is even (GA_DIST_DOCUMENTS). l->doc_start is
 * set. */
GA_NODISCARD ga_status dist_deal_documents(const ga_dist_layout *l, dist_dealt *out);

static inline int64_t dist_stretches(const ga_dist_layout *l, int32_t rank) {
  return l->rank_start[rank + 1] - l->rank_start[rank];
}
static inline const dist_stretch *dist_stretch_at(const ga_dist_layout *l, int32_t rank, int64_t i) {
  return &l->stretches[l->rank_start[rank] + i];
}

#endif
