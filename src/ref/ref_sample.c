/* The sampling chain of ga/sample.h, by sorting the whole vocabulary.
 *
 * Kernels must return the same token for the same generator state, so the arithmetic is part of the definition: logits
 * are adjusted in double and rounded to f32 once; probabilities are double; sums run over the candidates from the most
 * probable down, except for the draw, which runs over the ids upwards. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/status.h"
#include "opdef/sample_row.h"
#include "ref/ref.h"

typedef struct candidate {
  float logit;
  int32_t id;
  double key; /* of the sort at hand */
} candidate;

/* Descending key, then ascending id. */
static int by_key(const void *pa, const void *pb) {
  const candidate *a = pa, *b = pb;
  if (a->key != b->key) return a->key > b->key ? -1 : 1;
  return a->id < b->id ? -1 : a->id > b->id;
}

static void sort_by_logit(candidate *c, int64_t n) {
  for (int64_t i = 0; i < n; i++) c[i].key = (double)c[i].logit;
  qsort(c, (size_t)n, sizeof *c, by_key);
}

static void sort_by_id(candidate *c, int64_t n) {
  for (int64_t i = 0; i < n; i++) c[i].key = 0;
  qsort(c, (size_t)n, sizeof *c, by_key);
}

/* The tokens that penalties see: the history, or the end of the sequence. */
static const int32_t *seen(const ga_sample_fused_io *a, int64_t *n) {
  *n = a->plain.n_history;
  if (!a->sequence) return a->plain.history;
  if (*n > *a->n_sequence) *n = *a->n_sequence;
  return a->sequence + (*a->n_sequence - *n);
}

static void adjust(const ga_sample_desc *d, const ga_sample_fused_io *fused, double *x, int32_t *count) {
  const ga_sample_io *a = &fused->plain;
  int64_t n_history;
  const int32_t *history = seen(fused, &n_history);
  for (int64_t i = 0; i < d->vocab; i++) x[i] = (double)a->logits[i];
  for (int64_t i = 0; i < a->n_bias; i++)
    if (a->bias[i].id >= 0 && a->bias[i].id < d->vocab) x[a->bias[i].id] += (double)a->bias[i].bias;
  for (int64_t i = 0; i < n_history; i++)
    if (history[i] >= 0 && history[i] < d->vocab) count[history[i]]++;
  for (int64_t i = 0; i < d->vocab; i++) {
    if (!count[i]) continue;
    x[i] = x[i] > 0 ? x[i] / (double)d->repetition_penalty : x[i] * (double)d->repetition_penalty;
    x[i] -= (double)d->presence_penalty + (double)d->frequency_penalty * count[i];
  }
  for (int64_t i = 0; fused->mask && i < d->vocab; i++)
    if (!(fused->mask[i / 32] >> (i % 32) & 1)) x[i] = -INFINITY;
}

static double weight(const candidate *c, int64_t i) { return exp((double)c[i].logit - (double)c[0].logit); }

/* Keeps the tokens of typical surprise (arXiv 2202.00666). */
static int64_t keep_typical(candidate *c, int64_t n, double share) {
  double z = 0, entropy = 0, held = 0;
  int64_t kept = 0;
  const double top = (double)c[0].logit;
  for (int64_t i = 0; i < n; i++) z += weight(c, i);
  for (int64_t i = 0; i < n; i++) {
    double p = weight(c, i) / z;
    if (p > 0) entropy -= p * log(p);
  }
  for (int64_t i = 0; i < n; i++) c[i].key = -fabs(-((double)c[i].logit - top - log(z)) - entropy);
  qsort(c, (size_t)n, sizeof *c, by_key);
  while (kept < n && held < share) held += exp((double)c[kept++].logit - top) / z;
  sort_by_logit(c, kept);
  return kept;
}

static int64_t keep_top_p(const candidate *c, int64_t n, double share) {
  double z = 0, held = 0;
  int64_t kept = 0;
  for (int64_t i = 0; i < n; i++) z += weight(c, i);
  while (kept < n && held < share * z) held += weight(c, kept++);
  return kept;
}

