/* A plan's steps: an array of launches, computed once when the plan is made.
 *
 *   description, device, table --(legal? cheapest?)--> row --(its `plan`)--> step 0, step 1, ...
 *
 * Most kernels are one launch. A kernel that needs helpers (a conversion before it, a sum after it) adds them as steps.
 * A helper that is disabled, or has no code in this build, is therefore refused when the plan is made. */
#ifndef GA_CORE_STEPS_H
#define GA_CORE_STEPS_H

#include "core/device.h"

#define GA_STEPS_MAX 4

typedef struct ga_plan_step ga_plan_step;

/* Enqueues a step. desc and io are the plan's, workspace is where the plan's begins. */
typedef ga_status (*ga_plan_step_launch)(const ga_plan_step *step, const void *desc, const void *io, void *workspace,
                                         ga_stream *stream);

/* One launch. */
struct ga_plan_step {
  const ga_kernel *row;       /* whose code runs */
  const ga_kernel *chosen;    /* the plan's row: desc and the parts of the workspace are its own */
  ga_plan_step_launch launch; /* NULL: row->launch, with the workspace from the offset on */
  uint64_t workspace_offset;  /* bytes */
};

struct ga_plan_steps {
  const ga_device *device;
  const char *disable_kernels; /* patterns of ids, may be NULL; of the context */
  const ga_kernel *chosen;
  uint64_t workspace_bytes; /* of all steps */
  int32_t n;
  ga_plan_step step[GA_STEPS_MAX];
};

/* Fills *steps with the launches of `kernel` for desc. NULL, or why they cannot run (static text). */
const char *ga_plan_steps_fill(ga_plan_steps *steps, const ga_device *device, const char *disable_kernels,
                               const ga_kernel *kernel, const void *desc);
/* For a row's `plan`: adds a launch of `row`. NULL, or why that row cannot run (static text). */
const char *ga_plan_steps_add(ga_plan_steps *steps, const ga_kernel *row, ga_plan_step_launch launch,
                              uint64_t workspace_offset);
/* For a row's `plan`: the row that the planner chooses for another description among those of one host half, or NULL.
 * Rows that have a `plan` of their own are left out: steps do not nest. */
const ga_kernel *ga_plan_steps_choose(const ga_plan_steps *steps, ga_kernel_launch host_half, ga_op op,
                                      const void *desc);

GA_NODISCARD ga_status ga_plan_steps_launch(const ga_plan_steps *steps, const void *desc, const void *io,
                                            void *workspace, ga_stream *stream);

/* The pure choice: the best legal row for desc among the device's, or NULL. Teaching and disabled rows are passed
 * over. */
const ga_kernel *ga_kernel_choose(const ga_device *device, const char *disable_kernels, ga_op op, const void *desc);
/* Why a row would not be chosen for desc; NULL if nothing is against it. */
const char *ga_kernel_reject_reason(const ga_kernel *kernel, const ga_device *device, const char *disable_kernels,
                                    const void *desc);

#endif
