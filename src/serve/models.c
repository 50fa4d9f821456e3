#include "serve/models.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "serve/attach.h"
#include "serve/embed.h"
#include "serve/ollama.h"

typedef enum sv_entry_state { SV_UNLOADED, SV_LOADS, SV_LOADED, SV_UNLOADS } sv_entry_state;

struct sv_entry {
  sv_server server; /* what calls see of the model; its names and facts are always there */
  sv_loaded loaded;
  sv_entry_state state;
  bool is_wanted;      /* a call waits for the model */
  bool leaves;         /* the model is unloaded as soon as no call uses it */
  int refs;            /* calls that use the model */
  double used;         /* time of the last use, from sv_seconds */
  double keep_seconds; /* seconds for which an idle model stays; below 0 = until memory is short */
  uint64_t attempts;   /* how often loading has ended */
  ga_status status;    /* result of the last attempt */
  char error[512];
  struct sv_load_wait *waiting;
};

struct sv_models {
  sv_server *host;
  sv_models_options o;
  struct sv_entry *entry; /* [n] */
  size_t n;
  pthread_mutex_t lock;
  pthread_cond_t news;
  pthread_t thread;
  bool has_thread, is_stopping;
  /* the thread waits until a loaded model has no calls, to unload it: new calls of loaded models wait meanwhile */
  bool makes_room;
  int32_t n_waiting; /* calls that wait for a model */
};

/* --- entries; all hold the lock unless they say otherwise --- */

static size_t sv_count_loaded(const sv_models *m) {
  size_t n = 0;
  for (size_t i = 0; i < m->n; i++) n += m->entry[i].state != SV_UNLOADED;
  return n;
}

/* Makes what calls see of a model ready. Without the lock. */
static ga_status sv_open_entry(sv_models *m, struct sv_entry *e) {
  sv_server *s = &e->server;
  s->wake = m->host->wake;
  s->turns = m->host->turns;
  s->o.tools = e->loaded.tools;
  s->o.thinks = e->loaded.thinks;
  return sv_server_attach(s, e->loaded.model, e->loaded.engine);
}

/* Leaves the lock while it unloads. */
static void sv_unload_entry(sv_models *m, struct sv_entry *e) {
  e->state = SV_UNLOADS;
  (void)pthread_mutex_unlock(&m->lock);
  sv_embedder_stop(e->server.embedder);
  e->server.embedder = NULL;
  e->server.model = NULL;
  e->server.engine = NULL;
  m->o.unload(m->o.user, &e->loaded);
  (void)pthread_mutex_lock(&m->lock);
  e->state = SV_UNLOADED;
  e->leaves = false;
}

/* Unloads the model that no call uses and that was unused for longest. False: all are in use. */
static bool sv_evict_one(sv_models *m) {
  struct sv_entry *oldest = NULL;
  for (size_t i = 0; i < m->n; i++) {
    struct sv_entry *e = &m->entry[i];
    if (e->state == SV_LOADED && !e->refs && (!oldest || e->used < oldest->used)) oldest = e;
  }
  if (oldest) sv_unload_entry(m, oldest);
  return oldest != NULL;
}

struct sv_load_wait {
  sv_waiter w; /* must be the first field */
  struct sv_load_wait *next;
  bool is_listed;
  uint64_t attempts; /* of the entry when the call began to wait */
};

static void sv_notify_waiting(sv_models *m) {
  for (size_t i = 0; i < m->n; i++)
    for (struct sv_load_wait *w = m->entry[i].waiting; w; w = w->next) sv_waiter_notify(&w->w);
}

/* Makes room for a model: unloads another, or waits until one is idle. No call of a loaded model begins while it waits,
 * so that a busy model does not keep the others out. Returns false if there is no other model, or the server ends. */
static bool sv_make_room(sv_models *m) {
  bool has_room = false;
  while (!has_room && !m->is_stopping && sv_count_loaded(m) > 1) { /* the entry that loads counts */
    has_room = sv_evict_one(m);
    m->makes_room = !has_room;
    if (!has_room) (void)pthread_cond_wait(&m->news, &m->lock);
  }
  m->makes_room = false;
  sv_notify_waiting(m);
  return has_room;
}

