#include "engine/memory_host.h"

#include "base/clock.h"
#include "base/status.h"
#include "core/ctx.h"

#define TIMED_COPIES 3

ga_status memory_host_create(const ga_kv_cache *cache, ga_ctx *ctx, const int32_t n_units[MEMORY_KINDS_MAX],
                             memory_host *out) {
  *out = (memory_host){.cache = cache, .ctx = ctx};
  for (int32_t kind = 0; kind < cache->kinds.n; kind++) {
    void *p;
    if (!n_units[kind]) continue;
    const uint64_t bytes = memory_host_unit_bytes(out, kind);
    const ga_status status = ga_host_alloc(ctx, (size_t)n_units[kind] * (size_t)bytes, &p);
    if (status != GA_OK)
      return ga_fail_in(status, "swap space of %d units of %llu bytes", n_units[kind], (unsigned long long)bytes);
    out->memory[kind] = p;
    out->n_units[kind] = n_units[kind];
  }
  return GA_OK;
}

void memory_host_destroy(memory_host *host) {
  for (int32_t kind = 0; kind < MEMORY_KINDS_MAX; kind++) ga_host_free(host->ctx, host->memory[kind]);
  *host = (memory_host){.cache = NULL};
}

/* A unit on its way to or from the host. */
typedef struct unit_transfer {
  unit_way way;
  int32_t unit;  /* on the device */
  uint8_t *host; /* of the next piece */
} unit_transfer;

static ga_status transfer_run(void *user, const memory_run *run) {
  unit_transfer *t = user;
  uint8_t *device = run->tensor + memory_run_at(run->span, t->unit, run->run), *host = t->host;
  t->host += run->span->bytes;
  return t->way == UNIT_TO_HOST ? ga_copy_to_host_later(run->ctx, host, device, run->span->bytes, NULL)
                                : ga_copy_to_device_later(run->ctx, device, host, run->span->bytes, NULL);
}

static ga_status transfer_unit(const memory_host *host, int32_t kind, unit_way way, int32_t on_device,
                               int32_t on_host) {
  unit_transfer t = {way, on_device, host->memory[kind] + (uint64_t)on_host * memory_host_unit_bytes(host, kind)};
  return kv_cache_each_run(host->cache, kind, transfer_run, &t);
}

ga_status memory_host_copy(const memory_host *host, const unit_copy *copies, int32_t n) {
  for (int32_t i = 0; i < n; i++) {
    const unit_copy *c = &copies[i];
    if (c->way == UNIT_WITHIN)
      GA_TRY(kv_cache_copy_unit(host->cache, c->kind, c->from, c->to));
    else if (c->way == UNIT_TO_HOST)
      GA_TRY(transfer_unit(host, c->kind, c->way, c->from, c->to));
    else
      GA_TRY(transfer_unit(host, c->kind, c->way, c->to, c->from));
  }
  return GA_OK;
}

static ga_status wait_for_copies(const memory_host *host) {
  const ga_model *model = host->cache->model;
  for (int32_t i = 0; i < model->n_placements; i++) GA_TRY(ga_stream_sync(model->placements[i].ctx, NULL));
  return GA_OK;
}

ga_status memory_host_time(const memory_host *host, int32_t kind, double *seconds) {
  *seconds = 0;
  if (!host->n_units[kind]) return GA_OK;
  for (int i = 0; i < TIMED_COPIES; i++) {
    const double start = ga_seconds();
    GA_TRY(transfer_unit(host, kind, UNIT_TO_HOST, 0, 0));
    GA_TRY(transfer_unit(host, kind, UNIT_FROM_HOST, 0, 0));
    GA_TRY(wait_for_copies(host));
    const double took = ga_seconds() - start;
    if (i == 0 || took < *seconds) *seconds = took;
  }
  return GA_OK;
}
