/* Which layers are where. A device gets as many as its memory holds beside one session's KV cache and activations; what
 * GPUs do not hold is the CPU's, which comes first, so that hidden states cross once. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/status.h"
#include "model/arch/arch.h"
#include "model/exec.h"
#include "model/expert_cache.h"
#include "opdef/mla_at.h"

/* Left alone on a device: code that is loaded when first launched, and what other programs take meanwhile. */
#define LOGITS_BYTES ((size_t)16 << 20) /* rows of logits at once: a vocabulary of 262144 makes 1 MiB a row */

/* --- a session's sizes --- */

static ga_status check_kv_dtype(const ga_hparams *p, ga_dtype d) {
  GA_REQUIRE(d == GA_F16 || d == GA_F32 || d == GA_BF16 || d == GA_E4M3 || d == GA_Q8_0 || d == GA_Q4_0, GA_ERR_DTYPE,
             "session: kv cache of %s; allowed: f16, f32, bf16, e4m3, q8_0, q4_0", ga_dtype_name(d));
  const int32_t block = ga_dtype_info(d)->block_elems;
  const bool is_plain = d == GA_F16 || d == GA_F32 || d == GA_BF16;
  GA_REQUIRE(!p->kv_latent || is_plain || d == GA_E4M3, GA_ERR_DTYPE,
             "session: kv cache of %s; allowed for models with latent attention: f16, f32, bf16, e4m3",
             ga_dtype_name(d));
  GA_REQUIRE(!p->kv_latent || is_plain || p->kv_latent % GA_MLA_BLOCK == 0, GA_ERR_DTYPE,
             "session: kv cache of e4m3 needs latent vectors in multiples of %d; this model's have %d", GA_MLA_BLOCK,
             p->kv_latent);
  if (p->kv_latent) return GA_OK;
  for (int32_t il = 0; il < p->n_layers; il++) {
    const ga_heads heads = ga_heads_of(p, il);
    GA_REQUIRE(heads.dim % block == 0 && heads.v_dim % block == 0, GA_ERR_DTYPE,
               "session: kv cache of %s needs heads in multiples of %d; this model's have %d and %d", ga_dtype_name(d),
               block, heads.dim, heads.v_dim);
  }
  return GA_OK;
}

ga_status ga_session_sizes_of(const ga_hparams *p, const ga_ctx *ctx, const ga_session_options *o,
                              ga_session_sizes *out) {
  ga_session_options full = GA_SESSION_OPTIONS_INIT;
  if (o) GA_TRY(GA_SIZED_TAKE("session: options", ga_session_options, o, &full));
  o = &full;
  const uint32_t all = GA_SESSION_DETERMINISTIC | GA_SESSION_E4M3_ACTIVATIONS;
  GA_REQUIRE(!(o->flags & ~all), GA_ERR_ARG,
             "session: flags 0x%x; must be 0, 1 (deterministic) or 2 (activations of e4m3)", o->flags);
  ga_session_sizes s = {.context = o->context ? o->context : (int32_t)ga_min_i64(p->context, 4096),
                        .batch = o->batch                                ? o->batch
                                 : ga_device_works_in_calls(ctx->device) ? 512
                                                                         : 2048,
                        .kv_dtype = o->kv_dtype ? (ga_dtype)o->kv_dtype : GA_F16,
                        .rounds_x = o->flags & GA_SESSION_E4M3_ACTIVATIONS};
  if (o->flags & GA_SESSION_DETERMINISTIC) {
    GA_REQUIRE(o->batch == 0 || o->batch == 1, GA_ERR_ARG, "session: batch %d, deterministic; must be 1, or 0 for that",
               o->batch);
    s.batch = 1;
  }
  GA_REQUIRE(s.context >= 1 && s.context <= p->context_most, GA_ERR_ARG,
             "session: context %d; this model takes 1 to %d", s.context, p->context_most);
  GA_REQUIRE(s.batch >= 1 && s.batch <= 4096, GA_ERR_ARG, "session: batch %d; must be 1 to 4096", s.batch);
  GA_TRY(check_kv_dtype(p, s.kv_dtype));
  if (s.batch > s.context) s.batch = s.context;
  s.max_out = (int32_t)ga_max_i64(1, ga_min_i64((int64_t)(LOGITS_BYTES / sizeof(float)) / p->vocab, s.batch));
  *out = s;
  return GA_OK;
}

