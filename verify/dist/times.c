/* Sums of a rank's spans: time of attention, of communication, of both, and of neither. */
#include <math.h>
#include <stdlib.h>

#include "base/status.h"
#include "verify/dist/timeline.h"

enum { IN_ATTENTION, IN_COMMUNICATION, IN_WAIT, KINDS };

static int kind_of_span(const rank_span *s) {
  switch (s->work) {
  case GA_DIST_WORK_ATTENTION: return IN_ATTENTION;
  case GA_DIST_WORK_PUSH:
  case GA_DIST_WORK_EXCHANGE: return IN_COMMUNICATION;
  case GA_DIST_WORK_WAIT: return s->peer >= 0 ? IN_WAIT : -1;
  default: return -1;
  }
}

typedef struct change {
  double at;
  int kind, step; /* +1 a span begins, -1 it ends */
} change;

/* Orders by time; at the same time beginnings come first, since a span may have no length. */
static int compare_changes(const void *a, const void *b) {
  const change *x = a, *y = b;
  return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : y->step - x->step;
}

static void keep_longest(rank_times *t, double begin, double end) {
  rank_gap g = {begin, end - begin};
  for (int i = 0; i < TIMELINE_GAPS; i++) {
    if (g.seconds <= t->gaps[i].seconds) continue;
    const rank_gap shorter = t->gaps[i];
    t->gaps[i] = g;
    g = shorter;
  }
}

/* Adds the time between two changes to the kinds of spans that are open then. */
static void sum_times(const change *c, int64_t n, double seconds, rank_times *t) {
  int64_t open[KINDS] = {0};
  double at = 0, gap = 0; /* gap: where the present time without attention began */
  for (int64_t i = 0; i <= n; i++) {
    const double now = i < n ? c[i].at : seconds, passed = now - at;
    if (open[IN_ATTENTION]) t->attention += passed;
    if (open[IN_COMMUNICATION]) t->communication += passed;
    if (open[IN_COMMUNICATION] && open[IN_ATTENTION]) t->overlapped += passed;
    if (open[IN_WAIT] && !open[IN_ATTENTION]) t->waiting += passed;
    at = now;
    const bool was_attention = open[IN_ATTENTION] > 0;
    if (i < n) open[c[i].kind] += c[i].step;
    if (!was_attention && (i == n || open[IN_ATTENTION])) keep_longest(t, gap, at);
    if (was_attention && !open[IN_ATTENTION]) gap = at;
  }
}

ga_status dist_rank_times(const rank_span *s, int64_t n, double seconds, rank_times *out) {
  int64_t n_changes = 0;
  *out = (rank_times){0};
  change *c = calloc(2 * (size_t)n + 1, sizeof *c);
  if (!c) return ga_fail_nomem("spans", 2 * (size_t)n * sizeof *c);
  for (int64_t i = 0; i < n; i++) {
    const int kind = kind_of_span(&s[i]);
    if (kind < 0) continue;
    c[n_changes++] = (change){s[i].begin, kind, 1};
    c[n_changes++] = (change){s[i].end, kind, -1};
  }
  qsort(c, (size_t)n_changes, sizeof *c, compare_changes);
  sum_times(c, n_changes, seconds, out);
  free(c);
  return GA_OK;
}

const rank_span *dist_span_of_gap(const rank_span *s, int64_t n, const rank_gap *g) {
  const rank_span *best = NULL;
  double most = g->seconds / 2;
  for (int64_t i = 0; i < n; i++) {
    const double both = fmin(s[i].end, g->begin + g->seconds) - fmax(s[i].begin, g->begin);
    if (both <= most) continue;
    best = &s[i];
    most = both;
  }
  return best;
}
