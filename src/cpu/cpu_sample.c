#include "cpu/cpu_sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/mem.h"
#include "base/rng.h"
#include "opdef/sample_row.h"

/* The share by which an approximate sum may be off, see sample_scan. */
#define SUM_ERROR 1e-5

typedef struct keyed {
  double key;
  sample_key token;
} keyed;

typedef struct work {
  float *x;           /* [vocab] adjusted logits */
  int32_t *count;     /* [vocab] of the tokens in the history, all 0 in between */
  sample_key *tokens; /* [vocab + SAMPLE_SLACK] */
  keyed *spare;       /* [vocab + SAMPLE_SLACK] */
} work;

const char *ga_cpu_sample_any(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)desc, (void)caps;
  return NULL;
}

uint64_t ga_cpu_sample_workspace(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)caps;
  const uint64_t n = (uint64_t)((const ga_sample_desc *)desc)->vocab + SAMPLE_SLACK;
  return n * (sizeof(keyed) + sizeof(sample_key) + sizeof(float) + sizeof(int32_t));
}

static work work_in(const ga_sample_desc *d, void *workspace) {
  const uint64_t n = (uint64_t)d->vocab + SAMPLE_SLACK;
  work w = {.spare = workspace};
  w.tokens = (sample_key *)(void *)(w.spare + n);
  w.x = (float *)(void *)(w.tokens + n);
  w.count = (int32_t *)(void *)(w.x + n);
  return w;
}

/* --- keys --- */

/* Floats in the order of unsigned integers: negative ones turned over, the others above them. -0 is made 0. */
sample_key sample_key_of(float logit, int32_t id) {
  const uint32_t u = ga_f32_bits(logit + 0.0f), ordered = u >> 31 ? ~u : u | 0x80000000u;
  return (uint64_t)ordered << 32 | (0xffffffffu - (uint32_t)id);
}

static double logit_of(sample_key k) {
  const uint32_t ordered = (uint32_t)(k >> 32);
  return (double)ga_bits_f32(ordered >> 31 ? ordered & 0x7fffffffu : ~ordered);
}

static int32_t id_of(sample_key k) { return (int32_t)(0xffffffffu - (uint32_t)k); }

/* Descending order of the 32 bits from `shift` on; stable, so that keys in order of id stay so among equals. Four
 * passes of 8 bits: an even number, so that the result is in keys. `spare` has room for n. */
static void radix_sort(sample_key *keys, sample_key *spare, int64_t n, int shift) {
  for (int pass = 0; pass < 4; pass++) {
    int64_t at[256] = {0}, sum = 0;
    const int s = shift + 8 * pass;
    for (int64_t i = 0; i < n; i++) at[~keys[i] >> s & 255]++;
    for (int b = 0; b < 256; b++) {
      int64_t count = at[b];
      at[b] = sum;
      sum += count;
    }
    for (int64_t i = 0; i < n; i++) spare[at[~keys[i] >> s & 255]++] = keys[i];
    sample_key *swap = keys;
    keys = spare;
    spare = swap;
  }
}

static int descending(const void *pa, const void *pb) {
  const sample_key a = *(const sample_key *)pa, b = *(const sample_key *)pb;
  return a > b ? -1 : a < b;
}

/* By logit, for keys in order of id or few. */
static void sort_keys(sample_key *keys, sample_key *spare, int64_t n) {
  if (n < 512)
    qsort(keys, (size_t)n, sizeof *keys, descending);
  else
    radix_sort(keys, spare, n, 32);
}

/* Moves the k largest keys to the front, in any order; 1 <= k < n. Quickselect with the middle of three. */
static void select_keys(sample_key *keys, int64_t n, int64_t k) {
  int64_t low = 0, high = n - 1;
  while (low < high) {
    sample_key a = keys[low], b = keys[low + (high - low) / 2], c = keys[high];
    const sample_key pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
    int64_t i = low, j = high;
    while (i <= j) {
      while (keys[i] > pivot) i++;
      while (keys[j] < pivot) j--;
      if (i > j) break;
      sample_key swap = keys[i];
      keys[i++] = keys[j];
      keys[j--] = swap;
    }
    if (k - 1 <= j)
      high = j;
    else if (k - 1 >= i)
      low = i;
    else
      return;
  }
}

/* --- the chain; arithmetic and order of sums as in ref_sample.c --- */