/* --- what a place needs --- */

/* A context, with what each layer would take there. */
typedef struct candidate {
  ga_ctx *ctx;
  bool host, has_table, has_head;
  /* [n_layers] the experts of each layer, and the rest of it */
  ga_weight_need *experts, *layers, table, head;
  uint64_t available, activations, with_head, entering, spare;
  uint64_t workspace, workspace_without; /* with experts, and if the CPU computes all of their products */
  int32_t most;                          /* layers that fit */
} candidate;

typedef struct planner {
  ga_model *model;
  ga_session_sizes sizes;
  memory_need *memory;          /* [n_layers] of one session */
  int32_t n_host_experts;       /* experts of layers before this are in host memory */
  ga_weight_need *host_experts; /* [n_layers] bytes of each layer's experts there; NULL: not known yet */
  uint64_t cache;               /* bytes of GPUs for a cache of these experts */
  candidate list[GA_MODEL_MAX_PLACEMENTS];
  int32_t n;
} planner;

static void candidate_free(candidate *c) {
  ga_mem_free(c->layers);
  ga_mem_free(c->experts);
  c->layers = c->experts = NULL;
}

/* Free memory and what the pool keeps idle; of host memory all there is, since pages of files make way. */
static ga_status available_of(ga_ctx *ctx, uint64_t *available, uint64_t *spare) {
  ga_memory_info m = GA_MEMORY_INFO_INIT;
  GA_TRY(ga_ctx_memory(ctx, &m));
  const bool host = ga_device_in_host_memory(ctx->device);
  *available =
      host ? m.total_bytes : m.free_bytes + (m.pooled_bytes > m.used_bytes ? m.pooled_bytes - m.used_bytes : 0);
  *spare = host ? 0 : ga_min_u64(GA_PLACEMENT_SPARE, m.total_bytes / 16);
  return GA_OK;
}

/* Bytes that each layer remembers; encoders remember nothing. */
static ga_status list_memory(planner *pl) {
  const ga_hparams *p = &pl->model->hparams;
  void *memory;
  GA_TRY(ga_mem_zalloc((size_t)p->n_layers, sizeof *pl->memory, "plan", &memory));
  pl->memory = memory;
  for (int32_t il = 0; il < p->n_layers && !p->arch->is_encoder; il++)
    GA_TRY(memory_need_of(p, pl->sizes.kv_dtype, il, &pl->memory[il]));
  return GA_OK;
}

/* Lists what a group of each layer's weights needs on ctx. *out is released with ga_mem_free. */
static ga_status list_needs(const ga_model *model, ga_ctx *ctx, weight_group group, ga_weight_need **out) {
  void *needs;
  GA_TRY(ga_mem_zalloc((size_t)model->hparams.n_layers, sizeof **out, "plan", &needs));
  *out = needs;
  for (int32_t il = 0; il < model->hparams.n_layers; il++) GA_TRY(ga_weights_need(model, ctx, il, group, &(*out)[il]));
  return GA_OK;
}

static ga_status candidate_of(const planner *pl, ga_ctx *ctx, candidate *c) {
  const ga_model *model = pl->model;
  const ga_hparams *p = &model->hparams;
  *c = (candidate){.ctx = ctx, .host = ga_device_in_host_memory(ctx->device)};
  GA_TRY(list_needs(model, ctx, GROUP_OTHERS, &c->layers));
  GA_TRY(list_needs(model, ctx, GROUP_EXPERTS, &c->experts));
  GA_TRY(available_of(ctx, &c->available, &c->spare));
  GA_TRY(ga_weights_need(model, ctx, -1, GROUP_OTHERS, &c->table));
  GA_TRY(ga_weights_need(model, ctx, p->n_layers, GROUP_OTHERS, &c->head));
  GA_TRY(exec_bytes(model, pl->sizes.batch, 0, &c->activations));
  GA_TRY(exec_bytes(model, pl->sizes.batch, pl->sizes.max_out, &c->with_head));
  /* windows of sums: three slots of twice the elements (ga/all_reduce.h) */
  const uint64_t sum = (uint64_t)pl->sizes.batch * (uint64_t)p->width * sizeof(float);
  if (model->comm && !c->host) c->activations += 6 * sum, c->with_head += 6 * sum;
  /* Rows that the layers before leave; GPUs have them in buffers, too, on their way (runner_handover.c). */
  c->entering = (uint64_t)(1 + (c->host ? 0 : EXEC_BUFFERS)) * exec_buffer_bytes(p, pl->sizes.batch);
  if (c->host) return GA_OK;
  GA_TRY(exec_workspace(model, ctx, &pl->sizes, 0, &c->workspace));
  GA_TRY(exec_workspace(model, ctx, &pl->sizes, p->n_layers, &c->workspace_without));
  return GA_OK;
}

