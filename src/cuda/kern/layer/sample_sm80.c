#include <stddef.h>

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/layer/layer.h"
#include "cuda/kern/layer/layer_args.h"
#include "cuda/rt/cuda.h"

#define GROUP_LOG_LEAST 7 /* a run of loads of a warp */

_Static_assert(sizeof(ga_kargs_sample_row) == sizeof(ga_sample_row) &&
                   offsetof(ga_kargs_sample_row, logits) == offsetof(ga_sample_row, logits) &&
                   offsetof(ga_kargs_sample_row, temperature) == offsetof(ga_sample_row, temperature) &&
                   offsetof(ga_kargs_sample_row, frequency_penalty) == offsetof(ga_sample_row, frequency_penalty),
               "the kernel reads ga_sample_row");
_Static_assert(GA_SAMPLE_ROWS_MAX * sizeof(int32_t) <= CUDA_COUNTER_BYTES, "a counter a row");

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

/* A warp a group. */
static int32_t blocks_of(const ga_kernel *k, shape s) { return (int32_t)ga_div_up(s.groups, threads_of(k) / 32); }

static bool takes_rows(const ga_kernel *k) { return ((const cuda_sample_variant *)k->impl)->rows == 1; }

const char *cuda_sample_ok(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const bool rows = ((const ga_sample_fused_desc *)desc)->rows > 0;
  if (rows == takes_rows(k)) return NULL;
  return rows ? "it draws one token" : "it draws from rows of parameters";
}

/* Of a row: sums and largest logits of the groups, then adjusted logits. */
static uint64_t row_workspace(const ga_kernel *k, int64_t vocab) {
  return ga_round_up((size_t)threads_of(k) * (sizeof(double) + sizeof(float)) + (size_t)vocab * sizeof(float), 16);
}

uint64_t cuda_sample_workspace(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  (void)caps;
  const ga_sample_fused_desc *d = desc;
  return (uint64_t)ga_max_i64(1, d->rows) * row_workspace(k, d->plain.vocab);
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
                           .typical_p = d->typical_p,
                           .row_blocks = blocks_of(k, s)};
}

#define CHECK_OF(of, name, bytes) GA_TRY(cuda_check_pointer(stream, k, #name, (of)->name, bytes))
#define CHECK(name, bytes)        CHECK_OF(a, name, bytes)

static ga_status check_row_pointers(const ga_kernel *k, const ga_sample_fused_io *fused, ga_stream *stream) {
  const ga_sample_io *a = &fused->plain;
  CHECK(logits, sizeof(float));
  CHECK(bias, sizeof(int32_t));
  CHECK(id, sizeof(int32_t));
  CHECK(logprob, sizeof(float));
  CHECK(rng, sizeof(uint64_t));
  CHECK_OF(fused, rows, sizeof(int64_t));
  CHECK_OF(fused, sequence, sizeof(int32_t));
  CHECK_OF(fused, mask, sizeof(uint32_t));
  return GA_OK;
}

static ga_status sample_rows(const ga_kernel *k, const ga_sample_fused_desc *d, const ga_sample_fused_io *io,
                             void *workspace, ga_stream *stream) {
  GA_TRY(check_row_pointers(k, io, stream));
  const shape s = sample_shape_of(k, d->plain.vocab);
  double *sums = workspace;
  float *most = (float *)(void *)(sums + threads_of(k));
  const ga_kargs_sample args = {.logits = io->plain.logits,
                                .bias = io->plain.bias,
                                .id = io->plain.id,
                                .logprob = io->plain.logprob,
                                .rng = io->plain.rng,
                                .adjusted = most + threads_of(k),
                                .group_max = most,
                                .group_sum = sums,
                                .counter = (int32_t *)(uintptr_t)cuda_counters_of(stream),
                                .vocab = d->plain.vocab,
                                .groups = s.groups,
                                .group_log = s.log,
                                .mask = io->mask,
                                .append = io->sequence,
                                .rows = (const void *)io->rows,
                                .logits_stride = d->logits_stride,
                                .workspace_stride = (int64_t)row_workspace(k, d->plain.vocab),
                                .row_blocks = blocks_of(k, s)};
  const cuda_launch l = {.grid = {(uint32_t)(d->rows * args.row_blocks), 1, 1},
                         .block = {(uint32_t)threads_of(k), 1, 1},
                         .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}

ga_status cuda_sample(const ga_kernel *k, const void *desc, const void *io, void *workspace, ga_stream *stream) {
  if (takes_rows(k)) return sample_rows(k, desc, io, workspace, stream);
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
  const cuda_launch l = {
      .grid = {(uint32_t)args.row_blocks, 1, 1}, .block = {(uint32_t)threads_of(k), 1, 1}, .dependent = true};
  return cuda_enqueue(stream, k, &l, &args);
}
