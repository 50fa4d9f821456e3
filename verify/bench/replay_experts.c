/* ga bench --replay: a trace of chosen experts (model/expert_trace.h), replayed through caches of several sizes. Tokens
 * come one by one, as when one sequence generates. The first half of the trace warms the caches up; the second half is
 * counted. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/status.h"
#include "cmdline/cmd.h"
#include "model/expert_lru.h"
#include "model/expert_trace.h"
#include "verify/bench/bench.h"

/* Loads of a layer whose experts can be on their way at once, as expert_cache.c has buffers for. */
enum { LAYER_LOADS = 4 };

static const double sizes[] = {0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75};

typedef struct replay {
  const expert_choices *c;
  int32_t n_keys;     /* experts of all layers that have experts */
  int32_t *first_key; /* [n_layers] -1: the layer has no experts */
  int64_t begin;      /* first token that is counted */
} replay;

typedef struct replayed {
  int64_t lookups, hits, loads;
} replayed;

static int32_t replay_key(const replay *r, int32_t layer, int64_t token, int32_t slot) {
  return r->first_key[layer] + r->c->layers[layer][token * r->c->top_k + slot];
}

/* A layer of one token: uses, then loads of what was missed. Arrived loads are usable from the next token on. */
static void replay_layer(const replay *r, expert_lru *lru, int32_t layer, int64_t token, int32_t *arriving,
                         int32_t *n_arriving, replayed *sum) {
  const int32_t top_k = r->c->top_k;
  const bool counts = token >= r->begin;
  int32_t missed[64], n_missed = 0, evicted;
  for (int32_t j = 0; j < top_k; j++) {
    const int32_t key = replay_key(r, layer, token, j);
    const bool hit = expert_lru_use(lru, key) >= 0;
    sum->lookups += counts;
    sum->hits += counts && hit;
    if (!hit) missed[n_missed++] = key;
  }
  for (int32_t i = 0; i < n_missed && i < LAYER_LOADS; i++) {
    const int32_t slot = expert_lru_admit(lru, missed[i], &evicted);
    if (slot < 0) continue;
    arriving[(*n_arriving)++] = slot;
    sum->loads += counts;
  }
}

static ga_status replay_lru(const replay *r, int32_t n_slots, int32_t load_uses, replayed *sum) {
  const size_t most = (size_t)r->c->n_layers * LAYER_LOADS;
  expert_lru *lru;
  void *arriving;
  *sum = (replayed){0};
  GA_TRY(ga_mem_zalloc(most, sizeof(int32_t), "replay", &arriving));
  const ga_status status = expert_lru_create(r->n_keys, n_slots, load_uses, &lru);
  for (int64_t t = 0; status == GA_OK && t < r->c->n_tokens; t++) {
    int32_t n = 0;
    for (int32_t l = 0; l < r->c->n_layers; l++)
      if (r->first_key[l] >= 0) replay_layer(r, lru, l, t, arriving, &n, sum);
    for (int32_t i = 0; i < n; i++) expert_lru_arrive(lru, ((int32_t *)arriving)[i]);
  }
  if (status == GA_OK) expert_lru_destroy(lru);
  ga_mem_free(arriving);
  return status;
}

/* --- lists that do not change --- */

typedef struct key_uses {
  int64_t uses;
  int32_t key;
} key_uses;

static int by_uses(const void *a, const void *b) {
  const key_uses *x = a, *y = b;
  return x->uses != y->uses ? (x->uses < y->uses) - (x->uses > y->uses) : (x->key > y->key) - (x->key < y->key);
}

static void count_uses(const replay *r, int64_t first, int64_t end, key_uses *uses) {
  for (int32_t k = 0; k < r->n_keys; k++) uses[k] = (key_uses){.key = k};
  for (int32_t l = 0; l < r->c->n_layers; l++)
    for (int64_t t = first; r->first_key[l] >= 0 && t < end; t++)
      for (int32_t j = 0; j < r->c->top_k; j++) uses[replay_key(r, l, t, j)].uses++;
}