static void add_need(ga_weight_need *sum, const ga_weight_need *n) {
  sum->held += n->held;
  sum->taken += n->taken;
  sum->small += n->small;
  if (n->staged > sum->staged) sum->staged = n->staged;
}

/* Tokens that the pages of a session hold. */
static int64_t session_slots(const planner *pl) { return ga_div_up(pl->sizes.context, GA_KV_PAGE) * GA_KV_PAGE; }

static uint64_t session_bytes(const planner *pl, const memory_need *n) {
  return n->token * (uint64_t)session_slots(pl) + n->sequence * MEMORY_SESSION_STATES;
}

/* Adds the experts of layers [first, end) of c: to w where c has them, else to the plan's experts in host memory.
 * Returns whether c multiplies by some of them. */
static bool add_experts(const planner *pl, const candidate *c, int32_t first, int32_t end, ga_weight_need *w,
                        ga_model_placement *plan) {
  bool multiplies = false;
  for (int32_t il = first; il < end; il++) {
    const bool is_lent = !c->host && il < pl->n_host_experts && c->experts[il].held;
    multiplies = multiplies || (!is_lent && c->experts[il].held);
    if (!is_lent) {
      add_need(w, &c->experts[il]);
      continue;
    }
    plan->host_experts += pl->host_experts[il].held;
    plan->n_host_expert_layers++;
  }
  return multiplies;
}

/* Bytes of the cache for n layers of c whose experts are in host memory. One GPU has all of it, however few layers it
 * has; several share it by such layers. */
static uint64_t cache_share(const planner *pl, const candidate *c, int32_t n) {
  int32_t all = 0, gpus = 0;
  for (int32_t i = 0; i < pl->n; i++) gpus += !pl->list[i].host;
  if (gpus == 1) return pl->cache;
  for (int32_t il = 0; il < pl->n_host_experts; il++) all += c->experts[il].held > 0;
  return (uint64_t)((double)pl->cache * n / all);
}

/* The plan of layers [first, end) on c. */
static ga_model_placement placement_of(const planner *pl, const candidate *c, int32_t first, int32_t end,
                                       uint64_t *taken) {
  ga_weight_need w = {0};
  memory_need memory = {0};
  for (int32_t il = first; il < end; il++) {
    add_need(&w, &c->layers[il]);
    memory.token += pl->memory[il].token;
    memory.sequence += pl->memory[il].sequence;
  }
  if (c->has_table) add_need(&w, &c->table);
  if (c->has_head) add_need(&w, &c->head);
  ga_model_placement plan = {.device = ga_ctx_device_name(c->ctx),
                             .first_layer = first,
                             .n_layers = end - first,
                             .kv = session_bytes(pl, &memory),
                             .activations = (c->has_head ? c->with_head : c->activations) + (first ? c->entering : 0),
                             .kv_token = memory.token,
                             .available = c->available};
  const bool multiplies = add_experts(pl, c, first, end, &w, &plan) || pl->cache;
  if (plan.n_host_expert_layers) plan.expert_cache = cache_share(pl, c, plan.n_host_expert_layers);
  plan.weights = w.held;
  plan.workspace = 2 * (multiplies ? c->workspace : c->workspace_without); /* of the stream and of a recorded step */
  plan.staging = w.staged;
  plan.spare = c->spare + (c->host ? 0 : w.taken + ga_weights_shared(w.small) - w.held);
  if (plan.n_host_expert_layers) plan.activations += exec_host_expert_bytes(&pl->model->hparams, pl->sizes.batch);
  const uint64_t run = plan.kv + plan.activations + plan.workspace;
  const uint64_t weights = c->host ? w.taken + ga_weights_shared(w.small) : plan.weights;
  *taken = weights + plan.spare + (run > plan.staging ? run : plan.staging) + plan.expert_cache;
  return plan;
}

