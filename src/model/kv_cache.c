#include "model/kv_cache.h"

#include "base/mem.h"
#include "base/status.h"

static ga_ctx *ctx_of_layer(const ga_model *model, int32_t il) {
  const ga_placement *placement = model->placements;
  while (il >= placement->end) placement++;
  return placement->ctx;
}

/* The layout of a layer's tensors; none for a layer without memory of that form. */
static ga_status layout_of_layer(const ga_kv_cache *c, int32_t il, memory_form form, memory_layout *out) {
  const int32_t kind = c->kinds.of_layer[il][form];
  out->n_tensors = 0;
  if (kind == MEMORY_NONE) return GA_OK;
  return c->kinds.type[kind]->layout(&c->model->hparams, c->dtype, il, c->n_units[kind], out);
}

/* Kernels on tensor cores read whole pages of a GPU's cache, slots too that no token has been written to. */
static ga_status alloc_tensor(ga_ctx *ctx, uint64_t bytes, void **out) {
  return ga_device_in_host_memory(ctx->device) ? ga_buffer_alloc_for(ctx, bytes, "kv cache", out)
                                               : ga_buffer_alloc_zeroed(ctx, bytes, "kv cache", out);
}

static ga_status create_layer(ga_kv_cache *c, int32_t il, memory_form form) {
  const int32_t kind = c->kinds.of_layer[il][form];
  memory_layout layout;
  uint64_t bytes = 0;
  ga_status status = GA_OK;
  GA_TRY(layout_of_layer(c, il, form, &layout));
  for (int32_t t = 0; t < layout.n_tensors; t++) bytes += layout.tensors[t].bytes;
  for (int32_t t = 0; t < layout.n_tensors && status == GA_OK; t++)
    status = alloc_tensor(ctx_of_layer(c->model, il), layout.tensors[t].bytes, kv_cache_slot(c, il, form, t));
  if (status == GA_OK) return GA_OK;
  return ga_fail_in(status, "kv cache of %lld %s (%llu bytes a layer, %d layers)", (long long)c->n_units[kind],
                    c->kinds.kind[kind].name, (unsigned long long)bytes, c->model->hparams.n_layers);
}

ga_status kv_cache_create(const ga_model *model, ga_dtype dtype, const int32_t n_units[MEMORY_KINDS_MAX],
                          ga_kv_cache *out) {
  const int32_t n_layers = model->hparams.n_layers;
  void *list;
  *out = (ga_kv_cache){.model = model, .dtype = dtype};
  GA_TRY(memory_kinds_of(&model->hparams, dtype, &out->kinds));
  for (int32_t kind = 0; kind < out->kinds.n; kind++) out->n_units[kind] = n_units[kind];
  GA_TRY(ga_mem_zalloc((size_t)n_layers * MEMORY_FORMS * MEMORY_TENSORS_MAX, sizeof(void *), "kv cache", &list));
  out->tensors = list;
  for (int32_t il = 0; il < n_layers; il++)
    for (int form = 0; form < MEMORY_FORMS; form++) GA_TRY(create_layer(out, il, (memory_form)form));
  return GA_OK;
}

void kv_cache_destroy(ga_kv_cache *c) {
  for (int32_t il = 0; c->tensors && il < c->model->hparams.n_layers; il++)
    for (int32_t t = 0; t < MEMORY_FORMS * MEMORY_TENSORS_MAX; t++)
      ga_buffer_free(ctx_of_layer(c->model, il), *kv_cache_slot(c, il, MEMORY_PAGES, t));
  ga_mem_free(c->tensors);
  *c = (ga_kv_cache){0};
}

uint64_t kv_cache_bytes(const ga_kv_cache *c) {
  uint64_t sum = 0;
  for (int32_t kind = 0; kind < c->kinds.n; kind++) sum += (uint64_t)c->n_units[kind] * c->kinds.kind[kind].unit_bytes;
  return sum;
}

static ga_status each_run_of_tensor(const memory_tensor *tensor, memory_run *run, memory_run_fn fn, void *user) {
  for (int32_t s = 0; s < tensor->n_spans; s++) {
    run->span = &tensor->spans[s];
    for (run->run = 0; run->run < run->span->runs; run->run++) GA_TRY(fn(user, run));
  }
  return GA_OK;
}

ga_status kv_cache_each_run(const ga_kv_cache *c, int32_t kind, memory_run_fn fn, void *user) {
  const memory_form form = memory_form_of(c->kinds.kind[kind].unit_tokens);
  for (int32_t il = 0; il < c->model->hparams.n_layers; il++) {
    memory_layout layout;
    if (c->kinds.of_layer[il][form] != kind) continue;
    GA_TRY(layout_of_layer(c, il, form, &layout));
    for (int32_t t = 0; t < layout.n_tensors; t++) {
      memory_run run = {.ctx = ctx_of_layer(c->model, il), .tensor = kv_cache_tensor(c, il, form, t)};
      GA_TRY(each_run_of_tensor(&layout.tensors[t], &run, fn, user));
    }
  }
  return GA_OK;
}

static ga_status copy_unit_run(void *user, const memory_run *run) {
  const int32_t *units = user; /* from, to */
  return ga_copy_within(run->ctx, run->tensor + memory_run_at(run->span, units[1], run->run),
                        run->tensor + memory_run_at(run->span, units[0], run->run), run->span->bytes);
}

ga_status kv_cache_copy_unit(const ga_kv_cache *c, int32_t kind, int32_t from, int32_t to) {
  int32_t units[] = {from, to};
  return kv_cache_each_run(c, kind, copy_unit_run, units);
}