static double weight(const sample_key *c, int64_t i) { return exp(logit_of(c[i]) - logit_of(c[0])); }

static int by_key(const void *pa, const void *pb) {
  const keyed *a = pa, *b = pb;
  if (a->key != b->key) return a->key > b->key ? -1 : 1;
  return id_of(a->token) < id_of(b->token) ? -1 : id_of(a->token) > id_of(b->token);
}

static int64_t keep_typical(sample_key *c, int64_t n, double share, keyed *spare) {
  double z = 0, entropy = 0, held = 0;
  int64_t kept = 0;
  const double top = logit_of(c[0]);
  for (int64_t i = 0; i < n; i++) z += weight(c, i);
  for (int64_t i = 0; i < n; i++) {
    double p = weight(c, i) / z;
    if (p > 0) entropy -= p * log(p);
  }
  for (int64_t i = 0; i < n; i++)
    spare[i] = (keyed){.key = -fabs(-(logit_of(c[i]) - top - log(z)) - entropy), .token = c[i]};
  qsort(spare, (size_t)n, sizeof *spare, by_key);
  while (kept < n && held < share) held += exp(logit_of(spare[kept++].token) - top) / z;
  for (int64_t i = 0; i < kept; i++) c[i] = spare[i].token;
  qsort(c, (size_t)kept, sizeof *c, descending);
  return kept;
}

/* Tokens of the top-p prefix of c when the sum of all weights is z; n + 1 when they hold less. */
static int64_t top_p_prefix(const sample_key *c, int64_t n, double share, double z) {
  double held = 0;
  for (int64_t i = 0; i <= n; i++) {
    if (!(held < share * z)) return i;
    if (i < n) held += weight(c, i);
  }
  return n + 1;
}

static int64_t keep_top_p(const sample_key *c, int64_t n, double share) {
  double z = 0;
  for (int64_t i = 0; i < n; i++) z += weight(c, i);
  return ga_min_i64(n, top_p_prefix(c, n, share, z));
}

static int64_t keep_min_p(const sample_key *c, int64_t n, double share) {
  int64_t kept = 1;
  while (kept < n && weight(c, kept) >= share) kept++;
  return kept;
}

static int by_id(const void *pa, const void *pb) {
  const int32_t a = id_of(*(const sample_key *)pa), b = id_of(*(const sample_key *)pb);
  return a < b ? -1 : a > b;
}

/* c: in order of id; top: the largest logit. */
static int32_t sample_token(const sample_key *c, int64_t n, double top, double temperature, double u, double *v) {
  double z = 0, sum = 0;
  for (int64_t i = 0; i < n; i++) z += v[i] = exp((logit_of(c[i]) - top) / temperature);
  for (int64_t i = 0; i < n; i++) {
    sum += v[i];
    if (sum > u * z) return id_of(c[i]);
  }
  return id_of(c[n - 1]);
}

/* --- candidates --- */

/* The k most probable tokens, sorted. Tokens above the least of the best so far are gathered until the buffer is full;
 * then all but the k best are dropped, which raises the bar: most of a vocabulary is only compared. */
static int64_t gather_top_k(const ga_sample_desc *d, const work *w, const sample_scan *scan, const float *x) {
  const int64_t k = ga_min_i64(d->top_k, d->vocab), capacity = ga_min_i64(2 * k + 512, d->vocab + SAMPLE_SLACK);
  int64_t n = 0, from = 0;
  float least = -INFINITY;
  for (;;) {
    n += scan->above(x, d->vocab, least, &from, w->tokens + n, capacity - n);
    if (n > k) {
      select_keys(w->tokens, n, k);
      n = k;
      least = INFINITY;
      for (int64_t i = 0; i < k; i++) least = fminf(least, (float)logit_of(w->tokens[i]));
    }
    if (from >= d->vocab) break;
  }
  /* Selection has mixed the ids. */
  if (n < 512) {
    sort_keys(w->tokens, NULL, n);
  } else {
    radix_sort(w->tokens, (sample_key *)(void *)w->spare, n, 0);
    radix_sort(w->tokens, (sample_key *)(void *)w->spare, n, 32);
  }
  return n;
}

static int64_t gather_all(const ga_sample_desc *d, const work *w, const sample_scan *scan, const float *x,
                          float least) {
  int64_t from = 0;
  return scan->above(x, d->vocab, least, &from, w->tokens, d->vocab + SAMPLE_SLACK);
}

