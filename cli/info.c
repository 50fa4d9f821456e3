/* ga info: the devices of this machine, or what a model file holds. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "cli/info.h"
#include "cli/named.h"
#include "cli/open.h"
#include "cmdline/error.h"
#include "cmdline/terminal.h"

typedef struct info_args {
  open_args open;
  bool json, meta, tensors, modelfile;
} info_args;

static bool print_device(const char *name, bool json, bool *first) {
  ga_ctx *ctx;
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  co.device = name;
  bool ok = ga_ctx_create(&co, &ctx) == GA_OK;
  if (json) {
    json_t *o = json_pack("{s:s, s:b, s:s}", "name", ok ? ga_ctx_device_name(ctx) : name, "present", ok, "text",
                          ok ? ga_ctx_device_text(ctx) : ga_error_text());
    printf("%s", *first ? "" : ",\n");
    if (cmd_print_json(o, 0) != GA_OK) printf("null");
  } else {
    printf("%-10s %s\n", ok ? ga_ctx_device_name(ctx) : name, ok ? ga_ctx_device_text(ctx) : ga_error_text());
  }
  *first = false;
  if (ok) ga_ctx_destroy(ctx);
  return ok;
}

static bool is_of(const char *backend, const char *device) {
  const size_t n = strlen(backend);
  return !strncmp(device, backend, n) && (!device[n] || device[n] == ':');
}

/* `only`: one of them, as --device names it, which must be there; NULL: all that this build knows. */
static int devices(const char *only, bool json) {
  bool first = true, present = true;
  if (json)
    printf("{\"version\": \"%s\", \"build\": \"%s\", \"devices\": [\n", ga_version(), ga_cuda_build_text());
  else
    printf("ga %s; %s\n", ga_version(), ga_cuda_build_text());
  if (only && !strcmp(only, "auto")) present = print_device(only, json, &first);
  for (size_t i = 0; ga_backend_name(i); i++)
    if (!only || is_of(ga_backend_name(i), only))
      present &= print_device(only ? only : ga_backend_name(i), json, &first);
  if (json) printf("\n]}\n");
  return present || !only ? EXIT_OK : EXIT_FAILED;
}

static double mib(uint64_t bytes) { return (double)bytes * 0x1p-20; }

/* The longest context that the place with least room has, all else as planned. */
static uint64_t context_of(const ga_model *model) {
  uint64_t least = UINT64_MAX;
  for (int32_t i = 0; i < ga_model_placement_count(model); i++) {
    const ga_model_placement *p = ga_model_placement_at(model, i);
    const uint64_t rest = p->weights + p->activations + p->workspace + p->spare + p->expert_cache;
    const uint64_t tokens = !p->kv_token ? UINT64_MAX : p->available > rest ? (p->available - rest) / p->kv_token : 0;
    least = tokens < least ? tokens : least;
  }
  return least;
}

/* What a session of this model would take from each device. */
static void print_plan(const ga_model *model) {
  const ga_model_info *i = ga_model_get_info(model);
  const uint64_t fits = context_of(model);
  print_placements(stdout, model);
  if (!i->is_encoder && fits < UINT64_MAX)
    printf("fits          %llu tokens of KV cache%s\n", (unsigned long long)fits,
           fits >= (uint64_t)i->context ? ": the whole context" : "");
}

static json_t *json_placements(const ga_model *model) {
  json_t *list = json_array();
  for (int32_t i = 0; i < ga_model_placement_count(model); i++) {
    const ga_model_placement *p = ga_model_placement_at(model, i);
    (void)json_array_append_new(
        list, json_pack("{s:s, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:I, s:I}", "device", p->device,
                        "first_layer", p->first_layer, "layers", p->n_layers, "weights", (json_int_t)p->weights, "kv",
                        (json_int_t)p->kv, "activations", (json_int_t)p->activations, "workspace",
                        (json_int_t)p->workspace, "staging", (json_int_t)p->staging, "spare", (json_int_t)p->spare,
                        "kv_bytes_per_token", (json_int_t)p->kv_token, "available", (json_int_t)p->available,
                        "host_expert_layers", p->n_host_expert_layers, "host_experts", (json_int_t)p->host_experts,
                        "expert_cache", (json_int_t)p->expert_cache));
  }
  return list;
}

