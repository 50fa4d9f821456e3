#include "model/model.h"
#include "file/hf_template.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/sized.h"
#include "base/status.h"
#include "model/arch/arch.h"
#include "model/embedding.h"
#include "model/exec.h"
#include "model/expert_cache.h"
#include "model/expert_trace.h"
#include "model/memory_kind.h"
#include "model/pass/shard.h"
#include "model/rank_head.h"

/* A template that GA cannot compile is no reason to refuse the model: raw prompts work without it. */
static ga_status load_template(ga_model *model, const char *key, const char *name, ga_template **out) {
  ga_text source;
  if (!ga_model_file_meta(model->file, key)) return GA_OK;
  GA_TRY(ga_model_file_text(model->file, key, &source));
  const ga_status status = ga_template_compile(source.data, source.bytes, out);
  if (status == GA_ERR_NOMEM) return status;
  if (status != GA_OK && !*model->template_error)
    (void)snprintf(model->template_error, sizeof model->template_error, "%s%s", name, ga_error_text());
  return GA_OK;
}

static ga_status load_templates(ga_model *model) {
  ga_text why;
  GA_TRY(ga_model_file_text_or(model->file, GA_CHAT_TEMPLATE_ERROR, "", &why));
  (void)snprintf(model->template_error, sizeof model->template_error, "%.*s", (int)why.bytes, why.data);
  GA_TRY(load_template(model, GA_CHAT_TEMPLATE, "", &model->chat_template));
  model->has_tool_template = ga_model_file_meta(model->file, GA_TOOL_TEMPLATE) != NULL;
  return load_template(model, GA_TOOL_TEMPLATE, "tool_use: ", &model->tool_template);
}

static ga_status load_tokenizer(ga_model *model) {
  if (!ga_model_file_meta(model->file, "tokenizer.ggml.model") &&
      !ga_model_file_side_path(model->file, "tokenizer.json"))
    return GA_OK;
  GA_TRY(ga_tokenizer_from_model(model->file, &model->tokenizer));
  GA_REQUIRE(ga_tokenizer_size(model->tokenizer) <= (size_t)model->hparams.vocab, GA_ERR_FORMAT,
             "tokenizer has %zu tokens, the embedding %d rows", ga_tokenizer_size(model->tokenizer),
             model->hparams.vocab);
  return GA_OK;
}

static ga_status fill_info(ga_model *model) {
  const ga_hparams *p = &model->hparams;
  ga_model_info *info = &model->info;
  ga_text name;
  GA_TRY(ga_model_file_text_or(model->file, "general.name", "", &name));
  info->arch = p->arch->name;
  size_t kept = name.bytes < sizeof info->name ? name.bytes : sizeof info->name - 1;
  while (kept < name.bytes && kept && ((unsigned char)name.data[kept] & 0xc0) == 0x80) kept--; /* no half character */
  (void)snprintf(info->name, sizeof info->name, "%.*s", (int)kept, name.data);
  info->n_layers = p->n_layers;
  info->width = p->width;
  info->ff_width = p->ff_width;
  info->n_heads = p->n_heads;
  info->n_kv_heads = p->n_kv_heads;
  info->head_dim = p->head_dim;
  info->vocab = p->vocab;
  info->context = p->context;
  info->window = p->window;
  info->is_encoder = p->arch->is_encoder;
  info->embedding_width = model->embedding ? model->embedding->width : 0;
  for (int32_t il = 0; il < p->n_layers && !info->is_encoder; il++) {
    memory_need need;
    GA_TRY(memory_need_of(p, GA_F16, il, &need));
    info->kv_token_bytes += need.token;
  }
  return GA_OK;
}

/* The rank's part of the model, and its graph. One rank has all. */
static ga_status split_model(ga_model *model, const ga_model_options *options) {
  const int32_t ranks = options->comm ? ga_comm_size(options->comm) : 1,
                rank = ranks > 1 ? ga_comm_rank(options->comm) : 0;
  GA_REQUIRE(ranks == 1 || (!options->n_more && options->gpu_layers < 0), GA_ERR_UNSUPPORTED,
             "model: comm has %d ranks, n_more is %d and gpu_layers %d; a rank's part is on one device", ranks,
             options->n_more, options->gpu_layers);
  GA_TRY(shard_sizes(&model->whole, rank, ranks, &model->hparams));
  if (ranks > 1) model->comm = options->comm;
  GA_TRY(graph_create(model, &model->graph));
  return shard_graph(&model->whole, &model->hparams, rank, ranks, &model->graph);
}

