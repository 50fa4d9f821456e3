/* Routing as include/ga/experts.h states it: sources are named there. */
#include <math.h>

#include "base/mem.h"
#include "base/status.h"
#include "ga/experts.h"
#include "ref/ref.h"

#define MOST_EXPERTS 1024
#define MOST_CHOSEN  64

static double score_of(ga_route_scores kind, double z, double most, double sum) {
  switch (kind) {
  case GA_ROUTE_SOFTMAX: return exp(z - most) / sum;
  case GA_ROUTE_SOFTMAX_CHOSEN: return z;
  case GA_ROUTE_SIGMOID: return z < 0 ? exp(z) / (1 + exp(z)) : 1 / (1 + exp(-z));
  default: return sqrt(fmax(z, 0) + log1p(exp(-fabs(z))));
  }
}

/* Writes the n scores of a token. A softmax with an infinite or no largest logit is NaN. */
static void scores_of(ga_route_scores kind, const float *z, int32_t n, double *s) {
  double most = -INFINITY, sum = 0;
  for (int32_t e = 0; e < n; e++) most = (double)z[e] > most ? (double)z[e] : most;
  for (int32_t e = 0; e < n; e++) sum += exp((double)z[e] - most);
  for (int32_t e = 0; e < n; e++) s[e] = isnan(z[e]) ? (double)NAN : score_of(kind, (double)z[e], most, sum);
}

/* Marks the `k` largest of n keys whose entry of `allowed` is true, and writes their indices, the largest first. */
static void take_largest(const float *key, const bool *allowed, int32_t n, int32_t k, int32_t *chosen) {
  bool taken[MOST_EXPERTS] = {false};
  for (int32_t j = 0; j < k; j++) {
    int32_t best = -1;
    for (int32_t i = 0; i < n; i++)
      if (allowed[i] && !taken[i] && (best < 0 || key[i] > key[best])) best = i;
    taken[best] = true;
    chosen[j] = best;
  }
}

static float group_score_of(const ga_route_desc *d, const float *key, int32_t size) {
  float first = -INFINITY, second = -INFINITY;
  for (int32_t i = 0; i < size; i++) {
    if (key[i] > first)
      second = first, first = key[i];
    else if (key[i] > second)
      second = key[i];
  }
  return d->group_score == GA_ROUTE_GROUP_SUM2 ? first + second : first;
}

/* Marks the experts of the groups that are kept. Returns false if a group's score is NaN. */
static bool keep_groups(const ga_route_desc *d, const float *key, bool *allowed) {
  const int32_t size = d->n_experts / d->n_groups;
  float score[MOST_EXPERTS];
  bool all[MOST_EXPERTS];
  int32_t kept[MOST_EXPERTS];
  for (int32_t e = 0; e < d->n_experts; e++) allowed[e] = false;
  for (int32_t g = 0; g < d->n_groups; g++) {
    all[g] = true;
    score[g] = group_score_of(d, key + g * size, size);
    if (isnan(score[g])) return false;
  }
  take_largest(score, all, d->n_groups, d->top_k_groups, kept);
  for (int32_t j = 0; j < d->top_k_groups; j++)
    for (int32_t i = 0; i < size; i++) allowed[kept[j] * size + i] = true;
  return true;
}

/* Chooses experts by their scores. Returns false if a key or a group's score is NaN. */
static bool choose(const ga_route_desc *d, const float *z, const double *s, const float *bias, int32_t *chosen) {
  float key[MOST_EXPERTS];
  bool allowed[MOST_EXPERTS];
  const bool by_score = bias || d->group_score == GA_ROUTE_GROUP_SUM2;
  for (int32_t e = 0; e < d->n_experts; e++) {
    key[e] = by_score ? (float)s[e] : z[e];
    if (bias) key[e] += bias[e];
    if (isnan(key[e])) return false;
  }
  if (!keep_groups(d, key, allowed)) return false;
  take_largest(key, allowed, d->n_experts, d->top_k, chosen);
  return true;
}

/* Checks the token ids and the experts that the table has for them. */
static ga_status check_routing_table(const ga_kernel *kernel, const ga_route_desc *d, const ga_route_io *a) {
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

static bool look_up(const ga_route_desc *d, const ga_route_io *a, int64_t t, int32_t *chosen) {
  for (int32_t j = 0; j < d->top_k; j++) chosen[j] = a->table[(int64_t)a->token_ids[t] * d->top_k + j];
  return true;
}

static void weights_of(const ga_route_desc *d, const ga_route_io *a, const float *z, const double *s,
                       const int32_t *chosen, float *out) {
  double w[MOST_CHOSEN], sum = 0, divisor = 1;
  float of_chosen[MOST_CHOSEN];
  bool spoiled = false;
  for (int32_t e = 0; e < d->n_experts; e++) spoiled = spoiled || isnan(z[e]);
  for (int32_t j = 0; j < d->top_k; j++) of_chosen[j] = z[chosen[j]];
  if (d->scores == GA_ROUTE_SOFTMAX_CHOSEN)
    scores_of(GA_ROUTE_SOFTMAX, of_chosen, d->top_k, w);
  else
    for (int32_t j = 0; j < d->top_k; j++) w[j] = s[chosen[j]];
  for (int32_t j = 0; j < d->top_k; j++) sum += w[j];
  if (d->renorm == GA_ROUTE_RENORM_SUM) divisor = sum + (double)d->norm_eps;
  if (d->renorm == GA_ROUTE_RENORM_BOUND) divisor = sum < (double)d->norm_eps ? (double)d->norm_eps : sum;
  for (int32_t j = 0; j < d->top_k; j++) {
    const double factor = (double)d->scale * (a->expert_scale ? (double)a->expert_scale[chosen[j]] : 1);
    out[j] = spoiled ? NAN : (float)((divisor == 0 ? 0 : w[j] / divisor) * factor);
  }
}

static void route_token(const ga_route_desc *d, const ga_route_io *a, int64_t t) {
  const float *z = a->logits + t * d->logits_stride;
  int32_t *chosen = a->experts + t * d->top_k;
  double s[MOST_EXPERTS];
  scores_of((ga_route_scores)d->scores, z, d->n_experts, s);
  if (d->vocab ? look_up(d, a, t, chosen) : choose(d, z, s, a->bias, chosen)) {
    weights_of(d, a, z, s, chosen, a->weights + t * d->top_k);
    return;
  }
  for (int32_t j = 0; j < d->top_k; j++) {
    chosen[j] = j;
    a->weights[t * d->top_k + j] = NAN;
  }
}

static void sort_slots(const ga_route_desc *d, const ga_route_io *a) {
  const int32_t n = (int32_t)d->tokens * d->top_k;
  int32_t row = 0;
  for (int32_t e = 0; e < d->n_experts; e++) {
    a->offsets[e] = row;
    for (int32_t i = 0; i < n; i++)
      if (a->experts[i] == e) {
        a->order[row] = i;
        a->place[i] = row++;
      }
    a->counts[e] = row - a->offsets[e];
  }
  a->offsets[d->n_experts] = row;
}

ga_status ga_ref_route(const ga_kernel *kernel, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace, (void)stream;
  const ga_route_desc *d = desc;
  const ga_route_io *a = io;
  if (d->vocab) GA_TRY(check_routing_table(kernel, d, a));
  for (int64_t t = 0; t < d->tokens; t++) route_token(d, a, t);
  if (d->flags & GA_ROUTE_SORT) sort_slots(d, a);
  return GA_OK;
}
