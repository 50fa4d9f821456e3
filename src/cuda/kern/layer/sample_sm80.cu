/* KERNEL    sample, sm80
 * COMPUTES  the chain of ga/sample.h. Adjusted logits equal those of ga_ref_sample bit by bit. Weights and their sums
 *           are in double, added in another order than the oracle's, with exp of another library; the token is the same
 *           unless a sum is within 1e-12 of a border. logprob: log-probability of the token under the plain softmax of
 *           the logits, in f32. ROWS: the same for many rows, bit by bit, each with its own parameters
 * CONTRACT  each of n_advance numbers is incremented, and id is appended to the sequence. The next step, a replay of
 *           the same graph, starts from them. The same bits in every run
 * WORK      tokens form at most THREADS groups, one warp each. A warp finds its group's largest logit and, where all
 *           tokens matter, the sum of its weights. The block that finishes last draws. Filters keep a prefix of the
 *           tokens in the order of keys, described by one number, the least key. To find it, all tokens no smaller than
 *           the r-th largest of the groups' maxima go to shared memory (at least r, seldom twice as many) and are
 *           sorted. Only where filters keep more tokens than fit, the key is searched over the vocabulary, 4 bits a
 *           pass. Then weights of the groups with kept tokens are added in the order of ids, and the draw finds its
 *           group and its token. typical keeps no prefix. It searches for the largest kept distance of a token's
 *           surprise from the entropy, sets the logits of all tokens beyond it to -infinity, and recomputes the groups;
 *           the rest of the chain follows
 * DATA      logits once from gmem; groups with candidates and with kept tokens again
 * BARRIERS  name     arrivals  waiter          orders
 *           counter  1/block   last to arrive  the blocks' writes of a row's groups -> the last block's reads
 *           block    all       all             in the last block: each step's lists and sums in shared memory -> the
 *                                              next step's reads
 * BUDGET    THREADS lanes a block, 25 KB of shared memory; docs/log/models.md has times
 */
#include "cuda/dev/ptx/mem.h"
#include "cuda/dev/tile/block_row.h"
#include "cuda/kern/layer/sample_keys.h"
#include "cuda/kern/layer/sample_lists.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block, and the most groups"
#endif
#ifndef GA_P_ROWS
#error "GA_P_ROWS: 1 = many rows of logits, each with parameters of its own in device memory; 0 = one"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

enum { WARPS = GA_P_THREADS / 32, AHEAD = 4 /* loads of a lane under way */ };
enum { EACH = 4, ROOM = EACH * GA_P_THREADS /* candidates, of a lane and in all */ };

typedef struct {
  token_key keys[ROOM];          /* candidates */
  token_key order[GA_P_THREADS]; /* largest logits of the groups, sorted when there are filters; id: the group */
  double weight[GA_P_THREADS];   /* of the groups */
  key_shared scratch;
  row_shared row;
  int last, id;
  double u;
  ga_kargs_sample own; /* of the block's row */
} shared;

/* ---- logits ---- */

/* Are the logits that the last block sees others than the caller's? */
GA_DEV bool has_own(const ga_kargs_sample *a) {
  return a->n_history + a->n_bias > 0 || a->typical_p < 1 || (GA_P_ROWS && a->mask);
}

GA_DEV bool is_allowed(const ga_kargs_sample *a, int64_t i) {
  return !GA_P_ROWS || !a->mask || a->mask[i / 32] >> (i % 32) & 1;
}

/* NaN and -infinity are nobody. */
GA_DEV float drawable(float x) { return x > GA_NEG_INFINITY ? x : GA_NEG_INFINITY; }

/* As the first phase has left it, through L2: another block wrote it. */
GA_DEV float logit_at(const ga_kargs_sample *a, int64_t i) {
  if (i >= a->vocab) return GA_NEG_INFINITY;
  return has_own(a) ? __uint_as_float((uint32_t)ldg_i32_cg((const int32_t *)a->adjusted + i)) : drawable(a->logits[i]);
}

