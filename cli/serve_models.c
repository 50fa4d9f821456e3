#include "cli/serve_models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/named.h"
#include "cmdline/error.h"

/* --- which there are --- */

void serve_models_free(serve_models *m) {
  for (size_t i = 0; i < m->n; i++) {
    free((void *)(uintptr_t)m->source[i].id);
    free((void *)(uintptr_t)m->source[i].path);
    sv_profile_free(&m->source[i].profile);
  }
  free(m->source);
  m->source = NULL;
  m->n = m->room = 0;
}

/* model: name or path by which the profile is found. */
static ga_status add_source(serve_models *m, const char *id, const char *path, const char *model) {
  for (size_t i = 0; i < m->n; i++)
    REQUIRE(strcmp(m->source[i].id, id), GA_ERR_ARG, "%s and %s have one name, %s", m->source[i].path, path, id);
  if (m->n == m->room) {
    const size_t room = m->room ? 2 * m->room : 16;
    sv_model_source *bigger = realloc(m->source, room * sizeof *bigger);
    if (!bigger) return fail_nomem("models", room * sizeof *bigger);
    m->source = bigger;
    m->room = room;
  }
  sv_model_source *s = &m->source[m->n++];
  *s = (sv_model_source){.id = strdup(id), .path = strdup(path)};
  if (!s->id || !s->path) return fail_nomem("models", strlen(path));
  engine_args one = *m->engine;
  one.open.model = model;
  return engine_profile(&one, &s->profile);
}

/* Takes the ending off a name: that of a file, and that of the first of several shards. */
static void shorten_name(char *name) {
  size_t stem, n = strlen(name);
  unsigned count;
  if (ga_is_first_shard(name, &stem, &count)) name[stem] = 0;
  n = strlen(name);
  if (n > 5 && !strcmp(name + n - 5, ".gguf")) name[n - 5] = 0;
}

/* Adds a model of a folder; a file that is no model is left out, with a line on stderr. */
static ga_status add_of_folder(void *user, const char *name, const char *path, bool is_folder) {
  char id[GA_MODEL_NAME_BYTES];
  ga_model_file *file;
  (void)is_folder;
  (void)snprintf(id, sizeof id, "%s", name);
  shorten_name(id);
  if (ga_model_file_open(path, &file) != GA_OK) {
    (void)fprintf(stderr, "ga serve: %s is left out\n", ga_error_text());
    return GA_OK;
  }
  ga_model_file_destroy(file);
  return add_source(user, id, path, path);
}

/* Checks a named model, by its Modelfile's path: the Modelfile, the chat template, and that the files are here. */
static ga_status check_named(const serve_models *m, const char *name, char *path, size_t capacity) {
  engine_args one = *m->engine;
  sv_profile given, copy;
  ga_template *tpl;
  one.open.model = name;
  TRY(find_model(name, path, capacity));
  TRY(engine_profile(&one, &given));
  const ga_status status = sv_profile_copy(&given, &copy, &tpl);
  ga_template_destroy(tpl);
  sv_profile_free(&copy);
  sv_profile_free(&given);
  return status;
}

static ga_status add_named_of_folder(void *user, const char *name, const char *modelfile_path) {
  char path[4096]; /* found by the Modelfile's path, since a file in the current directory may have the model's name */
  if (check_named(user, modelfile_path, path, sizeof path) == GA_OK)
    return add_source(user, name, path, modelfile_path);
  char *why = cmd_escape_text(ga_error_text());
  (void)fprintf(stderr, "ga serve: %s is left out: %s\n", name, why ? why : "");
  free(why);
  return GA_OK;
}

