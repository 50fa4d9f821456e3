/* Steps of a plan: an array of launches, computed once when the plan is made.
 *
 *   description, device, table --(legal? cheapest?)--> kernel --(its `plan`)--> step 0, step 1, ...
 *
 * Most kernels are one launch. A kernel that needs helpers (a conversion before it, a sum after it) adds them as steps.
 * If a helper is disabled or has no code in this build, the plan is therefore refused when it is made. */
#ifndef GA_CORE_STEPS_H
#define GA_CORE_STEPS_H

#include "core/device.h"

#define GA_STEPS_MAX 4

typedef struct ga_plan_step ga_plan_step;

/* Enqueues a step. desc and io are those of the plan; workspace is the start of the plan's workspace. */
typedef ga_status (*ga_plan_step_launch)(const ga_plan_step *step, const void *desc, const void *io, void *workspace,
                                         ga_stream *stream);

/* One launch of a plan. */
struct ga_plan_step {
  const ga_kernel *row; /* Kernel that the step launches. */
  /* Kernel that the planner chose for the plan. It defines the type of desc and the parts of the workspace. */
  const ga_kernel *chosen;
  ga_plan_step_launch launch; /* NULL: row->launch is called, with the workspace from workspace_offset on. */
  uint64_t workspace_offset;  /* Offset of the step's part in the plan's workspace, in bytes. */
};

struct ga_plan_steps {
  const ga_device *device;
  const char *disable_kernels; /* Patterns of kernel ids that the context disables. May be NULL. */
  const ga_kernel *chosen;
  uint64_t workspace_bytes; /* Bytes of workspace that all steps share. */
  int32_t n;
  ga_plan_step step[GA_STEPS_MAX];
};

/* Fills *steps with the launches of `kernel` for desc. Returns NULL, or the reason why the kernel cannot run (static
 * text). */
const char *ga_plan_steps_fill(ga_plan_steps *steps, const ga_device *device, const char *disable_kernels,
                               const ga_kernel *kernel, const void *desc);
/* Adds a launch of `row`. A kernel's `plan` calls it. Returns NULL, or the reason for which `row` cannot run (static
 * text). */
const char *ga_plan_steps_add(ga_plan_steps *steps, const ga_kernel *row, ga_plan_step_launch launch,
                              uint64_t workspace_offset);
/* Returns the kernel that the planner chooses for `desc`, a step's own description, among the kernels whose launch
 * function is host_half. NULL: there is none. A kernel's `plan` calls it. Kernels with a `plan` of their own are
 * skipped, because steps do not nest. */
const ga_kernel *ga_plan_steps_choose(const ga_plan_steps *steps, ga_kernel_launch host_half, ga_op op,
                                      const void *desc);

GA_NODISCARD ga_status ga_plan_steps_launch(const ga_plan_steps *steps, const void *desc, const void *io,
                                            void *workspace, ga_stream *stream);

/* Returns the legal kernel of the device with the smallest cost for desc; NULL: there is none. Teaching and disabled
 * kernels are skipped. The function is pure. */
const ga_kernel *ga_kernel_choose(const ga_device *device, const char *disable_kernels, ga_op op, const void *desc);
/* Returns the reason for which a kernel would not be chosen for desc. NULL: it can be chosen. */
const char *ga_kernel_reject_reason(const ga_kernel *kernel, const ga_device *device, const char *disable_kernels,
                                    const void *desc);

#endif
