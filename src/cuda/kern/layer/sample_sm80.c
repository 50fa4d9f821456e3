#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/layer/layer.h"
#include "cuda/kern/layer/layer_args.h"
#include "cuda/rt/cuda.h"

#define GROUP_LOG_LEAST 7 /* a run of loads of a warp */

/* Groups of 2^log tokens, no more than threads. */
typedef struct shape {
  int32_t log, groups;
} shape;

static int64_t threads_of(const ga_kernel *k) { return ((const cuda_variant *)k->impl)->threads; }

static shape sample_shape_of(const ga_kernel *k, int64_t vocab) {
  shape s = {.log = GROUP_LOG_LEAST};
  while (ga_div_up(vocab, (int64_t)1 << s.log) > threads_of(k)) s.log++;
  s.groups = (int32_t)ga_div_up(vocab, (int64_t)1 << s.log);
  return s;
}

const char *cuda_sample_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)k, (void)desc, (void)caps;
  return NULL;
}

/* Sums and largest logits of the groups, then adjusted logits. */
uint64_t cuda_sample_workspace(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  return (uint64_t)threads_of(k) * (sizeof(double) + sizeof(float)) +
         (uint64_t)((const ga_sample_desc *)desc)->vocab * sizeof(float);
}

static ga_kargs_sample kargs_of(const ga_kernel *k, const ga_sample_desc *d, const ga_sample_fused_io *fused,
                                void *workspace) {
  const ga_sample_io *a = &fused->plain;
  const shape s = sample_shape_of(k, d->vocab);
  double *sums = workspace;
  float *most = (float *)(void *)(sums + threads_of(k));
  const int32_t top_k = d->top_k < d->vocab ? d->top_k : 0;
  const int32_t first_k = d->typical_p < 1 ? 0 : top_k; /* what typical leaves is filtered by the others */
  const bool filters = first_k || d->top_p < 1 || d->min_p > 0;
  return (ga_kargs_sample){.logits = a->logits,
                           .history = a->history,
                           .bias = a->bias,
                           .id = a->id,
                           .logprob = a->logprob,
                           .advance = fused->advance,
                           .sequence = fused->sequence,
                           .n_sequence = fused->n_sequence,
                           .rng = a->rng,
                           .adjusted = most + threads_of(k),
                           .group_max = most,
                           .group_sum = sums,
                           .vocab = d->vocab,
                           .n_history = a->n_history,
                           .n_bias = a->n_bias,
                           .n_advance = fused->n_advance,
                           .groups = s.groups,
                           .group_log = s.log,
                           .top_k = top_k,
                           .filters = filters,
                           .temperature = d->temperature,
                           .top_p = d->top_p,
                           .min_p = d->min_p,
                           .sum_temperature = !filters                                         ? d->temperature
                                              : d->temperature > 0 && d->top_p < 1 && !first_k ? 1
                                                                                               : 0,
                           .repetition_penalty = d->repetition_penalty,
                           .presence_penalty = d->presence_penalty,
                           .frequency_penalty = d->frequency_penalty,
                           .typical_p = d->typical_p};
}

#define CHECK_OF(of, name, bytes) GA_TRY(cuda_check_pointer(stream, k, #name, (of)->name, bytes))
#define CHECK(name, bytes)        CHECK_OF(a, name, bytes)

ga_status cuda_sample(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  const ga_sample_desc *d = desc;
  const ga_sample_fused_io *fused = io;
  const ga_sample_io *a = &fused->plain;
  CHECK(logits, sizeof(float));
  if (a->n_history && !fused->sequence) CHECK(history, sizeof(int32_t));
  if (a->n_bias) CHECK(bias, sizeof(int32_t));
  CHECK(id, sizeof(int32_t));
  CHECK(logprob, sizeof(float));
  if (d->temperature > 0) CHECK(rng, sizeof(uint64_t));
  if (fused->n_advance) CHECK_OF(fused, advance, sizeof(int32_t));
  if (fused->sequence) CHECK_OF(fused, sequence, sizeof(int32_t));
  if (fused->sequence) CHECK_OF(fused, n_sequence, sizeof(int32_t));
  ga_kargs_sample args = kargs_of(k, d, fused, workspace);
  args.counter = (int32_t *)(uintptr_t)cuda_counters_of(stream);
  const int64_t blocks = ga_div_up(args.groups, threads_of(k) / 32);
  const cuda_launch l = {.grid = {(uint32_t)blocks, 1, 1}, .block = {(uint32_t)threads_of(k), 1, 1}, .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
