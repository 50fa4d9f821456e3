#include "cli/open.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/named.h"
#include "cli/pull.h"
#include "cli/store.h"
#include "cli/templates.h"
#include "cmdline/error.h"
#include "cmdline/words.h"
#include "names/hub.h"
#include "names/names.h"

/* --- files --- */

/* A model of the hub: here, or fetched now. */
static ga_status find_or_fetch(const char *model, char *path, size_t capacity) {
  ga_hub_name name;
  TRY(ga_hub_parse(model, &name));
  if (ga_hub_find(&name, path, capacity) == GA_OK) return GA_OK;
  cmd_progress_lines(true);
  return pull_hub(model, false, false, path, capacity);
}

/* Finds a model that is no named one. */
static ga_status find_files(const char *model, char *path, size_t capacity) {
  return ga_hub_is_name(model) ? find_or_fetch(model, path, capacity) : ga_model_path(model, path, capacity);
}

/* Finds the files of a named model's FROM. Files in the current directory are not considered. */
static ga_status find_base(const char *from, char *path, size_t capacity) {
  char dir[3072];
  const char *file = from;
  if (*from == '/' || ga_hub_is_name(from)) return find_files(from, path, capacity);
  for (const ga_known_model *k = ga_known_models; k->name; k++)
    if (!strcmp(k->name, from)) file = k->file;
  TRY(ga_models_folder(dir, sizeof dir));
  const int n = snprintf(path, capacity, "%s/%s", dir, file);
  if (n > 0 && (size_t)n < capacity && !access(path, F_OK)) return GA_OK;
  TRY(find_files(from, path, capacity)); /* which tells why */
  return ga_error_set(GA_ERR_IO, "there is no %s in %s", file, dir);
}

/* Finds the files of a model. *named: the named model, if it is one; release it with modelfile_free. */
static ga_status find_named(const char *model, char *path, size_t capacity, modelfile *named) {
  bool found;
  if (!model) model = ga_known_models[0].name;
  TRY(named_find(model, named, &found));
  if (!found) return find_files(model, path, capacity);
  const ga_status status = find_base(named->from, path, capacity);
  if (status == GA_OK) return GA_OK;
  char *why = strdup(ga_error_text());
  (void)ga_error_set(status, "%s is made of %s: %s", model, named->from, why ? why : "");
  free(why);
  return status;
}

ga_status find_model(const char *model, char *path, size_t capacity) {
  modelfile named = modelfile_empty();
  const ga_status status = find_named(model, path, capacity, &named);
  modelfile_free(&named);
  return status;
}

#define READ_BYTES ((size_t)16 << 20) /* between two looks at Ctrl-C */

ga_status read_text(const char *path, char **text, size_t *bytes) {
  const bool is_stdin = !strcmp(path, "-");
  FILE *f = is_stdin ? stdin : fopen(path, "rb");
  *text = NULL;
  if (is_stdin) path = "stdin";
  if (is_stdin && isatty(STDIN_FILENO)) (void)fprintf(stderr, "(reading from the terminal; Ctrl-D ends)\n");
  if (!f) return ga_error_set(GA_ERR_IO, "%s: %s", path, strerror(errno));
  size_t n = 0, capacity = 1 << 16;
  char *p = malloc(capacity);
  ga_status status = p ? GA_OK : fail_nomem(path, capacity);
  while (status == GA_OK) {
    const size_t room = capacity - n - 1, most = room < READ_BYTES ? room : READ_BYTES, got = fread(p + n, 1, most, f);
    n += got;
    if (interrupted()) {
      status = ga_error_set(GA_ERR_CANCELLED, "%s: stopped", path);
      break;
    }
    if (got < most) {
      if (ferror(f)) status = ga_error_set(GA_ERR_IO, "%s: %s", path, strerror(errno));
      break;
    }
    if (n + 1 < capacity) continue;
    capacity *= 2;
    char *bigger = realloc(p, capacity);
    if (!bigger)
      status = fail_nomem(path, capacity);
    else
      p = bigger;
  }
  if (f != stdin) (void)fclose(f);
  if (status != GA_OK) {
    free(p);
    return status;
  }
  p[n] = 0;
  *text = p;
  *bytes = n;
  return GA_OK;
}

