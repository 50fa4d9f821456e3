#include <stdio.h>

#include "ga/experts.h"
#include "verify/bench/bench.h"

#define MOST_ON_CPU     512 /* tokens */
#define UNSORTED_ON_GPU 4   /* tokens: as models call the op */

/* Gate and up, then down, of one layer: gpt-oss 20B for one token; Qwen3 30B-A3B for one token, small batches and
 * prompts. */
static const struct {
  int64_t tokens, model, ff;
  int32_t n_experts, top_k;
} layers[] = {{1, 2880, 2880, 32, 4},    {1, 2048, 768, 128, 8},   {4, 2048, 768, 128, 8},    {8, 2048, 768, 128, 8},
              {16, 2048, 768, 128, 8},   {32, 2048, 768, 128, 8},  {64, 2048, 768, 128, 8},   {128, 2048, 768, 128, 8},
              {256, 2048, 768, 128, 8},  {512, 2048, 768, 128, 8}, {1024, 2048, 768, 128, 8}, {2048, 2048, 768, 128, 8},
              {4096, 2048, 768, 128, 8}, {2048, 2880, 2880, 32, 4}};

static bool shape(int i, const ga_kernel *kernel, void *desc, char name[BENCH_NAME]) {
  ga_expert_gemm_desc *d = desc;
  const bool in = i % 2 == 0;
  const int64_t model = layers[i / 2].model, ff = layers[i / 2].ff;
  const bool on_gpu = kernel->layout == GA_LAYOUT_MMA_PACKED;
  if (layers[i / 2].tokens > (kernel->layout == GA_LAYOUT_NATIVE ? 128 : MOST_ON_CPU) && !on_gpu) return false;
  *d = (ga_expert_gemm_desc)GA_EXPERT_GEMM_DESC_INIT;
  d->tokens = layers[i / 2].tokens;
  d->n_experts = layers[i / 2].n_experts, d->top_k = layers[i / 2].top_k;
  d->form = in ? GA_EXPERT_IN : GA_EXPERT_OUT;
  d->n = d->y_stride = d->expert_rows = in ? ff : model;
  d->k = d->x_stride = in ? model : ff;
  d->w_dtype = (int32_t)kernel->dtype[0];
  if (d->k % ga_dtype_info((ga_dtype)d->w_dtype)->block_elems) return false;
  d->w_layout = (int32_t)kernel->layout;
  d->act = in ? GA_ACT_SILU : GA_ACT_NONE;
  d->flags = in ? GA_EXPERT_GATED : GA_EXPERT_WEIGHTS;
  if (on_gpu && d->tokens > UNSORTED_ON_GPU) d->flags |= GA_EXPERT_SORTED;
  (void)snprintf(name, BENCH_NAME, "%lld x %d of %d, %lldx%lld %s %s", (long long)d->tokens, d->top_k, d->n_experts,
                 (long long)d->n, (long long)d->k, in ? "in" : "out", ga_dtype_name((ga_dtype)d->w_dtype));
  return true;
}

static double slots_in(const ga_expert_gemm_desc *d) {
  return (double)d->tokens * d->top_k * (double)d->n * (double)d->k * (d->flags & GA_EXPERT_GATED ? 2 : 1);
}

static double flops(const void *desc) { return 2 * slots_in(desc); }

/* Weights of the experts that slots chose, of which a draw of the checker seldom has two alike while they are few. */
static double bytes(const void *desc) {
  const ga_expert_gemm_desc *d = desc;
  const ga_dtype_traits *w = ga_dtype_info((ga_dtype)d->w_dtype);
  const double slots = (double)d->tokens * d->top_k;
  return slots_in(d) / slots * (slots < d->n_experts ? slots : d->n_experts) * w->block_bytes / w->block_elems;
}

const bench_op bench_expert_gemm = {.n_shapes = 28, .shape = shape, .flops = flops, .bytes = bytes};
