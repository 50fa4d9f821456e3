#include "cuda/kern/expert/expert.h"

#include <math.h>

#include "base/mem.h"
#include "base/status.h"
#include "cuda/kern/gemm/gemm.h"

#define SUM_COLS 4 /* columns of Y of a thread of expert_sum */

static ga_status check_expert_order(ga_stream *stream, const ga_kernel *k, const ga_expert_gemm_desc *d,
                                    const ga_expert_gemm_io *a) {
  if (d->n_matrices) GA_TRY(cuda_check_pointer(stream, k, "matrices", a->matrices, sizeof(int32_t)));
  if (d->flags & GA_EXPERT_IN_TURN) return GA_OK;
  if (!(d->flags & GA_EXPERT_SORTED)) return cuda_check_pointer(stream, k, "experts", a->experts, sizeof(int32_t));
  GA_TRY(cuda_check_pointer(stream, k, "offsets", a->offsets, sizeof(int32_t)));
  GA_TRY(cuda_check_pointer(stream, k, "order", a->order, sizeof(int32_t)));
  return cuda_check_pointer(stream, k, "place", a->place, sizeof(int32_t));
}

ga_status cuda_expert_check_io(ga_stream *stream, const ga_kernel *k, const ga_expert_gemm_desc *d,
                               const ga_expert_gemm_io *a, size_t w_align) {
  const bool gated = d->flags & GA_EXPERT_GATED, biased = d->flags & GA_EXPERT_BIAS;
  if (d->k) GA_TRY(cuda_check_pointer(stream, k, "x", a->x, cuda_gemm_align(d->x_dtype)));
  if (d->k) GA_TRY(cuda_check_pointer(stream, k, "w", a->w, w_align));
  if (d->k && gated) GA_TRY(cuda_check_pointer(stream, k, "w_gate", a->w_gate, w_align));
  if (biased) GA_TRY(cuda_check_pointer(stream, k, "bias", a->bias, sizeof(float)));
  if (biased && gated) GA_TRY(cuda_check_pointer(stream, k, "bias_gate", a->bias_gate, sizeof(float)));
  if (d->flags & GA_EXPERT_WEIGHTS) GA_TRY(cuda_check_pointer(stream, k, "weights", a->weights, sizeof(float)));
  if (d->flags & GA_EXPERT_RESIDUAL)
    GA_TRY(cuda_check_pointer(stream, k, "residual", a->residual, cuda_gemm_align(d->y_dtype)));
  GA_TRY(cuda_check_pointer(stream, k, "y", a->y, cuda_gemm_align(d->y_dtype)));
  return check_expert_order(stream, k, d, a);
}

ga_kargs_expert cuda_expert_kargs(const ga_expert_gemm_desc *d, const ga_expert_gemm_io *a) {
  return (ga_kargs_expert){.x = a->x,
                           .w = a->w,
                           .w_gate = a->w_gate,
                           .bias = a->bias,
                           .bias_gate = a->bias_gate,
                           .y = a->y,
                           .residual = a->residual,
                           .experts = a->experts,
                           .weights = a->weights,
                           .offsets = a->offsets,
                           .order = a->order,
                           .place = a->place,
                           .matrices = d->n_matrices ? a->matrices : NULL,
                           .tokens = d->tokens,
                           .n = d->n,
                           .k = d->k,
                           .x_stride = d->x_stride,
                           .y_stride = d->y_stride,
                           .expert_rows = d->expert_rows,
                           .n_experts = d->n_experts,
                           .top_k = d->top_k,
                           .form = d->form,
                           .w_dtype = d->w_dtype,
                           .x_dtype = d->x_dtype,
                           .y_dtype = d->y_dtype,
                           .act = d->act,
                           .clamp = d->clamp,
                           .flags = d->flags,
                           .act_alpha = d->act_alpha,
                           .limit = d->limit,
                           .up_offset = d->up_offset};
}

double cuda_expert_groups(const ga_expert_gemm_desc *d, int64_t rows) {
  const double slots = (double)(d->tokens * d->top_k), active = d->n_experts * -expm1(-slots / d->n_experts);
  return fmax(active, slots / (double)rows + active / 2); /* an expert's last group is half full */
}

static ga_status launch_sum(const ga_plan_step *step, const void *desc, const void *io, void *workspace,
                            ga_stream *stream) {
  const ga_expert_gemm_desc *d = desc;
  const cuda_variant *v = step->row->impl;
  ga_kargs_expert args = cuda_expert_kargs(d, io);
  args.results = workspace;
  const int64_t blocks = d->tokens * ga_div_up(d->n, (int64_t)SUM_COLS * v->threads);
  const cuda_launch l = {.grid = {(uint32_t)blocks, 1, 1}, .block = {v->threads, 1, 1}, .dependent = true};
  return cuda_enqueue(stream, step->row, &l, &args);
}

const char *cuda_expert_plan_sum(const ga_kernel *sum, const ga_expert_gemm_desc *d, ga_plan_steps *steps) {
  if (d->form != GA_EXPERT_OUT || !(d->flags & GA_EXPERT_SORTED)) return NULL;
  const uint64_t bytes = (uint64_t)(d->tokens * d->top_k) * (uint64_t)d->n * sizeof(float);
  steps->workspace_bytes = bytes > steps->workspace_bytes ? bytes : steps->workspace_bytes;
  return ga_plan_steps_add(steps, sum, launch_sum, 0);
}
