#include <stdio.h>

#include "ga/experts.h"
#include "verify/bench/bench.h"

static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  static const int64_t tokens[] = {1, 64, 4096};
  static const char *const families[] = {"gpt-oss", "qwen3 moe", "deepseek v3"};
  (void)kernel;
  ga_route_desc *d = desc;
  *d = (ga_route_desc)GA_ROUTE_DESC_INIT;
  d->tokens = tokens[i / 3];
  d->n_groups = d->top_k_groups = 1;
  d->flags = GA_ROUTE_SORT;
  if (i % 3 == 0) {
    d->n_experts = 32, d->top_k = 4;
    d->scores = GA_ROUTE_SOFTMAX_CHOSEN;
  } else if (i % 3 == 1) {
    d->n_experts = 128, d->top_k = 8;
    d->renorm = GA_ROUTE_RENORM_SUM;
  } else {
    d->n_experts = 256, d->top_k = 8;
    d->scores = GA_ROUTE_SIGMOID;
    d->n_groups = 8, d->top_k_groups = 4;
    d->group_score = GA_ROUTE_GROUP_SUM2;
    d->renorm = GA_ROUTE_RENORM_SUM;
    d->norm_eps = 1e-20f;
    d->scale = 2.5f;
  }
  d->logits_stride = d->n_experts;
  (void)snprintf(name, BENCH_NAME, "%lld tokens %s", (long long)d->tokens, families[i % 3]);
  return true;
}

const bench_op bench_route = {.n_shapes = 9, .shape = shape};
