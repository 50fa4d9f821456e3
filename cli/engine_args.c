#include "cli/engine_args.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/named.h"
#include "cli/sampling.h"
#include "cli/templates.h"
#include "cmdline/error.h"
#include "serve/reasoning.h"

void engine_model_name(const engine_args *a, char *name, size_t capacity) {
  const char *model = a->open.model ? a->open.model : ga_known_models[0].name;
  size_t n = strlen(model);
  if (a->alias) {
    (void)snprintf(name, capacity, "%.*s", (int)strcspn(a->alias, ","), a->alias);
    return;
  }
  while (n > 1 && model[n - 1] == '/') n--;
  size_t first = n;
  while (first && model[first - 1] != '/') first--;
  (void)snprintf(name, capacity, "%.*s", (int)(n - first), model + first);
  char *dot = strrchr(name, '.');
  if (dot && dot != name && (!strcmp(dot, ".gguf") || !strcmp(dot, ".modelfile"))) *dot = 0;
}

/* A chat template's text; "" where the file has none of that key. */
static ga_text template_text(const ga_model_file *file, const char *key) {
  ga_text text;
  return ga_model_file_meta(file, key) && ga_model_file_text(file, key, &text) == GA_OK ? text : (ga_text){"", 0};
}

ga_status engine_formats(const engine_args *a, const sv_profile *profile, tool_format *tools, bool *thinks) {
  char path[4096];
  ga_model_file *file;
  REQUIRE(tool_format_by_name(a->tools, tools), GA_ERR_ARG,
          "--tool-call-parser '%s': allowed are auto, none, hermes, qwen, qwen3_coder, llama3, mistral", a->tools);
  TRY(find_model(a->open.model, path, sizeof path));
  TRY(ga_model_file_open(path, &file));
  const char *given = profile->chat_template;
  const ga_text plain = given ? (ga_text){given, strlen(given)} : template_text(file, "tokenizer.chat_template"),
                own = given ? plain : template_text(file, "tokenizer.chat_template.tool_use"),
                of_tools = own.bytes ? own : plain;
  *thinks = !a->no_reasoning && reasoning_detect(plain.data, plain.bytes);
  if (*tools == TOOL_FORMAT_AUTO) *tools = tool_format_detect(of_tools.data, of_tools.bytes);
  ga_model_file_destroy(file);
  return GA_OK;
}

static ga_status find_defaults(const engine_args *a, sv_defaults *out) {
  const sampling_args usual = SAMPLING_DEFAULTS;
  char path[4096];
  model_sampling m;
  TRY(find_model(a->open.model, path, sizeof path));
  TRY(sampling_defaults(path, &m));
  *out = (sv_defaults){.is_given = true,
                       .is_own = m.found,
                       .temperature = (float)m.temperature,
                       .top_p = (float)m.top_p,
                       .min_p = (float)m.min_p,
                       .repetition_penalty = (float)m.repeat,
                       .top_k = (int32_t)(m.top_k < INT32_MAX ? m.top_k : INT32_MAX),
                       .penalty_last = (int32_t)usual.repeat_last,
                       .seed = -1};
  return GA_OK;
}

static void take_float(float *value, double with) {
  if (!isnan(with)) *value = (float)with;
}

/* Overrides defaults by the parameters of a Modelfile. */
static void override_defaults(const modelfile *m, sv_defaults *d) {
  take_float(&d->temperature, m->temperature);
  take_float(&d->top_p, m->top_p);
  take_float(&d->min_p, m->min_p);
  take_float(&d->repetition_penalty, m->repeat);
  take_float(&d->presence_penalty, m->presence);
  take_float(&d->frequency_penalty, m->frequency);
  if (m->top_k != MODELFILE_NONE) d->top_k = (int32_t)m->top_k;
  if (m->seed != MODELFILE_NONE) d->seed = m->seed;
  if (m->max_tokens > 0) d->max_tokens = m->max_tokens;
  if (m->repeat_last > 0 || m->repeat_last == -1) d->penalty_last = (int32_t)m->repeat_last;
  if (m->repeat_last) return;
  d->repetition_penalty = 1; /* penalties that look back on no tokens */
  d->presence_penalty = d->frequency_penalty = 0;
}

