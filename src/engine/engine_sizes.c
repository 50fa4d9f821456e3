/* What an engine takes: options with their defaults, and how many pages its cache gets. */
#include "base/mem.h"
#include "base/sized.h"
#include "base/status.h"
#include "engine/engine.h"

#define MAX_SEQUENCES   1024
#define MAX_STEP_TOKENS 16384
#define MAX_WAITING     (1 << 20)
#define MAX_KV_TOKENS   ((int64_t)1 << 30)
#define MAX_HOST_UNITS  (1 << 26)
/* One snapshot of a state in so many pages of tokens. */
#define PAGES_A_SNAPSHOT 8

static int32_t or_default(int32_t given, int32_t on_cpu, int32_t on_gpu, bool is_cpu) {
  return given ? given : is_cpu ? on_cpu : on_gpu;
}

static ga_status check_engine_option(const char *what, int64_t value, int64_t least, int64_t most) {
  GA_REQUIRE(value >= least && value <= most, GA_ERR_ARG, "engine: %s is %lld; must be %lld to %lld", what,
             (long long)value, (long long)least, (long long)most);
  return GA_OK;
}

/* Pages of a kind with a window: what running requests need, and a quarter of all pages for cached prefixes. A
 * request's window may begin and end within a page, and a step writes more before the first pages are given back. */
static int64_t window_units(const ga_engine_options *o, int32_t window, int64_t pages) {
  const int64_t each = ga_div_up(window, GA_KV_PAGE) + 2;
  const int64_t steps = ga_div_up(o->step_tokens, GA_KV_PAGE) + o->max_sequences;
  return ga_min_i64(pages, o->max_sequences * each + steps + pages / 4);
}

/* States: one of each running request and one for its next snapshot, and snapshots of cached prefixes. */
static int64_t state_units(const ga_engine_options *o, int64_t pages) {
  return 2 * (int64_t)o->max_sequences + pages / PAGES_A_SNAPSHOT;
}

/* Units of each kind where `tokens` tokens have pages. */
static void units_for(const ga_engine_options *o, int64_t tokens, layer_memory_options *memory) {
  const int64_t pages = ga_div_up(tokens, GA_KV_PAGE);
  for (int32_t i = 0; i < memory->n_kinds; i++) {
    const memory_kind *kind = &memory->kinds[i];
    memory->n_units[i] = (int32_t)(!kind->unit_tokens ? state_units(o, pages)
                                   : kind->window     ? window_units(o, kind->window, pages)
                                                      : pages);
  }
}

/* unit: bytes of one of each kind. */
static uint64_t bytes_of_units(const layer_memory_options *memory, const uint64_t unit[MEMORY_KINDS_MAX]) {
  uint64_t bytes = 0;
  for (int32_t i = 0; i < memory->n_kinds; i++) bytes += (uint64_t)memory->n_units[i] * unit[i];
  return bytes;
}

/* That of a step's draws on the device; 0 where it has no row for them. */
static ga_status draws_workspace(const ga_model *model, ga_ctx *ctx, const ga_engine_options *o, uint64_t *bytes) {
  ga_sample_fused_desc d = GA_SAMPLE_FUSED_DESC_INIT;
  ga_plan *plan;
  *bytes = 0;
  d.plain.vocab = model->hparams.vocab;
  d.rows = o->max_sequences;
  const ga_status status = ga_sample_fused_plan(ctx, &d, &plan);
  if (status == GA_ERR_UNSUPPORTED) return GA_OK;
  GA_TRY(status);
  *bytes = ga_plan_workspace_bytes(plan);
  ga_plan_destroy(plan);
  return GA_OK;
}

/* Bytes that a GPU of the model has for units, beside the engine's buffers: of nine tenths of what is left. */
static ga_status room_for_units(const ga_model *model, const ga_placement *place, const ga_engine_options *o,
                                const ga_session_sizes *s, ga_memory_info *m, uint64_t *room) {
  ga_ctx *ctx = place->ctx;
  uint64_t workspace, draws, activations;
  *m = (ga_memory_info)GA_MEMORY_INFO_INIT;
  GA_TRY(ga_ctx_memory(ctx, m));
  GA_TRY(exec_workspace(model, ctx, s, place->cache ? 0 : model->n_host_experts, &workspace));
  GA_TRY(draws_workspace(model, ctx, o, &draws));
  GA_TRY(exec_bytes(model, s->batch, s->max_out, &activations));
  if (model->n_placements > 1) activations += EXEC_BUFFERS * exec_buffer_bytes(&model->hparams, s->batch);
  if (place->plan.n_host_expert_layers) activations += exec_host_expert_bytes(&model->hparams, s->batch);
  const uint64_t others = activations + (draws > workspace ? draws : workspace);
  const uint64_t spare =
      model->n_placements > 1 ? ga_min_u64(m->free_bytes / 10, GA_PLACEMENT_SPARE) : m->free_bytes / 10;
  const uint64_t most = m->free_bytes - spare; /* the plan of several devices has left as much */
  *room = most > others ? most - others : 0;
  return GA_OK;
}

