/* Which queries of a stretch see which keys of another. */
#include "base/mem.h"
#include "dist/plan.h"

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/* Query i stands at x + i step, key j at j step: j step <= x + i step, and j step > x + i step - window. */
dist_band dist_band_of(const dist_problem *p, const dist_stretch *q, const dist_stretch *k) {
  const int64_t step = p->q->step;
  const int64_t x = q->first - p->q->doc_start[q->doc] + dist_shift(p, q->doc) - (k->first - p->kv->doc_start[k->doc]);
  dist_band b = {.low = -q->count, .high = k->count};
  if (p->flags & GA_DIST_CAUSAL) b.high = floor_div(x, step);
  if (p->window) b.low = floor_div(x - p->window, step) + 1;
  return b;
}

/* j - i takes each value from 1 - q->count to k->count - 1. */
bool dist_sees(const dist_problem *p, const dist_stretch *q, const dist_stretch *k) {
  if (q->doc != k->doc) return false;
  const dist_band b = dist_band_of(p, q, k);
  return ga_max_i64(b.low, 1 - q->count) <= ga_min_i64(b.high, k->count - 1);
}

/* Sum of min(max(i + t + 1, 0), m) over i in [0, n): pairs with j - i <= t. */
static int64_t pairs_up_to(int64_t t, int64_t n, int64_t m) {
  const int64_t begin = ga_min_i64(n, ga_max_i64(0, -t));                      /* first i that sees a key */
  const int64_t full = ga_max_i64(begin, ga_min_i64(n, ga_max_i64(0, m - t))); /* first i that sees all */
  const int64_t first = begin + t + 1, some = full - begin;
  return some * first + some * (some - 1) / 2 + (n - full) * m;
}

int64_t dist_pairs(const dist_problem *p, const dist_stretch *q, const dist_stretch *k) {
  if (!dist_sees(p, q, k)) return 0;
  const dist_band b = dist_band_of(p, q, k);
  return pairs_up_to(b.high, q->count, k->count) - pairs_up_to(b.low - 1, q->count, k->count);
}