/* Without top-k and typical: tokens that top-p and min-p may keep, sorted, and how many of them top-p keeps, or 0 when
 * that takes the exact sum over the vocabulary. An approximate sum is enough unless the border is within its error. */
static int64_t gather_likely(const ga_sample_desc *d, const work *w, const sample_scan *scan, const float *x,
                             float top) {
  const double share = (double)d->top_p;
  if (share >= 1) { /* min-p alone; the margin is far above the rounding of the difference of two logits */
    const double reach = -log((double)d->min_p) * 1.001 + 1e-3 + fabs((double)top) * 1e-6;
    int64_t n = gather_all(d, w, scan, x, (float)((double)top - reach));
    sort_keys(w->tokens, (sample_key *)(void *)w->spare, n);
    return n;
  }
  const double z = scan->sum_exp(x, d->vocab, top);
  for (float reach = 4; reach <= 32; reach *= 1.4f) {
    int64_t n = gather_all(d, w, scan, x, top - reach);
    if (n > d->vocab / 4) return 0;
    sort_keys(w->tokens, (sample_key *)(void *)w->spare, n);
    const int64_t high = top_p_prefix(w->tokens, n, share, z * (1 + SUM_ERROR));
    if (high > n) continue;
    return high == top_p_prefix(w->tokens, n, share, z * (1 - SUM_ERROR)) ? high : 0;
  }
  return 0;
}

static int64_t gather_sorted(const ga_sample_desc *d, const work *w, const sample_scan *scan, const float *x) {
  int64_t n = gather_all(d, w, scan, x, -INFINITY);
  sort_keys(w->tokens, (sample_key *)(void *)w->spare, n);
  return n;
}

/* Tokens that the filters keep, in order of id. */
static int64_t filter(const ga_sample_desc *d, const work *w, const sample_scan *scan, const float *x, float top) {
  const bool typical = d->typical_p < 1, top_p = d->top_p<1, min_p = d->min_p> 0;
  if (!d->top_k && !typical && !top_p && !min_p) return gather_all(d, w, scan, x, -INFINITY);
  int64_t n = 0, likely = 0;
  if (d->top_k)
    n = gather_top_k(d, w, scan, x);
  else if (!typical)
    n = likely = gather_likely(d, w, scan, x, top);
  if (!n) n = gather_sorted(d, w, scan, x);
  if (typical) n = keep_typical(w->tokens, n, (double)d->typical_p, w->spare);
  if (top_p && !likely) n = keep_top_p(w->tokens, n, (double)d->top_p);
  if (min_p) n = keep_min_p(w->tokens, n, (double)d->min_p);
  if (n < 512)
    qsort(w->tokens, (size_t)n, sizeof *w->tokens, by_id);
  else
    radix_sort(w->tokens, (sample_key *)(void *)w->spare, n, 0);
  return n;
}

/* --- logits --- */

static void penalise(const ga_sample_desc *d, const work *w, double *x, int32_t id) {
  *x = *x > 0 ? *x / (double)d->repetition_penalty : *x * (double)d->repetition_penalty;
  *x -= (double)d->presence_penalty + (double)d->frequency_penalty * w->count[id];
}

/* Logits with bias and penalties: io's own when there are none. Touched tokens are computed in double from the start
 * and rounded once: `spare` holds their doubles. */