static bool layers_fit(const planner *pl, const candidate *c, int32_t first, int32_t end) {
  uint64_t taken;
  (void)placement_of(pl, c, first, end, &taken);
  return taken <= c->available;
}

/* --- texts --- */

static const char *bytes_text(uint64_t bytes, char text[24]) {
  if (bytes >= (uint64_t)1 << 30)
    (void)snprintf(text, 24, "%.2f GiB", (double)bytes * 0x1p-30);
  else
    (void)snprintf(text, 24, "%.1f MiB", (double)bytes * 0x1p-20);
  return text;
}

void ga_placement_text(const ga_model_placement *p, char *text, size_t capacity) {
  char b[7][24], cache[64] = "";
  if (p->expert_cache) (void)snprintf(cache, sizeof cache, ", cache of experts %s", bytes_text(p->expert_cache, b[6]));
  (void)snprintf(text, capacity,
                 "weights %s, KV cache %s, activations %s, workspace %s%s, staging %s while loading, %s left alone",
                 bytes_text(p->weights, b[0]), bytes_text(p->kv, b[1]), bytes_text(p->activations, b[2]),
                 bytes_text(p->workspace, b[3]), cache, bytes_text(p->staging, b[4]), bytes_text(p->spare, b[5]));
}

/* Says what was asked of c, why it does not fit, and what would. */
static ga_status does_not_fit(const planner *pl, const candidate *c, int32_t first, int32_t end) {
  char parts[320], needed[24], there[24], fewer[64] = "", shorter[64] = "";
  uint64_t taken;
  const ga_model_placement p = placement_of(pl, c, first, end, &taken);
  const uint64_t short_by = taken - c->available;
  ga_placement_text(&p, parts, sizeof parts);
  if (!c->host && c->most > 0) (void)snprintf(fewer, sizeof fewer, "; %d layers would fit", c->most);
  const uint64_t tokens = p.kv_token * (uint64_t)session_slots(pl); /* bytes that a shorter context has fewer of */
  if (p.kv_token && short_by < tokens && p.kv + p.activations + p.workspace > p.staging)
    (void)snprintf(shorter, sizeof shorter, "; a context of %llu would fit",
                   (unsigned long long)((tokens - short_by) / p.kv_token / GA_KV_PAGE * GA_KV_PAGE));
  return ga_fail(GA_ERR_NOMEM, "%s: %d of %d layers with a context of %d do not fit: %s needed, %s %s (%s)%s%s",
                 p.device, p.n_layers, pl->model->hparams.n_layers, pl->sizes.context, bytes_text(taken, needed),
                 bytes_text(c->available, there), c->host ? "of memory" : "free", parts, fewer, shorter);
}

/* --- sharing out --- */

static int32_t count_fitting(const planner *pl, const candidate *c) {
  const int32_t layers = pl->model->hparams.n_layers;
  int32_t n = layers;
  while (n > 0 && !layers_fit(pl, c, layers - n, layers)) n--;
  return n;
}

/* Splits n layers over candidates [from, pl->n) by what fits on each. */
static void share_out(const planner *pl, int32_t from, int32_t n, int32_t *counts) {
  int64_t all = 0, given = 0;
  for (int32_t i = from; i < pl->n; i++) all += pl->list[i].most;
  for (int32_t i = from; i < pl->n; i++) {
    counts[i] = all ? (int32_t)(n * (int64_t)pl->list[i].most / all) : 0;
    given += counts[i];
  }
  for (int32_t i = pl->n - 1; i >= from && given < n; i--) {
    const int64_t more = ga_min_i64(n - given, all > n ? pl->list[i].most - counts[i] : n - given);
    counts[i] += (int32_t)more;
    given += more;
  }
}

/* Opens the model's CPU context, for layers or experts. */
static ga_status open_model_cpu(ga_model *model) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  o.device = "cpu";
  return model->cpu ? GA_OK : ga_ctx_create(&o, &model->cpu);
}

/* Puts a CPU before the others. */
static ga_status add_cpu(planner *pl) {
  ga_model *model = pl->model;
  GA_TRY(open_model_cpu(model));
  memmove(pl->list + 1, pl->list, (size_t)pl->n * sizeof pl->list[0]);
  pl->list[0] = (candidate){0};
  pl->n++;
  GA_TRY(candidate_of(pl, model->cpu, &pl->list[0]));
  pl->list[0].most = model->hparams.n_layers;
  pl->list[0].has_table = true;
  pl->list[1].has_table = false;
  return GA_OK;
}