/* Returns whether a path is the models' folder, which has named models. */
static bool is_models_folder(const char *path) {
  char dir[3072];
  struct stat a, b;
  return ga_models_folder(dir, sizeof dir) == GA_OK && !stat(dir, &a) && !stat(path, &b) && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

/* Returns whether a path is a folder that is no model. */
static bool is_folder_of_models(const char *path) {
  char config[4096 + 16];
  struct stat st;
  (void)snprintf(config, sizeof config, "%s/config.json", path);
  return !stat(path, &st) && S_ISDIR(st.st_mode) && access(config, F_OK) != 0;
}

static ga_status add_named(serve_models *m, const char *name) {
  char path[4096], id[256];
  engine_args one = *m->engine;
  if (name && is_folder_of_models(name)) {
    const size_t before = m->n;
    TRY(ga_models_here(name, add_of_folder, m));
    if (is_models_folder(name)) TRY(named_each(name, add_named_of_folder, m));
    REQUIRE(m->n > before, GA_ERR_ARG, "%s: no models in this folder", name);
    return GA_OK;
  }
  one.open.model = name;
  TRY(find_model(name, path, sizeof path));
  engine_model_name(&one, id, sizeof id);
  REQUIRE(*id, GA_ERR_ARG, "--alias is empty");
  return add_source(m, id, path, name);
}

ga_status serve_models_find(const engine_args *engine, const cmd_texts *names, serve_models *out) {
  const char *comma = engine->alias ? strchr(engine->alias, ',') : NULL;
  *out = (serve_models){.engine = engine};
  REQUIRE(!engine->alias || names->n < 2, GA_ERR_ARG, "--alias names one model; there are %zu", names->n);
  if (!names->n) TRY(add_named(out, NULL));
  for (size_t i = 0; i < names->n; i++) TRY(add_named(out, names->item[i]));
  REQUIRE(!engine->alias || out->n == 1, GA_ERR_ARG, "--alias names one model; there are %zu", out->n);
  REQUIRE(!engine->open.chat_template || out->n == 1, GA_ERR_ARG,
          "--chat-template is for one model; there are %zu: ga create makes a named model with a template", out->n);
  if (comma) out->source[0].other_names = comma + 1;
  return GA_OK;
}

/* --- loading --- */

typedef struct owner {
  opened o;
  uint64_t bytes; /* host memory that the plan counts */
} owner;

/* Host memory of a model: its weights, and the four contexts that an engine on a CPU keeps. */
static uint64_t host_bytes(const ga_model *model) {
  uint64_t sum = 0;
  for (int32_t i = 0; i < ga_model_placement_count(model); i++) {
    const ga_model_placement *p = ga_model_placement_at(model, i);
    sum += p->host_experts;
    if (!strncmp(p->device, "cpu", 3) || !strncmp(p->device, "ref", 3))
      sum += p->weights + 4 * p->kv + p->activations + p->workspace;
  }
  return sum;
}

static uint64_t memory_limit(const serve_models *m) {
  const double all = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  return (uint64_t)(m->memory_gib > 0 ? m->memory_gib * 0x1p30 : all * 0.85);
}

/* Several models have one --context: each takes it up to its own. */
static ga_status limit_context(const serve_models *m, engine_args *args) {
  opened plan;
  open_args own = args->open;
  own.context = 0;
  if (m->n < 2 || !args->open.context) return GA_OK;
  TRY(plan_model(&own, &plan));
  const int64_t most = ga_model_get_info(plan.model)->context;
  close_model(&plan);
  if (args->open.context > most) args->open.context = most;
  return GA_OK;
}

/* Several models share the host's memory: one that does not fit beside the others has to wait for them. */
static ga_status check_free_memory(const serve_models *m, engine_args *args, uint64_t *bytes) {
  opened plan;
  *bytes = 0;
  TRY(limit_context(m, args));
  if (m->n < 2 && m->memory_gib <= 0) return GA_OK;
  TRY(plan_model(&args->open, &plan));
  *bytes = host_bytes(plan.model);
  close_model(&plan);
  const uint64_t limit = memory_limit(m);
  if (m->bytes + *bytes <= limit || (!m->n_loaded && m->memory_gib <= 0)) return GA_OK;
  return ga_error_set(GA_ERR_NOMEM, "%s needs %.1f MiB; %.1f of %.1f MiB are in use (--memory)", args->open.model,
                      (double)*bytes * 0x1p-20, (double)m->bytes * 0x1p-20, (double)limit * 0x1p-20);
}

/* One engine alone takes nearly all memory of a GPU for its cache; one of several takes a fixed part. */
static void share_gpu(const serve_models *m, const ga_model *model, engine_args *args) {
  enum { SHARED_TOKENS = 32768 };
  const ga_model_placement *last = ga_model_placement_at(model, ga_model_placement_count(model) - 1);
  const int64_t context = args->open.context ? args->open.context : ga_model_get_info(model)->context;
  if (m->n < 2 || args->kv_tokens || !strncmp(last->device, "cpu", 3) || !strncmp(last->device, "ref", 3)) return;
  args->kv_tokens = context > SHARED_TOKENS ? context : SHARED_TOKENS;
}

static ga_status load_model_entry(const serve_models *m, const sv_profile *profile, engine_args *args, owner *own,
                                  sv_loaded *out) {
  TRY(check_free_memory(m, args, &own->bytes));
  TRY(engine_formats(args, profile, &out->tools, &out->thinks));
  TRY(open_model(&args->open, false, &own->o));
  share_gpu(m, own->o.model, args);
  const ga_status status = engine_open(args, m->max_waiting, own->o.model, &out->engine);
  if (status != GA_OK) close_model(&own->o);
  return status;
}

ga_status serve_models_load(void *user, size_t index, sv_loaded *out) {
  serve_models *m = user;
  engine_args args = *m->engine;
  args.open.model = m->source[index].path;
  if (!args.open.context) args.open.context = m->source[index].profile.context;
  *out = (sv_loaded){0};
  owner *own = calloc(1, sizeof *own);
  if (!own) return fail_nomem("model", sizeof *own);
  const ga_status status = load_model_entry(m, &m->source[index].profile, &args, own, out);
  if (status != GA_OK) {
    free(own);
    return status;
  }
  out->model = own->o.model;
  out->owner = own;
  m->bytes += own->bytes;
  m->n_loaded++;
  return GA_OK;
}

void serve_models_unload(void *user, sv_loaded *loaded) {
  serve_models *m = user;
  owner *own = loaded->owner;
  ga_engine_destroy(loaded->engine);
  m->bytes -= own->bytes;
  m->n_loaded--;
  close_model(&own->o);
  free(own);
  *loaded = (sv_loaded){0};
}