static void sv_load_entry(sv_models *m, struct sv_entry *e) {
  const size_t index = (size_t)(e - m->entry);
  e->state = SV_LOADS;
  for (;;) {
    if (m->o.most_loaded && sv_count_loaded(m) > (size_t)m->o.most_loaded && sv_make_room(m)) continue;
    (void)pthread_mutex_unlock(&m->lock);
    e->status = m->o.load(m->o.user, index, &e->loaded);
    const bool is_loaded = e->status == GA_OK;
    if (is_loaded) e->status = sv_open_entry(m, e);
    if (e->status != GA_OK) (void)snprintf(e->error, sizeof e->error, "%s", ga_error_text());
    if (is_loaded && e->status != GA_OK) m->o.unload(m->o.user, &e->loaded);
    (void)pthread_mutex_lock(&m->lock);
    if (e->status != GA_ERR_NOMEM || !sv_make_room(m)) break;
  }
  e->state = e->status == GA_OK ? SV_LOADED : SV_UNLOADED;
  e->is_wanted = e->leaves = false;
  e->keep_seconds = m->o.keep_seconds;
  e->used = sv_seconds();
  e->attempts++;
}

/* --- the thread --- */

static bool sv_is_idle(const struct sv_entry *e, double now) {
  if (e->state != SV_LOADED || e->refs) return false;
  return e->leaves || (e->keep_seconds >= 0 && now >= e->used + e->keep_seconds);
}

/* Does one thing that is to be done. False: there is nothing. */
static bool sv_models_step(sv_models *m) {
  const double now = sv_seconds();
  for (size_t i = 0; i < m->n; i++)
    if (sv_is_idle(&m->entry[i], now) && !m->entry[i].is_wanted) {
      sv_unload_entry(m, &m->entry[i]);
      return true;
    }
  for (size_t i = 0; i < m->n; i++)
    if (m->entry[i].is_wanted && m->entry[i].state == SV_UNLOADED) {
      sv_load_entry(m, &m->entry[i]);
      sv_notify_waiting(m);
      (void)pthread_cond_broadcast(&m->news);
      return true;
    }
  return false;
}

static void *sv_models_thread(void *user) {
  sv_models *m = user;
  (void)pthread_mutex_lock(&m->lock);
  while (!m->is_stopping) {
    if (sv_models_step(m)) continue;
    const double until = sv_seconds() + 0.25; /* times of idle models are exact to this */
    const struct timespec t = {(time_t)until, (long)((until - (double)(time_t)until) * 1e9)};
    (void)pthread_cond_timedwait(&m->news, &m->lock, &t);
  }
  (void)pthread_mutex_unlock(&m->lock);
  return NULL;
}

/* --- beginning and end --- */

static bool sv_take_model(sv_call *call, enum MHD_Result *reply);
static void sv_release_model(sv_call *call);
static const sv_model_hooks sv_entry_hooks = {sv_take_model, sv_release_model};

static ga_status sv_init_entry(sv_models *m, const sv_model_source *source, struct sv_entry *e) {
  sv_server *s = &e->server, *host = m->host;
  s->host = host;
  s->o = host->o;
  s->o.model_id = strdup(source->id);
  s->o.other_names = source->other_names ? strdup(source->other_names) : NULL;
  s->o.model_path = strdup(source->path);
  s->o.profile = (sv_profile){0};
  s->created = host->created;
  s->id_seed = host->id_seed;
  s->routes = host->routes;
  if (!s->o.model_id || !s->o.model_path || (source->other_names && !s->o.other_names))
    return ga_error_set(GA_ERR_NOMEM, "server: no memory");
  const ga_status status = sv_profile_copy(&source->profile, &s->o.profile, &s->given);
  return status == GA_OK ? sv_facts_read(source->path, &s->facts) : status;
}