/* Checks that host memory has room for the experts of layers on GPUs, beside the layers that the CPU has. */
static ga_status check_host_experts(const planner *pl, const int32_t *counts) {
  char needed[24], there[24];
  uint64_t bytes = 0, own = 0, available, spare;
  int32_t n = 0;
  for (int32_t i = 0, at = 0; i < pl->n; at += counts[i++]) {
    uint64_t taken;
    const ga_model_placement p = placement_of(pl, &pl->list[i], at, at + counts[i], &taken);
    bytes += p.host_experts;
    n += p.n_host_expert_layers;
    if (pl->list[i].host) own += taken;
  }
  if (!n) return GA_OK;
  GA_TRY(available_of(pl->model->cpu, &available, &spare));
  GA_REQUIRE(bytes <= available && own <= available - bytes, GA_ERR_NOMEM,
             "cpu: the experts of %d layers do not fit: %s needed, %s of memory", n, bytes_text(bytes + own, needed),
             bytes_text(available, there));
  return GA_OK;
}

static ga_status check_all_fit(const planner *pl, const int32_t *counts) {
  for (int32_t i = 0, at = 0; i < pl->n; at += counts[i++])
    if (!layers_fit(pl, &pl->list[i], at, at + counts[i])) return does_not_fit(pl, &pl->list[i], at, at + counts[i]);
  return check_host_experts(pl, counts);
}

/* --- experts --- */

/* Returns whether the GPUs hold the last n layers. */
static bool gpus_hold(planner *pl, int32_t n) {
  int32_t counts[GA_MODEL_MAX_PLACEMENTS] = {0};
  int64_t fitting = 0;
  for (int32_t i = 0; i < pl->n; i++) {
    pl->list[i].most = count_fitting(pl, &pl->list[i]);
    fitting += pl->list[i].most;
  }
  if (fitting < n) return false;
  share_out(pl, 0, n, counts);
  for (int32_t i = 0, at = pl->model->hparams.n_layers - n; i < pl->n; at += counts[i++])
    if (!layers_fit(pl, &pl->list[i], at, at + counts[i])) return false;
  return true;
}

static ga_status keep_experts_on_host(planner *pl, int32_t n) {
  if (n && !pl->host_experts) {
    GA_TRY(open_model_cpu(pl->model));
    GA_TRY(list_needs(pl->model, pl->model->cpu, GROUP_EXPERTS, &pl->host_experts));
  }
  pl->n_host_experts = n;
  return GA_OK;
}

/* Checks the bytes of a cache on c for layers [first, end), n of which have their experts in host memory. */
static ga_status check_cache_of(const planner *pl, const candidate *c, int32_t first, int32_t end, int32_t n,
                                uint64_t bytes) {
  uint64_t least, most;
  char text[3][24];
  GA_TRY(expert_cache_bounds(pl->model, c->ctx, first, end, &least, &most));
  GA_REQUIRE(bytes >= least && bytes <= most, GA_ERR_ARG,
             "expert_cache: %s (%llu bytes) for %d layers on %s; must be %s to %s (%llu to %llu bytes)",
             bytes_text(bytes, text[0]), (unsigned long long)bytes, n, ga_ctx_device_name(c->ctx),
             bytes_text(least, text[1]), bytes_text(most, text[2]), (unsigned long long)least,
             (unsigned long long)most);
  return GA_OK;
}

/* Checks the cache's bytes against what its layers' experts take on each GPU. */
static ga_status check_cache_bytes(const planner *pl, const int32_t *counts) {
  int32_t n = 0;
  for (int32_t i = 0, at = 0; i < pl->n && pl->cache; at += counts[i++]) {
    uint64_t taken;
    const ga_model_placement p = placement_of(pl, &pl->list[i], at, at + counts[i], &taken);
    const int32_t end = (int32_t)ga_min_i64(at + counts[i], pl->n_host_experts);
    n += p.n_host_expert_layers;
    if (p.n_host_expert_layers)
      GA_TRY(check_cache_of(pl, &pl->list[i], at, end, p.n_host_expert_layers, p.expert_cache));
  }
  GA_REQUIRE(!pl->cache || n, GA_ERR_ARG,
             "expert_cache is %llu bytes, but no layer on a GPU has its experts in host memory; n_cpu_moe keeps them "
             "there",
             (unsigned long long)pl->cache);
  return GA_OK;
}

