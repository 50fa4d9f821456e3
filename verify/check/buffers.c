/* A draw's buffers on the device under test. */
#include "verify/check/internal.h"

#define WORKSPACE_GUARD 1024

ga_status check_upload(ga_ctx *ctx, check_args *a) {
  for (int i = 0; i < a->n; i++) {
    check_arg *arg = &a->arg[i];
    if (arg->alias >= 0) continue;
    GA_TRY(ga_buffer_alloc(ctx, arg->bytes, &arg->device));
    GA_TRY(ga_copy_to_device(ctx, arg->device, arg->before, arg->bytes, NULL));
  }
  for (int i = 0; i < a->n; i++) {
    check_arg *arg = &a->arg[i];
    const check_arg *owner = arg->alias >= 0 ? &a->arg[arg->alias] : arg;
    void *p = (char *)owner->device + owner->at;
    memcpy(a->io + arg->io_at, &p, sizeof p);
  }
  return GA_OK;
}

ga_status check_download(ga_ctx *ctx, check_args *a) {
  for (int i = 0; i < a->n; i++)
    if (a->arg[i].alias < 0) GA_TRY(ga_copy_to_host(ctx, a->arg[i].after, a->arg[i].device, a->arg[i].bytes, NULL));
  return GA_OK;
}

void check_release(ga_ctx *ctx, check_args *a, check_workspace *w) {
  for (int i = 0; i < a->n; i++) {
    ga_buffer_free(ctx, a->arg[i].device);
    a->arg[i].device = NULL;
  }
  ga_buffer_free(ctx, w->device);
  w->device = NULL;
}

ga_status check_steps_of(const check_case *c, ga_ctx *ctx, ga_plan_steps *steps) {
  const char *why = ga_plan_steps_fill(steps, ctx->device, NULL, c->kernel, c->desc);
  GA_REQUIRE(!why, GA_ERR_UNSUPPORTED, "%s: %s", c->kernel->id, why);
  return GA_OK;
}

ga_status check_launch_steps(const check_op *op, const ga_plan_steps *steps, const void *desc, const void *io,
                             void *workspace, ga_stream *stream) {
  return (op->launch ? op->launch : ga_plan_steps_launch)(steps, desc, io, workspace, stream);
}

ga_status check_launch(const check_case *c, ga_ctx *ctx, const void *io, void *workspace) {
  ga_plan_steps steps;
  GA_TRY(check_steps_of(c, ctx, &steps));
  return check_launch_steps(c->op, &steps, c->desc, io, workspace, ctx->stream);
}

ga_status check_open_workspace(check_case *c, ga_ctx *ctx, bool zero, check_workspace *w) {
  void *p;
  ga_plan_steps steps;
  *w = (check_workspace){0};
  GA_TRY(check_steps_of(c, ctx, &steps));
  w->bytes = (size_t)steps.workspace_bytes;
  if (!w->bytes) return GA_OK;
  size_t all = w->bytes + 2 * WORKSPACE_GUARD;
  GA_TRY(ga_arena_alloc(&c->arena, all, &p));
  w->image = p;
  GA_TRY(ga_arena_alloc(&c->arena, all, &p));
  w->expected = p;
  check_canary(w->expected, all, 0, 99);
  if (zero) memset(w->expected + WORKSPACE_GUARD, 0, w->bytes);
  GA_TRY(ga_buffer_alloc(ctx, all, &w->device));
  return ga_copy_to_device(ctx, w->device, w->expected, all, NULL);
}

void *check_workspace_at(const check_workspace *w) { return w->bytes ? (char *)w->device + WORKSPACE_GUARD : NULL; }

check_detector check_workspace_guards(ga_ctx *ctx, check_workspace *w, char *text, size_t capacity) {
  if (!w->bytes) return CHECK_PASSED;
  size_t all = w->bytes + 2 * WORKSPACE_GUARD;
  if (ga_copy_to_host(ctx, w->image, w->device, all, NULL) != GA_OK) return CHECK_BY_STATUS;
  memcpy(w->expected + WORKSPACE_GUARD, w->image + WORKSPACE_GUARD, w->bytes);
  if (!memcmp(w->expected, w->image, all)) return CHECK_PASSED;
  (void)snprintf(text, capacity, "wrote outside of its workspace of %zu bytes", w->bytes);
  return CHECK_BY_GUARD;
}
