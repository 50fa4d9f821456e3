/* KERNEL    route, sm80
 * COMPUTES  experts and weights of tokens (ga/experts.h). Scores are in f64, with exp of another library than the
 *           oracle's: the choice is the same unless a score lies within 1e-15 of the middle of two f32 numbers
 * CONTRACT  f32 logits, stride in elements; up to 1024 experts, 64 of them chosen. Token ids and numbers of experts
 *           beyond their ranges give experts 0 to top_k - 1 with weights NaN. The same bits in every run
 * WORK      a warp a token, round-robin; expert e is lane e % 32's. Each round takes the warp's largest key, and the
 *           lane that had it looks for its next one
 * DATA      logits from gmem, twice for softmax; keys in shared memory, which only their lanes read but for groups
 * BUDGET    THREADS lanes, 8 KB of shared memory a warp
 * MEASURED  one H200, with the sort: 8 of 128 experts, 1 and 4096 tokens 5.5 and 20.1 us (docs/log/experts.md)
 */
#include "cuda/dev/ptx/base.h"
#include "cuda/dev/ptx/elem.h"
#include "cuda/dev/tile/block_row.h"
#include "cuda/kern/layer/route_args.h"
#include "cuda/kern/layer/sample_keys.h"

#ifndef GA_KERNEL_ID
#error "GA_KERNEL_ID: the kernel's name, of its row"
#endif
#ifndef GA_P_THREADS
#error "GA_P_THREADS: lanes of a block"
#endif
#ifndef GA_P_SMEM
#error "GA_P_SMEM: bytes of dynamic shared memory that the row gives a block"
#endif
static_assert(GA_P_SMEM == 0, "no dynamic shared memory");

/* Numbers of ga/experts.h: kinds of scores, of group scores, of norms. */
enum { SOFTMAX = 0, SOFTMAX_CHOSEN = 1, SIGMOID = 2, SUM2 = 1, RENORM_SUM = 1, RENORM_BOUND = 2 };
enum { WARP = 32, WARPS = GA_P_THREADS / WARP, MOST_EXPERTS = 1024, SLOTS = 2 /* chosen experts of a lane, at most */ };

#define TAKEN __uint_as_float(0x7fc00000u) /* NaN: a key that is no longer there */

typedef struct {
  float key[MOST_EXPERTS], group[MOST_EXPERTS]; /* keys of experts, and scores of groups; TAKEN: chosen or left out */
} warp_shared;

/* Base of a softmax: largest logit and sum of exponentials. An infinite largest logit makes the sum NaN. */
typedef struct {
  float most;
  double sum;
} softmax_base;

typedef const ga_kargs_route *args;

GA_DEV double score_of(args a, float z, softmax_base b) {
  if (a->scores == SOFTMAX || a->scores == SOFTMAX_CHOSEN) return exp((double)z - (double)b.most) / b.sum;
  const double e = exp(-fabs((double)z));
  if (a->scores == SIGMOID) return (z < 0 ? e : 1) / (1 + e);
  return sqrt((z > 0 ? (double)z : 0) + log1p(e));
}

/* Returns the base over all experts of a token, to every lane. */
GA_DEV softmax_base base_of(args a, const float *z) {
  softmax_base b = {GA_NEG_INFINITY, 0};
  for (int e = thread_index() % WARP; e < a->n_experts; e += WARP) b.most = fmaxf(b.most, z[e]);
  b.most = row_max_warp(b.most);
  for (int e = thread_index() % WARP; e < a->n_experts; e += WARP) b.sum += exp((double)z[e] - (double)b.most);
  b.sum = warp_sum_f64(b.sum);
  return b;
}