/* Other encoders than BERT's may have tensors of these names with another meaning. */
static ga_status load_rank_head(ga_model *model) {
  if (!model->whole.arch->has_rank_head) return GA_OK;
  GA_TRY(rank_head_load(model->file, model->hparams.width, &model->rank_head));
  model->info.n_labels = rank_head_labels(model->rank_head);
  return GA_OK;
}

static ga_status open_expert_trace(ga_model *model, const char *path) {
  const ga_hparams *p = &model->hparams;
  if (!path) return GA_OK;
  GA_REQUIRE(model->graph->n_chosen, GA_ERR_ARG, "expert_trace is '%s', but the model has no experts", path);
  return expert_trace_create(path, p->n_layers, p->n_experts, p->n_experts_used, &model->trace);
}

static ga_status create_caches(ga_model *model) {
  for (int32_t i = 0; i < model->n_placements; i++) {
    ga_placement *p = &model->placements[i];
    if (!p->plan.expert_cache) continue;
    const int32_t end = p->end < model->n_host_experts ? p->end : model->n_host_experts;
    GA_TRY(expert_cache_create(model, p->ctx, p->first, end, p->plan.expert_cache, &p->cache));
  }
  return GA_OK;
}

static ga_status load_model_file(ga_model *model, ga_ctx *ctx, const char *path, const ga_model_options *options) {
  GA_TRY(ga_model_file_open(path, &model->file));
  GA_TRY(ga_hparams_read(model->file, &model->whole));
  GA_TRY(split_model(model, options));
  if (model->whole.arch->is_encoder)
    GA_TRY(embedding_create(model->file, &model->whole, options->plan_only, &model->embedding));
  GA_TRY(fill_info(model));
  GA_TRY(load_rank_head(model));
  GA_TRY(load_tokenizer(model));
  GA_TRY(load_templates(model));
  model->is_plan = options->plan_only;
  model->no_mmap = options->no_mmap;
  GA_TRY(ga_placement_plan(model, ctx, options));
  GA_TRY(ga_weights_load(model, options));
  if (model->is_plan) return GA_OK;
  GA_TRY(exec_check_ops(model));
  GA_TRY(open_expert_trace(model, options->expert_trace));
  return create_caches(model);
}

static ga_status take_options(const ga_model_options *given, ga_model_options *full) {
  GA_TRY(GA_SIZED_TAKE("model: options", ga_model_options, given, full));
  for (size_t i = 0; i < sizeof full->reserved; i++)
    GA_REQUIRE(full->reserved[i] == 0, GA_ERR_ARG, "model: options.reserved[%zu] is %u; must be 0", i,
               (unsigned)full->reserved[i]);
  for (size_t i = 0; i < sizeof full->reserved2; i++)
    GA_REQUIRE(full->reserved2[i] == 0, GA_ERR_ARG, "model: options.reserved2[%zu] is %u; must be 0", i,
               (unsigned)full->reserved2[i]);
  GA_REQUIRE(!full->reserved3, GA_ERR_ARG, "model: options.reserved3 is %d; must be 0", full->reserved3);
  return GA_OK;
}

ga_status ga_model_load(ga_ctx *ctx, const char *name, const ga_model_options *options, ga_model **out) {
  char path[4096];
  GA_REQUIRE(ctx && name && out, GA_ERR_ARG, "model: ctx, name or out is null");
  *out = NULL;
  ga_model_options full = GA_MODEL_OPTIONS_INIT;
  if (options) GA_TRY(take_options(options, &full));
  void *p;
  GA_TRY(ga_model_path(name, path, sizeof path));
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_model), "model", &p));
  ga_model *model = p;
  model->ctx = ctx;
  ga_status status = load_model_file(model, ctx, path, &full);
  if (status != GA_OK) {
    ga_model_destroy(model);
    const char *label = ga_path_label(path); /* what errors of the file begin with */
    return strncmp(ga_error_text(), label, strlen(label)) ? ga_fail_in(status, "%s", path) : status;
  }
  *out = model;
  return GA_OK;
}

/* A CPU context of the shared model's own, if the CPU has layers or experts. */
static ga_status share_cpu(const ga_model *from, ga_model *model) {
  ga_ctx_options o = GA_CTX_OPTIONS_INIT;
  if (!from->cpu) return GA_OK;
  o.device = "cpu", o.threads = ga_ctx_threads(from->cpu);
  return ga_ctx_create(&o, &model->cpu);
}

