/* Choosing a kernel, and remembering the choice. */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/status.h"
#include "core/ctx.h"

/* Each reason once, with the first row of this op that has it, for the error text. */
static void list_reasons(const ga_ctx *ctx, ga_op op, const void *desc, char *text, size_t capacity) {
  const ga_device *device = ctx->device;
  size_t at = 0, rows = 0;
  text[0] = 0;
  for (size_t i = 0; i < device->n_kernels && rows < 6; i++) {
    const ga_kernel *k = &device->kernels[i];
    if (k->op != op || !(device->caps.isas >> k->isa & 1) || k->flags & GA_KERNEL_STEP) continue;
    const char *why = ga_kernel_reject_reason(k, device, ctx->disable_kernels, desc);
    if (why && strstr(text, why)) continue;
    int n = snprintf(text + at, capacity - at, "%s%s: %s", rows++ ? "; " : "", k->id, why ? why : "legal");
    if (n < 0 || (size_t)n >= capacity - at) return;
    at += (size_t)n;
  }
  if (!rows) (void)snprintf(text, capacity, "no row is built for this device");
}

static ga_status choose_row(const ga_ctx *ctx, ga_op op, const void *desc, const ga_kernel **out) {
  char reasons[512];
  *out = ga_kernel_choose(ctx->device, ctx->disable_kernels, op, desc);
  if (*out) return GA_OK;
  list_reasons(ctx, op, desc, reasons, sizeof reasons);
  return ga_fail(GA_ERR_UNSUPPORTED, "%s on %s: %s", ga_op_name(op), ctx->device->name, reasons);
}

/* The row of that id, if it can run the description. */
static ga_status named_row(const ga_ctx *ctx, ga_op op, const char *id, const void *desc, const ga_kernel **out) {
  const ga_device *device = ctx->device;
  *out = NULL;
  for (size_t i = 0; i < device->n_kernels && !*out; i++)
    if (device->kernels[i].op == op && !strcmp(device->kernels[i].id, id)) *out = &device->kernels[i];
  GA_REQUIRE(*out && device->caps.isas >> (*out)->isa & 1 && !((*out)->flags & GA_KERNEL_STEP), GA_ERR_ARG,
             "%s on %s: there is no row %.100s", ga_op_name(op), device->name, id);
  const char *why = ga_kernel_reject_reason(*out, device, ctx->disable_kernels, desc);
  GA_REQUIRE(!why, GA_ERR_UNSUPPORTED, "%s on %s: %s: %s", ga_op_name(op), device->name, id, why);
  return GA_OK;
}

/* Plans the op with which a call of `plan` ends, if there is one. */
static ga_status plan_after(ga_plan *plan) {
  const ga_op_info *info = ga_op_info_of(plan->op);
  GA_ALIGNED(8) unsigned char desc[GA_DESC_MAX_BYTES];
  ga_op op;
  if (!info->after || !info->after(plan->desc, &op, desc)) return GA_OK;
  return ga_plan_make(plan->ctx, op, desc, ga_op_info_of(op)->desc_bytes, &plan->after);
}

/* id: NULL for the planner's choice. */
static ga_status fill_plan(ga_plan *plan, ga_ctx *ctx, ga_op op, const char *id, const void *desc, size_t desc_bytes) {
  const ga_kernel *kernel;
  if (id)
    GA_TRY(named_row(ctx, op, id, desc, &kernel));
  else
    GA_TRY(choose_row(ctx, op, desc, &kernel));
  plan->ctx = ctx;
  plan->kernel = kernel;
  plan->op = op;
  plan->desc_bytes = (uint32_t)desc_bytes;
  memcpy(plan->desc, desc, desc_bytes);
  const char *why = ga_plan_steps_fill(&plan->steps, ctx->device, ctx->disable_kernels, kernel, desc);
  GA_REQUIRE(!why, GA_ERR_INTERNAL, "%s: %s", kernel->id, why);
  for (int32_t i = 0; ctx->device->code && i < plan->steps.n; i++)
    GA_TRY(ctx->device->code->prepare(ctx->device, plan->steps.step[i].row));
  return plan_after(plan);
}