GA_DEV float group_most(const ga_kargs_sample *a, int g) {
  return __uint_as_float((uint32_t)ldg_i32_cg((const int32_t *)a->group_max + g));
}

GA_DEV double weight_of(float x, float top, double temperature) { return exp(((double)x - (double)top) / temperature); }

/* Returns the weight of group g relative to a token with logit `top`, at a->sum_temperature. */
GA_DEV double group_weight(const ga_kargs_sample *a, int g, float top) {
  const float most = group_most(a, g);
  word64 w;
  GA_UNROLL for (int i = 0; i < 2; i++) w.word[i] = (uint32_t)ldg_i32_cg((const int32_t *)(a->group_sum + g) + i);
  return most > GA_NEG_INFINITY ? w.f * weight_of(most, top, (double)a->sum_temperature) : 0;
}

/* ---- phase one: groups ---- */

/* The warp's AHEAD x 32 tokens from `first` on, with biases and penalties where `listed` says so. */
GA_DEV void load_run(const ga_kargs_sample *a, seen_tokens seen, uint32_t listed, int64_t first, float *x) {
  const int lane = thread_index() % 32;
  GA_UNROLL for (int e = 0; e < AHEAD; e++) x[e] =
      first + 32 * e + lane < a->vocab ? a->logits[first + 32 * e + lane] : GA_NEG_INFINITY;
  if (has_own(a)) GA_ROLL for (int e = 0; e < AHEAD; e++) {
      const int64_t i = first + 32 * e + lane;
      float v = x[0]; /* no index into registers */
      GA_UNROLL for (int j = 1; j < AHEAD; j++) v = e == j ? x[j] : v;
      for (uint32_t left = warp_ballot(i < a->vocab && listed >> (i / 32 % 32) & 1); left; left &= left - 1) {
        const int from = lowest_bit(left);
        const float changed = adjusted(a, seen, (int32_t)(first + 32 * e + from), shfl_idx_f32(v, from));
        v = lane == from ? changed : v;
      }
      GA_UNROLL for (int j = 0; j < AHEAD; j++) x[j] = e == j ? v : x[j];
      if (i < a->vocab && !is_allowed(a, i)) {
        v = GA_NEG_INFINITY;
        GA_UNROLL for (int j = 0; j < AHEAD; j++) x[j] = e == j ? v : x[j];
      }
      if (i < a->vocab) a->adjusted[i] = drawable(v);
    }
  GA_UNROLL for (int e = 0; e < AHEAD; e++) x[e] = drawable(x[e]);
}

/* Largest logit of the warp's group, and the sum of e^((x - largest) / sum_temperature) where that is above 0. */
GA_DEV void make_group(const ga_kargs_sample *a, seen_tokens seen, int64_t group) {
  const int64_t first = group << a->group_log, end = first + ((int64_t)1 << a->group_log);
  const uint32_t listed = a->n_history + a->n_bias > 0 ? listed_in(a, seen, group) : 0;
  float most = GA_NEG_INFINITY, x[AHEAD];
  double sum = 0;
  for (int64_t at = first; at < end; at += AHEAD * 32) {
    load_run(a, seen, listed, at, x);
    GA_UNROLL for (int e = 0; e < AHEAD; e++) most = fmaxf(most, x[e]);
  }
  most = row_max_warp(most);
  if (a->sum_temperature > 0 && most > GA_NEG_INFINITY) {
    for (int64_t at = first; at < end; at += AHEAD * 32) {
      if (end - first > AHEAD * 32) GA_UNROLL
        for (int e = 0; e < AHEAD; e++) x[e] = logit_at(a, at + 32 * e + thread_index() % 32);
      GA_UNROLL for (int e = 0; e < AHEAD; e++) sum += weight_of(x[e], most, (double)a->sum_temperature);
    }
    sum = warp_sum_f64(sum);
  }
  if (thread_index() % 32) return;
  a->group_max[group] = most;
  a->group_sum[group] = sum;
}

GA_DEV void make_groups(const ga_kargs_sample *a) {
  const seen_tokens seen = seen_by(a);
  for (int64_t g = (int64_t)(block_index() % a->row_blocks) * WARPS + thread_index() / 32; g < a->groups;
       g += (int64_t)a->row_blocks * WARPS)
    make_group(a, seen, g);
}