static int64_t keep_min_p(const candidate *c, int64_t n, double share) {
  int64_t kept = 1;
  while (kept < n && weight(c, kept) >= share) kept++;
  return kept;
}

static int32_t sample_token(candidate *c, int64_t n, double temperature, double u) {
  double top = (double)c[0].logit, z = 0, sum = 0;
  sort_by_id(c, n);
  for (int64_t i = 0; i < n; i++) z += exp(((double)c[i].logit - top) / temperature);
  for (int64_t i = 0; i < n; i++) {
    sum += exp(((double)c[i].logit - top) / temperature);
    if (sum > u * z) return c[i].id;
  }
  return c[n - 1].id;
}

/* c: every token that may be drawn, sorted by logit. */
static int32_t choose(const ga_sample_desc *d, const ga_sample_io *a, candidate *c, int64_t n) {
  if (d->temperature == 0) return n ? c[0].id : 0;
  ga_rng rng;
  memcpy(rng.s, a->rng, sizeof rng.s);
  double u = ga_rng_unit(&rng);
  memcpy(a->rng, rng.s, sizeof rng.s);
  if (n == 0 || isinf(c[0].logit)) return n ? c[0].id : 0;
  if (d->top_k > 0 && d->top_k < n) n = d->top_k;
  if (d->typical_p < 1) n = keep_typical(c, n, (double)d->typical_p);
  if (d->top_p < 1) n = keep_top_p(c, n, (double)d->top_p);
  if (d->min_p > 0) n = keep_min_p(c, n, (double)d->min_p);
  return sample_token(c, n, (double)d->temperature, u);
}

static float logprob_of(const ga_sample_desc *d, const float *logits, int32_t id) {
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < d->vocab; i++) most = fmax(most, (double)logits[i]);
  for (int64_t i = 0; i < d->vocab; i++) sum += exp((double)logits[i] - most);
  return (float)((double)logits[id] - most - log(sum));
}

static ga_status ref_sample_one(const ga_sample_desc *d, const ga_sample_fused_io *fused) {
  const ga_sample_io *a = &fused->plain;
  void *x = NULL, *count = NULL, *all = NULL;
  ga_status status;
  GA_TRY_OUT(ga_mem_zalloc((size_t)d->vocab, sizeof(double), "logits", &x));
  GA_TRY_OUT(ga_mem_zalloc((size_t)d->vocab, sizeof(int32_t), "counts", &count));
  GA_TRY_OUT(ga_mem_zalloc((size_t)d->vocab, sizeof(candidate), "candidates", &all));
  adjust(d, fused, x, count);
  candidate *c = all;
  int64_t n = 0;
  for (int64_t i = 0; i < d->vocab; i++) {
    float l = (float)((double *)x)[i];
    if (l > -INFINITY) c[n++] = (candidate){.logit = l, .id = (int32_t)i};
  }
  sort_by_logit(c, n);
  *a->id = choose(d, a, c, n);
  if (a->logprob) *a->logprob = logprob_of(d, a->logits, *a->id);
  if (fused->sequence) fused->sequence[*fused->n_sequence] = *a->id;
  for (int64_t i = 0; i < fused->n_advance; i++) fused->advance[i]++;
out:
  ga_mem_free(x);
  ga_mem_free(count);
  ga_mem_free(all);
  return status;
}

static ga_status ref_sample_row(const ga_sample_fused_desc *d, const ga_sample_fused_io *all, int32_t i) {
  if (ga_sample_row_is_empty(all, i)) return GA_OK;
  const ga_sample_desc desc = ga_sample_row_desc(d, &all->rows[i]);
  const ga_sample_fused_io io = ga_sample_row_io(d, all, i);
  return ref_sample_one(&desc, &io);
}

ga_status ga_ref_sample(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)kernel, (void)workspace, (void)stream;
  const ga_sample_fused_desc *d = desc;
  if (!d->rows) return ref_sample_one(&d->plain, io);
  for (int32_t i = 0; i < d->rows; i++) GA_TRY(ref_sample_row(d, io, i));
  return GA_OK;
}