static const float *penalised(const ga_sample_desc *d, const ga_sample_fused_io *fused, const work *w) {
  const ga_sample_io *a = &fused->plain;
  const bool penalties = d->repetition_penalty != 1 || d->presence_penalty != 0 || d->frequency_penalty != 0;
  const int64_t all = fused->sequence ? ga_min_i64(a->n_history, *fused->n_sequence) : a->n_history,
                n_history = penalties ? all : 0;
  const int32_t *history = fused->sequence ? fused->sequence + (*fused->n_sequence - all) : a->history;
  if (!n_history && !a->n_bias) return a->logits;
  memcpy(w->x, a->logits, (size_t)d->vocab * sizeof *w->x);
  const uint64_t vocab = (uint64_t)d->vocab;
  for (int64_t i = 0; i < a->n_bias; i++)
    if ((uint64_t)a->bias[i].id < vocab) w->spare[a->bias[i].id].key = (double)a->logits[a->bias[i].id];
  for (int64_t i = 0; i < n_history; i++) {
    if ((uint64_t)history[i] >= vocab) continue;
    w->spare[history[i]].key = (double)a->logits[history[i]];
    w->count[history[i]] = 0;
  }
  for (int64_t i = 0; i < a->n_bias; i++)
    if ((uint64_t)a->bias[i].id < vocab) w->spare[a->bias[i].id].key += (double)a->bias[i].bias;
  for (int64_t i = 0; i < a->n_bias; i++)
    if ((uint64_t)a->bias[i].id < vocab) w->x[a->bias[i].id] = (float)w->spare[a->bias[i].id].key;
  for (int64_t i = 0; i < n_history; i++)
    if ((uint64_t)history[i] < vocab) w->count[history[i]]++;
  for (int64_t i = 0; i < n_history; i++) {
    const int32_t id = history[i];
    if ((uint64_t)id >= vocab || !w->count[id]) continue;
    penalise(d, w, &w->spare[id].key, id);
    w->x[id] = (float)w->spare[id].key;
    w->count[id] = 0; /* once a token */
  }
  return w->x;
}

/* The same, with -infinity for the tokens that a mask forbids. */
static const float *adjusted(const ga_sample_desc *d, const ga_sample_fused_io *fused, const work *w) {
  const float *x = penalised(d, fused, w);
  if (!fused->mask) return x;
  if (x != w->x) memcpy(w->x, x, (size_t)d->vocab * sizeof *w->x);
  for (int64_t i = 0; i < d->vocab; i++)
    if (!(fused->mask[i / 32] >> (i % 32) & 1)) w->x[i] = -INFINITY;
  return w->x;
}

static int32_t choose(const ga_sample_desc *d, const ga_sample_fused_io *fused, const work *w,
                      const sample_scan *scan) {
  const ga_sample_io *a = &fused->plain;
  const float *x = adjusted(d, fused, w);
  const int32_t best = scan->largest(x, d->vocab);
  if (d->temperature == 0) return best < 0 ? 0 : best;
  ga_rng rng;
  memcpy(rng.s, a->rng, sizeof rng.s);
  const double u = ga_rng_unit(&rng);
  memcpy(a->rng, rng.s, sizeof rng.s);
  if (best < 0 || isinf(x[best])) return best < 0 ? 0 : best;
  const float top = x[best];
  const int64_t n = filter(d, w, scan, x, top);
  double first = (double)top;
  if (d->typical_p < 1) { /* may have dropped the most probable */
    first = -INFINITY;
    for (int64_t i = 0; i < n; i++) first = fmax(first, logit_of(w->tokens[i]));
  }
  return sample_token(w->tokens, n, first, (double)d->temperature, u, (double *)(void *)w->spare);
}

static void sample_one(const ga_sample_desc *d, const ga_sample_fused_io *fused, const work *w,
                       const sample_scan *scan) {
  const ga_sample_io *a = &fused->plain;
  const int32_t id = choose(d, fused, w, scan);
  *a->id = id;
  if (fused->sequence) fused->sequence[*fused->n_sequence] = id;
  for (int64_t i = 0; i < fused->n_advance; i++) fused->advance[i]++;
  if (!a->logprob) return;
  const int32_t best = scan->largest(a->logits, d->vocab);
  const float top = best < 0 ? -INFINITY : a->logits[best];
  *a->logprob = (float)((double)a->logits[id] - (double)top - log(scan->sum_exp(a->logits, d->vocab, top)));
}

static void sample_row(const ga_sample_fused_desc *d, const ga_sample_fused_io *all, int32_t i, const work *w,
                       const sample_scan *scan) {
  if (ga_sample_row_is_empty(all, i)) return;
  const ga_sample_desc desc = ga_sample_row_desc(d, &all->rows[i]);
  const ga_sample_fused_io io = ga_sample_row_io(d, all, i);
  sample_one(&desc, &io, w, scan);
}

ga_status cpu_sample_run(const ga_sample_fused_desc *d, const ga_sample_fused_io *io, void *workspace,
                         const sample_scan *scan) {
  const work w = work_in(&d->plain, workspace);
  if (!d->rows) sample_one(&d->plain, io, &w, scan);
  for (int32_t i = 0; i < d->rows; i++) sample_row(d, io, i, &w, scan);
  return GA_OK;
}
