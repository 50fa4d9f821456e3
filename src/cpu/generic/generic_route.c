/* KERNEL    route, plain C for any CPU
 * COMPUTES  experts and weights of tokens, and the order of their rows by expert (ga/experts.h)
 * CONTRACT  up to 1024 experts and 64 chosen ones; token ids and the table are checked before anything is written
 * THREADS   all for the choice, where there are many tokens; one for the order, which is a thousandth of the products
 */
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "cpu/cpu_layer.h"
#include "ga/experts.h"

#define MOST_EXPERTS 1024
#define MOST_CHOSEN  64

/* The largest keys of a list, the largest first; of equal keys the one that was offered first. */
typedef struct best_keys {
  int32_t n, most; /* numbers of keys held, and of keys wanted */
  int32_t index[MOST_EXPERTS];
  float key[MOST_EXPERTS];
} best_keys;

static void offer_key(best_keys *b, float key, int32_t index) {
  if (b->n == b->most && !(key > b->key[b->n - 1])) return;
  int32_t at = b->n < b->most ? b->n++ : b->n - 1;
  for (; at > 0 && key > b->key[at - 1]; at--) {
    b->key[at] = b->key[at - 1];
    b->index[at] = b->index[at - 1];
  }
  b->key[at] = key;
  b->index[at] = index;
}

static bool holds_nan(const float *x, int32_t n) {
  for (int32_t i = 0; i < n; i++)
    if (isnan(x[i])) return true;
  return false;
}

/* Maximum and sum of exponentials of a softmax over n logits. An infinite maximum makes the sum NaN. */
typedef struct softmax_base {
  double most, sum;
} softmax_base;

static softmax_base softmax_base_of(const float *z, int32_t n) {
  softmax_base b = {.most = -INFINITY};
  for (int32_t i = 0; i < n; i++) b.most = (double)z[i] > b.most ? (double)z[i] : b.most;
  for (int32_t i = 0; i < n; i++) b.sum += exp((double)z[i] - b.most);
  return b;
}

static double route_score(int32_t kind, double z, softmax_base b) {
  if (kind == GA_ROUTE_SOFTMAX || kind == GA_ROUTE_SOFTMAX_CHOSEN) return exp(z - b.most) / b.sum;
  if (kind == GA_ROUTE_SIGMOID) {
    const double e = exp(-fabs(z));
    return (z < 0 ? e : 1) / (1 + e);
  }
  return sqrt((z > 0 ? z : 0) + log1p(exp(-fabs(z))));
}

/* Writes the keys of a token's experts. Returns false if one is NaN. */
static bool keys_of_experts(const ga_route_desc *d, const float *z, const float *bias, softmax_base base, float *key) {
  const bool by_score = (bias || d->group_score == GA_ROUTE_GROUP_SUM2) && d->scores != GA_ROUTE_SOFTMAX_CHOSEN;
  for (int32_t e = 0; e < d->n_experts; e++) {
    key[e] = by_score ? (float)route_score(d->scores, (double)z[e], base) : z[e];
    if (bias) key[e] += bias[e];
  }
  return !holds_nan(key, d->n_experts);
}

/* Returns the largest of n keys, or the sum of the two largest. */
static float group_score_of_keys(int32_t kind, const float *key, int32_t n) {
  float first = -INFINITY, second = -INFINITY;
  for (int32_t i = 0; i < n; i++) {
    second = key[i] > first ? first : key[i] > second ? key[i] : second;
    first = key[i] > first ? key[i] : first;
  }
  return kind == GA_ROUTE_GROUP_SUM2 ? first + second : first;
}

/* Offers the experts of the kept groups to *best, in the order of their numbers. Returns false if a group's score is
 * NaN. */
static bool offer_groups(const ga_route_desc *d, const float *key, best_keys *best) {
  const int32_t size = d->n_experts / d->n_groups;
  best_keys groups;
  groups.n = 0, groups.most = d->top_k_groups;
  bool kept[MOST_EXPERTS] = {false};
  for (int32_t g = 0; g < d->n_groups; g++) {
    const float score = group_score_of_keys(d->group_score, key + g * size, size);
    if (isnan(score)) return false;
    offer_key(&groups, score, g);
  }
  for (int32_t j = 0; j < groups.n; j++) kept[groups.index[j]] = true;
  for (int32_t e = 0; e < d->n_experts; e++)
    if (kept[e / size]) offer_key(best, key[e], e);
  return true;
}

/* Chooses a token's experts. Returns false if a key or a group's score is NaN. */
static bool choose_experts(const ga_route_desc *d, const ga_route_io *a, const float *z, softmax_base base,
                           int32_t *chosen) {
  float key[MOST_EXPERTS];
  best_keys best;
  best.n = 0, best.most = d->top_k;
  if (!keys_of_experts(d, z, a->bias, base, key)) return false;
  if (d->n_groups == 1)
    for (int32_t e = 0; e < d->n_experts; e++) offer_key(&best, key[e], e);
  else if (!offer_groups(d, key, &best))
    return false;
  memcpy(chosen, best.index, (size_t)d->top_k * sizeof *chosen);
  return true;
}