/* True in the block that ends last, which then sees what the others wrote. */
GA_DEV bool is_last_block(const ga_kargs_sample *a, shared *s) {
  block_sync();
  if (thread_index() == 0) {
    fence_device();
    s->last = atomic_add_i32(a->counter, 1) == a->row_blocks - 1;
    if (s->last) stg_i32(a->counter, 0);
    fence_device();
  }
  block_sync();
  return s->last != 0;
}

/* ---- filters: the least key that stays ---- */

/* The filters that keep a first part of the tokens, in the order of keys. */
typedef struct {
  int top_k;          /* 0 = off */
  float top_p, min_p; /* 1, 0 = off */
} filters;

/* Groups whose largest logit is at least that of `least`. order is sorted. */
GA_DEV int groups_from(const ga_kargs_sample *a, const shared *s, token_key least) {
  int low = 0, high = a->groups;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (s->order[middle] >> 32 >= least >> 32)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* The sorted tokens with keys from `least` on in s->keys; how many there are, or ROOM + 1 when they do not fit. */
GA_DEV int gather_candidates(const ga_kargs_sample *a, shared *s, token_key least) {
  const int warp = thread_index() / 32, lane = thread_index() % 32, groups = groups_from(a, s, least);
  int mine = 0, before = 0, all = 0;
  GA_ROLL for (int pass = 0; pass < 2; pass++) {
    for (int o = warp; o < groups; o += WARPS) {
      const int64_t first = (int64_t)id_of(s->order[o]) << a->group_log, end = first + ((int64_t)1 << a->group_log);
      for (int64_t at = first; at < end; at += 32) {
        const token_key key = key_of(logit_at(a, at + lane), (int32_t)(at + lane));
        const uint32_t these = warp_ballot(key >= least);
        if (pass && key >= least) s->keys[before + bit_count(these & ((1u << lane) - 1))] = key;
        if (pass)
          before += bit_count(these);
        else
          mine += bit_count(these);
      }
    }
    if (pass) break;
    block_sync();
    if (lane == 0) s->scratch.counts[warp] = mine;
    block_sync();
    for (int w = 0; w < WARPS; w++) {
      before += w < warp ? s->scratch.counts[w] : 0;
      all += s->scratch.counts[w];
    }
    if (all > ROOM) return ROOM + 1;
  }
  int room = 2;
  while (room < all) room *= 2;
  for (int i = all + thread_index(); i < room; i += GA_P_THREADS) s->keys[i] = 0;
  sort_keys(s->keys, room, GA_P_THREADS);
  return all;
}

/* Sum of all weights at temperature 1, from the groups'. */
GA_DEV double whole_weight(const ga_kargs_sample *a, shared *s, float top) {
  const int g = thread_index();
  double z;
  (void)block_scan_f64(&s->scratch, GA_P_THREADS, g < a->groups ? group_weight(a, g, top) : 0, &z);
  return z;
}

/* How many of the n first sorted keys top-p and min-p keep; 0 when top-p keeps more than these. z: of the tokens that
 * top-p is over, 0: these. */
GA_DEV int keep_sorted(const filters *f, shared *s, float top, int n, double z) {
  const int i = EACH * thread_index();
  double w[EACH], own = 0, sum;
  GA_UNROLL for (int e = 0; e < EACH; e++) own += w[e] = i + e < n ? weight_of(logit_of(s->keys[i + e]), top, 1) : 0;
  if (f->top_p < 1) {
    double held =
        block_scan_f64(&s->scratch, GA_P_THREADS, own, &sum) - own; /* of the tokens before: within rounding */
    const double share = (double)f->top_p * (z > 0 ? z : sum);
    int kept = 0;
    if (sum < share && z > 0) return 0;
    GA_UNROLL for (int e = 0; e < EACH; e++) {
      kept += i + e < n && held < share;
      held += w[e];
    }
    n = block_count_of(&s->scratch, GA_P_THREADS, kept);
    n = n < 1 ? 1 : n;
  }
  if (f->min_p > 0) {
    int kept = 0;
    GA_UNROLL for (int e = 0; e < EACH; e++) kept += i + e < n && w[e] >= (double)f->min_p;
    n = block_count_of(&s->scratch, GA_P_THREADS, kept);
    n = n < 1 ? 1 : n;
  }
  return n;
}

/* By sorting candidates: 0 when too many are kept. */
GA_DEV token_key least_of_few(const ga_kargs_sample *a, const filters *f, shared *s, float top) {
  const bool all = a->vocab <= ROOM;
  const double z = f->top_p < 1 && !f->top_k ? whole_weight(a, s, top) : 0;
  if (f->top_k > a->groups && !all) return 0;
  for (int rank = f->top_k ? f->top_k : 48;; rank *= 8) {
    const bool enough = f->top_k || f->top_p >= 1; /* one try */
    token_key bar = all || rank > a->groups ? KEY_LEAST : s->order[rank - 1] & 0xffffffff00000000ull;
    if (!f->top_k &&
        f->top_p >= 1) { /* min-p alone; the margin is far above the rounding of the difference of two logits */
      const double reach = -log((double)f->min_p) * 1.001 + 1e-3 + fabs((double)top) * 1e-6;
      bar = key_of((float)((double)top - reach), 0) & 0xffffffff00000000ull;
    }
    bar = bar < KEY_LEAST ? KEY_LEAST : bar;
    int n = gather_candidates(a, s, bar);
    if (n > ROOM) return 0;
    if (f->top_k && f->top_k < n) n = f->top_k;
    n = keep_sorted(f, s, top, n, bar == KEY_LEAST ? 0 : z);
    if (n) return s->keys[n - 1];
    if (enough || bar == KEY_LEAST) return 0;
  }
}

enum { RADIX_BITS = 4, EDGES = (1 << RADIX_BITS) - 1, KEY_BITS = 64, ID_BITS = 36 /* of id + 1, in whole digits */ };

/* An order of the tokens, as numbers that fall; 0: not one of them. */
typedef enum { BY_LOGIT, BY_DISTANCE, BY_ID } order_by;
typedef struct {
  order_by by;
  token_key least; /* tokens with lower keys are not of them */
  double mean;     /* BY_DISTANCE: from here, the nearest first */
  uint64_t same;   /* BY_ID: tokens at this distance */
} ranking;

/* Bits of a positive number are in the order of the number. */
GA_DEV uint64_t distance_of(const ranking *r, float x, float top) {
  word64 w;
  w.f = fabs((double)x - (double)top - r->mean);
  return w.u;
}
GA_DEV token_key typical_rank(const ranking *r, float x, int32_t id, float top) {
  const token_key key = key_of(x, id);
  if (key < r->least) return 0;
  if (r->by == BY_LOGIT) return key;
  const uint64_t distance = distance_of(r, x, top);
  if (r->by == BY_DISTANCE) return ~distance;
  return distance == r->same ? (token_key)(0xffffffffu - (uint32_t)id) + 1 : 0;
}

/* sums[j] = `above`, and the number, or weight at temperature 1, of the tokens with ranks from base + (j + 1 << shift)
 * on, and below base + (16 << shift): those that are above have been counted. */
GA_DEV void sums_from(const ga_kargs_sample *a, shared *s, const ranking *r, token_key base, int shift, bool weigh,
                      float top, double above, double *sums) {
  double *slots = (double *)s->keys; /* [WARPS][EDGES] */
  GA_UNROLL for (int j = 0; j < EDGES; j++) sums[j] = 0;
  for (int64_t i = thread_index(); i < a->vocab; i += GA_P_THREADS) {
    const float x = logit_at(a, i);
    const token_key rank = typical_rank(r, x, (int32_t)i, top), radix = (rank - base) >> shift;
    if (!rank || rank < base || radix > EDGES) continue;
    const double w = weigh ? weight_of(x, top, 1) : 1;
    GA_UNROLL for (int j = 0; j < EDGES; j++) sums[j] += radix > (token_key)j ? w : 0;
  }
  block_sync();
  GA_UNROLL for (int j = 0; j < EDGES; j++) {
    sums[j] = warp_sum_f64(sums[j]);
    if (thread_index() % 32 == 0) slots[thread_index() / 32 * EDGES + j] = sums[j];
  }
  block_sync();
  GA_UNROLL for (int j = 0; j < EDGES; j++) {
    sums[j] = above;
    for (int w = 0; w < WARPS; w++) sums[j] += slots[w * EDGES + j];
  }
}

/* The largest rank of which the tokens from there on are `target` of; 0 when all of them are not. *beyond: of those
 * with higher ranks. */
GA_DEV token_key search(const ga_kargs_sample *a, shared *s, const ranking *r, int bits, double target, bool weigh,
                        float top, double *beyond) {
  double sums[EDGES], above = 0;
  token_key base = 0;
  GA_ROLL for (int shift = bits - RADIX_BITS; shift >= 0; shift -= RADIX_BITS) {
    sums_from(a, s, r, base, shift, weigh, top, above, sums);
    int radix = 0;
    GA_UNROLL for (int j = 0; j < EDGES; j++) radix = sums[j] >= target ? j + 1 : radix;
    GA_UNROLL for (int j = 0; j < EDGES; j++) above = radix == j ? sums[j] : above;
    base += (token_key)radix << shift;
  }
  *beyond = above;
  return base;
}

/* Weight of all tokens with keys from `least` on, at temperature 1, and the sum of weight times logit less `top`. */
GA_DEV double weigh_all(const ga_kargs_sample *a, shared *s, token_key least, float top, double *moment) {
  double w = 0, m = 0, sum;
  for (int64_t i = thread_index(); i < a->vocab; i += GA_P_THREADS) {
    const float x = logit_at(a, i);
    if (key_of(x, (int32_t)i) < least) continue;
    const double y = weight_of(x, top, 1);
    w += y;
    m += y * ((double)x - (double)top);
  }
  (void)block_scan_f64(&s->scratch, GA_P_THREADS, m, moment);
  (void)block_scan_f64(&s->scratch, GA_P_THREADS, w, &sum);
  return sum;
}

/* The same for any number of kept tokens. */
GA_DEV token_key least_of_many(const ga_kargs_sample *a, const filters *f, shared *s, float top) {
  ranking r = {BY_LOGIT, KEY_LEAST, 0, 0};
  double beyond, moment;
  if (f->top_k) {
    const token_key least = search(a, s, &r, KEY_BITS, f->top_k, false, top, &beyond);
    if (least > r.least) r.least = least;
  }
  if (f->top_p < 1) {
    const double all = weigh_all(a, s, r.least, top, &moment);
    const token_key least = search(a, s, &r, KEY_BITS, (double)f->top_p * all, true, top, &beyond);
    if (least > r.least) r.least = least;
  }
  if (f->min_p > 0) {
    token_key most = 0; /* the least as the largest of its complement */
    for (int64_t i = thread_index(); i < a->vocab; i += GA_P_THREADS) {
      const float x = logit_at(a, i);
      const token_key key = key_of(x, (int32_t)i);
      if (key >= r.least && weight_of(x, top, 1) >= (double)f->min_p && ~key > most) most = ~key;
    }
    r.least = ~block_largest_u64(&s->scratch, GA_P_THREADS, most);
  }
  return r.least;
}

GA_DEV token_key least_of(const ga_kargs_sample *a, const filters *f, shared *s, float top) {
  const token_key least = least_of_few(a, f, s, top);
  return least ? least : least_of_many(a, f, s, top);
}

/* ---- typical ---- */

/* Tokens with ranks from `nearest` on, and of those at the next distance the ones from `tied` on by id, stay; all
 * others become -infinity. Groups of a warp each, as make_group's. */
GA_DEV void remake_groups(const ga_kargs_sample *a, const ranking *near, token_key nearest, token_key tied, float top) {
  const int lane = thread_index() % 32;
  const ranking by_id = {BY_ID, near->least, near->mean, ~nearest};
  for (int g = thread_index() / 32; g < a->groups; g += WARPS) {
    const int64_t first = (int64_t)g << a->group_log, end = first + ((int64_t)1 << a->group_log);
    float most = GA_NEG_INFINITY;
    double sum = 0;
    for (int64_t i = first + lane; i < end && i < a->vocab; i += 32) {
      const float x = logit_at(a, i);
      const token_key rank = typical_rank(near, x, (int32_t)i, top);
      const bool stays =
          rank > nearest || (rank == nearest && rank && typical_rank(&by_id, x, (int32_t)i, top) >= tied);
      a->adjusted[i] = stays ? x : GA_NEG_INFINITY;
      if (stays) most = fmaxf(most, x);
    }
    most = row_max_warp(most);
    for (int64_t i = first + lane; i < end && i < a->vocab && a->sum_temperature > 0 && most > GA_NEG_INFINITY; i += 32)
      sum += weight_of(logit_at(a, i), most, (double)a->sum_temperature);
    sum = warp_sum_f64(sum);
    if (lane == 0) a->group_max[g] = most, a->group_sum[g] = sum;
  }
  block_sync();
}

/* Locally typical sampling (arXiv 2202.00666): of the tokens from `least` on, keeps those whose surprise is nearest to
 * the entropy, until their probabilities add up to typical_p. Surprise minus entropy is the weighted mean of the logits
 * minus the token's logit. */
GA_DEV void keep_typical(const ga_kargs_sample *a, shared *s, token_key least, float top) {
  double moment, nearer, unused;
  const double z = weigh_all(a, s, least, top, &moment), target = (double)a->typical_p * z;
  const ranking near = {BY_DISTANCE, least, moment / z, 0};
  const token_key nearest = search(a, s, &near, KEY_BITS, target, true, top, &nearer);
  const ranking ties = {BY_ID, least, near.mean, ~nearest};
  const token_key tied = search(a, s, &ties, ID_BITS, target - nearer, true, top, &unused);
  remake_groups(a, &near, nearest, tied, top);
}

/* ---- the draw ---- */

/* Weights of the groups at the temperature, of tokens with keys from `least` on, to s->weight. */
GA_DEV void weigh_groups(const ga_kargs_sample *a, shared *s, token_key least, float top) {
  const int g = thread_index(), lane = g % 32;
  const double temperature = (double)a->temperature;
  s->weight[g] = !a->filters && g < a->groups ? group_weight(a, g, top) : 0;
  block_sync();
  if (!a->filters) return;
  const int groups = groups_from(a, s, least);
  for (int o = g / 32; o < groups; o += WARPS) {
    const int group = id_of(s->order[o]);
    const int64_t first = (int64_t)group << a->group_log, end = first + ((int64_t)1 << a->group_log);
    double sum = 0;
    for (int64_t at = first + lane; at < end; at += 32) {
      const float x = logit_at(a, at);
      if (key_of(x, (int32_t)at) >= least) sum += weight_of(x, top, temperature);
    }
    sum = warp_sum_f64(sum);
    if (lane == 0) s->weight[group] = sum;
  }
  block_sync();
}

/* The first kept token of the group at which the sum of weights, `before` at the group's start, passes `target`; else
 * its last kept one. One warp. */
GA_DEV int token_in(const ga_kargs_sample *a, int group, token_key least, float top, double before, double target) {
  const int lane = thread_index() % 32;
  const int64_t first = (int64_t)group << a->group_log, end = first + ((int64_t)1 << a->group_log);
  int last = 0;
  for (int64_t at = first; at < end; at += 32) {
    const float x = logit_at(a, at + lane);
    const bool kept = key_of(x, (int32_t)(at + lane)) >= least;
    const double sum = before + warp_scan_f64(kept ? weight_of(x, top, (double)a->temperature) : 0);
    const uint32_t these = warp_ballot(kept), passed = warp_ballot(kept && sum > target);
    if (passed) return (int)at + lowest_bit(passed);
    if (these) last = (int)at + highest_bit(these);
    before = shfl_idx_f64(sum, 31);
  }
  return last;
}

GA_DEV int sample_token(const ga_kargs_sample *a, shared *s, token_key least, float top, double u) {
  const int g = thread_index();
  double total;
  weigh_groups(a, s, least, top);
  const double mine = s->weight[g], sum = block_scan_f64(&s->scratch, GA_P_THREADS, mine, &total);
  const double target = u * total;
  /* The first group that passes; should none for rounding, the last one with a weight. */
  const uint64_t passed =
      block_largest_u64(&s->scratch, GA_P_THREADS, sum > target && mine > 0 ? (uint64_t)(GA_P_THREADS - g) : 0);
  const uint64_t weighed = block_largest_u64(&s->scratch, GA_P_THREADS, mine > 0 ? (uint64_t)(g + 1) : 0);
  const int group = passed ? GA_P_THREADS - (int)passed : (int)weighed - 1;
  if (g == group) s->u = sum - mine; /* within rounding of the sum before */
  block_sync();
  if (g < 32) {
    const int id = token_in(a, group, least, top, s->u, target);
    if (g == 0) s->id = id;
  }
  block_sync();
  return s->id;
}

/* ---- the generator: xoshiro256**, as base/rng.h ---- */

GA_DEV double next_unit(uint64_t *state) {
  uint64_t s[4];
  GA_UNROLL for (int i = 0; i < 4; i++) s[i] = state[i];
  uint64_t x = s[1] * 5, t = s[1] << 17;
  x = (x << 7 | x >> 57) * 9;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = s[3] << 45 | s[3] >> 19;
  GA_UNROLL for (int i = 0; i < 4; i++) state[i] = s[i];
  return (double)(x >> 11) * (1.0 / 9007199254740992.0);
}

/* ---- phase two ---- */

/* The first token whose logit is the largest; one warp knows. */
GA_DEV int largest_token(const ga_kargs_sample *a, shared *s, token_key best) {
  const int lane = thread_index() % 32;
  const int64_t first = (int64_t)id_of(best) << a->group_log, end = first + ((int64_t)1 << a->group_log);
  if (thread_index() < 32)
    for (int64_t at = first; at < end; at += 32) {
      const uint32_t these = warp_ballot(logit_at(a, at + lane) == logit_of(best));
      if (!these) continue;
      if (lane == 0) s->id = (int)at + lowest_bit(these);
      break;
    }
  block_sync();
  return s->id;
}

/* The groups' largest logits in s->order; the key of the largest of all, its id the group. */
GA_DEV token_key order_groups(const ga_kargs_sample *a, shared *s) {
  const int g = thread_index();
  const token_key mine = g < a->groups ? key_of(group_most(a, g), g) : 0;
  s->order[g] = mine;
  return block_largest_u64(&s->scratch, GA_P_THREADS, mine);
}

GA_DEV int choose(const ga_kargs_sample *a, shared *s) {
  filters f = {a->top_k, a->top_p, a->min_p};
  if (thread_index() == 0) s->u = a->temperature > 0 ? next_unit(a->rng) : 0;
  token_key best = order_groups(a, s), least = KEY_LEAST;
  float top = logit_of(best);
  const double u = s->u;
  if (best < KEY_LEAST) return 0;
  if (a->temperature == 0 || top > 3.402823466e38f) return largest_token(a, s, best);
  if (a->typical_p < 1) {
    const filters first = {f.top_k, 1, 0};
    if (f.top_k) {
      sort_keys(s->order, GA_P_THREADS, GA_P_THREADS);
      least = least_of(a, &first, s, top);
    }
    keep_typical(a, s, least, top);
    f.top_k = 0;
    best = order_groups(a, s);
    top = logit_of(best);
  }
  if (!a->filters) return sample_token(a, s, KEY_LEAST, top, u);
  sort_keys(s->order, GA_P_THREADS, GA_P_THREADS);
  least = least_of(a, &f, s, top);
  return sample_token(a, s, least, top, u);
}

GA_DEV void put_logprob(const ga_kargs_sample *a, shared *s, int id) {
  float most = GA_NEG_INFINITY, sum = 0;
  for (int64_t i = thread_index(); i < a->vocab; i += GA_P_THREADS) most = fmaxf(most, a->logits[i]);
  most = row_max(&s->row, 0, GA_P_THREADS, most);
  for (int64_t i = thread_index(); i < a->vocab; i += GA_P_THREADS) sum += expf(a->logits[i] - most);
  sum = row_sum(&s->row, 1, GA_P_THREADS, sum);
  if (thread_index() == 0) *a->logprob = a->logits[id] - most - logf(sum);
}

/* ---- rows ---- */

/* Makes the arguments of row y from those of all rows and the row's parameters, as kargs_of in sample_sm80.c does
 * for one row. For one thread. */
GA_DEV void take_row(const ga_kargs_sample *all, int y, ga_kargs_sample *a) {
  const ga_kargs_sample_row *r = all->rows + y;
  const int64_t skipped = y * all->workspace_stride;
  const int first_k = r->typical_p < 1 || r->top_k >= all->vocab ? 0 : r->top_k;
  *a = *all;
  a->logits = all->logits + r->logits * all->logits_stride;
  a->history = r->sequence < 0 ? 0 : all->append + (r->sequence - r->n_history);
  a->append = r->sequence < 0 ? 0 : all->append + r->sequence;
  a->n_history = r->sequence < 0 ? 0 : r->n_history;
  a->bias = (const logit_bias *)all->bias + r->bias;
  a->n_bias = r->n_bias;
  a->mask = r->mask < 0 ? 0 : all->mask + r->mask * ((all->vocab + 31) / 32);
  a->id = all->id + y;
  a->logprob = all->logprob ? all->logprob + y : 0;
  a->rng = all->rng + 4 * y;
  a->adjusted = (float *)((char *)all->adjusted + skipped);
  a->group_max = (float *)((char *)all->group_max + skipped);
  a->group_sum = (double *)((char *)all->group_sum + skipped);
  a->counter = all->counter + y;
  a->top_k = r->top_k < all->vocab ? r->top_k : 0;
  a->filters = first_k || r->top_p < 1 || r->min_p > 0;
  a->temperature = r->temperature;
  a->top_p = r->top_p;
  a->min_p = r->min_p;
  a->sum_temperature = !a->filters ? r->temperature : r->temperature > 0 && r->top_p < 1 && !first_k ? 1 : 0;
  a->repetition_penalty = r->repetition_penalty;
  a->presence_penalty = r->presence_penalty;
  a->frequency_penalty = r->frequency_penalty;
  a->typical_p = r->typical_p;
}

GA_DEV int row_of_block(const ga_kargs_sample *all) { return block_index() / all->row_blocks; }

/* A row of which nothing is drawn. */
GA_DEV void put_none(const ga_kargs_sample *all, int y) {
  if (block_index() % all->row_blocks || thread_index()) return;
  all->id[y] = -1;
  if (all->logprob) all->logprob[y] = __uint_as_float(0x7fc00000u);
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_sample all) {
  GA_SHARED shared s;
  const ga_kargs_sample *a = GA_P_ROWS ? &s.own : &all;
  grid_dependency_wait();
  if (GA_P_ROWS) {
    if (all.rows[row_of_block(&all)].logits < 0) return put_none(&all, row_of_block(&all));
    if (thread_index() == 0) take_row(&all, row_of_block(&all), &s.own);
    block_sync();
  }
  make_groups(a);
  if (!is_last_block(a, &s)) return;
  grid_launch_dependents();
  const int id = choose(a, &s);
  if (thread_index() == 0) {
    *a->id = id;
    if (a->sequence) a->sequence[*a->n_sequence] = id;
    if (a->append) *a->append = id;
  }
  block_sync(); /* n_sequence is one of those that advance */
  for (int64_t i = thread_index(); i < a->n_advance; i += GA_P_THREADS) a->advance[i]++;
  if (a->logprob) put_logprob(a, &s, id);
}