/* Writes the lane's keys. Returns 1 if a key of the warp is NaN. */
GA_DEV int write_keys(args a, const float *z, softmax_base b, float *key) {
  const int by_score = (a->bias || a->group_score == SUM2) && a->scores != SOFTMAX_CHOSEN;
  int spoiled = 0;
  for (int e = thread_index() % WARP; e < a->n_experts; e += WARP) {
    float x = by_score ? (float)score_of(a, z[e], b) : z[e];
    if (a->bias) x += a->bias[e];
    key[e] = x;
    spoiled |= x != x;
  }
  return warp_any(spoiled);
}

/* Returns the largest of the lane's keys that are not TAKEN; 0: there is none. */
GA_DEV token_key lane_best(const float *key, int n) {
  token_key best = 0;
  for (int i = thread_index() % WARP; i < n; i += WARP) {
    const token_key k = key[i] == key[i] ? key_of(key[i], i) : 0;
    best = k > best ? k : best;
  }
  return best;
}

/* Returns the largest x of the warp. */
GA_DEV uint32_t warp_max_u32(uint32_t x) { return (uint32_t)redux_max_i32((int)(x ^ 0x80000000u)) ^ 0x80000000u; }

/* Takes the largest of n keys and returns its index. *best is lane_best of what is there, before and after. */
GA_DEV int take_best(float *key, int n, token_key *best) {
  const uint32_t high = (uint32_t)(*best >> 32), low = (uint32_t)*best, top = warp_max_u32(high),
                 of_top = warp_max_u32(high == top ? low : 0);
  const int i = id_of((token_key)top << 32 | of_top);
  if (high == top && low == of_top) {
    key[i] = TAKEN;
    *best = lane_best(key, n);
  }
  return i;
}

GA_DEV float group_score_of(args a, const float *key, int size) {
  float first = GA_NEG_INFINITY, second = GA_NEG_INFINITY;
  for (int i = 0; i < size; i++) {
    second = key[i] > first ? first : key[i] > second ? key[i] : second;
    first = key[i] > first ? key[i] : first;
  }
  return a->group_score == SUM2 ? first + second : first;
}

/* Takes away the keys of the groups that are left out. Returns 1 if a group's score is NaN. */
GA_DEV int leave_groups_out(args a, warp_shared *s) {
  const int size = a->n_experts / a->n_groups, lane = thread_index() % WARP;
  int spoiled = 0;
  warp_sync(); /* keys are written */
  for (int g = lane; g < a->n_groups; g += WARP) {
    s->group[g] = group_score_of(a, s->key + g * size, size);
    spoiled |= s->group[g] != s->group[g];
  }
  if (warp_any(spoiled)) return 1;
  token_key best = lane_best(s->group, a->n_groups);
  for (int j = 0; j < a->top_k_groups; j++) take_best(s->group, a->n_groups, &best);
  warp_sync(); /* groups are taken, and keys are read */
  for (int e = lane; e < a->n_experts; e += WARP)
    if (s->group[e / size] == s->group[e / size]) s->key[e] = TAKEN;
  return 0;
}

/* Chooses experts: chosen[i] becomes that of the lane's slot lane + 32 i. Returns 1 if a key or group score is NaN. */
GA_DEV int choose(args a, const float *z, softmax_base b, warp_shared *s, int *chosen) {
  if (write_keys(a, z, b, s->key)) return 1;
  if (a->n_groups > 1 && leave_groups_out(a, s)) return 1;
  token_key best = lane_best(s->key, a->n_experts);
  for (int j = 0; j < a->top_k; j++) {
    const int e = take_best(s->key, a->n_experts, &best);
    GA_UNROLL for (int i = 0; i < SLOTS; i++) chosen[i] = j == thread_index() % WARP + WARP * i ? e : chosen[i];
  }
  return 0;
}

/* Looks a token's experts up, as `choose` chooses them. Returns 1 if its id or one of the experts is out of range. */
GA_DEV int look_up(args a, int64_t token, int *chosen) {
  const int64_t id = a->token_ids[token];
  int bad = id < 0 || id >= a->vocab;
  GA_UNROLL for (int i = 0; i < SLOTS; i++) {
    const int slot = thread_index() % WARP + WARP * i;
    if (bad || slot >= a->top_k) continue;
    chosen[i] = a->table[id * a->top_k + slot];
    bad = chosen[i] < 0 || chosen[i] >= a->n_experts;
  }
  return warp_any(bad);
}

