/* What a context's plans are, in words for people. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/cost.h"
#include "core/ctx.h"

enum { MOST_REASONS = 48 }; /* an op's rows have a dozen; those beyond this many are left out */

typedef struct text_out {
  char *text;
  size_t at, capacity;
} text_out;

static void put(text_out *out, const char *format, ...) GA_PRINTF(2, 3);
static void put(text_out *out, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const int n = vsnprintf(out->text + out->at, out->capacity - out->at, format, args);
  va_end(args);
  if (n < 0) return;
  out->at = (size_t)n < out->capacity - out->at ? out->at + (size_t)n : out->capacity - 1;
}

static double predicted(const ga_plan *plan, const ga_kernel *k) {
  return ga_cost_us(k, plan->desc, &plan->ctx->device->caps);
}

static void put_choice(text_out *out, const ga_plan *plan) {
  put(out, " (%.1f us predicted, %s, workspace %llu bytes)\n", predicted(plan, plan->kernel), plan->kernel->source,
      (unsigned long long)plan->steps.workspace_bytes);
}

/* Of plans that are more than one launch of their row. */
static void put_steps(text_out *out, const ga_plan *plan) {
  const ga_plan_steps *s = &plan->steps;
  for (int32_t i = 0; i < s->n && s->n > 1; i++)
    put(out, "  step %d: %s (%s, workspace from byte %llu)\n", i, s->step[i].row->id, s->step[i].row->source,
        (unsigned long long)s->step[i].workspace_offset);
  if (plan->after) put(out, "  then: %s (%s)\n", plan->after->kernel->id, plan->after->kernel->source);
}

static const char *reject_reason(const ga_plan *plan, const ga_kernel *k) {
  return ga_kernel_reject_reason(k, plan->ctx->device, plan->ctx->disable_kernels, plan->desc);
}

void ga_plan_describe(const ga_plan *plan, char *text, size_t capacity) {
  const ga_device *device = plan->ctx->device;
  if (!capacity) return;
  text_out out = {text, 0, capacity};
  put(&out, "%s", plan->kernel->id);
  put_choice(&out, plan);
  put_steps(&out, plan);
  for (size_t i = 0; i < device->n_kernels; i++) {
    const ga_kernel *k = &device->kernels[i];
    if (k->op != plan->op || k == plan->kernel) continue;
    const char *why = reject_reason(plan, k);
    if (why)
      put(&out, "  not %s: %s\n", k->id, why);
    else
      put(&out, "  not %s: legal, %.1f us predicted\n", k->id, predicted(plan, k));
  }
}

/* Rows that a person may wonder about: of this op and this device, and ever chosen. */
static bool competes(const ga_kernel *k, const ga_plan *plan) {
  return k->op == plan->op && (plan->ctx->device->caps.isas >> k->isa & 1) &&
         !(k->flags & (GA_KERNEL_TEACHING | GA_KERNEL_STEP)) && strcmp(k->id, ga_plan_kernel_id(plan)) != 0;
}

typedef struct rejection {
  const char *why, *first; /* the first row with this reason */
  size_t rows;
} rejection;

static size_t count_reason(rejection *list, size_t n, const char *why, const char *id) {
  size_t i = 0;
  while (i < n && strcmp(list[i].why, why) != 0) i++;
  if (i == MOST_REASONS) return n;
  if (i == n) list[n++] = (rejection){why, id, 0};
  list[i].rows++;
  return n;
}

void ga_plan_explain(const ga_plan *plan, char *text, size_t capacity) {
  if (!capacity) return;
  const ga_device *device = plan->ctx->device;
  rejection list[MOST_REASONS];
  char shape[160];
  size_t n = 0, legal = 0;
  text_out out = {text, 0, capacity};
  text[0] = 0;
  put(&out, "%-8s %-36s ", ga_op_name(plan->op), ga_plan_kernel_id(plan));
  ga_op_info_of(plan->op)->shape(plan->desc, shape, sizeof shape);
  put(&out, "%s", shape);
  put_choice(&out, plan);
  put_steps(&out, plan);
  for (size_t i = 0; i < device->n_kernels; i++) {
    const ga_kernel *k = &device->kernels[i];
    if (!competes(k, plan)) continue;
    const char *why = reject_reason(plan, k);
    if (why)
      n = count_reason(list, n, why, k->id);
    else
      put(&out, "%s%s (%.1f us)", legal++ ? ", " : "  legal too: ", k->id, predicted(plan, k));
  }
  if (!legal) put(&out, "  the only legal row");
  put(&out, "\n");
  for (size_t i = 0; i < n; i++) {
    put(&out, "  not %s", list[i].first);
    if (list[i].rows > 1) put(&out, " and %zu more", list[i].rows - 1);
    put(&out, ": %s\n", list[i].why);
  }
}

size_t ga_ctx_plan_count(const ga_ctx *ctx) { return ctx->cache.n_used; }

const ga_plan *ga_ctx_plan_at(const ga_ctx *ctx, size_t index) {
  for (ga_op op = 0; op < ga_n_ops; op++)
    for (size_t i = 0; i < ctx->cache.n_slots; i++) {
      const ga_plan *plan = ctx->cache.slots[i];
      if (plan && plan->op == op && !index--) return plan;
    }
  return NULL;
}