static ga_status check_cpu_moe(const planner *pl, int32_t n_cpu_moe) {
  const int32_t layers = pl->model->hparams.n_layers;
  char text[16] = "all";
  if (n_cpu_moe != GA_CPU_MOE_ALL) (void)snprintf(text, sizeof text, "%d", n_cpu_moe);
  GA_REQUIRE(n_cpu_moe >= -1 && (n_cpu_moe <= layers || n_cpu_moe == GA_CPU_MOE_ALL), GA_ERR_ARG,
             "n_cpu_moe is %s; must be 0 to %d, all, or -1: as few as fit", text, layers);
  GA_REQUIRE(n_cpu_moe <= 0 || pl->model->graph->n_chosen, GA_ERR_ARG, "n_cpu_moe is %s, but the model has no experts",
             text);
  GA_REQUIRE(n_cpu_moe <= 0 || !pl->list[0].host, GA_ERR_ARG, "n_cpu_moe is %s, but %s is no GPU", text,
             ga_ctx_device_name(pl->list[0].ctx));
  return GA_OK;
}

/* Decides how many layers' experts stay in host memory: n_cpu_moe, or as few as make the layers fit. */
static ga_status place_experts(planner *pl, int32_t gpu_layers, int32_t n_cpu_moe) {
  const int32_t layers = pl->model->hparams.n_layers;
  GA_TRY(check_cpu_moe(pl, n_cpu_moe));
  if (!pl->model->graph->n_chosen || pl->list[0].host || !gpu_layers) return GA_OK;
  if (n_cpu_moe >= 0) {
    const int32_t n = (int32_t)ga_min_i64(n_cpu_moe, layers);
    if (n && pl->n == 1 && gpu_layers < 0 && pl->cache) /* said before other memory is */
      GA_TRY(check_cache_of(pl, &pl->list[0], 0, n, n, pl->cache));
    return keep_experts_on_host(pl, n);
  }
  const int32_t wanted = gpu_layers < 0 ? layers : gpu_layers;
  for (int32_t n = 0; n <= layers; n++) {
    if (n && !pl->list[0].experts[n - 1].held) continue; /* a layer without experts */
    GA_TRY(keep_experts_on_host(pl, n));
    if (gpus_hold(pl, wanted)) return GA_OK;
  }
  return keep_experts_on_host(pl, layers);
}

static void set_placements(planner *pl, const int32_t *counts) {
  ga_model *model = pl->model;
  bool has_lent = false, has_cpu = false;
  for (int32_t i = 0, at = 0; i < pl->n; at += counts[i++]) {
    uint64_t taken;
    model->placements[i] = (ga_placement){.ctx = pl->list[i].ctx,
                                          .first = at,
                                          .end = at + counts[i],
                                          .plan = placement_of(pl, &pl->list[i], at, at + counts[i], &taken)};
    has_lent = has_lent || model->placements[i].plan.n_host_expert_layers;
    has_cpu = has_cpu || pl->list[i].ctx == model->cpu;
  }
  model->n_host_experts = has_lent ? pl->n_host_experts : 0;
  if (has_lent) model->host_experts = (ga_placement){.ctx = model->cpu};
  if (!has_cpu && !has_lent) { /* opened for plans that were not taken */
    ga_ctx_destroy(model->cpu);
    model->cpu = NULL;
  }
  model->n_placements = pl->n;
  model->ctx = pl->list[pl->n - 1].ctx;
}

/* All layers must be on one device. */
static bool needs_one_device(const ga_hparams *p) { return p->arch->is_encoder || p->is_joined; }

/* Layers for the GPUs: what was asked for, else what fits. What one must have in any case is the head, or the table. */
static ga_status choose_count(planner *pl, int32_t wanted, int32_t *n) {
  const int32_t layers = pl->model->hparams.n_layers;
  int64_t fitting = 0;
  for (int32_t i = 0; i < pl->n; i++) fitting += pl->list[i].most;
  *n = wanted >= 0 ? wanted : (int32_t)ga_min_i64(fitting, layers);
  if (wanted >= 0 || *n == layers) return GA_OK;
  GA_REQUIRE(!needs_one_device(&pl->model->hparams), does_not_fit(pl, &pl->list[0], 0, layers), "%s", ga_error_text());
  return *n ? GA_OK : does_not_fit(pl, &pl->list[pl->n - 1], layers - 1, layers);
}

