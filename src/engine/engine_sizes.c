/* What an engine takes: options with their defaults, and how many pages its cache gets. */
#include "base/mem.h"
#include "base/sized.h"
#include "base/status.h"
#include "engine/engine.h"

#define MAX_SEQUENCES   1024
#define MAX_STEP_TOKENS 16384
#define MAX_WAITING     (1 << 20)
#define MAX_KV_TOKENS   ((int64_t)1 << 30)
#define MAX_HOST_PAGES  (1 << 26) /* of 64 tokens each */

static int32_t or_default(int32_t given, int32_t on_cpu, int32_t on_gpu, bool is_cpu) {
  return given ? given : is_cpu ? on_cpu : on_gpu;
}

static ga_status check_engine_option(const char *what, int64_t value, int64_t least, int64_t most) {
  GA_REQUIRE(value >= least && value <= most, GA_ERR_ARG, "engine: %s is %lld; must be %lld to %lld", what,
             (long long)value, (long long)least, (long long)most);
  return GA_OK;
}

/* Pages of the window's kind: what running requests need, and a quarter of the others for kept prefixes. A request's
 * window may begin within a page and end within one, and before its pages come back a step has written more. */
static int64_t window_pages(const ga_model *model, const ga_engine_options *o, int64_t full_pages) {
  const int64_t each = ga_div_up(model->hparams.window, GA_KV_PAGE) + 2;
  const int64_t steps = ga_div_up(o->step_tokens, GA_KV_PAGE) + o->max_sequences;
  return ga_min_i64(full_pages, o->max_sequences * each + steps + full_pages / 4);
}

static bool has_kind(const ga_hparams *p, kv_kind kind) {
  for (int32_t il = 0; il < p->n_layers; il++)
    if (kv_kind_of_layer(p, il) == kind) return true;
  return false;
}

static void pages_for(const ga_model *model, const ga_engine_options *o, int64_t tokens, int64_t n[KV_KINDS]) {
  const int64_t full = ga_div_up(tokens, GA_KV_PAGE);
  n[KV_FULL] = has_kind(&model->hparams, KV_FULL) ? full : 0;
  n[KV_WINDOW] = has_kind(&model->hparams, KV_WINDOW) ? window_pages(model, o, full) : 0;
}

/* That of a step's draws on the device; 0 where it has no row for them. */
static ga_status draws_workspace(const ga_model *model, const ga_engine_options *o, uint64_t *bytes) {
  ga_sample_fused_desc d = GA_SAMPLE_FUSED_DESC_INIT;
  ga_plan *plan;
  *bytes = 0;
  d.plain.vocab = model->hparams.vocab;
  d.rows = o->max_sequences;
  const ga_status status = ga_sample_fused_plan(model->ctx, &d, &plan);
  if (status == GA_ERR_UNSUPPORTED) return GA_OK;
  GA_TRY(status);
  *bytes = ga_plan_workspace_bytes(plan);
  ga_plan_destroy(plan);
  return GA_OK;
}

/* The most tokens whose pages fit into nine tenths of what a GPU has left beside the engine's buffers. */
static ga_status tokens_that_fit(const ga_model *model, const ga_engine_options *o, const ga_session_sizes *s,
                                 int64_t *tokens) {
  ga_memory_info m = GA_MEMORY_INFO_INIT;
  uint64_t each[KV_KINDS], workspace, draws;
  GA_TRY(ga_ctx_memory(model->ctx, &m));
  for (int kind = 0; kind < KV_KINDS; kind++)
    GA_TRY(kv_cache_page_bytes(&model->hparams, s->kv_dtype, (kv_kind)kind, &each[kind]));
  GA_TRY(exec_workspace(model, model->ctx, s, &workspace));
  GA_TRY(draws_workspace(model, o, &draws));
  const uint64_t others = exec_bytes(model, s->batch, s->max_out) + (draws > workspace ? draws : workspace);
  const uint64_t room = m.free_bytes / 10 * 9 > others ? m.free_bytes / 10 * 9 - others : 0;
  int64_t low = 0, high = MAX_KV_TOKENS / GA_KV_PAGE; /* pages */
  while (low < high) {
    const int64_t mid = (low + high + 1) / 2;
    int64_t n[KV_KINDS];
    pages_for(model, o, mid * GA_KV_PAGE, n);
    if ((uint64_t)n[KV_FULL] * each[KV_FULL] + (uint64_t)n[KV_WINDOW] * each[KV_WINDOW] <= room)
      low = mid;
    else
      high = mid - 1;
  }
  *tokens = low * GA_KV_PAGE;
  GA_REQUIRE(*tokens >= s->context, GA_ERR_NOMEM,
             "engine: a context of %d tokens; there is room for %lld (%llu bytes free); give a smaller context",
             s->context, (long long)*tokens, (unsigned long long)m.free_bytes);
  return GA_OK;
}