/* --- options --- */

/* auto, a backend, or a backend and a number. */
static bool is_device(const char *p, size_t n) {
  if (n == 4 && !memcmp(p, "auto", 4)) return true;
  for (size_t i = 0; ga_backend_name(i); i++) {
    const char *name = ga_backend_name(i);
    const size_t len = strlen(name);
    if (n < len || memcmp(p, name, len) != 0) continue;
    if (n == len) return true;
    if (p[len] == ':' && n > len + 1 && strspn(p + len + 1, "0123456789") >= n - len - 1) return true;
  }
  return false;
}

bool open_rounds_activations(const open_args *args) { return !strcmp(args->activations, "e4m3"); }

static int refuse_device_name(const char *name, const char *list) {
  char names[128] = "auto";
  for (size_t i = 0, at = 4; ga_backend_name(i) && at < sizeof names - 16; i++)
    at += (size_t)snprintf(names + at, sizeof names - at, ", %.12s", ga_backend_name(i));
  return cmd_usage_error(name, "--device '%s' is not known; allowed: %s; a number tells which one, as cuda:1", list,
                         names);
}

int open_args_check(const char *name, const open_args *args) {
  ga_hub_name hub;
  if (args->model && ga_hub_is_name(args->model) && ga_hub_parse(args->model, &hub) != GA_OK)
    return cmd_usage_error(name, "%s", ga_error_text());
  static const char *const kv_types[] = {"f16", "f32", "bf16", "e4m3", "q8_0", "q4_0"};
  bool known = !args->kv_type;
  for (size_t i = 0; i < COUNT_OF(kv_types) && !known; i++) known = !strcmp(args->kv_type, kv_types[i]);
  if (!known)
    return cmd_usage_error(name, "--kv-type '%s': allowed are f16, f32, bf16, e4m3, q8_0, q4_0", args->kv_type);
  if (strcmp(args->activations, "full") && !open_rounds_activations(args))
    return cmd_usage_error(name, "--activations '%s': allowed are full, e4m3", args->activations);
  if (args->cpu_moe && args->n_cpu_moe >= 0)
    return cmd_usage_error(name, "--cpu-moe means all layers, --n-cpu-moe %lld the first; give one of them",
                           (long long)args->n_cpu_moe);
  for (const char *at = args->device; at;) {
    const size_t n = strcspn(at, ",");
    if (!is_device(at, n)) return refuse_device_name(name, args->device);
    at = at[n] ? at + n + 1 : NULL;
  }
  return EXIT_OK;
}

/* --- opening --- */

static int show_loading(void *user, uint64_t done, uint64_t total) {
  (void)user;
  cmd_progress("loading", done, total);
  return interrupted();
}

static ga_status session_options(const open_args *args, ga_session_options *so) {
  *so = (ga_session_options)GA_SESSION_OPTIONS_INIT;
  so->context = (int32_t)args->context;
  so->batch = (int32_t)args->batch;
  so->flags = (args->deterministic ? GA_SESSION_DETERMINISTIC : 0u) |
              (open_rounds_activations(args) ? GA_SESSION_E4M3_ACTIVATIONS : 0u);
  if (!args->kv_type) return GA_OK;
  so->kv_dtype = (int32_t)ga_dtype_from_name(args->kv_type);
  REQUIRE(so->kv_dtype, GA_ERR_ARG, "--kv-type '%s': allowed are f16, f32, bf16, e4m3, q8_0, q4_0", args->kv_type);
  return GA_OK;
}