static double weight_divisor(const ga_route_desc *d, double sum) {
  if (d->renorm == GA_ROUTE_RENORM_SUM) return sum + (double)d->norm_eps;
  if (d->renorm == GA_ROUTE_RENORM_BOUND) return sum < (double)d->norm_eps ? (double)d->norm_eps : sum;
  return 1;
}

static void weigh_experts(const ga_route_desc *d, const ga_route_io *a, const float *z, softmax_base base,
                          const int32_t *chosen, float *out) {
  float z_chosen[MOST_CHOSEN];
  double w[MOST_CHOSEN], sum = 0;
  for (int32_t j = 0; j < d->top_k; j++) z_chosen[j] = z[chosen[j]];
  if (d->scores == GA_ROUTE_SOFTMAX_CHOSEN) base = softmax_base_of(z_chosen, d->top_k);
  for (int32_t j = 0; j < d->top_k; j++) sum += w[j] = route_score(d->scores, (double)z_chosen[j], base);
  const double divisor = weight_divisor(d, sum);
  for (int32_t j = 0; j < d->top_k; j++) {
    const double factor = (double)d->scale * (a->expert_scale ? (double)a->expert_scale[chosen[j]] : 1);
    out[j] = (float)((divisor == 0 ? 0 : w[j] / divisor) * factor);
  }
}

static void route_one(const ga_route_desc *d, const ga_route_io *a, int64_t t) {
  const float *z = a->logits + t * d->logits_stride;
  int32_t *chosen = a->experts + t * d->top_k;
  float *weights = a->weights + t * d->top_k;
  const bool spoiled = holds_nan(z, d->n_experts);
  const softmax_base base =
      d->scores == GA_ROUTE_SOFTMAX && !spoiled ? softmax_base_of(z, d->n_experts) : (softmax_base){0};
  const bool is_chosen = d->vocab || (!spoiled && choose_experts(d, a, z, base, chosen));
  if (d->vocab) memcpy(chosen, a->table + (int64_t)a->token_ids[t] * d->top_k, (size_t)d->top_k * sizeof *chosen);
  if (is_chosen && !spoiled) {
    weigh_experts(d, a, z, base, chosen, weights);
    return;
  }
  for (int32_t j = 0; j < d->top_k; j++) {
    if (!is_chosen) chosen[j] = j;
    weights[j] = NAN;
  }
}

typedef struct route_job {
  const ga_route_desc *d;
  const ga_route_io *a;
} route_job;

static void route_tokens(const void *job, int64_t begin, int64_t end) {
  const route_job *j = job;
  for (int64_t t = begin; t < end; t++) route_one(j->d, j->a, t);
}

/* Sorts the tokens' slots by expert: a counting sort, which keeps the order of equal ones. */
static void sort_by_expert(const ga_route_desc *d, const ga_route_io *a) {
  const int32_t n = (int32_t)d->tokens * d->top_k;
  int32_t next[MOST_EXPERTS], row = 0;
  memset(a->counts, 0, (size_t)d->n_experts * sizeof *a->counts);
  for (int32_t i = 0; i < n; i++) a->counts[a->experts[i]]++;
  for (int32_t e = 0; e < d->n_experts; e++) {
    a->offsets[e] = next[e] = row;
    row += a->counts[e];
  }
  a->offsets[d->n_experts] = row;
  for (int32_t i = 0; i < n; i++) {
    a->place[i] = next[a->experts[i]]++;
    a->order[a->place[i]] = i;
  }
}

static ga_status check_looked_up(const ga_kernel *kernel, const ga_route_desc *d, const ga_route_io *a) {
  for (int64_t t = 0; t < d->tokens; t++) {
    const int64_t id = a->token_ids[t];
    GA_REQUIRE(id >= 0 && id < d->vocab, GA_ERR_ARG, "%s: token_ids[%lld] is %lld; must be in [0, %lld)", kernel->id,
               (long long)t, (long long)id, (long long)d->vocab);
    for (int64_t i = id * d->top_k; i < (id + 1) * d->top_k; i++)
      GA_REQUIRE(a->table[i] >= 0 && a->table[i] < d->n_experts, GA_ERR_ARG,
                 "%s: table[%lld] is %d; must be in [0, %d)", kernel->id, (long long)i, a->table[i], d->n_experts);
  }
  return GA_OK;
}

const char *ga_cpu_route_any(const ga_kernel *kernel, const void *desc, const ga_caps *caps) {
  (void)kernel, (void)desc, (void)caps;
  return NULL;
}

ga_status ga_cpu_route_generic(const ga_kernel *kernel, const void *desc, const void *io, void *workspace,
                               ga_stream *stream) {
  (void)workspace;
  const route_job job = {.d = desc, .a = io};
  if (job.d->vocab) GA_TRY(check_looked_up(kernel, job.d, job.a));
  cpu_rows_run(stream, job.d->tokens, (int64_t)job.d->n_experts * 16, route_tokens, &job);
  if (job.d->flags & GA_ROUTE_SORT) sort_by_expert(job.d, job.a);
  return GA_OK;
}
