#include "core/ctx.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/status.h"

/* Opens "name" or "name:spec" with the backend of that name. */
static ga_status open_named(const char *device, int threads, ga_device **out) {
  size_t n = strcspn(device, ":");
  const char *spec = device[n] == ':' ? device + n + 1 : device + n;
  for (size_t i = 0; i < ga_n_backends; i++)
    if (strlen(ga_backends[i]->name) == n && !strncmp(ga_backends[i]->name, device, n))
      return ga_backends[i]->open(spec, threads, out);
  char names[128] = "auto";
  size_t at = 4;
  for (size_t i = 0; i < ga_n_backends; i++) {
    size_t len = strlen(ga_backends[i]->name);
    if (at + len + 3 > sizeof names) break;
    memcpy(names + at, ", ", 2);
    memcpy(names + at + 2, ga_backends[i]->name, len + 1);
    at += len + 2;
  }
  return ga_fail(GA_ERR_ARG, "device '%s' is not known; allowed: %s", device, names);
}

/* As backend->open, but a device for which this build has no kernel is unsupported too. */
static ga_status open_useful(const ga_backend *backend, int threads, ga_device **out) {
  GA_TRY(backend->open("", threads, out));
  if ((*out)->n_kernels > 0) return GA_OK;
  (*out)->ops->destroy(*out);
  *out = NULL;
  return ga_fail(GA_ERR_UNSUPPORTED, "this build has no kernel for it");
}

/* The backend with the highest rank that opens; the CPU always does. Why a better one does not is logged. */
static ga_status open_best(int threads, ga_device **out) {
  ga_status status = ga_fail(GA_ERR_UNSUPPORTED, "no backend is built in");
  int limit = INT_MAX;
  for (;;) {
    const ga_backend *best = NULL;
    for (size_t i = 0; i < ga_n_backends; i++)
      if (ga_backends[i]->rank >= 0 && ga_backends[i]->rank < limit && (!best || ga_backends[i]->rank > best->rank))
        best = ga_backends[i];
    if (!best) return status;
    status = open_useful(best, threads, out);
    if (status != GA_ERR_UNSUPPORTED) return status;
    ga_log(GA_LOG_INFO, "device auto: not %s: %s", best->name, ga_error_text());
    limit = best->rank;
  }
}

static ga_status fill_ctx(ga_ctx *ctx, const ga_ctx_options *options) {
  const char *device = options->device ? options->device : "auto";
  int threads = options->threads;
  GA_REQUIRE(threads >= 0 && threads <= 1024, GA_ERR_ARG, "threads: %d; must be 0 (automatic) to 1024", threads);
  if (options->disable_kernels) {
    void *p;
    size_t n = strlen(options->disable_kernels) + 1;
    GA_TRY(ga_mem_alloc(n, "context", &p));
    ctx->disable_kernels = memcpy(p, options->disable_kernels, n);
  }
  GA_TRY(strcmp(device, "auto") ? open_named(device, threads, &ctx->device) : open_best(threads, &ctx->device));
  return ga_stream_create(ctx, &ctx->stream);
}

ga_status ga_ctx_create(const ga_ctx_options *options, ga_ctx **out) {
  GA_REQUIRE(out, GA_ERR_ARG, "ctx: out is null");
  *out = NULL;
  ga_ctx_options full = GA_CTX_OPTIONS_INIT;
  if (options) GA_TRY(GA_SIZED_TAKE("ctx: options", ga_ctx_options, options, &full));
  GA_REQUIRE(full.flags == 0, GA_ERR_ARG, "ctx: options.flags is 0x%x; must be 0", full.flags);
  void *p;
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_ctx), "context", &p));
  ga_status status = fill_ctx(p, &full);
  if (status != GA_OK) {
    ga_ctx_destroy(p);
    return status;
  }
  *out = p;
  return GA_OK;
}

void ga_ctx_destroy(ga_ctx *ctx) {
  if (!ctx) return;
  for (size_t i = 0; i < ctx->cache.n_slots; i++) ga_plan_destroy(ctx->cache.slots[i]);
  ga_mem_free(ctx->cache.slots);
  if (ctx->device) {
    ga_stream_destroy(ctx->stream);
    ctx->device->ops->destroy(ctx->device);
  }
  ga_memstats_free(&ctx->memstats);
  ga_mem_free(ctx->disable_kernels);
  ga_mem_free(ctx);
}

const char *ga_ctx_device_name(const ga_ctx *ctx) { return ctx->device->name; }
const char *ga_ctx_device_text(const ga_ctx *ctx) { return ctx->device->text; }
const char *ga_backend_name(size_t index) { return index < ga_n_backends ? ga_backends[index]->name : NULL; }
int32_t ga_ctx_threads(const ga_ctx *ctx) { return ctx->device->caps.threads; }

bool ga_device_runs(const ga_device *device, const ga_kernel *kernel) {
  if (!(device->caps.isas >> kernel->isa & 1)) return false;
  for (size_t i = 0; i < device->n_kernels; i++)
    if (!strcmp(device->kernels[i].id, kernel->id)) return true;
  return false;
}