GA_DEV double weight_divisor(args a, double sum) {
  if (a->renorm == RENORM_SUM) return sum + (double)a->norm_eps;
  if (a->renorm == RENORM_BOUND) return sum < (double)a->norm_eps ? (double)a->norm_eps : sum;
  return 1;
}

/* Writes the weights of a token's chosen experts. */
GA_DEV void weigh_chosen(args a, const float *z, softmax_base b, const int *chosen, float *out) {
  const int lane = thread_index() % WARP;
  const bool of_chosen = a->scores == SOFTMAX_CHOSEN;
  double w[SLOTS], sum = 0;
  float x[SLOTS];
  GA_UNROLL for (int i = 0; i < SLOTS; i++) x[i] = lane + WARP * i < a->top_k ? z[chosen[i]] : GA_NEG_INFINITY;
  if (of_chosen) {
    b.most = GA_NEG_INFINITY;
    b.sum = 1;
    GA_UNROLL for (int i = 0; i < SLOTS; i++) b.most = fmaxf(b.most, x[i]);
    b.most = row_max_warp(b.most);
  }
  GA_UNROLL for (int i = 0; i < SLOTS; i++) {
    w[i] = lane + WARP * i < a->top_k ? score_of(a, x[i], b) : 0;
    sum += w[i];
  }
  sum = warp_sum_f64(sum);
  if (of_chosen && (a->renorm != RENORM_SUM || a->norm_eps != 0)) {
    GA_UNROLL for (int i = 0; i < SLOTS; i++) w[i] /= sum; /* renormalised by sums alone they are weights already */
    sum = 1;
  }
  const double divisor = weight_divisor(a, sum);
  GA_UNROLL for (int i = 0; i < SLOTS; i++) if (lane + WARP * i < a->top_k) {
    const double factor = (double)a->scale * (a->expert_scale ? (double)a->expert_scale[chosen[i]] : 1);
    out[lane + WARP * i] = (float)((divisor == 0 ? 0 : w[i] / divisor) * factor);
  }
}

GA_DEV void route_token(args a, int64_t token, warp_shared *s) {
  const int lane = thread_index() % WARP;
  const float *z = a->logits + token * a->logits_stride;
  int nan = 0, chosen[SLOTS] = {lane, lane + WARP};
  softmax_base b = {0, 0};
  for (int e = lane; e < a->n_experts; e += WARP) nan |= z[e] != z[e];
  nan = warp_any(nan);
  if (a->scores == SOFTMAX && !nan) b = base_of(a, z);
  const int lost = a->vocab ? look_up(a, token, chosen) : nan || choose(a, z, b, s, chosen);
  if (!lost && !nan) weigh_chosen(a, z, b, chosen, a->weights + token * a->top_k);
  GA_UNROLL for (int i = 0; i < SLOTS; i++) {
    const int64_t at = token * a->top_k + lane + WARP * i;
    if (lane + WARP * i >= a->top_k) continue;
    a->experts[at] = lost ? lane + WARP * i : chosen[i];
    if (lost || nan) a->weights[at] = TAKEN;
  }
}

GA_KERNEL(GA_P_THREADS, 1) GA_KERNEL_ID(GA_GRID_CONST ga_kargs_route a) {
  GA_SHARED warp_shared shared[WARPS];
  const int warp = thread_index() / WARP;
  grid_dependency_wait();
  grid_launch_dependents();
  for (int64_t token = (int64_t)block_index() * WARPS + warp; token < a.tokens; token += (int64_t)block_count() * WARPS)
    route_token(&a, token, &shared[warp]);
}
