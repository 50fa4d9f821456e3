/* Buffers of a context, and what it knows of its memory. */
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "base/status.h"
#include "core/ctx.h"

static ga_status out_of_memory(const ga_ctx *ctx) {
  char held[400];
  ga_memstats_text(&ctx->memstats, held, sizeof held);
  return ga_fail(GA_ERR_NOMEM, "%s; held here: %s", ga_error_text(), held);
}

typedef ga_status (*alloc_fn)(ga_device *device, size_t bytes, void **out);

static ga_status alloc_by(alloc_fn alloc, ga_ctx *ctx, size_t bytes, const char *what, void **out) {
  GA_TRY(ga_memstats_reserve(&ctx->memstats));
  ga_status status = alloc(ctx->device, bytes, out);
  if (status == GA_ERR_NOMEM) return out_of_memory(ctx);
  if (status == GA_OK) ga_memstats_add(&ctx->memstats, *out, bytes, what);
  return status;
}

ga_status ga_buffer_alloc_for(ga_ctx *ctx, size_t bytes, const char *what, void **out) {
  GA_REQUIRE(out, GA_ERR_ARG, "buffer: out is null");
  *out = NULL;
  GA_REQUIRE(ctx, GA_ERR_ARG, "buffer: ctx is null");
  return alloc_by(ctx->device->ops->alloc, ctx, bytes, what, out);
}

ga_status ga_buffer_alloc_zeroed(ga_ctx *ctx, size_t bytes, const char *what, void **out) {
  *out = NULL;
  return alloc_by(ctx->device->ops->alloc_zeroed, ctx, bytes, what, out);
}

ga_status ga_buffer_alloc(ga_ctx *ctx, size_t bytes, void **out) { return ga_buffer_alloc_for(ctx, bytes, NULL, out); }

void ga_buffer_free(ga_ctx *ctx, void *buffer) {
  if (!buffer) return;
  if (ga_memstats_remove(&ctx->memstats, buffer)) ctx->device->ops->free(ctx->device, buffer);
}

ga_status ga_host_alloc(ga_ctx *ctx, size_t bytes, void **out) {
  GA_REQUIRE(ctx && out, GA_ERR_ARG, "host memory: %s is null", ctx ? "out" : "ctx");
  *out = NULL;
  return ctx->device->ops->host_alloc(ctx->device, bytes, out);
}

void ga_host_free(ga_ctx *ctx, void *p) {
  if (p) ctx->device->ops->host_free(ctx->device, p);
}

ga_status ga_ctx_memory(ga_ctx *ctx, ga_memory_info *info) {
  GA_REQUIRE(ctx && info, GA_ERR_ARG, "memory: %s is null", ctx ? "info" : "ctx");
  GA_TRY(ga_sized_check_out("memory: info", info, ga_memory_info_first));
  ga_memory_info m = GA_MEMORY_INFO_INIT;
  GA_TRY(ctx->device->ops->memory(ctx->device, &m));
  m.used_bytes = ctx->memstats.used;
  m.used_peak_bytes = ctx->memstats.peak;
  m.buffers = ctx->memstats.n;
  /* A device without a pool hands out what it takes. */
  if (m.pooled_bytes < m.used_bytes) m.pooled_bytes = m.used_bytes;
  if (m.pooled_peak_bytes < m.used_peak_bytes) m.pooled_peak_bytes = m.used_peak_bytes;
  m.idle = m.pooled_bytes ? (double)(m.pooled_bytes - m.used_bytes) / (double)m.pooled_bytes : 0;
  ga_sized_give(&m, sizeof m, info);
  return GA_OK;
}

void ga_ctx_memory_text(const ga_ctx *ctx, char *text, size_t capacity) {
  ga_memstats_text(&ctx->memstats, text, capacity);
}

ga_status ga_ctx_memory_trim(ga_ctx *ctx) {
  GA_REQUIRE(ctx, GA_ERR_ARG, "memory: ctx is null");
  return ctx->device->ops->trim(ctx->device);
}

ga_status ga_peers_allowed(bool *allowed) {
  const char *s = getenv("GA_PEER");
  *allowed = !s || !*s || !strcmp(s, "auto");
  GA_REQUIRE(*allowed || !strcmp(s, "off"), GA_ERR_ARG, "GA_PEER is '%s'; allowed: auto, off", s);
  return GA_OK;
}