static ga_status fill_options(const ga_model *model, const ga_engine_options *given, ga_engine_options *o) {
  const bool is_cpu = ga_device_works_in_calls(model->ctx->device);
  *o = (ga_engine_options)GA_ENGINE_OPTIONS_INIT;
  if (given) GA_TRY(GA_SIZED_TAKE("engine: options", ga_engine_options, given, o));
  const uint32_t all = GA_ENGINE_NO_PREFIX_CACHE | GA_ENGINE_DETERMINISTIC | GA_ENGINE_OFFLOAD_PREFIXES |
                       GA_ENGINE_TIME_STEPS | GA_ENGINE_E4M3_ACTIVATIONS;
  GA_REQUIRE(!(o->flags & ~all), GA_ERR_ARG, "engine: flags 0x%x; must be 0 to 31", o->flags);
  GA_REQUIRE(!(o->flags & GA_ENGINE_OFFLOAD_PREFIXES) || (o->swap_bytes > 0 && !(o->flags & GA_ENGINE_NO_PREFIX_CACHE)),
             GA_ERR_ARG, "engine: prefixes go to host memory, of %lld bytes, flags 0x%x; needs swap_bytes and prefixes",
             (long long)o->swap_bytes, o->flags);
  const int32_t trained = model->hparams.context;
  o->context = or_default(o->context, (int32_t)ga_min_i64(trained, 4096), trained, is_cpu);
  o->max_sequences = or_default(o->max_sequences, 16, 256, is_cpu);
  o->step_tokens = or_default(o->step_tokens, 512, 2048, is_cpu);
  o->step_tokens = (int32_t)ga_max_i64(o->step_tokens, given && given->step_tokens ? 0 : o->max_sequences);
  o->max_waiting = or_default(o->max_waiting, 1024, 1024, is_cpu);
  GA_TRY(check_engine_option("context", o->context, 1, trained));
  GA_TRY(check_engine_option("max_sequences", o->max_sequences, 1, MAX_SEQUENCES));
  GA_TRY(check_engine_option("step_tokens", o->step_tokens, o->max_sequences, MAX_STEP_TOKENS));
  return check_engine_option("max_waiting", o->max_waiting, 1, MAX_WAITING);
}

/* Of each kind as many pages for one on the device. */
static ga_status host_pages(const ga_model *model, const ga_engine_options *o, const int32_t n_pages[KV_KINDS],
                            int32_t n_host[KV_KINDS]) {
  uint64_t each[KV_KINDS], all = 0;
  for (int kind = 0; kind < KV_KINDS; kind++) {
    GA_TRY(kv_cache_page_bytes(&model->hparams, (ga_dtype)o->kv_dtype, (kv_kind)kind, &each[kind]));
    all += (uint64_t)n_pages[kind] * each[kind];
  }
  GA_TRY(check_engine_option("swap_bytes", o->swap_bytes, 0, INT64_MAX));
  for (int kind = 0; kind < KV_KINDS; kind++) {
    const double n = (double)n_pages[kind] * ((double)o->swap_bytes / (double)all);
    n_host[kind] = n < MAX_HOST_PAGES ? (int32_t)n : MAX_HOST_PAGES;
    GA_REQUIRE(n_host[kind] || !n_pages[kind] || !o->swap_bytes, GA_ERR_ARG,
               "engine: swap_bytes is %lld; a page of %llu bytes of each kind of layer does not fit",
               (long long)o->swap_bytes, (unsigned long long)each[kind]);
  }
  return GA_OK;
}

ga_status engine_sizes(const ga_model *model, const ga_engine_options *given, ga_session_sizes *sizes,
                       ga_engine_options *o, int32_t n_pages[KV_KINDS], int32_t n_host[KV_KINDS]) {
  const bool is_cpu = ga_device_in_host_memory(model->ctx->device);
  GA_TRY(fill_options(model, given, o));
  ga_session_options session = GA_SESSION_OPTIONS_INIT;
  session.context = o->context;
  session.kv_dtype = o->kv_dtype;
  GA_TRY(ga_session_sizes_of(&model->hparams, model->ctx, &session, sizes));
  sizes->batch = o->step_tokens;
  sizes->max_out = (int32_t)ga_min_i64(ga_max_i64(sizes->max_out, o->max_sequences), o->step_tokens);
  o->kv_dtype = (int32_t)sizes->kv_dtype;
  if (!o->kv_tokens && is_cpu) o->kv_tokens = 4 * (int64_t)o->context;
  if (!o->kv_tokens) GA_TRY(tokens_that_fit(model, o, sizes, &o->kv_tokens));
  GA_TRY(check_engine_option("kv_tokens", o->kv_tokens, o->context, MAX_KV_TOKENS));
  int64_t n[KV_KINDS];
  pages_for(model, o, o->kv_tokens, n);
  for (int kind = 0; kind < KV_KINDS; kind++) n_pages[kind] = (int32_t)n[kind];
  return host_pages(model, o, n_pages, n_host);
}