/* The context for a place of a model that is shared: `ctx`, or the model's CPU context. */
static ga_status share_context(const ga_model *from, const ga_placement *place, ga_ctx *ctx, const ga_model *model,
                               ga_ctx **out) {
  const bool helps = from->cpu && place->ctx == from->cpu;
  *out = helps ? model->cpu : ctx;
  GA_REQUIRE(!strcmp(ga_ctx_device_name(*out), ga_ctx_device_name(place->ctx)), GA_ERR_ARG,
             "model_share: the context is on %s; the model is on %s", ga_ctx_device_name(*out),
             ga_ctx_device_name(place->ctx));
  return GA_OK;
}

ga_status ga_model_share(const ga_model *from, ga_ctx *ctx, ga_model **out) {
  GA_REQUIRE(from && ctx && out, GA_ERR_ARG, "model_share: model, ctx or out is null");
  *out = NULL;
  GA_REQUIRE(!from->comm, GA_ERR_UNSUPPORTED,
             "model_share: the model is the part of rank %d of %d; allowed is a whole one", ga_comm_rank(from->comm),
             ga_comm_size(from->comm));
  for (int32_t i = 0; i < from->n_placements; i++)
    GA_REQUIRE(from->placements[i].ctx == from->ctx || from->placements[i].ctx == from->cpu, GA_ERR_UNSUPPORTED,
               "model_share: the model is on %d devices; allowed is one, with or without a CPU's part",
               (int)from->n_placements);
  void *p;
  GA_TRY(ga_mem_zalloc(1, sizeof(ga_model), "model", &p));
  ga_model *model = p;
  *model = *from;
  model->cpu = NULL;
  model->is_shared = true;
  ga_status status = share_cpu(from, model);
  for (int32_t i = 0; i < model->n_placements && status == GA_OK; i++) {
    ga_placement *place = &model->placements[i];
    status = share_context(from, &from->placements[i], ctx, model, &place->ctx);
    if (status == GA_OK) place->plan.device = ga_ctx_device_name(place->ctx);
    place->cache = NULL; /* which the other model's thread uses */
  }
  if (status != GA_OK) {
    ga_model_destroy(model);
    return status;
  }
  model->ctx = model->placements[model->n_placements - 1].ctx;
  *out = model;
  return GA_OK;
}

void ga_model_destroy(ga_model *model) {
  if (!model) return;
  if (model->is_shared) {
    ga_ctx_destroy(model->cpu);
    ga_mem_free(model);
    return;
  }
  expert_trace_close(model->trace);
  for (int32_t i = 0; i < model->n_placements; i++) expert_cache_destroy(model->placements[i].cache);
  for (int32_t i = 0; i < model->n_placements; i++) ga_placement_free(&model->placements[i]);
  ga_placement_free(&model->host_experts);
  ga_ctx_destroy(model->cpu);
  ga_mem_free(model->weights);
  ga_mem_free(model->attachments);
  embedding_destroy(model->embedding);
  graph_destroy(model->graph);
  rank_head_free(model->rank_head);
  ga_template_destroy(model->chat_template);
  ga_template_destroy(model->tool_template);
  ga_tokenizer_destroy(model->tokenizer);
  ga_model_file_destroy(model->file);
  ga_mem_free(model);
}

const ga_model_info *ga_model_get_info(const ga_model *model) { return &model->info; }
int32_t ga_model_placement_count(const ga_model *model) { return model->n_placements; }
const ga_model_placement *ga_model_placement_at(const ga_model *model, int32_t index) {
  return &model->placements[index].plan;
}

ga_status ga_model_expert_cache(const ga_model *model, ga_expert_cache_stats *stats) {
  ga_expert_cache_stats all = GA_EXPERT_CACHE_STATS_INIT;
  GA_REQUIRE(model && stats, GA_ERR_ARG, "expert cache: model or stats is null");
  GA_TRY(ga_sized_check_out("expert cache: stats", stats, ga_expert_cache_stats_first));
  for (int32_t i = 0; i < model->n_placements; i++)
    if (model->placements[i].cache) expert_cache_count(model->placements[i].cache, &all);
  ga_sized_give(&all, sizeof all, stats);
  return GA_OK;
}

const ga_tokenizer *ga_model_tokenizer(const ga_model *model) { return model->tokenizer; }
const ga_template *ga_model_template(const ga_model *model) { return model->chat_template; }
const ga_template *ga_model_tool_template(const ga_model *model) {
  return model->has_tool_template ? model->tool_template : model->chat_template;
}
const char *ga_model_template_error(const ga_model *model) { return model->template_error; }