/* $GA_DISABLE_KERNELS, or its former name, with a line that tells the present one. */
static const char *disabled_kernels(void) {
  const char *now = getenv("GA_DISABLE_KERNELS"), *old = getenv("GA_HIDE");
  static bool told;
  if (now || !old) return now;
  if (!told) (void)fprintf(stderr, "ga: GA_HIDE is now GA_DISABLE_KERNELS\n");
  told = true;
  return old;
}

static ga_status open_named_device(const open_args *args, const char *name, ga_ctx **out) {
  ga_ctx_options co = GA_CTX_OPTIONS_INIT;
  co.device = name;
  co.threads = (int32_t)args->threads;
  co.disable_kernels = disabled_kernels();
  return ga_ctx_create(&co, out);
}

static ga_status refuse_twice(const opened *o, const char *list) {
  for (int32_t i = 0; i < o->n_more; i++)
    REQUIRE(strcmp(ga_ctx_device_name(o->more[i]), ga_ctx_device_name(o->ctx)), GA_ERR_ARG,
            "--device '%s': %s is there twice", list, ga_ctx_device_name(o->ctx));
  return GA_OK;
}

/* "cuda:0,cuda:1": the last one is o->ctx. */
static ga_status open_devices(const open_args *args, opened *o) {
  const char *list = args->device;
  if (!list || !strchr(list, ',')) return open_named_device(args, list, &o->ctx);
  for (const char *at = list;;) {
    char name[32];
    const size_t n = strcspn(at, ",");
    REQUIRE(n && n < sizeof name, GA_ERR_ARG, "--device '%s': names of 1 to %zu letters with commas between them", list,
            sizeof name - 1);
    memcpy(name, at, n);
    name[n] = 0;
    TRY(open_named_device(args, name, &o->ctx));
    TRY(refuse_twice(o, list));
    if (!at[n]) return GA_OK;
    REQUIRE(o->n_more < OPEN_MAX_DEVICES - 1, GA_ERR_ARG, "--device '%s': at most %d", list, OPEN_MAX_DEVICES);
    o->more[o->n_more++] = o->ctx;
    o->ctx = NULL;
    at += n + 1;
  }
}

/* What the person who asked for a GPU would not guess from the speed alone. */
static void warn_of_cpu(const ga_model *model) {
  const ga_model_placement *cpu = ga_model_placement_at(model, 0),
                           *gpu = ga_model_placement_at(model, ga_model_placement_count(model) - 1);
  if (ga_model_placement_count(model) < 2 || strcmp(cpu->device, "cpu") || !cpu->n_layers) return;
  words_print(stderr, 2,
              "%d of %d layers run on the CPU, which is slower; %s has %.2f GiB free (--explain tells more, a "
              "smaller --context or "
              "--kv-type q8_0 helps)\n",
              cpu->n_layers, ga_model_get_info(model)->n_layers, gpu->device, (double)gpu->available * 0x1p-30);
}

/* Prints how many layers have their experts in host memory, if the placement decided it and no option asked for it. */
static void note_host_experts(const open_args *args, const ga_model *model) {
  int32_t layers = 0;
  for (int32_t i = 0; i < ga_model_placement_count(model); i++)
    layers += ga_model_placement_at(model, i)->n_host_expert_layers;
  if (!layers || args->cpu_moe || args->n_cpu_moe >= 0) return;
  words_print(
      stderr, 2,
      "the experts of %d of %d layers are in host memory, where the CPU multiplies by them, because the GPU has "
      "no room for them (--explain tells more)\n",
      layers, ga_model_get_info(model)->n_layers);
}

/* Opens the chat template of the options or, without one, of the named model. */
static ga_status open_given_template(const open_args *args, opened *o) {
  char *text = NULL;
  if (args->chat_template) return template_open(args->chat_template, &o->given);
  if (!o->named.chat_template) return GA_OK;
  TRY(template_of_named(o->named.chat_template, &text));
  const ga_status status = ga_template_compile(text, strlen(text), &o->given);
  free(text);
  return status;
}

