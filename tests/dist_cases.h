/* Problems that the tests of distributed attention share: masks, documents, ranks without tokens, rows without keys. */
#ifndef GA_TESTS_DIST_CASES_H
#define GA_TESTS_DIST_CASES_H

#include "base/rng.h"
#include "ga/dist.h"

enum { DIST_DOCS_MOST = 8 };

/* Lengths of queries and keys of each document; a document of 0 keys, or with more queries than keys, has rows that
 * see nothing. */
typedef struct dist_case {
  const char *name;
  uint32_t flags;
  int64_t window;
  int32_t documents;
  int64_t q[DIST_DOCS_MOST], kv[DIST_DOCS_MOST];
  bool one_length; /* queries and keys are the same tokens, which distflash needs */
} dist_case;

static const dist_case dist_cases[] = {
    {"causal", GA_DIST_CAUSAL, 0, 1, {67}, {67}, true},
    {"full", 0, 0, 1, {53}, {53}, true},
    {"window", GA_DIST_CAUSAL, 9, 1, {61}, {61}, true},
    {"window, not causal", 0, 13, 1, {40}, {40}, true},
    {"documents", GA_DIST_CAUSAL, 0, 6, {17, 0, 1, 30, 5, 11}, {17, 0, 1, 30, 5, 11}, true},
    {"documents, window", GA_DIST_CAUSAL, 4, 3, {20, 3, 26}, {20, 3, 26}, true},
    {"ranks without tokens", GA_DIST_CAUSAL, 0, 2, {3, 2}, {3, 2}, true},
    {"no tokens", GA_DIST_CAUSAL, 0, 1, {0}, {0}, true},
    {"rows without keys", GA_DIST_CAUSAL, 0, 3, {20, 7, 9}, {12, 0, 9}, false},
    {"cached keys", GA_DIST_CAUSAL, 0, 2, {5, 3}, {41, 30}, false},
    {"no queries", GA_DIST_CAUSAL, 0, 2, {0, 4}, {9, 6}, false},
    {"keys before the window", GA_DIST_CAUSAL, 4, 2, {5, 3}, {41, 30}, false},
};
enum { DIST_CASES = sizeof dist_cases / sizeof *dist_cases };

/* In the order `documents` on four ranks each long one is cut over two. */
static const dist_case dist_two_long = {
    "two long documents", GA_DIST_CAUSAL, 0, 6, {512, 512, 60, 60, 60, 60}, {512, 512, 60, 60, 60, 60}, true};

typedef struct dist_setup {
  ga_dist_layout *q, *kv;
  ga_dist_desc desc;
} dist_setup;

static inline ga_dist_layout *layout_of_lengths(int32_t order, int32_t ranks, int32_t documents,
                                                const int64_t *lengths) {
  ga_dist_layout_desc d = GA_DIST_LAYOUT_DESC_INIT;
  d.order = order, d.ranks = ranks, d.documents = documents, d.lengths = lengths;
  d.chunks = order == GA_DIST_CHUNKS || order == GA_DIST_PIECES ? 3 : 0;
  ga_dist_layout *layout = NULL;
  return ga_dist_layout_create(&d, &layout) == GA_OK ? layout : NULL;
}

/* order 0: the method's. Release with end_dist_case. */
static inline dist_setup start_dist_case(const dist_case *c, const char *method, int32_t order, int32_t ranks,
                                         int32_t q_heads, int32_t kv_heads) {
  dist_setup s = {.desc = GA_DIST_DESC_INIT};
  if (!order) order = ga_dist_method_order(method);
  s.q = layout_of_lengths(order, ranks, c->documents, c->q);
  s.kv = layout_of_lengths(order, ranks, c->documents, c->kv);
  s.desc.method = method, s.desc.q = s.q, s.desc.kv = s.kv;
  s.desc.q_heads = q_heads, s.desc.kv_heads = kv_heads, s.desc.head_dim = 8, s.desc.v_dim = 6;
  s.desc.flags = c->flags, s.desc.window = c->window;
  return s;
}

static inline void end_dist_case(dist_setup *s) {
  ga_dist_layout_destroy(s->q);
  ga_dist_layout_destroy(s->kv);
}

/* What a method does not do: DistFlashAttn is causal, and of queries and keys of one layout. */
static inline bool dist_case_fits(const dist_case *c, const char *method) {
  return method[0] != 'd' || method[1] != 'i' || (c->flags & GA_DIST_CAUSAL && c->one_length);
}

/* Any ways to move. */
static inline ga_dist_grid draw_dist_grid(ga_rng *rng, int32_t heads, int32_t q, int32_t inner, int32_t outer) {
  ga_dist_grid g = GA_DIST_GRID_INIT;
  g.heads = heads, g.q = q, g.kv = inner * outer, g.kv_inner = inner;
  g.move_q = 1 + (int32_t)ga_rng_below(rng, 3);
  g.move_kv = 1 + (int32_t)ga_rng_below(rng, 3);
  g.move_out = 1 + (int32_t)ga_rng_below(rng, 3);
  g.move_dkv = 1 + (int32_t)ga_rng_below(rng, 3);
  g.need = 1 + (int32_t)ga_rng_below(rng, 3);
  g.prefetch = 1 + (int32_t)ga_rng_below(rng, 3);
  return g;
}

#endif