ga_status ga_plan_make_row(ga_ctx *ctx, ga_op op, const char *id, const void *desc, size_t desc_bytes, ga_plan **out) {
  *out = NULL;
  void *p;
  GA_REQUIRE(desc_bytes == ga_op_info_of(op)->desc_bytes, GA_ERR_INTERNAL, "%s: description of %zu bytes",
             ga_op_name(op), desc_bytes);
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_plan), "plan", &p));
  ga_status status = fill_plan(p, ctx, op, id, desc, desc_bytes);
  if (status != GA_OK) {
    ga_mem_free(p);
    return status;
  }
  *out = p;
  return GA_OK;
}

ga_status ga_plan_make(ga_ctx *ctx, ga_op op, const void *desc, size_t desc_bytes, ga_plan **out) {
  return ga_plan_make_row(ctx, op, NULL, desc, desc_bytes, out);
}

/* --- remembered plans --- */

static size_t slot_of(const ga_plan_cache *cache, ga_op op, const void *desc, size_t desc_bytes) {
  /* Descriptions are made of 4- and 8-byte fields without padding; hashing words keeps this well under 100 ns. */
  uint64_t h = (uint64_t)op * 0x9e3779b97f4a7c15u;
  const unsigned char *bytes = desc;
  for (size_t i = 0; i + 8 <= desc_bytes; i += 8) {
    uint64_t word;
    memcpy(&word, bytes + i, 8);
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
  }
  size_t i = (size_t)h & (cache->n_slots - 1);
  for (; cache->slots[i]; i = (i + 1) & (cache->n_slots - 1)) {
    const ga_plan *p = cache->slots[i];
    if (p->op == op && p->desc_bytes == desc_bytes && !memcmp(p->desc, desc, desc_bytes)) break;
  }
  return i;
}

static ga_status grow_cache(ga_plan_cache *cache) {
  if (cache->n_slots && cache->n_used * 2 < cache->n_slots) return GA_OK;
  ga_plan_cache bigger = {.n_slots = cache->n_slots ? cache->n_slots * 2 : 256, .n_used = cache->n_used};
  void *p;
  GA_TRY(ga_mem_zalloc(bigger.n_slots, sizeof(ga_plan *), "plan cache", &p));
  bigger.slots = p;
  for (size_t i = 0; i < cache->n_slots; i++) {
    ga_plan *plan = cache->slots[i];
    if (plan) bigger.slots[slot_of(&bigger, plan->op, plan->desc, plan->desc_bytes)] = plan;
  }
  ga_mem_free(cache->slots);
  *cache = bigger;
  return GA_OK;
}

static void forget_plans(ga_plan_cache *cache) {
  for (size_t i = 0; i < cache->n_slots; i++) {
    ga_plan_destroy(cache->slots[i]);
    cache->slots[i] = NULL;
  }
  cache->n_used = 0;
}

ga_status ga_plan_remember(ga_ctx *ctx, ga_op op, const void *desc, size_t desc_bytes, const ga_plan **out,
                           ga_stream **stream) {
  GA_TRY(ga_stream_of(ctx, *stream, ga_op_name(op), stream));
  GA_TRY(grow_cache(&ctx->cache));
  size_t i = slot_of(&ctx->cache, op, desc, desc_bytes);
  if (!ctx->cache.slots[i]) {
    ga_plan *plan;
    GA_TRY(ga_stream_free_to(*stream, ga_op_name(op), "make the plan before, or call once, which loads the code"));
    GA_TRY(ga_plan_make(ctx, op, desc, desc_bytes, &plan));
    if (ctx->cache.n_used >= GA_PLANS_MOST) {
      forget_plans(&ctx->cache);
      i = slot_of(&ctx->cache, op, desc, desc_bytes);
    }
    ctx->cache.slots[i] = plan;
    ctx->cache.n_used++;
  }
  *out = ctx->cache.slots[i];
  return ga_workspace_grow(*stream, (*out)->steps.workspace_bytes);
}

ga_status ga_plan_launch(const ga_plan *plan, const void *io, void *workspace, ga_stream *stream) {
  return ga_plan_steps_launch(&plan->steps, plan->desc, io, workspace, stream);
}

/* --- public --- */

size_t ga_plan_workspace_bytes(const ga_plan *plan) { return plan->steps.workspace_bytes; }
const char *ga_plan_kernel_id(const ga_plan *plan) { return plan->kernel->id; }

void ga_plan_destroy(ga_plan *plan) {
  if (plan) ga_plan_destroy(plan->after);
  ga_mem_free(plan);
}
