/* ga info: the devices of this machine, or what a model file holds. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/status.h"
#include "core/device.h"
#include "cuda/cuda.h"
#include "tools/ga/info.h"
#include "tools/ga/open.h"

typedef struct info_args {
  open_args open;
  bool json, meta, tensors;
} info_args;

static void print_device(const char *name, bool json, bool *first) {
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
}

static int devices(bool json) {
  bool first = true;
  if (json)
    printf("{\"version\": \"%s\", \"build\": \"%s\", \"devices\": [\n", ga_version(), ga_cuda_build_text());
  else
    printf("ga %s; %s\n", ga_version(), ga_cuda_build_text());
  for (size_t i = 0; i < ga_n_backends; i++) print_device(ga_backends[i]->name, json, &first);
  if (json) printf("\n]}\n");
  return EXIT_OK;
}

static double mib(uint64_t bytes) {
  return (double)bytes * 0x1p-20;
}

static ga_status print_model(const ga_model *model, bool json) {
  const ga_model_info *i = ga_model_get_info(model);
  if (json) {
    json_t *o = json_pack("{s:s, s:o, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:I, s:I}", "architecture",
                          i->arch, "name", cmd_json_text(i->name, strlen(i->name)), "layers", i->n_layers, "width", i->width, "ff_width", i->ff_width,
                          "heads", i->n_heads, "kv_heads", i->n_kv_heads, "head_dim", i->head_dim, "vocabulary",
                          i->vocab, "context", i->context, "window", i->window, "parameters", (json_int_t)i->n_params,
                          "file_bytes", (json_int_t)i->file_bytes, "weight_bytes", (json_int_t)i->weight_bytes,
                          "kv_bytes_per_token", (json_int_t)i->kv_token_bytes);
    GA_TRY(cmd_print_json(o, JSON_INDENT(2)));
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
  if (!*why) why = ga_model_template(model) ? "yes" : "none";
  printf("chat template ");
  cmd_put_text(stdout, why, strlen(why));
  printf("\n");
  return GA_OK;
}

/* What a session of this model would take from the device, and the longest context that fits beside the weights. */
static ga_status print_plan(ga_ctx *ctx, const ga_model *model) {
  const ga_model_info *i = ga_model_get_info(model);
  ga_memory_info m = GA_MEMORY_INFO_INIT;
  GA_TRY(ga_ctx_memory(ctx, &m));
  if (!m.total_bytes || i->is_encoder) return GA_OK; /* host memory is not planned */
  const uint64_t batch = 512, width = (uint64_t)i->width, heads = (uint64_t)i->n_heads * (uint64_t)i->head_dim;
  const uint64_t kv = 2 * (uint64_t)i->n_kv_heads * (uint64_t)i->head_dim, logits = (uint64_t)1 << 24;
  const uint64_t activations = batch * (2 * width + 2 * heads + kv + 2 * (uint64_t)i->ff_width) * sizeof(float) + logits;
  const uint64_t left = m.free_bytes > activations ? m.free_bytes - activations : 0;
  const uint64_t fits = i->kv_token_bytes ? left / i->kv_token_bytes : 0;
  printf("device        %s: %.1f of %.1f MiB free with these weights loaded\n", ga_ctx_device_name(ctx), mib(m.free_bytes), mib(m.total_bytes));
  printf("activations   %.1f MiB for %llu tokens at once\n", mib(activations), (unsigned long long)batch);
  printf("fits          %llu tokens of KV cache in f16%s\n", (unsigned long long)fits,
         fits >= (uint64_t)i->context ? ": the whole context" : "");
  return GA_OK;
}

static ga_status model(const info_args *a) {
  if (a->meta || a->tensors) {
    char path[4096];
    ga_model_file *file;
    GA_TRY(find_model(a->open.model, path, sizeof path));
    GA_TRY(ga_model_file_open(path, &file));
    ga_status status = info_file(file, a->meta, a->tensors, a->json);
    ga_model_file_close(file);
    return status;
  }
  opened o;
  GA_TRY(open_model(&a->open, false, &o));
  ga_status status = print_model(o.model, a->json);
  if (status == GA_OK && !a->json) status = print_plan(o.ctx, o.model);
  close_model(&o);
  return status;
}

int cmd_info(int argc, char **argv) {
  info_args a = {0};
  const cmd_option options[] = {
      OPEN_MODEL_OPTIONS(a.open),
      {"meta", 0, OPT_FLAG, &a.meta, 0, 0, NULL, "with a model: its metadata"},
      {"tensors", 0, OPT_FLAG, &a.tensors, 0, 0, NULL, "with a model: its tensors"},
      {"json", 0, OPT_FLAG, &a.json, 0, 0, NULL, "JSON on stdout; of arrays in metadata the first 8 elements and the count"},
  };
  int code, rest = cmd_parse("info", "[options] [MODEL]", options, GA_COUNT_OF(options), argc, argv, &code);
  if (rest < 0) return code;
  if (rest > 1 || (rest == 1 && a.open.model)) return cmd_usage_error("info", "one model is enough");
  if (rest == 1) a.open.model = argv[1];
  if (!a.open.model) return a.meta || a.tensors ? cmd_usage_error("info", "which model?") : devices(a.json);
  return model(&a) == GA_OK ? EXIT_OK : cmd_fail("info");
}
