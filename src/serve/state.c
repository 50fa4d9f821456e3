#include "serve/state.h"

#include <stdio.h>
#include <string.h>

#include "serve/ollama.h"

void sv_new_id(sv_server *s, const char *prefix, char id[48]) {
  /* The seed is random, the count makes it differ; the product spreads the count over all digits. */
  const uint64_t count = atomic_fetch_add(&s->host->ids, 1) + 1;
  (void)snprintf(id, 48, "%s%016llx%016llx", prefix, (unsigned long long)s->id_seed,
                 (unsigned long long)((s->id_seed ^ count) * 0x9E3779B97F4A7C15u));
}

bool sv_is_ready(sv_server *s, sv_fail *fail) {
  ga_engine_stats stats = GA_ENGINE_STATS_INIT;
  const int phase = atomic_load(&s->host->phase);
  if (phase == SV_LOADING) return sv_refuse(fail, 503, "loading", NULL, "The model is still loading.");
  if (phase >= SV_DRAINING) return sv_refuse(fail, 503, "shutting_down", NULL, "The server is shutting down.");
  if (!s->engine) return true;
  if (ga_engine_get_stats(s->engine, &stats) == GA_OK && !stats.failed) return true;
  return sv_refuse(fail, 503, "engine_failed", NULL, "The engine has failed (%s); the server must be started anew.",
                   ga_status_name((ga_status)stats.failed));
}

bool sv_has_room(sv_server *s, sv_fail *fail) {
  ga_engine_stats stats = GA_ENGINE_STATS_INIT;
  if (ga_engine_get_stats(s->engine, &stats) != GA_OK) return true;
  /* A request that was just submitted counts as waiting, even if it can run at once. */
  const int32_t places = stats.running < stats.max_sequences ? stats.max_sequences - stats.running : 0;
  if (stats.waiting < stats.max_waiting + places) return true;
  sv_count_rejected(&s->host->metrics);
  return sv_refuse(fail, 429, "queue_full", NULL, "%d requests wait already; at most %d may. Try again later.",
                   stats.waiting, stats.max_waiting);
}

static bool sv_is_in_list(const char *name, size_t n, const char *list) {
  for (const char *at = list; at && *at; at += *at == ',') {
    const size_t length = strcspn(at, ",");
    if (length == n && !memcmp(at, name, n)) return true;
    at += length;
  }
  return false;
}

/* name: [n] bytes. */
static bool sv_is_name_of(const sv_server *s, const char *name, size_t n) {
  return (strlen(s->o.model_id) == n && !memcmp(name, s->o.model_id, n)) || sv_is_in_list(name, n, s->o.other_names);
}

bool sv_is_model(const sv_server *s, const char *name, sv_fail *fail) {
  if (!name || sv_is_name_of(s, name, strlen(name)) || sv_is_name_of(s, name, sv_ollama_name_bytes(name))) return true;
  return sv_refuse(fail, 404, "model_not_found", "model",
                   "The model \"%.100s\" does not exist; this server has \"%s\".", name, s->o.model_id);
}

const ga_template *sv_chat_template(const sv_server *s, bool with_tools) {
  if (s->given) return s->given;
  return (with_tools ? ga_model_tool_template : ga_model_template)(s->model);
}