static ga_status copy_profile_text(const char *text, const char **out) {
  if (!text) return GA_OK;
  *out = strdup(text);
  return *out ? GA_OK : fail_nomem("model", strlen(text));
}

/* Adds the values of a named model's Modelfile to a profile. */
static ga_status add_modelfile(const modelfile *m, sv_profile *out) {
  sv_text printed = {0};
  char *source = NULL;
  if (!out->chat_template && m->chat_template) {
    TRY(template_of_named(m->chat_template, &source));
    out->chat_template = source;
  }
  TRY(copy_profile_text(m->system, &out->system));
  for (; out->n_stop < m->n_stop; out->n_stop++) TRY(copy_profile_text(m->stop[out->n_stop], &out->stop[out->n_stop]));
  if (m->context != MODELFILE_NONE) out->context = m->context;
  modelfile_print(m, &printed);
  out->modelfile = printed.p;
  return printed.failed ? fail_nomem("model", printed.n) : GA_OK;
}

/* Adds the profile of a named model; other models have none. */
static ga_status add_profile_of_name(const char *model, sv_profile *out) {
  modelfile named;
  bool found;
  ga_status status = named_find(model, &named, &found);
  if (status == GA_OK && found) {
    out->defaults.is_own = true;
    override_defaults(&named, &out->defaults);
    status = add_modelfile(&named, out);
  }
  modelfile_free(&named);
  return status;
}

ga_status engine_profile(const engine_args *a, sv_profile *out) {
  char *text = NULL;
  *out = (sv_profile){0};
  if (a->open.chat_template) TRY(template_read(a->open.chat_template, &text));
  out->chat_template = text;
  ga_status status = find_defaults(a, &out->defaults);
  if (status == GA_OK) status = add_profile_of_name(a->open.model, out);
  if (status != GA_OK) sv_profile_free(out);
  return status;
}

int engine_check(const char *name, const engine_args *a) {
  if (!a->offload_prefixes) return EXIT_OK;
  if (a->no_prefix_cache) return cmd_usage_error(name, "--offload-prefixes has nothing to keep with --no-prefix-cache");
  return a->swap_gib > 0 ? EXIT_OK : cmd_usage_error(name, "--offload-prefixes needs --swap-space GIB");
}

ga_status engine_open(const engine_args *a, int32_t max_waiting, ga_model *model, ga_engine **out) {
  ga_engine_options o = GA_ENGINE_OPTIONS_INIT;
  *out = NULL;
  REQUIRE(!a->open.kv_type || ga_dtype_from_name(a->open.kv_type), GA_ERR_ARG,
          "--kv-type '%s': allowed are f16, f32, bf16, e4m3, q8_0, q4_0", a->open.kv_type);
  if (ga_model_get_info(model)->is_encoder) return GA_OK;
  o.context = (int32_t)a->open.context;
  o.max_sequences = (int32_t)a->max_sequences;
  o.step_tokens = (int32_t)a->step_tokens;
  o.max_waiting = max_waiting;
  o.kv_tokens = a->kv_tokens;
  if (a->open.kv_type) o.kv_dtype = (int32_t)ga_dtype_from_name(a->open.kv_type);
  o.swap_bytes = (int64_t)(a->swap_gib * 0x1p30);
  o.flags = (a->no_prefix_cache ? GA_ENGINE_NO_PREFIX_CACHE : 0u) |
            (a->open.deterministic ? GA_ENGINE_DETERMINISTIC : 0u) |
            (open_rounds_activations(&a->open) ? GA_ENGINE_E4M3_ACTIVATIONS : 0u) |
            (a->offload_prefixes ? GA_ENGINE_OFFLOAD_PREFIXES : 0u) | (a->time_steps ? GA_ENGINE_TIME_STEPS : 0u);
  return ga_engine_create(model, &o, out);
}
