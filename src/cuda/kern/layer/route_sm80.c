#include "cuda/kern/layer/route.h"

#include "cuda/kern/layer/route_args.h"
#include "ga/experts.h"

const char *cuda_route_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)desc, (void)caps;
  return NULL;
}

/* Returns the kind of scores by which the kernel computes. A softmax over all experts without a bias is one over the
 * chosen experts, if their weights are divided by their sum: the sum over all experts cancels. */
static int32_t kernel_scores(const ga_route_desc *d, const ga_route_io *a) {
  const bool cancels = d->scores == GA_ROUTE_SOFTMAX && !a->bias && d->group_score != GA_ROUTE_GROUP_SUM2 &&
                       d->renorm == GA_ROUTE_RENORM_SUM && d->norm_eps == 0 && !d->vocab;
  return cancels ? GA_ROUTE_SOFTMAX_CHOSEN : d->scores;
}

ga_status cuda_route(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  (void)workspace;
  const ga_route_desc *d = desc;
  const ga_route_io *a = io;
  LAYER_CHECK(logits, GA_F32);
  LAYER_CHECK(bias, GA_F32);
  LAYER_CHECK(expert_scale, GA_F32);
  LAYER_CHECK(experts, GA_I32);
  LAYER_CHECK(weights, GA_F32);
  if (d->vocab) LAYER_CHECK(token_ids, GA_I32);
  if (d->vocab) LAYER_CHECK(table, GA_I32);
  const ga_kargs_route args = {.logits = a->logits,
                               .bias = a->bias,
                               .expert_scale = a->expert_scale,
                               .token_ids = a->token_ids,
                               .table = a->table,
                               .experts = a->experts,
                               .weights = a->weights,
                               .tokens = d->tokens,
                               .logits_stride = d->logits_stride,
                               .vocab = d->vocab,
                               .n_experts = d->n_experts,
                               .top_k = d->top_k,
                               .scores = kernel_scores(d, a),
                               .n_groups = d->n_groups,
                               .top_k_groups = d->top_k_groups,
                               .group_score = d->group_score,
                               .renorm = d->renorm,
                               .norm_eps = d->norm_eps,
                               .scale = d->scale};
  const cuda_variant *v = k->impl;
  return cuda_layer_enqueue(k, stream, ga_div_up(d->tokens, (int64_t)v->threads / 32), &args);
}

static ga_status launch_sort(const ga_plan_step *step, const void *desc, const void *io, void *workspace,
                             ga_stream *stream) {
  (void)workspace;
  const ga_kernel *k = step->row;
  const ga_route_desc *d = desc;
  const ga_route_io *a = io;
  LAYER_CHECK(counts, GA_I32);
  LAYER_CHECK(offsets, GA_I32);
  LAYER_CHECK(order, GA_I32);
  LAYER_CHECK(place, GA_I32);
  const ga_kargs_route_sort args = {.experts = a->experts,
                                    .counts = a->counts,
                                    .offsets = a->offsets,
                                    .order = a->order,
                                    .place = a->place,
                                    .rows = (int32_t)d->tokens * d->top_k,
                                    .n_experts = d->n_experts};
  return cuda_layer_enqueue(k, stream, d->n_experts, &args);
}

const char *cuda_route_plan(const ga_kernel *k, const void *desc, ga_plan_steps *steps) {
  const ga_route_desc *d = desc;
  const char *why = d->tokens ? ga_plan_steps_add(steps, k, NULL, 0) : NULL;
  if (why || !(d->flags & GA_ROUTE_SORT)) return why;
  return ga_plan_steps_add(steps, ((const cuda_route_variant *)k->impl)->sort, launch_sort, 0);
}