/* Hit rate, among the counted tokens, of the n_slots experts that tokens [first, end) used most. */
static ga_status replay_list(const replay *r, int32_t n_slots, int64_t first, int64_t end, double *rate) {
  void *p, *q;
  int64_t hits = 0, all = 0;
  GA_TRY(ga_mem_zalloc((size_t)r->n_keys, sizeof(key_uses), "replay", &p));
  const ga_status status = ga_mem_zalloc((size_t)r->n_keys, sizeof(key_uses), "replay", &q);
  if (status == GA_OK) {
    key_uses *hot = p, *later = q;
    count_uses(r, first, end, hot);
    count_uses(r, r->begin, r->c->n_tokens, later);
    qsort(hot, (size_t)r->n_keys, sizeof *hot, by_uses);
    for (int32_t i = 0; i < r->n_keys; i++) all += later[i].uses;
    for (int32_t i = 0; i < n_slots; i++) hits += later[hot[i].key].uses;
    *rate = all ? (double)hits / (double)all : 0;
    ga_mem_free(q);
  }
  ga_mem_free(p);
  return status;
}

/* --- the report --- */

static double rate_of(const replayed *r) { return r->lookups ? (double)r->hits / (double)r->lookups : 0; }

static ga_status report_size(const replay *r, double part, bool json, bool first) {
  const int32_t n = (int32_t)ga_max_i64(1, (int64_t)(part * r->n_keys));
  const int64_t counted = r->c->n_tokens - r->begin;
  replayed bounded, unbounded;
  double before, after;
  GA_TRY(replay_lru(r, n, EXPERT_LOAD_USES, &bounded));
  GA_TRY(replay_lru(r, n, 0, &unbounded));
  GA_TRY(replay_list(r, n, 0, r->begin, &before));
  GA_TRY(replay_list(r, n, r->begin, r->c->n_tokens, &after));
  if (json)
    printf("%s{\"part\": %g, \"slots\": %d, \"lru\": %.4f, \"lru_loads_per_token\": %.2f, \"lru_unbounded\": %.4f, "
           "\"lru_unbounded_loads_per_token\": %.2f, \"list\": %.4f, \"list_of_the_same_tokens\": %.4f}",
           first ? "" : ",\n ", part, n, rate_of(&bounded), (double)bounded.loads / (double)counted,
           rate_of(&unbounded), (double)unbounded.loads / (double)counted, before, after);
  else
    printf("%5.0f %%  %6d  %7.1f %%  %7.1f  %9.1f %%  %7.1f  %7.1f %%  %9.1f %%\n", 100 * part, n,
           100 * rate_of(&bounded), (double)bounded.loads / (double)counted, 100 * rate_of(&unbounded),
           (double)unbounded.loads / (double)counted, 100 * before, 100 * after);
  return GA_OK;
}

static ga_status report_replay(replay *r, bool json) {
  const expert_choices *c = r->c;
  int32_t layers = 0;
  for (int32_t l = 0; l < c->n_layers; l++) {
    r->first_key[l] = c->layers[l] ? r->n_keys : -1;
    r->n_keys += c->layers[l] ? c->n_experts : 0;
    layers += c->layers[l] != NULL;
  }
  r->begin = c->n_tokens / 2;
  if (json)
    printf("{\"layers\": %d, \"experts\": %d, \"chosen\": %d, \"tokens\": %lld, \"sizes\": [\n ", layers, c->n_experts,
           c->top_k, (long long)c->n_tokens);
  else
    printf("%d layers, %d of %d experts, %lld tokens, of which the second half is counted\n"
           "                 LRU                 LRU without a budget   list of      list of the\n"
           "   size   slots     hits    loads      hits        loads   first half   counted tokens\n",
           layers, c->top_k, c->n_experts, (long long)c->n_tokens);
  for (size_t i = 0; i < GA_COUNT_OF(sizes); i++) GA_TRY(report_size(r, sizes[i], json, i == 0));
  if (json) printf("\n]}\n");
  return GA_OK;
}

int bench_replay(const char *path, bool json) {
  expert_choices c;
  replay r = {.c = &c};
  void *p;
  ga_status status = expert_choices_read(path, &c);
  if (status != GA_OK) return cmd_fail("bench");
  status = ga_mem_zalloc((size_t)c.n_layers, sizeof *r.first_key, "replay", &p);
  if (status == GA_OK) {
    r.first_key = p;
    status = report_replay(&r, json);
  }
  ga_mem_free(r.first_key);
  expert_choices_free(&c);
  return status == GA_OK ? EXIT_OK : cmd_fail("bench");
}