static ga_status load_model(const open_args *args, bool with_session, bool plan_only, opened *o) {
  ga_session_options so;
  TRY(find_named(args->model, o->path, sizeof o->path, &o->named));
  TRY(session_options(args, &so));
  if (!args->context && o->named.context != MODELFILE_NONE) so.context = (int32_t)o->named.context;
  TRY(open_devices(args, o));
  ga_model_options mo = GA_MODEL_OPTIONS_INIT;
  mo.progress = show_loading;
  mo.gpu_layers = (int32_t)args->gpu_layers;
  mo.n_cpu_moe = args->cpu_moe ? GA_CPU_MOE_ALL : (int32_t)args->n_cpu_moe;
  mo.expert_cache = (uint64_t)(args->expert_cache * 0x1p30);
  mo.expert_trace = args->trace_experts;
  mo.more = o->more;
  mo.n_more = o->n_more;
  mo.session = &so;
  mo.plan_only = plan_only;
  mo.no_mmap = args->no_mmap;
  TRY(ga_model_load(o->ctx, o->path, &mo, &o->model));
  if (!plan_only) {
    warn_of_cpu(o->model);
    note_host_experts(args, o->model);
    store_mark_used(o->path);
  }
  TRY(open_given_template(args, o));
  return with_session ? ga_session_create(o->model, &so, &o->session) : GA_OK;
}

ga_status open_model(const open_args *args, bool with_session, opened *out) {
  *out = (opened){.named = modelfile_empty()};
  const ga_status status = load_model(args, with_session, false, out);
  out->explain = args->explain && status == GA_OK;
  if (status != GA_OK) close_model(out);
  return status;
}

ga_status plan_model(const open_args *args, opened *out) {
  *out = (opened){.named = modelfile_empty()};
  const ga_status status = load_model(args, false, true, out);
  if (status != GA_OK) close_model(out);
  return status;
}

/* Prints how often the GPU had an expert, once the model has run. */
static void explain_expert_cache(const ga_model *model) {
  ga_expert_cache_stats s = GA_EXPERT_CACHE_STATS_INIT;
  if (ga_model_expert_cache(model, &s) != GA_OK || !s.lookups) return;
  (void)fprintf(stderr,
                "expert cache: %llu of %llu experts were on the GPU (%.1f %%), %llu loads, %lld of %lld slots in use\n",
                (unsigned long long)s.hits, (unsigned long long)s.lookups, 100.0 * (double)s.hits / (double)s.lookups,
                (unsigned long long)s.loads, (long long)s.slots_used, (long long)s.slots);
}

void close_model(opened *o) {
  if (o->explain && o->model) {
    print_placements(stderr, o->model);
    explain_expert_cache(o->model);
  }
  for (int32_t i = 0; o->explain && i < o->n_more; i++) explain(o->more[i]);
  if (o->explain && o->ctx) explain(o->ctx);
  ga_template_destroy(o->given);
  modelfile_free(&o->named);
  ga_session_destroy(o->session);
  ga_model_destroy(o->model);
  ga_ctx_destroy(o->ctx);
  for (int32_t i = 0; i < o->n_more; i++) ga_ctx_destroy(o->more[i]);
  *o = (opened){0};
}

/* --- which layers, which kernels --- */

static const char *size_text(uint64_t bytes, char text[24]) {
  (void)snprintf(text, 24, bytes >> 30 ? "%.2f GiB" : "%.1f MiB", (double)bytes * (bytes >> 30 ? 0x1p-30 : 0x1p-20));
  return text;
}