static ga_status print_model(const opened *opened_model, bool json) {
  const ga_model *model = opened_model->model;
  const ga_model_info *i = ga_model_get_info(model);
  if (json) {
    json_t *o = json_pack(
        "{s:s, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:o}", "architecture",
        i->arch, "name", cmd_json_text(i->name, strlen(i->name)), "layers", i->n_layers, "width", i->width, "ff_width",
        i->ff_width, "heads", i->n_heads, "kv_heads", i->n_kv_heads, "head_dim", i->head_dim, "vocabulary", i->vocab,
        "context", i->context, "window", i->window, "embedding_width", i->embedding_width, "parameters",
        (json_int_t)i->n_params, "file_bytes", (json_int_t)i->file_bytes, "weight_bytes", (json_int_t)i->weight_bytes,
        "kv_bytes_per_token", (json_int_t)i->kv_token_bytes, "places", json_placements(model));
    if (opened_model->named.from) {
      sv_text text = {0};
      modelfile_print(&opened_model->named, &text);
      (void)json_object_set_new(o, "modelfile", cmd_json_text(text.p ? text.p : "", text.n));
      sv_text_free(&text);
    }
    TRY(cmd_print_json(o, JSON_INDENT(2)));
    printf("\n");
    return GA_OK;
  }
  printf("architecture  %s%s", i->arch, *i->name ? ", " : "");
  cmd_put_text(stdout, i->name, strlen(i->name));
  printf("\n");
  printf("parameters    %.1f million\n", (double)i->n_params * 1e-6);
  printf("layers        %d, width %d, feed-forward %d\n", i->n_layers, i->width, i->ff_width);
  printf("heads         %d of %d, %d for keys and values\n", i->n_heads, i->head_dim, i->n_kv_heads);
  printf("vocabulary    %d\n", i->vocab);
  printf("context       %d tokens\n", i->context);
  if (i->window) printf("window        %d tokens in local layers\n", i->window);
  printf("weights       %.1f MiB in the file, %.1f MiB as held\n", mib(i->file_bytes), mib(i->weight_bytes));
  printf("KV cache      %.1f KiB a token in f16\n", (double)i->kv_token_bytes / 1024);
  const char *why = ga_model_template_error(model);
  if (opened_model->given)
    why = "yes, that of the named model";
  else if (!*why)
    why = ga_model_template(model) ? "yes" : "none";
  printf("chat template ");
  cmd_put_text(stdout, why, strlen(why));
  printf("\n");
  return GA_OK;
}

/* Prints the Modelfile of a named model, indented. */
static void print_named_parts(const modelfile *m) {
  sv_text text = {0};
  if (!m->from) return;
  modelfile_print(m, &text);
  printf("named model   a Modelfile:\n");
  for (const char *line = text.p ? text.p : ""; *line; line += *line != 0) {
    const size_t n = strcspn(line, "\n");
    printf("  ");
    cmd_put_text(stdout, line, n);
    printf("\n");
    line += n;
  }
  sv_text_free(&text);
}

/* Prints the model as a Modelfile, which ga create reads. */
static ga_status print_modelfile(const char *name) {
  modelfile m;
  sv_text text = {0};
  char path[4096];
  bool found;
  ga_status status = named_find(name, &m, &found);
  if (status == GA_OK && !found) {
    status = find_model(name, path, sizeof path);
    m.from = status == GA_OK ? strdup(name) : NULL;
  }
  if (status == GA_OK) modelfile_print(&m, &text);
  modelfile_free(&m);
  if (status == GA_OK && text.failed) status = fail_nomem("Modelfile", text.n);
  if (status == GA_OK) (void)terminal_write(stdout, text.p, text.n);
  sv_text_free(&text);
  return status;
}

static ga_status model(const info_args *a) {
  if (a->modelfile) return print_modelfile(a->open.model);
  if (a->meta || a->tensors) {
    char path[4096];
    ga_model_file *file;
    TRY(find_model(a->open.model, path, sizeof path));
    TRY(ga_model_file_open(path, &file));
    ga_status status = info_file(file, a->meta, a->tensors, a->json);
    ga_model_file_destroy(file);
    return status;
  }
  opened o;
  TRY(plan_model(&a->open, &o));
  ga_status status = print_model(&o, a->json);
  if (status == GA_OK && !a->json) print_plan(o.model);
  if (status == GA_OK && !a->json) print_named_parts(&o.named);
  close_model(&o);
  return status;
}

static int info(const char *name, const char *usage, bool needs_model, int argc, char **argv) {
  info_args a = {.open = {OPEN_ARGS_INIT}};
  const cmd_option options[] = {
      OPEN_MODEL_OPTIONS(a.open),
      {"meta", 0, OPT_FLAG, &a.meta, 0, 0, NULL, "with a model: its metadata"},
      {"tensors", 0, OPT_FLAG, &a.tensors, 0, 0, NULL, "with a model: its tensors"},
      {"modelfile", 0, OPT_FLAG, &a.modelfile, 0, 0, NULL, "with a model: a Modelfile, as ga create reads it"},
      {"json", 0, OPT_FLAG, &a.json, 0, 0, NULL,
       "JSON on stdout; of arrays in metadata the first 8 elements and the count"},
      OPEN_SESSION_OPTIONS(a.open),
  };
  int code, rest = cmd_parse(name, usage, options, COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (rest > 1 || (rest == 1 && a.open.model)) return cmd_usage_error(name, "one model is enough");
  if (rest == 1) a.open.model = argv[1];
  if (open_args_check(name, &a.open)) return EXIT_USAGE;
  if (!a.open.model && a.open.device && strchr(a.open.device, ','))
    return cmd_usage_error(name, "--device '%s': one device; several are for a model", a.open.device);
  if (!a.open.model && needs_model) return cmd_usage_error(name, "which model? (ga list)");
  if (!a.open.model)
    return a.meta || a.tensors || a.modelfile ? cmd_usage_error(name, "which model?") : devices(a.open.device, a.json);
  return model(&a) == GA_OK ? EXIT_OK : cmd_fail(name);
}

int cmd_info(int argc, char **argv) { return info("info", "[options] [MODEL]", false, argc, argv); }
int cmd_show(int argc, char **argv) { return info("show", "[options] MODEL", true, argc, argv); }