ga_status sv_models_start(sv_server *host, const sv_models_options *options, sv_models **out) {
  pthread_condattr_t attr;
  sv_models *m = *out = calloc(1, sizeof *m);
  if (!m) return ga_error_set(GA_ERR_NOMEM, "server: no memory");
  m->host = host;
  m->o = *options;
  (void)pthread_mutex_init(&m->lock, NULL);
  (void)pthread_condattr_init(&attr);
  (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  (void)pthread_cond_init(&m->news, &attr);
  (void)pthread_condattr_destroy(&attr);
  m->entry = calloc(options->n, sizeof *m->entry);
  ga_status status = m->entry ? GA_OK : ga_error_set(GA_ERR_NOMEM, "server: no memory");
  for (size_t i = 0; status == GA_OK && i < options->n; i++)
    status = sv_init_entry(m, &options->source[i], &m->entry[m->n++]);
  if (status == GA_OK) {
    m->has_thread = !pthread_create(&m->thread, NULL, sv_models_thread, m);
    if (!m->has_thread) status = ga_error_set(GA_ERR_NOMEM, "server: cannot start a thread");
  }
  if (status == GA_OK) {
    host->hooks = &sv_entry_hooks;
    return GA_OK;
  }
  sv_models_stop(m);
  *out = NULL;
  return status;
}

void sv_models_stop(sv_models *m) {
  if (!m) return;
  (void)pthread_mutex_lock(&m->lock);
  m->is_stopping = true;
  (void)pthread_cond_broadcast(&m->news);
  (void)pthread_mutex_unlock(&m->lock);
  if (m->has_thread) (void)pthread_join(m->thread, NULL);
  (void)pthread_mutex_lock(&m->lock);
  for (size_t i = 0; i < m->n; i++) {
    struct sv_entry *e = &m->entry[i];
    if (e->state == SV_LOADED) sv_unload_entry(m, e);
    free((void *)(uintptr_t)e->server.o.model_id);
    free((void *)(uintptr_t)e->server.o.other_names);
    free((void *)(uintptr_t)e->server.o.model_path);
    sv_profile_free(&e->server.o.profile);
    ga_template_destroy(e->server.given);
  }
  (void)pthread_mutex_unlock(&m->lock);
  (void)pthread_cond_destroy(&m->news);
  (void)pthread_mutex_destroy(&m->lock);
  free(m->entry);
  free(m);
}

ga_status sv_models_load_first(sv_models *m) {
  struct sv_entry *e = &m->entry[0];
  (void)pthread_mutex_lock(&m->lock);
  e->is_wanted = true;
  (void)pthread_cond_broadcast(&m->news);
  while (e->is_wanted) (void)pthread_cond_wait(&m->news, &m->lock);
  (void)pthread_mutex_unlock(&m->lock);
  return e->status == GA_OK ? GA_OK : ga_error_set(e->status, "%s", e->error);
}

/* --- looks --- */

size_t sv_count_models(const sv_server *host) { return host->models ? host->models->n : 1; }

static void sv_measure_model(const sv_server *s, sv_offer *out) {
  for (int32_t i = 0; i < ga_model_placement_count(s->model); i++) {
    const ga_model_placement *p = ga_model_placement_at(s->model, i);
    const uint64_t sum = p->weights + p->kv + p->activations + p->workspace + p->expert_cache;
    out->bytes += sum + p->host_experts;
    if (strncmp(p->device, "cpu", 3) != 0 && strncmp(p->device, "ref", 3) != 0) out->on_gpus += sum;
  }
  out->context = s->context;
  ga_expert_cache_stats cache = GA_EXPERT_CACHE_STATS_INIT;
  if (ga_model_expert_cache(s->model, &cache) != GA_OK) return;
  out->expert_lookups = cache.lookups;
  out->expert_hits = cache.hits;
}

/* Returns the abilities of a model. is_loaded: its engine and its template may be read. */
static sv_ability sv_ability_of(const sv_server *s, bool is_loaded) {
  if (is_loaded) return !s->engine ? SV_EMBEDS : sv_chat_template(s, false) ? SV_CHATS : SV_COMPLETES;
  return s->given || s->facts.has_template ? SV_CHATS : SV_UNKNOWN;
}

static sv_offer sv_offer_of(const sv_server *s) {
  return (sv_offer){.server = s, .id = s->o.model_id, .path = s->o.model_path, .facts = &s->facts, .idle_left = -1};
}

void sv_describe_model(const sv_server *host, size_t index, sv_offer *out) {
  sv_models *m = host->models;
  if (!m) {
    *out = sv_offer_of(host);
    out->is_loaded = host->model != NULL;
    out->ability = sv_ability_of(host, out->is_loaded);
    if (out->is_loaded) sv_measure_model(host, out);
    return;
  }
  const struct sv_entry *e = &m->entry[index];
  (void)pthread_mutex_lock(&m->lock);
  *out = sv_offer_of(&e->server);
  out->is_loaded = e->state == SV_LOADED && !e->leaves;
  out->ability = sv_ability_of(&e->server, out->is_loaded);
  if (out->is_loaded) sv_measure_model(&e->server, out);
  if (out->is_loaded && e->keep_seconds >= 0) {
    const double left = e->keep_seconds - (e->refs ? 0 : sv_seconds() - e->used);
    out->idle_left = left > 0 ? left : 0;
  }
  (void)pthread_mutex_unlock(&m->lock);
}

bool sv_find_model(const sv_server *host, const char *name, size_t *index) {
  const sv_models *m = host->models;
  sv_fail ignored;
  for (size_t i = 0; i < sv_count_models(host); i++) {
    const sv_server *s = m ? &m->entry[i].server : host;
    *index = i;
    if (sv_is_model(s, name, &ignored)) return true;
  }
  return false;
}

/* Adds counts and gauges; sizes of an engine are those of the last one. */
static void sv_add_stats(ga_engine_stats *sum, const ga_engine_stats *one) {
  const ga_engine_stats before = *sum;
  *sum = *one;
  sum->running += before.running, sum->waiting += before.waiting;
  sum->kv_pages += before.kv_pages, sum->kv_pages_used += before.kv_pages_used;
  sum->prompt_tokens += before.prompt_tokens, sum->generated_tokens += before.generated_tokens;
  sum->prefix_queries += before.prefix_queries, sum->prefix_hits += before.prefix_hits;
  sum->preemptions += before.preemptions, sum->swapped += before.swapped;
  sum->swap_pages += before.swap_pages, sum->swap_pages_used += before.swap_pages_used;
  sum->swapped_out_bytes += before.swapped_out_bytes, sum->swapped_in_bytes += before.swapped_in_bytes;
  sum->expert_lookups += before.expert_lookups, sum->expert_hits += before.expert_hits;
  sum->expert_loads += before.expert_loads, sum->expert_slots += before.expert_slots;
  sum->expert_slots_used += before.expert_slots_used;
}

bool sv_sum_stats(const sv_server *host, ga_engine_stats *out) {
  sv_models *m = host->models;
  bool found = false;
  *out = (ga_engine_stats)GA_ENGINE_STATS_INIT;
  if (!m) return host->engine && ga_engine_get_stats(host->engine, out) == GA_OK;
  (void)pthread_mutex_lock(&m->lock);
  for (size_t i = 0; i < m->n; i++) {
    ga_engine_stats one = GA_ENGINE_STATS_INIT;
    if (m->entry[i].state != SV_LOADED || !m->entry[i].server.engine ||
        ga_engine_get_stats(m->entry[i].server.engine, &one) != GA_OK)
      continue;
    sv_add_stats(out, &one);
    found = true;
  }
  (void)pthread_mutex_unlock(&m->lock);
  return found;
}

/* --- calls --- */

static bool sv_refuse_missing(const sv_models *m, sv_fail *fail) {
  char list[512] = "";
  for (size_t i = 0, at = 0; i < m->n && at + 64 < sizeof list; i++)
    at += (size_t)snprintf(list + at, sizeof list - at, "%s%.60s", i ? ", " : "", m->entry[i].server.o.model_id);
  return sv_refuse(fail, 400, "missing_required_parameter", "model", "model is missing; this server has several: %s.",
                   list);
}

/* Finds the name in the body or, of a GET, in the query. */
static bool sv_choose_entry(sv_call *call, sv_models *m) {
  const char *name = MHD_lookup_connection_value(call->connection, MHD_GET_ARGUMENT_KIND, "model"), *former = NULL;
  size_t index = 0;
  call->keep_seconds = NAN;
  if (!strcmp(call->method, "POST")) {
    call->json = sv_call_json(call);
    if (!call->json || !sv_read_string(call->json, "model", &name, &call->fail) ||
        !sv_read_string(call->json, "name", &former, &call->fail))
      return false;
    if (!name && !strncmp(call->url, "/api/", 5)) name = former;
    if (!sv_ollama_keep_alive(call->json, &call->keep_seconds, &call->fail)) return false;
  }
  if (!name && m->n > 1) return sv_refuse_missing(m, &call->fail);
  if (name && !sv_find_model(call->host, name, &index))
    return sv_refuse(&call->fail, 404, "model_not_found", "model",
                     "The model \"%.100s\" does not exist; /v1/models has those of this server.", name);
  call->entry = &m->entry[index];
  return true;
}

/* Returns whether a request of Ollama only unloads its model. */
static bool sv_only_unloads(const sv_call *call) {
  const json_t *prompt = sv_field(call->json, "prompt"), *messages = sv_field(call->json, "messages");
  const char *path = call->route->path;
  if (call->keep_seconds != 0 || (strcmp(path, "/api/chat") && strcmp(path, "/api/generate"))) return false;
  return !json_string_length(prompt) && !json_array_size(messages);
}

static enum MHD_Result sv_reply_unloaded(sv_call *call, sv_models *m) {
  sv_ollama state = {.is_chat = !strcmp(call->route->path, "/api/chat"), .unloads = true};
  sv_request request = {0};
  sv_answer answer = {.request = &request, .model = call->entry->server.o.model_id, .state = &state};
  sv_text t = {0};
  (void)pthread_mutex_lock(&m->lock);
  if (call->entry->state == SV_LOADED) call->entry->leaves = true;
  (void)pthread_cond_broadcast(&m->news);
  (void)pthread_mutex_unlock(&m->lock);
  sv_ollama_put_whole(&t, &answer);
  sv_puts(&t, "\n");
  return sv_reply(call, 200,
                  json_is_false(sv_field(call->json, "stream")) ? "application/json" : "application/x-ndjson", &t);
}

typedef enum sv_taken { SV_TAKEN, SV_PENDING, SV_REFUSED } sv_taken;

/* Takes a reference to the entry, or makes the call wait for it. */
static sv_taken sv_take_entry(sv_call *call, sv_models *m) {
  struct sv_entry *e = call->entry;
  struct sv_load_wait *wait = call->load;
  sv_taken result = SV_PENDING;
  (void)pthread_mutex_lock(&m->lock);
  if (e->state == SV_LOADED && !m->makes_room) { /* one that leaves does so after this call */
    e->refs++;
    e->is_wanted = false;
    result = SV_TAKEN;
  } else if (wait->is_listed && e->attempts != wait->attempts && e->status != GA_OK) {
    (void)sv_refuse(&call->fail, e->status == GA_ERR_NOMEM ? 503 : 500, "model_not_loaded", "model", "%s", e->error);
    result = SV_REFUSED;
  } else if (!wait->is_listed && m->n_waiting >= call->host->o.max_waiting) {
    sv_count_rejected(&call->host->metrics);
    (void)sv_refuse(&call->fail, 429, "queue_full", NULL, "%d requests wait for models already. Try again later.",
                    m->n_waiting);
    result = SV_REFUSED;
  } else {
    if (!wait->is_listed) {
      wait->next = e->waiting;
      e->waiting = wait;
      m->n_waiting++;
    }
    wait->is_listed = true;
    wait->attempts = e->attempts;
    e->is_wanted = true;
    (void)pthread_cond_broadcast(&m->news);
  }
  (void)pthread_mutex_unlock(&m->lock);
  return result;
}

/* Ends the waiting of a call. */
static void sv_stop_waiting(sv_call *call, sv_models *m) {
  struct sv_load_wait *wait = call->load;
  if (!wait) return;
  (void)pthread_mutex_lock(&m->lock);
  m->n_waiting -= wait->is_listed;
  for (struct sv_load_wait **at = &call->entry->waiting; wait->is_listed && *at; at = &(*at)->next) {
    if (*at != wait) continue;
    *at = wait->next;
    break;
  }
  (void)pthread_mutex_unlock(&m->lock);
  sv_waiter_remove(&wait->w);
  free(wait);
  call->load = NULL;
}

static bool sv_begin_waiting(sv_call *call) {
  if (call->load) return true;
  call->load = calloc(1, sizeof *call->load);
  if (!call->load) return sv_refuse_nomem(&call->fail);
  call->load->w.connection = call->connection;
  call->load->w.fd = sv_call_fd(call);
  call->load->w.pings = call->host->o.first_token_seconds > 0; /* to look at the time */
  sv_waiter_add(call->host->wake, &call->load->w);
  return true;
}

/* Returns whether the queue of a server's only model has room for a call that makes tokens. A body is not parsed in
 * vain where it has none. */
static bool sv_only_model_has_room(sv_call *call, sv_models *m) {
  bool has_room = true;
  if (m->n > 1 || !call->route->form || !strncmp(call->url, "/api/", 5)) return true; /* these may only unload it */
  (void)pthread_mutex_lock(&m->lock);
  struct sv_entry *e = &m->entry[0];
  if (e->state == SV_LOADED && e->server.engine) has_room = sv_has_room(&e->server, &call->fail);
  (void)pthread_mutex_unlock(&m->lock);
  return has_room;
}

static bool sv_take_model(sv_call *call, enum MHD_Result *reply) {
  sv_models *m = call->host->models;
  if (call->route->needs_no_model || call->has_model) return true;
  *reply = MHD_NO;
  if (!call->entry &&
      (!sv_is_ready(call->host, &call->fail) || !sv_only_model_has_room(call, m) || !sv_choose_entry(call, m))) {
    *reply = sv_reply_fail(call);
    return false;
  }
  if (sv_only_unloads(call)) {
    *reply = sv_reply_unloaded(call, m);
    return false;
  }
  while (sv_begin_waiting(call)) {
    if (call->load->w.gone) return false;
    const double patience = call->host->o.first_token_seconds;
    if (patience > 0 && sv_seconds() - call->start > patience) {
      (void)sv_refuse(&call->fail, 503, "deadline_exceeded", NULL, "The model was not loaded within %g s.", patience);
      break;
    }
    const sv_taken taken = sv_take_entry(call, m);
    if (taken == SV_TAKEN) {
      sv_stop_waiting(call, m);
      call->server = &call->entry->server;
      call->has_model = true;
      return true;
    }
    if (taken == SV_PENDING && atomic_load(&call->host->phase) == SV_ENDING)
      (void)sv_refuse(&call->fail, 503, "shutting_down", NULL, "The server is shutting down.");
    else if (taken == SV_PENDING && !sv_waiter_suspend(&call->load->w))
      continue;
    else if (taken == SV_PENDING) {
      *reply = MHD_YES;
      return false;
    }
    break;
  }
  *reply = sv_reply_fail(call);
  return false;
}

static void sv_release_model(sv_call *call) {
  sv_models *m = call->host->models;
  if (!call->entry) return;
  sv_stop_waiting(call, m);
  if (!call->has_model) return;
  (void)pthread_mutex_lock(&m->lock);
  call->entry->refs--;
  call->entry->used = sv_seconds();
  if (!isnan(call->keep_seconds)) call->entry->keep_seconds = call->keep_seconds;
  (void)pthread_cond_broadcast(&m->news);
  (void)pthread_mutex_unlock(&m->lock);
}