void print_placements(FILE *f, const ga_model *model) {
  for (int32_t i = 0; i < ga_model_placement_count(model); i++) {
    const ga_model_placement *p = ga_model_placement_at(model, i);
    char t[8][24];
    if (p->n_layers)
      (void)fprintf(f, "layers %d to %d on %s", p->first_layer, p->first_layer + p->n_layers - 1, p->device);
    else
      (void)fprintf(f, "no layers on %s", p->device);
    (void)fprintf(
        f,
        "%s%s: weights %s, KV cache %s, activations %s, workspace %s; while loading %s, left alone %s; there are %s\n",
        i ? "" : ", behind the embedding", i == ga_model_placement_count(model) - 1 ? ", before the head" : "",
        size_text(p->weights, t[0]), size_text(p->kv, t[1]), size_text(p->activations, t[2]),
        size_text(p->workspace, t[3]), size_text(p->staging, t[4]), size_text(p->spare, t[5]),
        size_text(p->available, t[6]));
    if (p->n_host_expert_layers)
      (void)fprintf(f, "experts of %d of these layers in host memory: %s; the CPU multiplies by them\n",
                    p->n_host_expert_layers, size_text(p->host_experts, t[7]));
    if (p->expert_cache)
      (void)fprintf(f, "cache of these experts on %s: %s\n", p->device, size_text(p->expert_cache, t[7]));
  }
}

void explain(const ga_ctx *ctx) {
  static char text[1 << 14];
  for (size_t i = 0; i < ga_ctx_plan_count(ctx); i++) {
    ga_plan_explain(ga_ctx_plan_at(ctx, i), text, sizeof text);
    (void)fputs(text, stderr);
  }
}

/* --- text to ids --- */

ga_status encode(const ga_tokenizer *tok, const char *text, size_t bytes, uint32_t flags, int32_t **ids, size_t *n) {
  *ids = NULL;
  REQUIRE(tok, GA_ERR_UNSUPPORTED, "the model file has no tokenizer");
  size_t capacity = bytes / 3 + 64; /* enough for most texts; else *n tells */
  int32_t *p = malloc(capacity * sizeof *p);
  if (!p) return fail_nomem("token ids", capacity * sizeof *p);
  ga_status status = ga_tokenize(tok, text, bytes, flags, p, capacity, n);
  if (status == GA_ERR_SHAPE && *n > capacity) {
    free(p);
    capacity = *n;
    p = malloc(capacity * sizeof *p);
    if (!p) return fail_nomem("token ids", capacity * sizeof *p);
    status = ga_tokenize(tok, text, bytes, flags, p, capacity, n);
  }
  if (status != GA_OK) {
    free(p);
    return status;
  }
  *ids = p;
  return GA_OK;
}

const ga_template *chat_template(const opened *o) { return o->given ? o->given : ga_model_template(o->model); }

static ga_status refuse_base_model(const ga_model *model) {
  const char *why = ga_model_template_error(model);
  REQUIRE(!*why, GA_ERR_UNSUPPORTED, "the model's chat template: %s", why);
  return ga_error_set(GA_ERR_UNSUPPORTED,
                      "the model has no chat template: it is a base model, which continues a text. Either: ga run -m "
                      "MODEL \"The beginning of a text\". Or give it a template: --chat-template NAME|FILE, with NAME "
                      "one of %s",
                      template_names());
}

ga_status chat_ids(const opened *o, const ga_chat_message *messages, size_t n, int32_t **ids, size_t *n_ids) {
  const ga_template *tpl = chat_template(o);
  const ga_tokenizer *tok = ga_model_tokenizer(o->model);
  ga_chat_options options = GA_CHAT_OPTIONS_INIT;
  int32_t *made;
  *ids = NULL;
  REQUIRE(tok, GA_ERR_UNSUPPORTED, "the model file has no tokenizer");
  if (!tpl) return refuse_base_model(o->model);
  options.add_generation_prompt = true;
  TRY(ga_chat_encode(tpl, tok, messages, n, &options, &made, n_ids));
  *ids = malloc((*n_ids + 1) * sizeof **ids);
  if (*ids && *n_ids) memcpy(*ids, made, *n_ids * sizeof **ids);
  ga_chat_ids_free(made);
  return *ids ? GA_OK : fail_nomem("token ids", *n_ids * sizeof **ids);
}
