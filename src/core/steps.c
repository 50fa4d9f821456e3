/* From rows to launches. */
#include "core/steps.h"

#include "base/abort.h"
#include "base/compiler.h"
#include "base/status.h"
#include "core/cost.h"

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
    GA_TRY(ga_abort_skipped(s->row->id));
  }
  return GA_OK;
}

/* --- choosing --- */

const char *ga_kernel_reject_reason(const ga_kernel *kernel, const ga_device *device, const char *disable_kernels,
                                    const void *desc) {
  ga_plan_steps steps;
  if (kernel->flags & GA_KERNEL_TEACHING) return "for teaching only";
  if (kernel->flags & GA_KERNEL_STEP) return "a step of other rows";
  if (!(device->caps.isas >> kernel->isa & 1)) return "this device lacks its instruction set";
  if (is_disabled(disable_kernels, kernel)) return "disabled by option";
  const ga_op_info *op = ga_op_info_of(kernel->op);
  const char *why = op->lacks ? op->lacks(kernel, desc) : NULL;
  return why ? why : ga_plan_steps_fill(&steps, device, disable_kernels, kernel, desc);
}

typedef struct wanted {
  ga_op op;
  ga_kernel_launch host_half; /* NULL: any */
  const ga_kernel *order;     /* not NULL: rows that give the bits of this one */
} wanted;

static bool is_candidate(const ga_kernel *k, const wanted *w) {
  return k->op == w->op && (!w->host_half || (k->launch == w->host_half && !k->plan)) &&
         (!w->order || k == w->order || ga_op_info_of(w->op)->same_order(w->order, k));
}

static const ga_kernel *choose(const ga_device *device, const char *disable_kernels, const wanted *w,
                               const void *desc) {
  const ga_op_info *op = ga_op_info_of(w->op);
  GA_ALIGNED(8) unsigned char typical[GA_DESC_MAX_BYTES];
  const void *compared = !op->same_order && op->typical && op->typical(desc, typical) ? typical : desc;
  const ga_kernel *best = NULL;
  double least = 0;
  for (size_t i = 0; i < device->n_kernels; i++) {
    const ga_kernel *k = &device->kernels[i];
    if (!is_candidate(k, w) || ga_kernel_reject_reason(k, device, disable_kernels, desc)) continue;
    const double cost = ga_cost_us(k, compared, &device->caps);
    if (best && cost >= least) continue;
    best = k;
    least = cost;
  }
  return best;
}

const ga_kernel *ga_kernel_choose(const ga_device *device, const char *disable_kernels, ga_op op, const void *desc) {
  const ga_op_info *info = ga_op_info_of(op);
  GA_ALIGNED(8) unsigned char typical[GA_DESC_MAX_BYTES];
  wanted w = {.op = op};
  if (info->same_order && info->typical(desc, typical)) {
    w.order = choose(device, disable_kernels, &w, typical);
    if (!w.order) return NULL;
  }
  return choose(device, disable_kernels, &w, desc);
}

const ga_kernel *ga_plan_steps_choose(const ga_plan_steps *steps, ga_kernel_launch host_half, ga_op op,
                                      const void *desc) {
  return choose(steps->device, steps->disable_kernels, &(wanted){.op = op, .host_half = host_half}, desc);
}