static ga_status plan(planner *pl, int32_t gpu_layers, int32_t n_cpu_moe) {
  const int32_t layers = pl->model->hparams.n_layers;
  int32_t counts[GA_MODEL_MAX_PLACEMENTS] = {0}, n;
  pl->list[0].has_table = pl->list[pl->n - 1].has_head = true;
  GA_TRY(place_experts(pl, gpu_layers, n_cpu_moe));
  for (int32_t i = 0; i < pl->n; i++) pl->list[i].most = count_fitting(pl, &pl->list[i]);
  const bool host = pl->list[0].host;
  GA_REQUIRE(!host || gpu_layers < 0, GA_ERR_ARG, "gpu_layers is %d, but %s is no GPU", gpu_layers,
             ga_ctx_device_name(pl->list[0].ctx));
  if (host) {
    for (int32_t i = 0; i < pl->n; i++) pl->list[i].most = layers;
    n = layers;
  } else {
    GA_TRY(choose_count(pl, gpu_layers, &n));
  }
  if (n < layers && pl->model->comm) return does_not_fit(pl, &pl->list[0], 0, layers); /* a rank has one device */
  if (n < layers) {
    GA_TRY(add_cpu(pl));
    if (!n) { /* nothing for the GPUs: they do not take part */
      for (int32_t i = 1; i < pl->n; i++) candidate_free(&pl->list[i]);
      pl->n = 1;
      pl->list[0].has_head = true;
    }
    counts[0] = layers - n;
    share_out(pl, 1, n, counts);
  } else {
    share_out(pl, 0, n, counts);
  }
  GA_TRY(check_cache_bytes(pl, counts));
  GA_TRY(check_all_fit(pl, counts));
  set_placements(pl, counts);
  return GA_OK;
}

static ga_status check_placement_options(const ga_model *model, const ga_model_options *o) {
  const int32_t layers = model->hparams.n_layers;
  GA_REQUIRE(o->gpu_layers >= -1 && o->gpu_layers <= layers, GA_ERR_ARG,
             "gpu_layers is %d; must be 0 to %d, or -1: as many as fit", o->gpu_layers, layers);
  GA_REQUIRE(o->n_more >= 0 && o->n_more <= GA_MODEL_MAX_PLACEMENTS - 2 && (o->more || !o->n_more), GA_ERR_ARG,
             "n_more is %d, more is %s; must be 0 to %d", o->n_more, o->more ? "set" : "null",
             GA_MODEL_MAX_PLACEMENTS - 2);
  GA_REQUIRE(!needs_one_device(&model->hparams) || (!o->n_more && (o->gpu_layers < 1 || o->gpu_layers == layers)),
             GA_ERR_UNSUPPORTED, "%s %s: all its layers are on one device", model->hparams.arch->name,
             model->hparams.arch->is_encoder ? "is an encoder" : "has layers that read earlier layers");
  for (int32_t i = 0; i < o->n_more; i++) GA_REQUIRE(o->more[i], GA_ERR_ARG, "more[%d] is null", i);
  return GA_OK;
}

ga_status ga_placement_plan(ga_model *model, ga_ctx *ctx, const ga_model_options *options) {
  const ga_model_options o = options ? *options : (ga_model_options)GA_MODEL_OPTIONS_INIT;
  planner pl = {.model = model, .cache = o.expert_cache};
  GA_TRY(check_placement_options(model, &o));
  GA_TRY(ga_session_sizes_of(&model->hparams, ctx, o.session, &pl.sizes));
  ga_status status = list_memory(&pl);
  for (int32_t i = 0; i <= o.n_more && status == GA_OK; i++) {
    status = candidate_of(&pl, i < o.n_more ? o.more[i] : ctx, &pl.list[i]);
    pl.n = i + 1;
  }
  if (status == GA_OK) status = plan(&pl, o.gpu_layers, o.n_cpu_moe);
  for (int32_t i = 0; i < pl.n; i++) candidate_free(&pl.list[i]);
  ga_mem_free(pl.host_experts);
  ga_mem_free(pl.memory);
  return status;
}
