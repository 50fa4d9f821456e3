#include "model/host_experts.h"

#include "base/mem.h"
#include "base/status.h"
#include "model/exec.h"

static ga_status alloc_host_rows(const ga_model *model, ga_ctx *ctx, int32_t max_tokens, host_experts *h) {
  const ga_hparams *p = &model->hparams;
  const size_t rows = (size_t)max_tokens * (size_t)p->width * sizeof(float),
               words = (size_t)max_tokens * (size_t)graph_route_words(p->n_experts, p->n_experts_used);
  void *at;
  GA_TRY(ga_host_alloc(ctx, rows, &at));
  h->x = at;
  GA_TRY(ga_host_alloc(ctx, rows, &at));
  h->y = at;
  GA_TRY(ga_host_alloc(ctx, words * sizeof(int32_t), &at));
  h->route = at;
  GA_TRY(ga_mem_alloc((size_t)max_tokens * (size_t)p->n_experts_used * (size_t)p->expert_ff_width * sizeof(float),
                      "rows of experts", &at));
  h->slots = at;
  GA_TRY(ga_buffer_alloc_for(ctx, exec_host_expert_bytes(p, max_tokens), "activations", &at));
  h->sum = at;
  return ga_event_create(ctx, &h->copied);
}

ga_status host_experts_create(const ga_model *model, const ga_placement *placement, int32_t max_tokens,
                              host_experts **out) {
  void *p;
  *out = NULL;
  GA_TRY(ga_mem_zalloc(1, sizeof **out, "experts in host memory", &p));
  host_experts *h = p;
  h->gpu = placement->ctx;
  const ga_status status = alloc_host_rows(model, placement->ctx, max_tokens, h);
  if (status != GA_OK) {
    host_experts_destroy(h);
    return status;
  }
  *out = h;
  return GA_OK;
}

void host_experts_destroy(host_experts *h) {
  if (!h) return;
  ga_event_destroy(h->copied);
  ga_buffer_free(h->gpu, h->sum);
  ga_mem_free(h->slots);
  ga_host_free(h->gpu, h->route);
  ga_host_free(h->gpu, h->y);
  ga_host_free(h->gpu, h->x);
  ga_mem_free(h);
}