/* Lowers *pages to those that fit on the placement. */
static ga_status fit_placement(const ga_model *model, const ga_placement *place, const ga_engine_options *o,
                               const ga_session_sizes *s, layer_memory_options *memory, int64_t *pages) {
  ga_memory_info m;
  memory_kinds kinds;
  uint64_t room, unit[MEMORY_KINDS_MAX];
  GA_TRY(memory_kinds_of(&model->hparams, s->kv_dtype, &kinds));
  GA_TRY(memory_bytes_of_layers(&model->hparams, s->kv_dtype, &kinds, place->first, place->end, unit));
  GA_TRY(room_for_units(model, place, o, s, &m, &room));
  int64_t low = 0, high = *pages;
  while (low < high) {
    const int64_t mid = (low + high + 1) / 2;
    units_for(o, mid * GA_KV_PAGE, memory);
    if (bytes_of_units(memory, unit) <= room)
      low = mid;
    else
      high = mid - 1;
  }
  *pages = low;
  GA_REQUIRE(low * GA_KV_PAGE >= s->context, GA_ERR_NOMEM,
             "engine: a context of %d tokens; there is room for %lld (%llu bytes free); give a smaller context",
             s->context, (long long)(low * GA_KV_PAGE), (unsigned long long)m.free_bytes);
  return GA_OK;
}

/* Tokens of the pool: what GPUs have room for; where a CPU has layers four contexts at most. */
static ga_status choose_tokens(const ga_model *model, const ga_engine_options *o, const ga_session_sizes *s,
                               layer_memory_options *memory, int64_t *tokens) {
  const int64_t most = 4 * (int64_t)o->context;
  int64_t pages = MAX_KV_TOKENS / GA_KV_PAGE;
  bool has_cpu = false;
  for (int32_t i = 0; i < model->n_placements; i++) {
    const ga_placement *place = &model->placements[i];
    if (ga_device_in_host_memory(place->ctx->device))
      has_cpu = true;
    else
      GA_TRY(fit_placement(model, place, o, s, memory, &pages));
  }
  *tokens = has_cpu ? ga_min_i64(most, pages * GA_KV_PAGE) : pages * GA_KV_PAGE;
  return GA_OK;
}

static ga_status fill_options(const ga_model *model, const ga_engine_options *given, ga_engine_options *o) {
  bool is_cpu = false; /* any of the devices */
  for (int32_t i = 0; i < model->n_placements; i++)
    is_cpu = is_cpu || ga_device_works_in_calls(model->placements[i].ctx->device);
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
  GA_TRY(check_engine_option("context", o->context, 1, model->hparams.context_most));
  GA_TRY(check_engine_option("max_sequences", o->max_sequences, 1, MAX_SEQUENCES));
  GA_TRY(check_engine_option("step_tokens", o->step_tokens, o->max_sequences, MAX_STEP_TOKENS));
  return check_engine_option("max_waiting", o->max_waiting, 1, MAX_WAITING);
}

/* Divides swap_bytes among the kinds as the device's memory is. */
static ga_status host_units(const ga_engine_options *o, layer_memory_options *memory) {
  uint64_t unit[MEMORY_KINDS_MAX];
  for (int32_t i = 0; i < memory->n_kinds; i++) unit[i] = memory->kinds[i].unit_bytes;
  const uint64_t all = bytes_of_units(memory, unit);
  GA_TRY(check_engine_option("swap_bytes", o->swap_bytes, 0, INT64_MAX));
  for (int32_t i = 0; i < memory->n_kinds; i++) {
    const double n = (double)memory->n_units[i] * ((double)o->swap_bytes / (double)all);
    memory->n_host[i] = n < MAX_HOST_UNITS ? (int32_t)n : MAX_HOST_UNITS;
    GA_REQUIRE(memory->n_host[i] || !o->swap_bytes, GA_ERR_ARG,
               "engine: swap_bytes is %lld; a page of %llu bytes of each kind of layer does not fit",
               (long long)o->swap_bytes, (unsigned long long)memory->kinds[i].unit_bytes);
  }
  return GA_OK;
}

static ga_status list_kinds_of(const ga_model *model, ga_dtype dtype, layer_memory_options *memory) {
  memory_kinds kinds;
  GA_TRY(memory_kinds_of(&model->hparams, dtype, &kinds));
  *memory = (layer_memory_options){.n_kinds = kinds.n, .page_tokens = GA_KV_PAGE};
  for (int32_t i = 0; i < kinds.n; i++) memory->kinds[i] = kinds.kind[i];
  return GA_OK;
}

ga_status engine_sizes(const ga_model *model, const ga_engine_options *given, ga_session_sizes *sizes,
                       ga_engine_options *o, layer_memory_options *memory) {
  GA_TRY(fill_options(model, given, o));
  ga_session_options session = GA_SESSION_OPTIONS_INIT;
  session.context = o->context;
  session.kv_dtype = o->kv_dtype;
  GA_TRY(ga_session_sizes_of(&model->hparams, model->ctx, &session, sizes));
  sizes->batch = o->step_tokens;
  sizes->max_out = (int32_t)ga_min_i64(ga_max_i64(sizes->max_out, o->max_sequences), o->step_tokens);
  o->kv_dtype = (int32_t)sizes->kv_dtype;
  GA_TRY(list_kinds_of(model, sizes->kv_dtype, memory));
  if (!o->kv_tokens) GA_TRY(choose_tokens(model, o, sizes, memory, &o->kv_tokens));
  GA_TRY(check_engine_option("kv_tokens", o->kv_tokens, o->context, MAX_KV_TOKENS));
  units_for(o, o->kv_tokens, memory);
  return host_units(o, memory);
}
