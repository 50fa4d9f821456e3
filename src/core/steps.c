/* From rows to launches. */
#include "core/steps.h"

#include "base/status.h"
#include "core/cost.h"
#include "ga/attn.h"
#include "opdef/fused.h"

static bool is_disabled(const char *patterns, const ga_kernel *kernel) {
  return patterns && ga_pattern_match(patterns, kernel->id);
}

const char *ga_plan_steps_add(ga_plan_steps *steps, const ga_kernel *row, ga_plan_step_launch launch,
                              uint64_t workspace_offset) {
  if (is_disabled(steps->disable_kernels, row)) return "a step of it is disabled by option";
  if (steps->n == GA_STEPS_MAX) return "it takes too many steps";
  steps->step[steps->n++] =
      (ga_plan_step){.row = row, .chosen = steps->chosen, .launch = launch, .workspace_offset = workspace_offset};
  return NULL;
}

const char *ga_plan_steps_fill(ga_plan_steps *steps, const ga_device *device, const char *disable_kernels,
                               const ga_kernel *kernel, const void *desc) {
  *steps = (ga_plan_steps){.device = device, .disable_kernels = disable_kernels, .chosen = kernel};
  const char *why = kernel->ok(kernel, desc, &device->caps);
  if (why) return why;
  if (kernel->plan) return kernel->plan(kernel, desc, steps);
  if (kernel->workspace) steps->workspace_bytes = kernel->workspace(kernel, desc, &device->caps);
  return ga_plan_steps_add(steps, kernel, NULL, 0);
}

ga_status ga_plan_steps_launch(const ga_plan_steps *steps, const void *desc, const void *io, void *workspace,
                               ga_stream *stream) {
  for (const ga_plan_step *s = steps->step; s < steps->step + steps->n; s++) {
    void *own = workspace ? (char *)workspace + s->workspace_offset : NULL;
    GA_TRY(s->launch ? s->launch(s, desc, io, workspace, stream) : s->row->launch(s->row, desc, io, own, stream));
  }
  return GA_OK;
}

/* --- choosing --- */

static bool is_invariant(ga_op op, const void *desc) {
  if (op == GA_OP_gemm) return ((const ga_gemm_desc *)desc)->flags & GA_GEMM_INVARIANT;
  return op == GA_OP_attn && ((const ga_attn_desc *)desc)->flags & GA_ATTN_INVARIANT;
}

static bool asks_rounded_x(ga_op op, const void *desc) {
  return op == GA_OP_gemm && ((const ga_gemm_desc *)desc)->flags & GA_GEMM_X_E4M3;
}

const char *ga_kernel_reject_reason(const ga_kernel *kernel, const ga_device *device, const char *disable_kernels,
                                    const void *desc) {
  ga_plan_steps steps;
  if (kernel->flags & GA_KERNEL_TEACHING) return "for teaching only";
  if (kernel->flags & GA_KERNEL_STEP) return "a step of other rows";
  if (!(device->caps.isas >> kernel->isa & 1)) return "this device lacks its instruction set";
  if (is_disabled(disable_kernels, kernel)) return "disabled by option";
  if (is_invariant(kernel->op, desc) && !(kernel->flags & GA_KERNEL_INVARIANT)) return "it is not batch-invariant";
  if (asks_rounded_x(kernel->op, desc) && !(kernel->flags & GA_KERNEL_X_E4M3)) return "it does not round X to e4m3";
  return ga_plan_steps_fill(&steps, device, disable_kernels, kernel, desc);
}

typedef struct wanted {
  ga_op op;
  ga_kernel_launch host_half; /* NULL: any */
  const ga_kernel *order;     /* not NULL: rows that add up in the order of this one */
} wanted;

static bool in_order_of(const ga_kernel *order, const ga_kernel *k) {
  return k == order || (k->flags & order->flags & GA_KERNEL_ONE_ORDER && k->isa == order->isa &&
                        k->dtype[0] == order->dtype[0] && k->layout == order->layout);
}

static bool is_candidate(const ga_kernel *k, const wanted *w) {
  return k->op == w->op && (!w->host_half || (k->launch == w->host_half && !k->plan)) &&
         (!w->order || in_order_of(w->order, k));
}

/* Where the choice must not depend on the size of the call, attention is compared by one size: a token over 4096
 * keys. */
static double choice_cost(const ga_kernel *k, const void *desc, const ga_caps *caps) {
  if (k->op != GA_OP_attn || !is_invariant(k->op, desc)) return ga_cost_us(k, desc, caps);
  ga_attn_desc d = *(const ga_attn_desc *)desc;
  d.batch = d.max_q = 1;
  d.max_kv = 4096;
  return ga_cost_us(k, &d, caps);
}

static const ga_kernel *choose(const ga_device *device, const char *disable_kernels, const wanted *w,
                               const void *desc) {
  const ga_kernel *best = NULL;
  double least = 0;
  for (size_t i = 0; i < device->n_kernels; i++) {
    const ga_kernel *k = &device->kernels[i];
    if (!is_candidate(k, w) || ga_kernel_reject_reason(k, device, disable_kernels, desc)) continue;
    const double cost = choice_cost(k, desc, &device->caps);
    if (best && cost >= least) continue;
    best = k;
    least = cost;
  }
  return best;
}

/* With GA_GEMM_INVARIANT a row is chosen for 32 rows of X, and then the best for those of the call that adds up in its
 * order. */
const ga_kernel *ga_kernel_choose(const ga_device *device, const char *disable_kernels, ga_op op, const void *desc) {
  if (op != GA_OP_gemm || !is_invariant(op, desc)) return choose(device, disable_kernels, &(wanted){.op = op}, desc);
  ga_gemm_fused_desc d = *(const ga_gemm_fused_desc *)desc;
  d.plain.m = 32;
  const ga_kernel *order = choose(device, disable_kernels, &(wanted){.op = op}, &d);
  return order ? choose(device, disable_kernels, &(wanted){.op = op, .order = order}, desc) : NULL;
}

const ga_kernel *ga_plan_steps_choose(const ga_plan_steps *steps, ga_kernel_launch host_half, ga_op op,
                                      const void *desc) {
  return choose(steps->device, steps->disable_kernels, &(wanted){.op = op, .host_half = host_half}, desc);
}
